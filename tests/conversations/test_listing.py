"""Conversations of a store: newest first, by place, with a preview; swept by age and number
(Y-82)."""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.conversations import deleter, listing
from refold.edges.cli.app import Commands
from refold.errors import Invalid, NotFound
from refold.ledger.sentences import without_insertions
from refold.log.log import Log
from refold.stores import open_store
from tests.redaction.secret_kinds import PREFIXED

DAY_MS = deleter.DAY_MS


@pytest.fixture
def store(tmp_path):
    opened = open_store(f"sqlite:{tmp_path}/refold.db")
    yield opened
    opened.close()


def talk(store, id: str, words: str, *, days: float = 0, tags=None) -> None:
    """A conversation whose last event is so many days old, counted from day 100."""
    context = refold.Context(store, id)
    context._open.log.clock = lambda: int((100 - days) * DAY_MS)
    if tags:
        context.update(tags=tags)
    context.append({"role": "user", "content": words})
    context.close()


def filled(store) -> None:
    talk(store, "old", "the oldest of them", days=40)
    talk(store, "middle", "x" * 200, days=20, tags=["cwd:/work"])
    talk(store, "new", "two\nlines   of words", days=1)


def test_newest_first_and_by_place(store):
    filled(store)
    assert [about.id for about in listing.newest(store)] == ["new", "middle", "old"]
    assert [listing.id_of(store, name) for name in ("@", "@1", "@3", "old")] == [
        "new",
        "new",
        "old",
        "old",
    ]
    with pytest.raises(NotFound):
        listing.id_of(store, "@4")
    for name in ("@0", "@x", "@-1"):
        with pytest.raises(Invalid):
            listing.id_of(store, name)


def test_a_preview_is_one_line_of_at_most_80_characters(store):
    filled(store)
    assert listing.preview(store, "new") == "two lines of words"
    assert len(listing.preview(store, "middle")) == 80


def test_conversations_are_found_by_tag(store):
    filled(store)
    assert [about.id for about in listing.newest(store, tag="cwd:/work")] == ["middle"]


def test_a_sweep_takes_the_old_and_the_many(store):
    filled(store)
    now = 100 * DAY_MS
    assert deleter.stale(store, now_ms=now, older_than_days=30) == ["old"]
    assert deleter.stale(store, now_ms=now, keep=1) == ["middle", "old"]
    assert len(listing.newest(store)) == 3
    for limits in ({}, {"keep": -1}, {"older_than_days": -1}):
        with pytest.raises(Invalid):
            deleter.stale(store, now_ms=now, **limits)


@pytest.mark.parametrize(
    ("days", "keep", "removed"),
    [(0, 2, {"old"}), (0, 3, set()), (0, 9, set()), (0, 0, {"new", "middle", "old"}),
     (30, 0, {"old"}), (30, 1, {"old"}), (30, 3, set()), (None, 1, {"middle", "old"}),
     (10_000, 1, set())],
)  # fmt: skip
def test_a_sweep_never_takes_the_newest_that_are_to_be_kept(store, days, keep, removed):
    """Y-82"""
    filled(store)
    found = deleter.stale(store, now_ms=100 * DAY_MS + 1, older_than_days=days, keep=keep)
    assert set(found) == removed


def test_a_sweep_takes_forks_before_what_they_were_forked_from(store):
    filled(store)
    store.fork("old", 1, "kept-fork")
    store.fork("middle", 1, "gone-fork")
    talk(store, "kept-fork", "still used", days=0)
    done = deleter.delete(store, deleter.stale(store, now_ms=100 * DAY_MS, older_than_days=10))
    assert set(done.removed) == {"middle", "gone-fork"} and list(done.left) == ["old"]
    assert Log(store, "kept-fork").state.head == 2


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(Commands(), args)
    return done.exit_code, done.output


def test_the_commands(store, tmp_path):
    filled(store)
    where = ("--store", f"sqlite:{tmp_path}/refold.db")
    listed = json.loads(run("list", "--json", "--limit", "2", *where)[1])["conversations"]
    assert [row["id"] for row in listed] == ["new", "middle"] and listed[0][
        "preview"
    ] == "two lines of words"
    assert json.loads(run("stats", "@2", "--json", *where)[1])["conversation"] == "middle"
    assert run("delete", "old", *where)[0] != 0 and len(listing.newest(store)) == 3
    assert json.loads(run("delete", "old", "--yes", "--json", *where)[1])["removed"] == ["old"]
    assert json.loads(run("delete", "--keep", "1", "--dry-run", "--json", *where)[1])[
        "would_be_removed"
    ] == ["middle"]
    assert json.loads(run("delete", "--keep", "1", "--yes", "--json", *where)[1])["removed"] == [
        "middle"
    ]
    assert run("sweep", *where)[0] == 2


# --- what does not depend on a bookmark, and is one number everywhere ---


@pytest.mark.parametrize("kept", [b"", b"no bookmark", None])
def test_tags_are_known_without_a_bookmark_or_with_an_old_one(store, kept):
    talk(store, "work", "hello", tags=["a"])
    old = store.bookmark("work")
    context = refold.Context(store, "work")
    context.update(tags=["b"])
    context.append({"role": "user", "content": "go on"})
    context.request()  # not closed: the bookmark stays where it was
    store.keep_bookmark("work", old if kept is None else kept)
    assert [about.id for about in listing.newest(store, tag="b")] == ["work"]
    assert listing.newest(store, tag="a") == []


