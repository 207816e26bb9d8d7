"""The memory in the shell: what the guide shows works when it is pasted, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.cli.screen import Screen
from refold.edges.commands.memory import entry_meant
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.memory.entry import MemoryEntry
from tests.edges.cli.rooms import run

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "memory.md"


@pytest.fixture(autouse=True)
def here(alone: None) -> None:
    """An empty folder."""


@pytest.fixture(params=["semantic", "base"])
def extra(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "base":
        monkeypatch.setattr("refold.search.embedders.installed", lambda: None)


def done(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout


def entries(*words: str) -> list[str]:
    found = json.loads(done("memory", *words, "--json"))["entries"]
    return [entry["content"] for entry in found]


def test_what_the_guide_shows_works_when_it_is_pasted(extra):
    [block] = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    told = {}
    for line in block.splitlines():
        name, *words = shlex.split(line, comments=True)
        assert name == "refold"
        told[" ".join(words[:4])] = done(*words)
    assert "My manager is Helena" in told["memory search who is my boss?"]
    assert "The database port is 6432" in told["memory inbox --scope agent.reviewer"]
    assert "Bring it back with: refold memory log --revert 3" in told["memory log --revert 2"]
    assert entries("list", "--ended") == ["My manager is Helena"]


def test_another_project_has_its_own_memory():
    Path("other").mkdir()
    done("memory", "add", "The port is 1")
    done("memory", "add", "The port is 2", "--project", "other")
    assert entries("list") == ["The port is 1"]
    assert entries("list", "--project", "other") == ["The port is 2"]
    assert Path("other/.refold/refold.db").is_file()
    for words in (("--project", "nowhere"), ("--project", "other", "--store", "memory:")):
        assert run("memory", "list", *words).exit_code != 0


@pytest.mark.parametrize("words", [(), ("--source",), ("--scope", "team"), ("--tag", ""), ("",)])
def test_forgetting_without_a_name_is_refused_before_anything_is_asked(words):
    done("memory", "add", "The port is 6432")
    refused = run("memory", "forget", *words, input="y\n")
    assert refused.exit_code == 2 and "say what to forget" in refused.output
    assert "for good?" not in refused.output and "--before" in refused.output
    assert entries("list") == ["The port is 6432"]


def test_forgetting_asks_and_names_what_it_means():
    done("memory", "add", "The port is 1", "--tag", "infra")
    refused = run("memory", "forget", "--tag", "infra")
    assert refused.exit_code != 0 and "--yes" in refused.output
    assert entries("list") == ["The port is 1"]
    assert "Forgotten: 1 event" in done("memory", "forget", "--tag", "infra", "--yes")
    assert entries("list") == []
    assert run("memory", "forget", "--yes").exit_code != 0


def test_the_dry_run_and_the_question_name_the_conversations_that_lose_messages(monkeypatch):
    done("memory", "add", "The staging port is 6432")
    [entry] = json.loads(done("memory", "list", "--json"))["entries"]

    def show(id: str) -> None:
        with refold.open(id, store="sqlite:.refold/refold.db") as context:
            context.append({"role": "user", "content": "What is the staging port?"})
            assert "6432" in str(context.request())

    show("one")
    show("two")
    told = done("memory", "forget", entry["id"], "--dry-run")
    goes = "1 event, and 2 messages that showed it"
    assert told.endswith(f"  one: 1 message\n  two: 1 message\n{goes}, would be forgotten.\n")
    asked: list[str] = []

    def answer(_: Screen, question: str) -> bool:
        asked.append(question)
        show(f"three{len(asked)}")
        return True

    with monkeypatch.context() as patched:
        patched.setattr(Screen, "can_ask", True)
        patched.setattr(Screen, "ask", answer)
        stopped = run("memory", "forget", entry["id"])
    assert stopped.exit_code == 4 and "changed while you were asked" in stopped.stderr
    assert asked == [f"Forget {entry['id']} for good, with 2 messages that showed it?"]
    assert "  one: 1 message\n  two: 1 message\n" in stopped.stdout
    assert entries("list") == ["The staging port is 6432"]
    told = done("memory", "forget", entry["id"], "--yes")
    assert "Forgotten: 1 event, and 3 messages that showed it.\n" in told


@pytest.mark.parametrize(
    "words", [("--tag", "t"), ("--before", "2099-01-01"), ("--said-in", "talk"), ()]
)
@pytest.mark.parametrize("scope", [(), ("--scope", "project")])
def test_only_the_entries_that_were_shown_are_forgotten(words, scope, monkeypatch):
    """Another process remembers a fact that matches, while the question is open."""
    Path("talk.json").write_text('[{"role": "user", "content": "x"}]')
    done("import", "talk.json", "--id", "talk")

    def remember(content: str) -> None:
        with refold.open("talk") as context:
            context.memory.store(content, tags=["t"], source=1, scope="project")

    remember("The port is 1")
    remember("Ida likes tea")
    shown = json.loads(done("memory", "list", "--json"))["entries"]
    confirm = Session.confirm

    def answered(session: Session, question: str, yes: bool) -> None:
        remember("We ship on Mondays")
        confirm(session, question, yes)

    monkeypatch.setattr(Session, "confirm", answered)
    done("memory", "forget", *(words or (shown[0]["id"],)), *scope, "--yes")
    left = ["We ship on Mondays"] if words else [shown[1]["content"], "We ship on Mondays"]
    assert sorted(entries("list")) == sorted(left)


# --- ids by how they begin ---


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three entries with ids that are known, and one that waits."""
    ids = iter(["mem-aa01", "mem-aa02", "mem-b003", "mem-c004"])
    monkeypatch.setattr("refold.memory.semantic.new_id", lambda: next(ids))
    done("memory", "add", "The port is 1")
    done("memory", "add", "We ship on Mondays")
    done("memory", "add", "Ida likes tea", "--scope", "user")
    done("export", "--memory", "user.jsonl", "--scope", "user")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person would be asked; the answer is that of `--yes`."""
    questions: list[str] = []
    confirm = Session.confirm

    def noted(session: Session, question: str, yes: bool) -> None:
        questions.append(question)
        confirm(session, question, yes)

    monkeypatch.setattr(Session, "confirm", noted)
    return questions


@pytest.mark.parametrize("typed", ["mem-b", "b0", "mem-b003"])
def test_an_entry_is_named_by_how_its_id_begins(named, asked, typed):
    assert "mem-b003 is version 2 now" in done("memory", "edit", typed, "Ida likes coffee")
    assert entries("log", typed) == ["Ida likes tea", "Ida likes coffee"]
    assert run("memory", "forget", typed).exit_code == 2  # nobody is there to be asked
    assert entries("list", "--scope", "user") == ["Ida likes coffee"]
    if typed != "mem-b003":
        refused = run("memory", "forget", typed, "--yes")
        assert refused.exit_code == 2 and "pass the complete id, mem-b003" in refused.stderr
    assert "Ida likes coffee" in done("memory", "forget", typed, "--dry-run")
    assert entries("list", "--scope", "user") == ["Ida likes coffee"]
    assert "Ida likes coffee" in done("memory", "forget", "mem-b003", "--yes")
    assert asked[-1] == "Forget mem-b003 for good?"
    assert entries("list", "--scope", "user") == []


@pytest.mark.parametrize(
    "words", [("edit", "mem-aa0", "x"), ("forget", "mem-a", "--yes"), ("log", "mem-aa")]
)
def test_a_beginning_of_several_ids_is_refused_with_their_names(named, words):
    refused = run("memory", *words)
    assert refused.exit_code == 2 and "several entries begin with" in refused.output
    assert "mem-aa01 (The port is 1, just now); mem-aa02 (We ship on" in refused.output
    assert "mem-b003" not in refused.output
    assert len(entries("list")) == 3


@pytest.mark.parametrize("typed", ["m", "mem-", "mem-d", "aa011", "mem-aa011"])
def test_what_begins_no_id_or_every_id_names_none(named, typed):
    reason = "every id begins with" if typed in ("m", "mem-") else "there is no entry"
    for words in (("edit", typed, "x"), ("forget", typed, "--yes"), ("log", typed)):
        refused = run("memory", *words)
        assert refused.exit_code != 0 and reason in refused.output
    assert len(entries("list")) == 3


@given(
    ids=st.lists(st.text("ab", min_size=1, max_size=4), unique=True, min_size=1, max_size=6),
    typed=st.text("ab", min_size=1, max_size=4),
)
def test_a_beginning_means_the_whole_id_or_the_only_one(ids, typed):
    class Known:
        def ids(self, beginning: str) -> list[str]:
            return sorted(f"mem-{id}" for id in ids if f"mem-{id}".startswith(beginning))

        def inbox(self) -> list[MemoryEntry]:
            return []

        def history(self, id: str) -> list[MemoryEntry]:
            return []

    meant = [id for id in ids if id.startswith(typed)]
    if typed not in ids and len(meant) > 1:
        with pytest.raises(Invalid, match="several entries"):
            entry_meant(Known(), f"mem-{typed}")
    else:
        whole = typed if typed in ids or not meant else meant[0]
        assert entry_meant(Known(), f"mem-{typed}") == f"mem-{whole}"


def test_what_waits_or_was_rejected_is_named_and_forgotten_as_well(named, asked):
    Path("other").mkdir()
    there = ("--project", "other", "--scope", "agent.two")
    done("import", "user.jsonl", *there)
    [waiting] = json.loads(done("memory", "inbox", *there, "--json"))["entries"]
    start = waiting["id"][:6]
    assert run("memory", "inbox", "--reject", start, *there, "--yes").exit_code != 0
    assert run("memory", "inbox", "--reject", "all", *there).exit_code != 0
    assert "would be rejected" in done("memory", "inbox", "--reject", start, *there, "--dry-run")
    done("memory", "inbox", "--reject", "all", *there, "--yes")
    asked.clear()
    assert "Ida likes tea" in done("memory", "forget", start, *there, "--dry-run")
    assert "Forgotten: " in done("memory", "forget", waiting["id"], *there, "--yes")
    assert asked == [f"Forget {waiting['id']} for good?"]
    assert run("memory", "forget", waiting["id"], *there, "--yes").exit_code != 0


def test_what_was_taken_back_is_forgotten_by_its_id_alone(named, asked):
    done("memory", "log", "--revert", "1")
    assert entries("list", "--scope", "project") == ["We ship on Mondays"]
    assert "Forgotten: " in done("memory", "forget", "mem-aa01", "--yes")
    assert asked == ["Forget mem-aa01 for good?"]


def test_an_import_waits_and_a_file_that_is_none_changes_nothing():
    done("memory", "add", "The port is 1")
    done("export", "--memory", "out.jsonl")
    assert run("export", "--memory", "out.jsonl").exit_code != 0
    os.mkfifo("pipe")
    Path("bad.jsonl").write_bytes(Path("out.jsonl").read_bytes() + b"{\x1b[2J\n")
    Path("folder").mkdir()
    for name in ("bad.jsonl", "nowhere.jsonl", "pipe", "folder", "/dev/zero"):
        result = run("import", name, "--scope", "agent.x")
        assert result.exit_code != 0 and "\x1b" not in result.output, name
    assert "bad.jsonl:3" in run("import", "bad.jsonl").output
    assert entries("list", "--scope", "agent.x") == []
    assert "1 new" in done("import", "out.jsonl", "--scope", "agent.x", "--accept")
    assert entries("list", "--scope", "agent.x") == ["The port is 1"]


def test_adding_says_what_it_ended():
    said = [done("memory", "add", f"The database port is {port}") for port in (1, 2, 2, 1)]
    assert "ends" not in said[0] and "ends" not in said[2]
    for told, ended in ((said[1], 1), (said[3], 2)):
        assert re.search(rf"It ends mem-[0-9a-f]{{16}}: The database port is {ended}\n", told)
    assert "ends" not in done("memory", "add", "The kettle is blue")


def test_an_import_says_how_many_of_the_new_are_history():
    for content in ("The database port is 1", "The database port is 2", "The kettle is blue"):
        done("memory", "add", content)
    done("export", "--memory", "out.jsonl")
    told = done("import", "out.jsonl", "--scope", "agent.x")
    assert "3 new (1 of these no longer true, kept as history)" in told
    assert "memory inbox --scope agent.x" in " ".join(told.split())
    assert len(entries("inbox", "--scope", "agent.x")) == 2
    again = done("import", "out.jsonl", "--scope", "agent.y", "--accept")
    assert "3 new (1 of these no longer true" in again and "inbox" not in again
    assert len(entries("list", "--scope", "agent.y")) == 2
    assert "0 new (3 known)" in done("import", "out.jsonl")


def test_what_is_imported_from_a_pipe_is_what_was_exported_to_one():
    done("memory", "add", "Zürich 東京 \x1b[31m")
    lines = done("export", "--memory", "-")
    result = run("import", "-", "--scope", "user", "--accept", input=lines)
    assert result.exit_code == 0
    assert entries("list", "--scope", "user") == entries("list", "--scope", "project")


def test_terminals_are_safe_from_what_is_remembered():
    done("memory", "add", "clear \x1b[2J the \u202e screen")
    for words in (("list",), ("log",), ("search", "screen"), ("log", "--revert", "1")):
        told = done("memory", *words)
        assert "\x1b" not in told and "\u202e" not in told


def test_the_settings_of_the_project_hold_in_the_shell():
    done("memory", "add", "The port is 6432")
    Path("refold.toml").write_text('memory_vectors = "pinecone"\n')
    result = run("memory", "search", "port")
    assert (
        result.exit_code != 0 and "pinecone" in result.output and "Traceback" not in result.output
    )
    Path("refold.toml").write_text('memory_embedder = "off"\nmemory_threshold = 1.0\n')
    assert entries("search", "the port of nothing else at all") == []


@pytest.mark.parametrize("scheme", ["sqlite:{}/new.db", "files:{}/new"])
def test_the_store_is_made_by_what_writes_and_missed_by_what_reads(scheme, tmp_path):
    url = scheme.format(tmp_path)
    assert run("memory", "list", "--store", url).exit_code == 3
    assert run("memory", "add", "The port is 8443.", "--store", url).exit_code == 0
    assert "The port is 8443." in done("memory", "list", "--store", url)


def as_json(*words: str) -> dict[str, Any]:
    return json.loads(done(*words, "--json"))


def test_add_and_accept_name_what_is_true_beside_what_they_replace() -> None:
    old = as_json("memory", "add", "Gunilla keeps the spare key")["entry"]["id"]
    now = as_json("memory", "add", "Omar has it", "--replaces", old)["entry"]["id"]
    out = done("memory", "add", "It is at the office", "--replaces", old)
    assert f"It is true as well as {now}: Omar has it" in out and "It ends" not in out
    assert f"--replaces {now}" in out
    done("export", "--memory", "m.jsonl")
    done("import", "m.jsonl", "--scope", "agent.two")
    out = done("memory", "inbox", "--scope", "agent.two", "--accept", "all")
    assert "is true, and so is mem-" in out


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_list_says_how_many_there_are(limit: int) -> None:
    for name in ("Anna", "Bert", "Carl"):
        done("memory", "add", f"{name} has a key")
    listed = as_json("memory", "list", "--limit", f"{limit}")
    assert (len(listed["entries"]), listed["total"]) == (min(limit, 3), 3)
    out = done("memory", "list", "--limit", f"{limit}")
    assert ("--limit 3 shows all" in out) == (limit < 3)


def test_more_than_a_thousand_are_counted_and_listed() -> None:
    lines = [{"format": "refold-memory", "version": 1}]
    lines += [{"entry": f"e{n}", "content": f"Locker {n} is free"} for n in range(1_100)]
    Path("m.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done("import", "m.jsonl")
    assert "1,000 more are not shown; --limit 1100 shows all" in done("memory", "list")
    assert len(as_json("memory", "list", "--limit", "1100")["entries"]) == 1_100


def test_add_shows_what_is_near_and_takes_what_it_replaces() -> None:
    new = "The spare key is with Omar next door"
    old = as_json("memory", "add", "Gunilla keeps the spare key")["entry"]["id"]
    out = done("memory", "add", new)
    assert f"It may be about the same as {old}" in out and f"--replaces {old}" in out
    added = as_json("memory", "add", new, "--replaces", old[:12])
    assert [one["id"] for one in added["ended"]] == [old] and added["near"] == []
    assert [one["content"] for one in as_json("memory", "list")["entries"]] == [new]
    assert f"(replaces {old})" in " ".join(done("memory", "log").split())
    wrong = run("memory", "add", "Nobody has it", "--replaces", "mem-zzz")
    assert wrong.exit_code != 0 and "there is no entry" in wrong.stderr
    users = as_json("memory", "add", "I like tea", "--scope", "user")["entry"]["id"]
    added = as_json("memory", "add", "I like milk", "--replaces", users)
    assert added["entry"]["scope"] == "user"
    assert len(as_json("memory", "list")["entries"]) == 2


@pytest.mark.parametrize("words", [3, 20, 60])
def test_a_pipe_has_the_whole_content_before_what_it_replaces(words: int) -> None:
    old = json.loads(done("memory", "add", "Round amounts down.", "--json"))["entry"]["id"]
    content = " ".join(f"amount{number}" for number in range(words))
    done("memory", "add", content, "--replaces", old)
    for listed in (("list",), ("log",)):
        assert f"{content} (replaces {old})" in " ".join(done("memory", *listed).split()), listed
    assert content in " ".join(done("memory", "search", content).split())
