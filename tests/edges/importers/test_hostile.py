"""Every importer, with whatever could stand in its file: a report or an error of ours, what was
written is sound, importing again adds nothing, and nothing beside the file is touched."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.config import Config
from refold.conversations.verifier import verify
from refold.edges.importers import SOURCES
from refold.edges.importers.entry import Report
from refold.edges.importers.importer import import_file
from refold.errors import Invalid, RefoldError
from refold.stores import open_store
from tests.edges.importers import transcripts
from tests.edges.importers.test_recorded import RECORDED, database

TRAJECTORY = {
    "environment": "shop",
    "info": {"exit_status": "submitted"},
    "trajectory": [{"action": "ls", "observation": "hello.py", "thought": "I look."}],
    "history": [
        {"role": "user", "content": "What is in this folder?"},
        {"role": "assistant", "content": "I look.", "action": "ls"},
    ],
}
MESSAGES = [
    {"role": "user", "content": "What is in this folder?", "timestamp": 1_794_917_715},
    {"from": "gpt", "value": "hello.py"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "name": "ls"}]},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "hello.py"}]},
]
LINES = {
    "claude-code": transcripts.parallel(),
    "codex": transcripts.rollout(),
    "gemini-cli": [
        json.loads(line)
        for line in (RECORDED / "gemini-cli.jsonl").read_text(encoding="utf-8").splitlines()
    ],
    "messages": MESSAGES,
}
DOCUMENTS = {
    "opencode": json.loads((RECORDED / "opencode.json").read_text(encoding="utf-8")),
    "cline": json.loads((RECORDED / "cline.messages.json").read_text(encoding="utf-8")),
    "mini-swe-agent": json.loads(
        (RECORDED / "mini-swe-agent.traj.json").read_text(encoding="utf-8")
    ),
    "swe-agent": TRAJECTORY,
    "messages": MESSAGES,
}


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


VALUES = st.sampled_from([
    None, True, -1, 10**30, 1e308, "", "x" * 5_000, "../../etc/passwd", "/etc/passwd", "\x00\x1b[2J",
    "\ud800", "</script>", "a/../../b", "file:///etc/passwd", [], {}, [[]], {"": None}, [None, 1],
    {"type": "text"}, {"role": "user"}, {"id": {"id": []}}, deep(150), deep(900), "\u202e",
])  # fmt: skip
PATHS = st.lists(st.integers(0, 50), min_size=1, max_size=7)


def changed(value: Any, path: list[int], to: Any) -> Any:
    """The same value, with another one at some place inside."""
    if not path or not isinstance(value, dict | list) or not value:
        return to
    at, rest = path[0], path[1:]
    if isinstance(value, dict):
        name = list(value)[at % len(value)]
        return {**value, name: changed(value[name], rest, to)}
    at %= len(value)
    return [*value[:at], changed(value[at], rest, to), *value[at + 1 :]]


def lines_of(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def taken(content: bytes | Callable[[Path], Path], name: str = "session") -> Report | None:
    """What became of a file with this content; None if it was refused."""
    with tempfile.TemporaryDirectory() as folder:
        if callable(content):
            path = content(Path(folder))
        else:
            path = Path(folder, name)
            path.write_bytes(content)
        before = sorted(str(one) for one in Path(folder).rglob("*"))
        store = open_store("memory:")
        try:
            report = import_file(store, Config(), path)
        except RefoldError as error:
            assert error.message
            report = None
        # What a provider makes of a part that is nobody's is for the dialects to say.
        assert [one for one in verify(store).problems if one.part != "law"] == []
        if report is not None:
            again = import_file(store, Config(), path)
            assert [one.new for one in again.sessions] == [0] * len(again.sessions)
            assert again.unread_total <= report.unread_total
        assert sorted(str(one) for one in Path(folder).rglob("*")) == before
        return report


def test_every_importer_is_tried_here() -> None:
    here = {*LINES, *DOCUMENTS, "aider", "openhands"}
    assert here == set(SOURCES)


@pytest.mark.parametrize("name", LINES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_in_lines(name: str, data: Any) -> None:
    values = LINES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        values = changed(values, data.draw(PATHS), data.draw(VALUES))
        values = values if isinstance(values, list) else [values]
    taken(lines_of(values))


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_in_a_document(name: str, data: Any) -> None:
    value = DOCUMENTS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        value = changed(value, data.draw(PATHS), data.draw(VALUES))
    taken(json.dumps(value).encode())


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_in_rows(data: Any) -> None:
    name = data.draw(st.sampled_from(["session", "message", "part"]))
    column = data.draw(st.sampled_from(["id", "title", "parent_id", "data", "time_created"]))
    value = data.draw(VALUES | st.binary(max_size=20))
    if not isinstance(value, bytes) and data.draw(st.booleans()):
        value = json.dumps(value)
    if not isinstance(value, str | bytes | None) or value == "\ud800":
        value = str(value).encode("utf-8", "replace")

    def made(folder: Path) -> Path:
        path = database(folder / "opencode.db")
        rows = apsw.Connection(str(path))
        with suppress(apsw.SQLError):  # no such column in this table
            rows.execute(f"update or ignore {name} set {column} = ?", (value,))
        rows.close()
        return path

    taken(made)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_in_events(data: Any) -> None:
    chosen, path, value = data.draw(st.integers(0, 9)), data.draw(PATHS), data.draw(VALUES)

    def made(folder: Path) -> Path:
        shutil.copytree(RECORDED / "openhands", folder / "c")
        files = sorted((folder / "c").rglob("*.json"))
        file = files[chosen % len(files)]
        found = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(changed(found, path, value)), encoding="utf-8")
        return folder / "c" / "base_state.json"

    taken(made)


WHOLE = {
    **{f"{name} lines": lines_of(values) for name, values in LINES.items()},
    **{f"{name} document": json.dumps(value).encode() for name, value in DOCUMENTS.items()},
    "aider": (RECORDED / "aider.chat.history.md").read_bytes(),
}


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_end_and_any_bytes_between(name: str, data: Any) -> None:
    content = WHOLE[name]
    end = data.draw(st.integers(0, len(content)))
    at = data.draw(st.integers(0, end))
    other = data.draw(st.sampled_from(sorted(WHOLE)))
    between = data.draw(st.binary(max_size=30) | st.just(WHOLE[other]))
    damaged = content[:at] + between + content[at:end]
    taken(gzip.compress(damaged)[: data.draw(st.integers(20, 3_000))] if at % 3 == 0 else damaged)


@pytest.mark.parametrize("name", WHOLE)
def test_nesting_without_an_end_is_told(name: str) -> None:
    bottomless = b"[" * 300_000
    taken(WHOLE[name] + b"\n" + bottomless)
    taken(WHOLE[name].replace(b'"content": "', b'"content": ' + bottomless + b', "x": "', 1))


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_unpacks_to_far_more_is_left_or_refused(name: str) -> None:
    packed = gzip.compress(WHOLE[name] + b'\n{"a": "' + b"x" * (70 << 20), 9)
    report = taken(packed)
    assert report is None or report.unread_total > 0


def test_a_folder_with_links_is_read_without_them(tmp_path: Path) -> None:
    from refold.edges.importers.recognition import files_in

    (tmp_path / "in").mkdir()
    (tmp_path / "secret.json").write_text("[]")
    (tmp_path / "in" / "a.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    assert files_in(tmp_path / "in") == []


@pytest.mark.parametrize("depth", [1, 100, 101, 400])
def test_folders_of_any_depth_are_read_or_refused(
    depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.edges.importers.recognition import files_in

    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("s.jsonl").write_text("{}")
    if depth <= 100:
        assert [path.name for path in files_in(tmp_path)] == ["s.jsonl"]
    else:
        with pytest.raises(Invalid, match="folders 101 deep"):
            files_in(tmp_path)
    for _ in range(depth):
        os.chdir("..")
    shutil.rmtree(tmp_path / "d")


@pytest.mark.parametrize("before", ["", "user"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_too_long_is_told_and_not_held(
    tmp_path: Path, before: str, packed: bool
) -> None:
    """X-52: 100 MB of brackets on one line take no more than a line may have, and the good lines
    before it are imported."""
    good = json.dumps({"role": before, "content": "hello"}).encode() + b"\n" if before else b""
    content = (
        good + b'{"role": "user", "content": ' + b"[" * 50_000_000 + b"]" * 50_000_000 + b"}\n"
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    del content
    tracemalloc.start()
    try:
        report = import_file(open_store("memory:"), Config(), path)
        told = [(one.line, one.reason) for one in report.unread]
    except Invalid as error:
        assert not before
        told = [(1, str(error))]
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    line, reason = told[0]
    assert line == (2 if before else 1)
    assert "longer than" in reason or "unpacks to" in reason
    assert size < 70_000_000
