"""Sessions are resumed, listed by their folder, previewed, deleted, cleaned up, exported and
imported under a new id; what cannot be read does not keep the others from being so (Y-82)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.conversations import listing
from refold.errors import NotFound
from refold.stores import open_store
from tests.edges.cli.rooms import as_json, on_terminal, run

NAME = st.text("ab.é ", min_size=1, max_size=4).filter(lambda name: name.strip(".") and name)


def held(store: object, id: str, folder: str, words: str = "hello") -> None:
    with refold.open(id, store=store) as context:
        context.update(metadata={"cwd": folder})
        context.append({"role": "user", "content": words})


def ids(store: object, folder: str) -> list[str]:
    return sorted(about.id for about in refold.conversations.list(store, folder=folder))


def test_a_list_has_what_was_held_in_a_folder_or_below_it() -> None:
    store = open_store("memory:")
    for id, folder in {"a": "/w", "b": "/w/src", "c": "/work", "d": "", "e": "/w/../v"}.items():
        held(store, id, folder)
    held(store, "f", 7)  # type: ignore[arg-type]
    assert ids(store, "/w") == ids(store, "/w/") == ids(store, "/w/src/..") == ["a", "b"]
    assert ids(store, "/w/src") == ["b"] and ids(store, "/v") == ["e"]
    assert ids(store, "/") == ["a", "b", "c", "e"] and len(ids(store, "")) == 6


@given(parts=st.lists(NAME, min_size=1, max_size=4), depth=st.integers(0, 4))
def test_every_folder_above_has_it_and_no_neighbour(parts: list[str], depth: int) -> None:
    store = open_store("memory:")
    held(store, "a", "/" + "/".join(parts))
    above = "/" + "/".join(parts[: min(depth, len(parts))])
    assert ids(store, above) == ["a"]
    assert ids(store, above.rstrip("/") + "x") == []


def test_the_newest_is_resumed_and_any_other_by_its_place(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path / 'x.db'}")
    for n, id in enumerate(("first", "second", "third")):
        context = refold.Context(store, id)
        context._open.log.clock = lambda n=n: 1_000 * (n + 1)  # type: ignore[misc]
        context.append({"role": "user", "content": f"talk {id}"})
        context.close()
    assert [refold.conversations.find(store, f"@{n}").id for n in (1, 2, 3)] == [
        "third",
        "second",
        "first",
    ]
    assert listing.id_of(store, "@") == "third"
    with pytest.raises(NotFound):
        refold.conversations.find(store, "@4")
    store.close()


@pytest.mark.usefixtures("alone")
def test_the_list_of_a_shell_is_of_this_folder(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'x.db'}"
    store = open_store(url)
    here = str(Path.cwd())
    held(store, "here", here)
    held(store, "below", f"{here}/src")
    held(store, "away", "/elsewhere")
    store.close()

    def listed(*options: str) -> list[str]:
        rows = json.loads(run("list", "--json", "--store", url, *options).stdout)["conversations"]
        return sorted(row["id"] for row in rows)

    assert listed() == ["away", "below", "here"]
    assert listed("--project") == listed("--project", ".") == ["below", "here"]
    assert listed("--project", "src") == ["below"] and listed("--project", "/elsewhere") == ["away"]
    assert listed("--project", "elsewhere") == ["away"] and listed("--project", "else") == []
    said = run("list", "--project", "/nowhere", "--store", url).stdout
    assert "no conversations of the project /nowhere" in said


@pytest.mark.usefixtures("alone")
def test_a_session_of_claude_code_is_found_by_its_folder(tmp_path: Path) -> None:
    line = {"type": "user", "sessionId": "s1", "uuid": "u1", "parentUuid": None, "cwd": "/w/shop"}
    said = {**line, "message": {"role": "user", "content": "fix the login"}}
    file = tmp_path / "s1.jsonl"
    file.write_text(json.dumps(said) + "\n")
    url = f"sqlite:{tmp_path / 'new.db'}"
    assert run("import", str(file), "--store", url).exit_code == 0
    rows = json.loads(run("list", "--project", "/w", "--json", "--store", url).stdout)
    assert [row["title"] for row in rows["conversations"]] == ["fix the login"]


@pytest.mark.usefixtures("alone")
def test_a_session_leaves_and_comes_back_under_a_new_id(tmp_path: Path) -> None:
    store = open_store("memory:")
    held(store, "talk", "/w", "first words " + "x" * 100)
    refold.conversations.export(store, "talk", tmp_path / "talk.json")
    again = refold.conversations.import_(store, tmp_path / "talk.json", id="again")
    assert again.id == "again" and len(listing.preview(store, "again")) <= 80
    assert listing.preview(store, "again") == listing.preview(store, "talk")
    assert ids(store, "/w") == ["again", "talk"]
    refold.conversations.delete(store, ["talk"])
    assert ids(store, "/w") == ["again"]


@pytest.mark.usefixtures("alone")
def test_a_file_that_cannot_be_read_is_told_and_the_others_are_imported(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    store = open_store("memory:")
    held(store, "good", "/w")
    refold.conversations.export(store, "good", folder / "good.json")
    (folder / "bad.json").write_bytes(b"{ not json")
    (folder / "other.json").write_bytes(b'{"format": "refold-export", "version": 99}')
    (folder / "empty.jsonl").write_bytes(b"")
    files = sorted(map(str, folder.iterdir()))
    url = f"sqlite:{tmp_path / 'new.db'}"
    done = run("import", *files, "--json", "--store", url)
    assert done.exit_code != 0 and "Traceback" not in done.stderr
    listed = json.loads(run("list", "--json", "--store", url).stdout)["conversations"]
    assert [row["id"] for row in listed] == ["good"]


@pytest.mark.usefixtures("alone")
def test_a_damaged_conversation_does_not_hide_the_others(tmp_path: Path) -> None:
    url = f"files:{tmp_path / 'tree'}"
    store = open_store(url)
    for id in ("one", "two"):
        held(store, id, "/w")
    store.close()
    logs = [
        path for path in (tmp_path / "tree").rglob("*") if path.is_file() and "one" in str(path)
    ]
    assert logs
    for path in logs:
        path.write_bytes(b"broken\n" + path.read_bytes()[7:])
    done = run("list", "--json", "--store", url)
    rows = {row["id"]: row for row in json.loads(done.stdout)["conversations"]}
    assert rows["two"]["preview"] == "hello" and not rows["two"]["damaged"]


# --- a list that a person can read ---


def priced(url: str, id: str, agent: str, dollars: float, at: datetime) -> None:
    with refold.open(id, store=url, model="claude-sonnet-4-5") as context:
        context.update(metadata={"imported": agent, "cwd": f"/home/me/{agent[:5]}-shop"})
        context.append({"role": "user", "content": "Fix the login of the shop. " * 60}, at=at)
        context.append({"role": "assistant", "content": "Done."}, at=at)
        usage = {"prompt_tokens": round(dollars / 3e-6), "completion_tokens": 0}
        context.record(usage=usage, at=at)


@pytest.mark.usefixtures("alone")
def test_a_list_has_a_line_for_each_conversation_and_a_total(url: str, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for at, (agent, cost) in enumerate([("codex", 0.0003), ("claude-code", 0.0009)] * 2):
        priced(url, f"{agent}-{at}-{'x' * 30}", agent, cost, now - timedelta(days=10 * (3 - at)))
    for columns in (80, 120):
        _, shown = on_terminal("list", "--store", url, COLUMNS=str(columns), NO_COLOR="1")
        lines = shown.replace("\r", "").splitlines()
        rows = [line for line in lines if line.startswith("@")]
        assert len(rows) == 5 and all(len(line) <= columns for line in lines)
        ours = [row for row in rows if "-shop" in row]
        assert len(ours) == 4 and " claude " in "".join(ours) and "x" * 30 not in shown
        assert lines[-1].startswith("5 conversations, ")
        assert columns == 80 or all(f"codex-{at}-xxxxxxxxxxxx " in shown for at in (0, 2))

    def ids(*options: str) -> list[str]:
        return [one["id"] for one in as_json("list", *options)["conversations"]]

    assert [one[:7] for one in ids("--agent", "codex")] == ["codex-2", "codex-0"]
    recent = [one[:8] for one in ids("--since", "15d") if "x" * 30 in one]
    assert recent == ["claude-c", "codex-2-"]
    for order in ("cost", "size"):
        sorted_ids = [one[:8] for one in ids("--sort", order) if "x" * 30 in one]
        assert sorted_ids[:2] == ["claude-c"] * 2
        assert len(ids("--sort", order, "--limit", "2")) == 2
    assert run("list", "--since", "soon").exit_code == 2
