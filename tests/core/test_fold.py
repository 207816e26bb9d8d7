"""The promises of the fold: pure, incremental = full, revert identity, restore as defined,
bookmark + tail = fold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.core import bookmark
from refold.core.active_events import switches
from refold.core.codec import check, from_line, seal, to_line
from refold.core.fold import Fold, fold, folded
from refold.core.model import (
    Event,
    Hide,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    Usage,
    View,
)
from refold.core.shortened import kept_lines
from tests.core.logs import bodies, call, logs, result, sealed, user


def page(view: View) -> list[object]:
    return [(slot.seq, slot.last, slot.message, slot.tokens, slot.edits) for slot in view.slots]


def incremental(log: list[Event]) -> Fold:
    state = Fold()
    for at, event in enumerate(log, 1):
        if not state.add(event):
            state = folded(log[:at], switches(log[:at]))
    return state


def appended(log: list[Event], *more: object) -> list[Event]:
    events = sealed([*more])
    out = list(log)
    for event in events:
        before, seq = (out[-1].chain if out else bytes(16)), len(out) + 1
        out.append(
            seal(
                before,
                seq,
                id=event.id,
                at_ms=event.at_ms,
                by=event.by,
                kind=event.kind,
                body=event.body,
                salt=event.salt,
                tokens=event.tokens,
                counter="test",
            )
        )
    return out


@given(logs)
def test_folding_the_same_log_twice_gives_the_same_view(log):
    assert fold(log) == fold(log)


@given(logs)
def test_folding_event_by_event_gives_what_folding_the_whole_log_gives(log):
    state = incremental(log)
    assert state.view() == fold(log)
    assert state.said_tokens == folded(log, switches(log)).said_tokens


@given(logs, st.lists(st.integers(1, 24), max_size=3))
def test_reverting_a_batch_restores_every_slot(log, seqs):
    """X-30, M-81: `fold(log + [edits, revert])` has the slots of `fold(log)`."""
    edits = [Replace(batch="new", seq=seq, block=0, text="cut") for seq in seqs]
    edits += [Hide(batch="new", span=Span(1, 5)), Summarize(batch="new", span=Span(2, 9), text="s")]
    assert page(fold(appended(log, *edits, Revert(batch="new")))) == page(fold(log))


@given(logs, st.integers(1, 24))
def test_what_was_said_stays_said_whatever_edits_take_off_the_page(log, seq):
    before = folded(log, switches(log)).said_tokens
    cut = appended(log, Replace(batch="b", seq=seq, block=0, text="cut"))
    hidden = appended(cut, Hide(batch="b", span=Span(1, 24)))
    assert folded(hidden, switches(hidden)).said_tokens == before
    back = appended(hidden, Restore(seq=0))
    assert folded(back, switches(back)).said_tokens == 0


@given(logs, st.integers(0, 26), bodies(max_size=5))
def test_restore_is_the_fold_of_the_log_up_to_it_and_of_what_came_after(log, seq, later):
    """C-67, G-30, G-32. What comes later is applied on top of the page as it was."""
    seq = min(seq, len(log))
    restored = fold(appended(log, Restore(seq=seq)))
    assert page(restored) == page(fold(log[:seq]))
    assert restored.totals == fold(log).totals
    back = appended(log, Restore(seq=seq))
    assert folded(back, switches(back)).artifacts == folded(log, switches(log)).artifacts
    undone = fold(appended(log, Restore(seq=seq), Revert(seq=len(log) + 1)))
    assert page(undone) == page(fold(log))


@given(logs, st.integers(0, 24))
def test_a_bookmark_and_the_tail_give_the_fold(log, at):
    at = min(at, len(log))
    mark = bookmark.read(bookmark.kept(folded(log[:at], switches(log[:at]))))
    assert mark is not None
    state = bookmark.resumed(mark, {seq: log[seq - 1] for seq in bookmark.needed(mark)})
    whole = all(state.add(event) for event in log[at:])
    assert not whole or state.view() == fold(log)
    assert not whole or state.said_tokens == folded(log, switches(log)).said_tokens


@given(logs)
def test_every_event_survives_its_line_byte_for_byte(log):
    assert [from_line(to_line(event)) for event in log] == log
    assert list(check(log)) == []


@given(logs, st.data())
def test_any_change_of_a_log_is_found(log, data):
    if not log:
        return
    at = data.draw(st.integers(0, len(log) - 1))
    field = data.draw(st.sampled_from(["body", "by", "kind", "at_ms", "seq"]))
    value = getattr(log[at], field)
    changed = (
        value + 1
        if isinstance(value, int)
        else value + type(value)(b"x" if isinstance(value, bytes) else "x")
    )
    assert list(check([*log[:at], replace(log[at], **{field: changed}), *log[at + 1 :]]))


def test_undoing_an_undo_redoes_it():
    log = sealed(
        [user(), user("b"), Hide(batch="b", span=Span(1, 1)), Revert(batch="b"), Revert(seq=4)]
    )
    assert [slot.seq for slot in fold(log).slots] == [2]
    assert [slot.seq for slot in fold(log[:4]).slots] == [1, 2]


def test_a_pin_keeps_a_message_on_the_page_whenever_it_was_set():
    """C-52, X-31."""
    edits = [
        Hide(batch="b", span=Span(1, 2), notice="[gone]"),
        Replace(batch="b", seq=3, block=0, text="cut"),
    ]
    for log in (
        sealed([user("a"), user("b"), user("c"), Pin(seq=2), Pin(seq=3), *edits]),
        sealed([user("a"), user("b"), user("c"), *edits, Pin(seq=2), Pin(seq=3)]),
    ):
        texts = [slot.message.blocks[0].text for slot in incremental(log).view().slots]
        assert texts == ["[gone]", "b", "c"]


def test_the_later_of_two_summaries_takes_the_earlier_one_in():
    """Y-43, X-30: nested at any depth; removing the newer shows the older and what was between."""
    log = sealed(
        [
            *(user(str(n)) for n in range(6)),
            Summarize(batch="b1", span=Span(1, 2), text="one"),
            Summarize(batch="b2", span=Span(1, 4), text="two"),
        ]
    )
    assert [slot.message.blocks[0].text for slot in fold(log).slots] == ["two", "4", "5"]
    reverted = fold(appended(log, Revert(batch="b2")))
    assert [slot.message.blocks[0].text for slot in reverted.slots] == ["one", "2", "3", "4", "5"]


def test_the_anchor_carries_what_the_provider_said_and_only_what_came_since_is_estimated():
    """Y-07, Y-09: the current size is the last prompt and answer plus what was appended after
    it."""
    log = sealed(
        [
            user(),
            user(),
            Usage(response="r", input=90_000, output=1_000, upto=1, replied=True, model="m"),
            result("z"),
        ],
        tokens=[80_000, 10, 0, 60_000],
    )
    view = fold(log)
    assert view.anchor is not None
    assert view.anchor.tokens + view.tokens - view.anchor.page == 151_000


def test_kept_lines_show_their_gaps():
    text = "\n".join("abcdefg")
    assert kept_lines(text, (Span(2, 3), Span(6, 6))) == "… 1 lines\nb\nc\n… 2 lines\nf\n… 1 lines"
    assert kept_lines(text, (Span(1, 99),)) == text


@settings(max_examples=50)
@given(logs)
def test_folding_never_changes_its_events(log):
    before = [to_line(event) for event in log]
    fold(log)
    assert [to_line(event) for event in log] == before


def test_calls_and_results_make_one_unit():
    from refold.core.laws import units

    slots = fold(
        sealed([user(), call("a", "b"), result("b"), user("typed"), result("a"), user()])
    ).slots
    assert units(slots) == [range(0, 1), range(1, 5), range(5, 6)]
