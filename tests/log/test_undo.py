"""Undo, restore, clear and pins: everything that goes back or holds on, and that can be undone
itself."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.active_events import ControlLog
from refold.core.codec import decode
from refold.core.fold import CHANGING
from refold.core.laws import broken
from refold.engine.log_reader import end_thinking
from refold.errors import Invalid, NotFound
from refold.log import undo
from refold.log.undo import history, recent_history, redoing, undoing
from tests.core.logs import bodies, sealed
from tests.turns import call, checked, opened, opened_in_characters, page_of, response, talk, work


def test_a_restore_brings_the_model_and_its_limits_back():
    """G-30, C-67"""
    context = refold.open("c", store="memory:", model="gpt-4")
    context.append({"role": "user", "content": "hi"})
    before, window = context.request(), context.budget.window
    point = context.checkpoint()
    context.update(model="gemini-1.5-pro")
    context.append({"role": "user", "content": "more"})
    assert context.budget.window != window
    context.restore(point)
    assert (context.budget.window, context.stats().model) == (window, "gpt-4")
    assert context.request() == before


def test_undoing_a_restore_takes_off_what_was_written_again_since():
    context = opened_in_characters()
    said = [{"role": "user", "content": f"message {n}"} for n in range(6)]
    context.mirror(said[:5])
    point = context.view.slots[1].seq
    whole = context.view.slots
    context.restore(point)
    context.mirror(said)  # its owner has them all, and one more
    assert len(context.view.slots) == 6
    written = context.view.slots
    assert context.undo().kind == "restore"
    assert context.view.slots[:5] == whole
    assert [slot.message.blocks[0].text for slot in context.view.slots] == [
        one["content"] for one in said
    ]
    assert context.redo().kind == "restore"
    assert context.view.slots == written


def test_room_from_before_a_compaction_stays_when_that_is_undone():
    context = opened_in_characters(window=2_000)
    talk(context, 60)
    context.compact()
    assert context.undo().made_room
    talk(context, 2)
    before = context.request()
    assert context.compact("hide", target=400).batch
    context.undo()
    assert context.request() == before


def test_an_undo_passes_over_a_restore_to_where_the_log_is():
    context = opened_in_characters()
    talk(context, 30)
    batch = context.compact("hide", target=100).batch
    end_thinking(context)
    assert context.undo().batch == batch
    assert context.redo().batch == batch


def test_clear_takes_all_but_system_and_pins_and_undo_brings_it_back():
    """M-23"""
    context = opened_in_characters(system="Be brief.", window=200_000)
    context.append({"role": "system", "content": "and kind"})
    talk(context, 5)
    pinned = context.view.slots[3].seq
    context.pin(pinned)
    before = context.view.slots
    context.clear()
    assert [slot.seq for slot in context.view.slots] == [before[0].seq, pinned]
    assert (
        sum(event.kind == "edit" for event in context.log.events()) == 2
    )  # before the pin and behind it
    assert broken(context.view) == []
    context.append({"role": "user", "content": "a new beginning"})
    assert [m["content"] for m in context.request("openai_chat")["messages"]][
        -1
    ] == "a new beginning"
    context.undo()
    assert context.view.slots[:-1] == before


def test_a_pin_on_what_a_restore_switched_off_does_not_hold():
    """Found by a story: a restore is undone, a message behind its point is pinned, and the
    restore is redone."""
    context = opened_in_characters()
    talk(context, 2)
    point = context.checkpoint()
    context.append({"role": "user", "content": "later"})
    seq = context.view.slots[-1].seq
    context.restore(point)
    context.undo()
    context.pin(seq)
    context.redo()
    assert broken(context.view) == []


def test_undo_gives_the_page_back_and_redo_takes_that_back(url):
    """G-32, M-81, X-30."""
    context = opened(url, config={"auto": False}, window=60_000)
    context.append({"role": "user", "content": "go"})
    work(context, 30)
    before = page_of(context)
    receipt = context.compact()
    assert receipt.batch and receipt.saved_tokens > 0 and receipt.items
    after = page_of(context)
    assert after != before
    undone = context.undo()
    assert (undone.kind, undone.batch) == ("compaction", receipt.batch)
    assert undone.tokens_after > undone.tokens_before and not undone.made_room
    assert page_of(context) == before
    assert not context.undo()
    assert context.redo().batch == receipt.batch
    assert page_of(context) == after
    assert not context.redo()
    context.undo(receipt.batch)
    assert page_of(context) == before
    context.close()


def test_undo_goes_back_through_all_batches_and_redo_forward_again(url):
    context = opened(url, config={"auto": False}, window=60_000)
    pages, batches = [], []
    for turn in range(4):
        context.append({"role": "user", "content": f"question {turn}"})
        work(context, 12)
        batches.append(context.compact(target=1_000 * (turn + 1)).batch)
        pages.append(context.view.undoable)
    point = context.view.head
    context.append({"role": "user", "content": "more"})
    context.restore(point)
    assert context.undo().kind == "restore"
    assert [context.undo().batch for _ in batches] == batches[::-1]
    assert not context.undo()
    assert not any(slot.edits for slot in context.view.slots)
    assert [context.redo().batch for _ in batches] == batches
    assert context.redo().kind == "restore"
    assert not context.redo()
    context.close()


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "claude-opus-4-8"])
def test_an_undone_compaction_does_not_come_back(model):
    """What does not fit loses its oldest messages, no more, as a batch that undo names."""
    context = refold.open("c", store="memory:", model=model)
    first = filled(context)
    undone = context.undo()
    budget = context.budget
    assert undone.batch == first
    assert undone.tokens_after <= budget.input_max
    if undone.made_room:
        least = budget.input_max - 0.2 * budget.window
        assert least < undone.tokens_after <= budget.input_max - 0.1 * budget.window + 1
        assert not any(slot.summary and slot.summary.counted for slot in context.view.slots)
    shown = context.request()
    assert context.request() == shown
    assert context.view.undoable[-1][1] == undone.made_room
    assert context.redo().batch == first
    assert context.view.tokens < undone.tokens_after


@given(
    window=st.integers(12_000, 60_000),
    ratio=st.floats(0.4, 0.9),
    sizes=st.lists(st.integers(50, 3_000), min_size=1, max_size=12),
    kept=st.integers(0, 6),
)
@settings(max_examples=40, deadline=None)
def test_an_undo_of_an_automatic_compaction_lasts(window, ratio, sizes, kept):
    """The same compaction comes again only after a tenth of the window came; a page that does
    not fit in between loses its oldest messages, which the undo or a notice names."""
    ratios = {"warn_ratio": ratio - 0.1, "compact_ratio": ratio, "target_ratio": ratio / 2}
    context = refold.open("c", store="memory:", window=window, config=ratios)
    context.append({"role": "user", "content": "go"})
    while not any(batch for _, batch in context.view.undoable):
        talk(context, 2, size=window // 8)
        context.append({"role": "user", "content": "go on"})
        context.request()
    talk(context, kept, size=500)
    context.append({"role": "user", "content": "and on"})
    assert context.undo().tokens_whole
    came = context.view.tokens
    for size in sizes:
        context.append({"role": "user", "content": "word " * (size // 5)})
        grown = sum(slot.tokens for slot in context.view.slots[-2 * len(sizes) :])
        if context.view.tokens - came >= 0.1 * window or grown >= 0.1 * window:
            break
        context.request()
        assert {batch.purpose for batch in context.log.batches() if batch.live} <= {"room"}
        context.append({"role": "assistant", "content": "ok"})
    assert not context.stats().summaries


def filled(context) -> str:
    """Works until a compaction happens by itself; its batch."""
    batches = []
    context.on("compaction-complete", lambda notice: batches.append(notice.receipt.batch))
    context.append({"role": "user", "content": "go"})
    while not batches:
        talk(context, 4, size=12_000)
        context.append({"role": "user", "content": "go on"})
        context.request()
    return batches[0]


def test_the_room_that_an_undo_made_goes_with_the_next_undo():
    context = refold.open("c", store="memory:", model="gpt-4o", window=16_000)
    context.append({"role": "user", "content": "go"})
    work(context, 120)
    steps = []
    while undone := context.undo():
        steps.append(undone)
        live = [batch for batch in context.log.batches() if batch.live]
        rooms = [batch.id for batch in live if batch.purpose == "room"]
        assert rooms == ([undone.made_room] if undone.made_room else [])
        context.request()
    assert len(steps) > 2 and any(step.made_room for step in steps)
    for step in reversed(steps):
        assert context.redo().batch == step.batch
    assert not context.redo()


def test_a_clear_keeps_a_backup_that_a_checkpoint_may_name(url):
    context = opened(url, config={"auto": False}, window=60_000)
    context.append({"role": "user", "content": "go"})
    work(context, 3)
    before = page_of(context)
    context.clear(checkpoint="before-clear")
    assert context.view.slots == ()
    assert context.undo().kind == "compaction"
    assert page_of(context) == before
    context.redo()
    context.restore("before-clear")
    assert page_of(context) == before
    context.close()


def test_a_compaction_is_undone_even_after_later_turns():
    context = opened(config={"auto": False}, window=60_000)
    context.append({"role": "user", "content": "go"})
    work(context, 30)
    kept = [slot.message for slot in context.view.slots]
    receipt = context.compact()
    context.append({"role": "user", "content": "and then?"})
    context.undo(receipt.batch)
    assert [slot.message for slot in context.view.slots][: len(kept)] == kept
    assert len(context.view.slots) == len(kept) + 1


def test_nothing_to_undo_is_an_answer():
    assert not opened().undo() and not opened().redo()
    with pytest.raises(NotFound):
        opened().undo("nope")


def test_restore_goes_back_to_a_checkpoint_and_keeps_the_bill(url):
    """G-30, C-67: messages and edits after it are off, billed totals stay, and it can be undone."""
    context = opened(url, window=60_000)
    context.append({"role": "user", "content": "first"})
    context.request()
    context.record(response(1))
    before = page_of(context)
    context.checkpoint("start")
    context.append({"role": "user", "content": "second"})
    context.request()
    context.record(response(2))
    later = page_of(context)
    context.restore("start")
    assert page_of(context) == before
    assert context.stats().billed.calls == 2
    context.undo()
    assert page_of(context) == later
    with pytest.raises(NotFound, match="nope"):
        context.restore("nope")
    with pytest.raises(Invalid):
        context.restore(10_000)
    context.close()


def test_a_pinned_message_survives_every_compaction_verbatim():
    """C-52, X-31."""
    context = opened()
    context.append({"role": "user", "content": "go"})
    [rule] = context.append(
        {"role": "user", "content": "RULE: never touch secrets.py  (exactly this)"}
    )
    context.pin(rule.seq)
    context.append({"role": "user", "content": "now work"})
    work(context, 60)
    texts = [m["content"] for m in checked(context)["messages"]]
    assert "RULE: never touch secrets.py  (exactly this)" in texts
    context.pin(rule.seq, on=False)
    work(context, 40)
    with pytest.raises(NotFound):
        context.pin(9_999)


def test_pinning_a_result_pins_its_call_as_well():
    """M-77."""
    context = opened(config={"auto": False})
    context.append({"role": "user", "content": "go"})
    context.append(call(1))
    [result] = context.append_result("c1", "the needle")
    context.append({"role": "user", "content": "more"})
    context.pin(result.seq)
    assert len(context.view.pins) == 2


def test_a_handle_names_a_message_wherever_a_seq_does():
    context = refold.open("handles", store="memory:")
    for n in range(4):
        context.append({"role": "user", "content": f"message {n}"})
    context.pin("#2")
    assert context.view.pins == {2}
    context.pin("#2", on=False)
    assert not context.view.pins
    assert context.restore("#3", dry_run=True).seq == context.restore(3, dry_run=True).seq == 3
    for wrong in ("2", "#", "#2-3", "two", "#" + "9" * 40):
        with pytest.raises(refold.Invalid):
            context.pin(wrong)


def test_redo_gives_back_a_page_that_was_due():
    """Found by a newcomer: room that the redo made stayed."""
    context = opened(window=16_000)
    context.append({"role": "user", "content": "go"})
    for n in range(50):
        context.append(call(n))
        context.append_result(f"c{n}", f"def f{n}(x): return x + {n}\n" * 60)
        if n == 30:
            context.compact()
    before = context.view.slots
    assert context.stats().due != "none"
    assert context.undo().made_room
    assert context.redo() and context.view.slots == before


CHANGES = ("compact", "hide", "clear", "checkpoint", "restore", "pin", "undo", "redo", "compact")
STEPS = st.sampled_from(("turn", "large", "large", "turn", "large", "request", "meta", *CHANGES))


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, min_size=2, max_size=25), depth=st.integers(1, 3))
def test_redo_after_undo_is_the_same_page(steps, depth):
    context = opened_in_characters(window=6_000)
    for n, step in enumerate(["turn", *steps]):
        _take(context, step, n)
    pages = []
    for _ in range(depth):
        pages.append(context.view.slots)
        if not context.undo():
            pages.pop()
            break
    for page in reversed(pages):
        assert context.redo() and context.view.slots == page


def _take(context, step, n):
    if step in ("turn", "large"):
        context.append({"role": "user", "content": f"question {n}"})
        content = f"answer {n} " + "words of it " * (150 if step == "large" else 5)
        context.append({"role": "assistant", "content": content})
    elif step == "hide":
        _hide_oldest(context)
    elif step == "restore":
        context.restore(max(1, context.view.head - 4))
    elif step == "pin" and context.view.slots:
        context.pin(context.view.slots[-1].seq)
    elif step == "meta":
        context.update(title=f"title {n}")
    elif step in ("compact", "clear", "checkpoint", "undo", "redo", "request"):
        getattr(context, step)()


def _hide_oldest(context):
    slots = [slot for slot in context.view.slots if not slot.standin]
    if len(slots) > 3:
        with contextlib.suppress(Invalid):  # a pin
            context.hide(slots[0].seq)


@given(st.integers(2, 12), st.booleans(), st.sampled_from(["hide", "gist", "clear"]))
@settings(max_examples=20)
def test_pinning_a_folded_call_or_result_pins_the_whole_pair(calls: int, result: bool, by: str):
    """A pair that left the page is still a pair: a request shows the result that was recorded."""
    context = opened_in_characters(window=20_000)
    context.append({"role": "user", "content": "Read the parts."})
    pairs = []
    for n in range(calls):
        block = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"{n}.py"}}
        [asked] = context.append({"role": "assistant", "content": [block]})
        answered = context.append_result(f"t{n}", f"part {n} " * 40)[-1]
        pairs.append((asked.seq, answered.seq))
    context.append({"role": "user", "content": "Go on."})
    context.compact(by, target=600)
    first, last = pairs[0]
    context.pin(last if result else first)
    assert {first, last} <= set(context.view.pins)
    assert "[no result recorded]" not in str(context.request())


@settings(deadline=None, max_examples=150)
@given(bodies(60), st.booleans())
def test_the_recent_history_ends_like_the_whole(drawn, undone) -> None:
    controls = ControlLog()
    for event in sealed(drawn):
        body = decode(event) if event.kind in CHANGING else None
        if body is not None:
            controls.add(event.seq, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undo, "HISTORY_EVENTS", 4)
        recent = recent_history(controls, undone=undone)
    whole = history(controls.all())
    if undone:
        assert redoing(recent) == redoing(whole) and recent.undone[-1:] == whole.undone[-1:]
    else:
        assert undoing(recent) == undoing(whole) and recent.active[-1:] == whole.active[-1:]
