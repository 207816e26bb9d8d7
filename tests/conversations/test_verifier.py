"""What is damaged is found, and its place is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest
from hypothesis import given, settings

import refold
from refold.conversations.verifier import PROBLEMS_MAX, Problem, verify
from refold.core.model import Hide, Message, Meta, Opaque, Pin, Span, Text, ToolResult
from refold.dialects import DIALECTS
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import Store, open_store
from refold.stores.in_memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from tests.core.logs import bodies, sealed, user
from tests.toolruns import long, opened, ran
from tests.turns import talk


def grown(store: Store, id: str = "talk") -> None:
    """A conversation with tool calls, artifacts, a compaction and a bookmark in the middle of
    its log."""
    config = {"ladder": ("hide",), "offload_tokens": 200}
    with refold.open(id, store=store, model="claude-sonnet-4-5", config=config) as context:
        context.update(title="A talk", system="Be brief")
        for turn in range(6):
            context.append({"role": "user", "content": f"question {turn}"})
            call = {"type": "tool_use", "id": f"t{turn}", "name": "run", "input": {"a": turn}}
            context.append({"role": "assistant", "content": [call]})
            context.append_result(f"t{turn}", "output\n" * (2_000 if turn == 1 else 3))
        context.compact("hide", target=100)
        context.append({"role": "user", "content": "and now?"})


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "refold.db")
    store = SqliteStore(place, durable=False)
    grown(store)
    store.close()
    return place


def problems(path: str) -> tuple[Problem, ...]:
    store = SqliteStore(path, durable=False)
    try:
        return verify(store).problems
    finally:
        store.close()


def damage(path: str, statement: str, *values: object) -> None:
    connection = apsw.Connection(path)
    connection.execute(statement, values)
    connection.close()


def flipped(path: str, column: str, seq: int, at: int = 20) -> None:
    where = f"place & {(1 << 40) - 1} = {seq}"
    connection = apsw.Connection(path)
    value = bytearray(connection.execute(f"SELECT {column} FROM events WHERE {where}").get)
    value[min(at, len(value) - 1)] ^= 1
    connection.execute(f"UPDATE events SET {column} = ? WHERE {where}", (bytes(value),))
    connection.close()


def places(found: tuple[Problem, ...]) -> set[tuple[str, str, int]]:
    return {(problem.part, problem.conversation, problem.seq) for problem in found}


def test_a_sound_store_has_no_problems(path: str) -> None:
    assert problems(path) == ()


def test_the_report_counts_what_was_walked(path: str) -> None:
    store = SqliteStore(path)
    store.fork("talk", 5, "branch")
    report = verify(store)
    assert (report.conversations, report.artifacts, report.problems) == (2, 1, ())
    assert report.events == store.conversation("talk").head + 5
    assert verify(store, "branch").events == 5
    with pytest.raises(refold.NotFound):
        verify(store, "nobody")
    store.close()


@pytest.mark.parametrize("column", ["body", "chain", "digest", "salt"])
@pytest.mark.parametrize("seq", [1, 6, 20])
def test_a_flipped_byte_is_found_at_its_event_alone(path: str, column: str, seq: int) -> None:
    flipped(path, column, seq)
    found = problems(path)
    assert {problem.seq for problem in found if problem.part == "log"} == {seq}
    assert all(
        problem.conversation == "talk" and problem.file == f"sqlite:{path}" for problem in found
    )


@pytest.mark.parametrize(
    "change",
    [
        "at_ms = at_ms + 1",
        "kind = 'usage'",
        "\"by\" = 'someone'",
        "at_ms = -5",
        "id = 'no uuid'",
        "tokens = tokens + 1",
        "counter = 'other'",
    ],
)
def test_a_changed_envelope_is_found(path: str, change: str) -> None:
    damage(path, f"UPDATE events SET {change} WHERE place & {(1 << 40) - 1} = 4")
    assert ("log", "talk", 4) in places(problems(path))


def test_a_lost_event_is_found_and_the_walk_goes_on(path: str) -> None:
    damage(path, f"DELETE FROM events WHERE place & {(1 << 40) - 1} = 4")
    flipped(path, "body", 9)
    found = problems(path)
    assert {("log", "talk", 4), ("log", "talk", 9)} <= places(found)
    assert "missing" in next(problem.what for problem in found if problem.seq == 4)


def test_a_changed_artifact_is_found_with_its_file(path: str) -> None:
    [file] = (Path(path).parent / "artifacts").glob("art-*")
    file.write_bytes(file.read_bytes().replace(b"output", b"outpot", 1))
    [problem] = problems(path)
    assert (problem.part, problem.conversation, problem.file) == ("artifact", "talk", str(file))
    assert problem.seq > 0 and file.stem in problem.what


def test_a_lost_artifact_is_found(path: str) -> None:
    [file] = (Path(path).parent / "artifacts").glob("art-*")
    file.unlink()
    [problem] = problems(path)
    assert problem.part == "artifact" and "missing" in problem.what


def test_a_changed_title_is_found(path: str) -> None:
    damage(path, "UPDATE conversations SET title = 'another'")
    [problem] = problems(path)
    assert problem.part == "store" and "title" in problem.what


def test_a_file_that_is_no_database_is_a_problem_of_the_store(path: str) -> None:
    Path(path).write_bytes(b"nonsense" * 1_000)
    [problem] = problems(path)
    assert problem.part == "store" and problem.file == f"sqlite:{path}"


def test_every_flipped_byte_of_a_bookmark_is_found() -> None:
    store = MemoryStore()
    grown(store)
    kept = store.bookmark("talk")
    assert kept is not None and verify(store).problems == ()
    for at in range(0, len(kept), 3):
        store.keep_bookmark("talk", kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
        assert places(verify(store).problems) == {("bookmark", "talk", 0)}, at


def test_a_bookmark_of_an_earlier_head_is_compared_there() -> None:
    store = MemoryStore()
    grown(store)
    kept = store.bookmark("talk")
    with refold.open("talk", store=store) as context:
        context.append({"role": "user", "content": "more"})
    assert kept is not None and kept != store.bookmark("talk")
    store.keep_bookmark("talk", kept)
    assert verify(store).problems == ()


@settings(max_examples=60, deadline=None)
@given(bodies())
def test_no_log_breaks_the_walk(parts: list) -> None:  # type: ignore[type-arg]
    store = MemoryStore()
    events = sealed(parts or [user()])
    store.append("talk", events, expect=0)
    assert all(problem.part in ("law", "artifact") for problem in verify(store).problems)


def test_a_broken_law_is_found() -> None:
    store = MemoryStore()
    hidden = Hide(batch="b", span=Span(1, 1))
    store.append(
        "talk", sealed([user("the only request"), user("second"), Pin(seq=7), hidden]), expect=0
    )
    assert [problem.part for problem in verify(store).problems] == ["law"]


def test_a_result_that_names_an_unknown_artifact_is_found() -> None:
    store = MemoryStore()
    named = Message(role="tool", blocks=(ToolResult("a", artifact="art-nowhere"),))
    store.append("talk", sealed([user(), named]), expect=0)
    assert ("artifact", "talk", 2) in places(verify(store).problems)


def test_the_list_of_problems_is_bounded() -> None:
    store = MemoryStore()
    events = [
        msgspec.structs.replace(event, chain=bytes(16))
        for event in sealed([user()] * (PROBLEMS_MAX * 3))
    ]
    store.append("talk", events, expect=0)
    found = verify(store).problems
    assert len(found) == PROBLEMS_MAX + 1 and "more" in found[-1].what


def test_reading_changes_nothing(path: str) -> None:
    before = {file: file.read_bytes() for file in _files(path)}
    problems(path)
    assert {file: file.read_bytes() for file in _files(path)} == before


def _files(path: str) -> Iterator[Path]:
    return (file for file in Path(path).parent.rglob("*") if file.is_file())


def test_something_that_lies_between_events_is_found(tmp_path):
    """M-15: each event can be read by itself, and yet the log is not as it was written."""
    store = f"files:{tmp_path}/s"
    with refold.open("c", store=store) as context:
        talk(context, 5)
    (log,) = (path for path in (tmp_path / "s").rglob("*.jsonl") if path.stat().st_size)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"x" * 100_000 + b"\n", *lines[4:]]))
    assert verify(open_store(store)).problems


def test_a_reference_that_leads_nowhere_is_a_remark_and_no_damage():
    """M-04: reported as dangling, not an exception."""
    store = MemoryStore()
    context = opened(store)
    id = ran(context, long("an output"))
    context.append(
        {"role": "user", "content": f"compare artifact://{id} with artifact://art-nothere"}
    )
    report = verify(store)
    assert report.problems == ()
    [remark] = report.remarks
    assert (
        "art-nothere" in remark.what
        and remark.seq == context.view.head
        and remark.conversation == "work"
    )


def test_what_a_provider_would_refuse_is_a_remark_and_no_damage() -> None:
    """Older versions took tool names that no provider takes."""
    store = MemoryStore()
    meta = Meta(tools=[{"name": "unix:/run/x.sock", "input_schema": {"type": "object"}}])
    store.append("old", sealed([meta, user("hi")]), expect=0)
    report = verify(store)
    assert report.problems == ()
    assert len(report.remarks) >= len(DIALECTS)
    assert all("unix:/run/x.sock" in remark.what for remark in report.remarks)


def test_an_answer_on_a_cleared_page_is_no_problem() -> None:
    store = open_store("memory:")
    with refold.open("c", store=store) as context:
        context.append({"role": "user", "content": "hi"})
        context.clear()
        context.append({"role": "assistant", "content": "hello"})
    assert verify(store, "c").problems == ()


@pytest.mark.parametrize("raw", ["text", 7, [], {"type": 3}, None])
def test_one_odd_block_does_not_end_the_walk(raw: object) -> None:
    store = MemoryStore()
    for id, block in (("a", Opaque(raw=raw)), ("b", Text("hello"))):
        message = Message(role="user", blocks=(block,), dialect="anthropic", form={"x": [1]})
        Log(store, id).append([Draft(body=message, by="user")])
    assert verify(store).conversations == 2
