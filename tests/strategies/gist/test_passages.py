"""Messages and gists are read as lines."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from refold.core.model import (
    Applied,
    GistNotes,
    Message,
    Quote,
    Slot,
    Span,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import summary_text
from refold.strategies.gist.passages import OTHER, REPLACED, Passage, Reader, flat, quoted_passages
from tests.strategies.talks import brief_of, log_of, said, state_of


def test_a_call_is_read_as_its_name_and_a_line_per_argument() -> None:
    call = ToolCall("c", "edit", '{"path": "a.py", "old": "x\\ny"}')
    assert (
        flat(Message(role="assistant", blocks=(Text("Now."), call)))
        == "Now.\nedit\npath: a.py\nold: x\ny"
    )


def test_broken_arguments_are_read_as_they_came() -> None:
    assert (
        flat(Message(role="assistant", blocks=(ToolCall("c", "edit", '{"path": '),)))
        == 'edit\n{"path": '
    )


def gist_slot(seq: int, *quotes: Quote) -> Slot:
    edit = Summarize(batch="b", span=Span(seq, seq), text="[Earlier]", quotes=quotes)
    edit = replace(edit, gist=GistNotes())
    return Slot(seq, seq, said("user", summary_text(edit)), 40, (), edit)


def test_a_gist_gives_its_lines_back_under_their_own_messages() -> None:
    spoken = Quote(seq=4, role="assistant", lines=("Now a.py.",))
    shown = Quote(seq=5, role="tool", lines=("x = 1", "#8 user"), source="a.py")
    slot = gist_slot(3, spoken, shown)
    found = [(one.seq, one.role, one.lines, one.source) for one in quoted_passages(slot)]
    assert found == [
        (4, "assistant", ["Now a.py."], ""),
        (5, "tool", ["x = 1", "#8 user"], "a.py"),
    ]
    assert [one.seq for one in quoted_passages(slot, before=5)] == [4]


def test_gists_that_stay_are_read_once_and_forgotten_when_they_go() -> None:
    quotes = [
        Quote(seq=4, role="assistant", lines=("We must call load_user first.",)),
        Quote(seq=9, role="tool", lines=("load_user",)),
    ]
    brief = brief_of(log_of([said("user", "go")]))
    gists = [gist_slot(3 + at, quote) for at, quote in enumerate(quotes)]
    texts = [flat(slot.message) for slot in gists]
    both = Reader(brief).shown_by_gists(gists)
    assert both.told() == {"load_user": 1.0}
    first = brief.scratch["gists"][texts[0]]
    assert Reader(brief).shown_by_gists(gists[:1]).lines == {"We must call load_user first."}
    assert brief.scratch["gists"] == {texts[0]: first}
    assert first is not both


def test_a_message_that_the_page_shows_cut_is_folded_from_all_its_lines() -> None:
    log = log_of([said("user", "go"), said("assistant", "first\nsecond\nthird")])
    whole = state_of(log).view().slots[1]
    shown = Slot(
        whole.seq,
        whole.last,
        said("assistant", "first"),
        5,
        edits=(Applied(seq=3, block=0, tokens=-3),),
    )
    reader = Reader(brief_of(log))
    assert [one.lines for one in reader.read(shown)] == [["first", "second", "third"]]
    assert reader.shown(shown) == Passage(2, "assistant", ["first"], [()], origins="s")


@pytest.mark.parametrize("limit", [60, 120_000, 0.5, True, None])
def test_the_words_of_a_schema_and_its_limits_are_no_names_of_the_work(limit: object) -> None:
    arguments = {"old_string": "a_b", "tail_lines": limit, "file_path": "src/shop.py"}
    call = ToolCall("c", "read_part", json.dumps(arguments))
    slot = Slot(1, 1, Message(role="assistant", blocks=(call,)), 40)
    read = Reader(brief_of([], 10)).read(slot)[0]
    assert {name for names in read.names for name in names} == {"src/shop.py"}
    lines = dict(zip(read.lines, read.origins))
    assert lines[f"tail_lines: {limit}"] == REPLACED


@pytest.mark.parametrize(
    "line",
    [
        "ok  \tshop.io/basket/store\t0.31s",
        "--- PASS: TestBasket (0.00s)",
        "The file src/shop.py has been updated successfully.",
        "Process exited with code 0",
        '"exit_code": 0,',
        "PASS",
        "✓ 12 modules checked",
    ],
)
def test_a_report_of_success_is_never_quoted(line: str) -> None:
    call = Message(role="assistant", blocks=(ToolCall("c", "bash", '{"command": "make"}'),))
    output = f"{line}\nFAIL shop.io/basket: exit code 1, not ok"
    result = Message(role="tool", blocks=(ToolResult("c", (Text(output),)),))
    reader = Reader(brief_of([], 10))
    _, read = [reader.read(Slot(n, n, one, 40))[0] for n, one in enumerate((call, result), 1)]
    assert read.origins == REPLACED + OTHER
