"""Messages and gists are read as lines."""

from __future__ import annotations

from refold.core.model import Applied, Message, Slot, Text, ToolCall
from refold.strategies.gist.lines import (
    Passage,
)
from refold.strategies.gist.passages import Reader, flat, kept_lines
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


def test_a_gist_gives_its_lines_back_under_their_own_messages() -> None:
    ledger = "[Earlier steps #3-9, shortened]\nFiles changed:\n- #4 modified a.py"
    text = f"{ledger}\n#4 agent\nNow a.py.\n#5 tool\nx = 1\ny = 2"
    found = [(one.seq, one.role, one.lines) for one in kept_lines(text, before=10)]
    assert found == [(4, "assistant", ["Now a.py."]), (5, "tool", ["x = 1", "y = 2"])]
    assert [one.seq for one in kept_lines(text, before=5)] == [4]


def test_gists_that_stay_are_read_once_and_forgotten_when_they_go() -> None:
    texts = ["[Earlier]\n#4 agent\nWe must call load_user first.", "[Earlier]\n#9 tool\nload_user"]
    brief = brief_of(log_of([said("user", "go")]))
    gists = [Slot(3 + at, 3 + at, said("user", text), 40) for at, text in enumerate(texts)]
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
    assert reader.shown(shown) == Passage(2, "assistant", ["first"], [()])
