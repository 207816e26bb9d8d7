"""Thinking stands where the page before it is the one that it was thought under, and an undo brings
it back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.active_events import is_in
from refold.core.codec import decode
from refold.core.fold import fold
from refold.core.laws import thinking_check
from refold.core.model import (
    NATIVE,
    Body,
    Erase,
    Event,
    Hide,
    Message,
    Meta,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    Text,
    Thinking,
    View,
)
from refold.core.thinking_validity import with_span
from tests.core.logs import logs, sealed, user
from tests.core.test_fold import appended

THOUGHT = Message(role="assistant", blocks=(Thinking("hm", "sig"), Text("yes")))
TALK: list[Body] = [user("a"), THOUGHT, user("b"), THOUGHT, user("c"), THOUGHT]
spans = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(lambda p: Span(min(p), max(p)))


def standing(view: View, *, native: bool = False) -> list[int]:
    """The messages whose thinking stands."""
    stands = thinking_check(view, bound=True, native=native)
    return [slot.seq for slot in view.slots if not slot.standin and stands(slot)]


def front(view: View, seq: int) -> object:
    """Everything before a message."""
    slots = [(slot.seq, slot.last, slot.message) for slot in view.slots if slot.seq < seq]
    return view.system, view.tools, slots


@given(logs)
def test_thinking_stands_only_under_the_page_that_it_was_thought_under(log: list[Event]) -> None:
    view = fold(log)
    if any(isinstance(body := decode(event), Erase) and body.seq > event.seq for event in log):
        return  # nobody can erase what is not there yet
    for seq in standing(view):
        assert front(view, seq) == front(fold(log[: seq - 1]), seq)


@given(logs, spans)
def test_undoing_a_batch_brings_back_what_stood(log: list[Event], span: Span) -> None:
    before = fold(log)
    edits = [Replace(batch="new", seq=span.first, block=0, text="x"), Hide(batch="new", span=span)]
    edited = appended(log, *edits)
    undone = appended(edited, Revert(batch="new"))
    redone = appended(undone, Revert(seq=len(undone)))
    assert standing(fold(undone)) == standing(before)
    assert standing(fold(redone)) == standing(fold(edited))


@given(logs, st.integers(0, 30))
def test_undoing_a_restore_brings_back_what_stood(log: list[Event], to: int) -> None:
    to = min(to, len(log) - 2)
    if to < 0 or any(event.kind == "erase" for event in log):  # what is erased stays so
        return
    back = appended(log, Restore(seq=to))
    assert standing(fold(back)) == standing(fold(log[:to]))
    undone = appended(back, Revert(seq=len(back)))
    assert standing(fold(undone)) == standing(fold(log))


@given(logs, spans)
def test_what_was_thought_before_the_first_message_of_an_edit_stands(
    log: list[Event], span: Span
) -> None:
    before = [seq for seq in standing(fold(log)) if seq < span.first]
    after = standing(fold(appended(log, Summarize(batch="new", span=span, text="s"))))
    assert [seq for seq in after if seq < span.first] == before


def test_what_was_thought_while_a_compaction_stood_goes_with_it() -> None:
    hidden = [*TALK, Hide(batch="b", span=Span(3, 4)), user("d"), THOUGHT]
    assert standing(fold(sealed(hidden))) == [1, 2, 8, 9]
    undone = [*hidden, Revert(batch="b"), user("e"), THOUGHT]
    assert standing(fold(sealed(undone))) == [1, 2, 3, 4, 5, 6, 11, 12]
    redone = [*undone, Revert(seq=10), user("f"), THOUGHT]
    assert standing(fold(sealed(redone))) == [1, 2, 8, 9, 14, 15]


def test_a_restore_to_where_the_log_is_ends_all_thinking_and_so_does_taking_it_back() -> None:
    idle = [*TALK, Restore(seq=6), user("d"), THOUGHT]
    assert standing(fold(sealed(idle))) == [8, 9]
    assert standing(fold(sealed([*idle, Revert(seq=7), THOUGHT]))) == [11]


@pytest.mark.parametrize(
    ("pins", "stands"),
    [([Pin(seq=3), Pin(seq=3, on=False)], [1, 2, 8, 9]), ([Pin(seq=3)], [1, 2])],
)
def test_a_pin_on_a_message_that_an_edit_names_is_a_change_whenever_it_came(
    pins: list[Pin], stands: list[int]
) -> None:
    log: list[Body] = [*TALK, Hide(batch="b", span=Span(3, 4))]
    for pin in pins:
        log += [user("d"), THOUGHT, pin]
    assert standing(fold(sealed(log))) == stands


def test_a_pin_elsewhere_changes_nothing() -> None:
    log = [*TALK, Hide(batch="b", span=Span(3, 4)), THOUGHT, Pin(seq=5), Pin(seq=5, on=False)]
    assert standing(fold(sealed(log))) == [1, 2, 8]


def test_thinking_stands_behind_what_the_provider_wrote_where_that_is_sent() -> None:
    wrote = Summarize(batch="b", span=Span(1, 2), text="s", purpose=NATIVE)
    view = fold(sealed([*TALK, wrote, THOUGHT]))
    assert standing(view) == [8]
    assert standing(view, native=True) == [3, 4, 5, 6, 8]


def test_a_system_prompt_that_a_restore_takes_back_is_as_if_it_never_was() -> None:
    log = [*TALK, Meta(system="Be brief."), user("d"), THOUGHT]
    assert standing(fold(sealed(log))) == [8, 9]
    assert standing(fold(sealed([*log, Restore(seq=6)]))) == [1, 2, 3, 4, 5, 6]


@given(st.lists(spans, max_size=12))
def test_spans_are_kept_in_order_and_apart(given_: list[Span]) -> None:
    kept: list[Span] = []
    for span in given_:
        kept = with_span(kept, span)
    for seq in range(33):
        assert is_in(kept, seq) == any(seq in span for span in given_)
    assert all(one.last + 1 < other.first for one, other in pairwise(kept))