def titled(store, id: str, tmp_path) -> set[str]:
    """The titles under which all doors show a conversation."""
    run = partial(CliRunner().invoke, Commands())
    context = refold.Context(store, id)
    context.log.export(str(tmp_path / "x.md"))
    shown = [
        json.loads(run([command, id, "--store", store.url, "--json"]).stdout)["title"]
        for command in ("show", "stats")
    ]
    rows = json.loads(run(["list", "--store", store.url, "--json"]).stdout)["conversations"]
    heading = (tmp_path / "x.md").read_text().splitlines()[0].removeprefix("# ")
    return {context.stats().title, heading, *shown, *(row["title"] for row in rows)}


@pytest.mark.parametrize("words", ["Explore the package.", "two\nlines " * 40])
@pytest.mark.parametrize("title", ["", "A title"])
def test_a_conversation_has_one_title_everywhere(store, tmp_path, words, title):
    """Newcomer 16"""
    talk(store, "work", words)
    if title:
        with refold.Context(store, "work") as context:
            context.update(title=title)
    assert titled(store, "work", tmp_path) == {title or listing.preview(store, "work")}


def test_a_conversation_without_a_word_is_untitled_everywhere(store, tmp_path):
    with refold.Context(store, "work") as context:
        context.append({"role": "assistant", "content": "hello"})
    assert titled(store, "work", tmp_path) == {"Untitled"}
    assert refold.open("new", store="memory:").stats().title == "Untitled"


def test_a_title_made_of_the_first_words_holds_no_secret_not_even_half_of_one(store):
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    talk(store, "work", "x" * 60 + f" {secret}")
    assert "ghp_" not in listing.title_of(store, "work", "")


@pytest.mark.parametrize("removed", [0, 1])
def test_artifacts_are_counted_once_by_content_everywhere(store, tmp_path, removed):
    """Newcomer 16"""
    outputs = ["a" * 9_000, "b" * 9_000, "a" * 9_000, "c" * 9_000, "a" * 9_000]
    config = refold.Config(offload_tokens=100)
    with refold.Context(store, "work", config=config) as context:
        for at, output in enumerate(outputs):
            call = {"id": f"t{at}", "type": "function"}
            call["function"] = {"name": "run", "arguments": "{}"}
            context.append({"role": "assistant", "content": None, "tool_calls": [call]})
            context.append_result(f"t{at}", output)
        for one in context.artifacts.list()[:removed]:
            context.artifacts.remove(one.id)
        context.log.export(str(tmp_path / "x.md"))
        counted = context.stats().artifacts
    run = partial(CliRunner().invoke, Commands())
    shown = run(["stats", "work", "--store", store.url]).stdout
    checked = json.loads(run(["verify", "--store", store.url, "--json"]).stdout)["artifacts"]
    assert counted == checked == 3 - removed
    assert f"Artifacts: {counted} (" in shown
    assert f"- Artifacts: {counted} (" in (tmp_path / "x.md").read_text()


RULES = "# AGENTS.md instructions for /home/u\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
PLACE = "<environment_context>\n  <cwd>/home/u</cwd>\n</environment_context>"
COMMAND = (
    "<command-message>review is running</command-message>\n<command-name>/review</command-name>"
)


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        ([[RULES, PLACE], ["fix the tests"]], "fix the tests"),
        ([[f"{RULES}\n{PLACE}\nfix the tests"]], "fix the tests"),
        ([["<user_instructions>\nx\n</user_instructions>"], [PLACE], ["go on"]], "go on"),
        ([[COMMAND]], "/review"),
        ([['<user_input mode="act">go on</user_input>']], "go on"),
        ([[f"{COMMAND}\n<command-args>src/a.py</command-args>"]], "/review src/a.py"),
        ([["<div>what is this</div>"]], "<div>what is this</div>"),
        ([["<a_b> never closed"]], "<a_b> never closed"),
        ([[PLACE]], "<environment_context> <cwd>/home/u</cwd> </environment_context>"),
        ([["a < b and # AGENTS.md instructions"]], "a < b and # AGENTS.md instructions"),
    ],
)
def test_a_title_is_made_of_what_a_person_typed(store, messages, title):
    with refold.open("typed", store=store, embedder=False) as context:
        for texts in messages:
            parts = [{"type": "text", "text": text} for text in texts]
            context.append({"role": "user", "content": parts})
    assert listing.title_of(store, "typed", "") == title


@given(
    st.lists(st.from_regex(r"[a-z]{1,8}[-_][a-z]{1,8}", fullmatch=True), max_size=4),
    st.from_regex(r"[a-z][a-z ]{0,20}[a-z]", fullmatch=True),
    st.text(alphabet="ab <>/-_\n", max_size=30),
)
def test_whatever_elements_a_program_puts_in_front_the_words_stay(names, words, inner):
    front = "".join(
        f"<{name}>{inner.replace('</', '')}</{name}>\n"
        for name in names
        if not name.startswith("command-")
    )
    assert without_insertions(front + words) == words


def test_a_given_title_is_shown_without_secrets(tmp_path) -> None:
    url = f"sqlite:{tmp_path}/a.db"
    secrets = {f"c{at}": "".join(parts[0]) for at, parts in enumerate([*PREFIXED.values()][::3])}
    for id, secret in secrets.items():
        with refold.open(id, store=url, embedder=False) as context:
            context.update(title=f"Rotate {secret} now")
            context.append({"role": "user", "content": "hello"})
            assert secret not in str(context.stats())
    calls = [["list"], ["list", "--json"], ["search", "hello"], ["scan"]]
    calls += [[*words, id] for id in secrets for words in (["show"], ["stats"])]
    for words in (*calls, ["delete", *secrets, "--dry-run"]):
        status, shown = run(*words, "--store", url)
        assert status in (0, 9), shown  # scan finds them, and shows none
        assert not [one for one in secrets.values() if one in shown], words
    assert run("list", "--store", url)[1].count("[redacted") >= len(secrets) // 2
