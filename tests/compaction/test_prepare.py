"""A compaction that is prepared while nobody waits: planned and put in words ahead, used once it is
due, and discarded where the page was edited meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import refold
from refold.core.shortened import summary_text
from tests.scripted import GOOD, Scripted, Slow, heard_by, opened, page, summaries, talked
from tests.turns import names
from tests.waiting import LONG_S

WINDOW = 24_000


def at_warning(writer: Scripted | None = None) -> refold.Context:
    """A page between the warning level and the trigger."""
    context = opened(writer, window=WINDOW)
    while context.stats().current < context.budget.warn_at + 100:
        talked(context, 2, start=context.view.head, size=1_200)
    assert context.stats().due == "none"
    return context


def fill(context: refold.Context) -> None:
    """Goes on until a compaction is due."""
    while context.stats().due == "none":
        talked(context, 2, start=context.view.head, size=1_200)


def test_the_writer_is_asked_ahead_and_the_next_due_request_uses_it() -> None:
    writer = Scripted(GOOD)
    context = at_warning(writer)
    head = context.view.head
    assert context.plan(ahead=True).proposals
    asked = len(writer.requests)
    assert asked and context.view.head == head
    assert context.plan(ahead=True).proposals and len(writer.requests) == asked
    page(context)
    assert not summaries(context)
    fill(context)
    late = [slot.message for slot in context.view.slots if slot.seq > head]
    heard = heard_by(context)
    page(context)
    assert len(writer.requests) == asked
    assert any("make the login work" in summary_text(summary) for summary in summaries(context))
    assert [slot.message for slot in context.view.slots][-len(late) :] == late
    [done] = [notice for notice in heard if notice.name == "compaction-complete"]
    assert done.after == context.stats().current < context.budget.warn_at
    assert done.before > done.after
    assert done.receipt is not None and context.undo().batch == done.receipt.batch


def test_without_a_writer_the_plan_is_prepared() -> None:
    context = at_warning()
    assert context.plan(ahead=True).proposals
    fill(context)
    page(context)
    assert context.stats().current < context.budget.warn_at


def test_below_the_warning_level_nothing_is_prepared() -> None:
    writer = Scripted(GOOD)
    context = opened(writer, window=WINDOW)
    talked(context, 4)
    assert not context.plan(ahead=True).proposals and not writer.requests
    off = opened(writer, window=WINDOW, id="off", config={"auto": False})
    talked(off, 90, size=1_200)
    assert not off.plan(ahead=True).proposals and not writer.requests


EDITS: dict[str, Callable[[refold.Context], object]] = {
    "pin": lambda context: context.pin(context.view.slots[1].seq),
    "restore": lambda context: context.restore(context.view.head - 2),
    "compact": lambda context: context.compact("hide", target=15_000),
    "window": lambda context: context.update(window=WINDOW + 2_000),
    "large": lambda context: context.append({"role": "user", "content": "about it all " * 6_000}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_prepared_for_another_page_is_discarded_silently(edit: str) -> None:
    writer = Scripted(GOOD)
    context = at_warning(writer)
    assert context.plan(ahead=True).proposals
    ahead = context._compactor._prepared
    assert ahead is not None
    EDITS[edit](context)
    heard = heard_by(context)
    fill(context)
    page(context)
    done = [notice.receipt.batch for notice in heard if notice.receipt is not None]
    assert done and ahead.job.batch not in done
    assert "compaction-failed" not in names(heard) or edit == "large"
    assert context.stats().current <= context.budget.input_max


def test_others_append_and_read_while_the_writer_works() -> None:
    writer = Slow(GOOD)
    context = at_warning(writer)
    thread = threading.Thread(target=lambda: context.plan(ahead=True))
    thread.start()
    assert writer.asked.wait(LONG_S)
    [event] = context.append({"role": "user", "content": "meanwhile"})
    assert context.view.slots[-1].seq == event.seq
    assert "meanwhile" in page(context)[-1]
    writer.go.set()
    thread.join(LONG_S)
    assert not thread.is_alive()
    fill(context)
    page(context)
    assert len(writer.requests) == 1


def test_a_hook_is_asked_when_it_is_prepared_and_may_veto() -> None:
    writer = Scripted(GOOD)
    context = at_warning(writer)
    plans: list[refold.Plan] = []
    context.on("before-compaction", lambda plan: plans.append(plan))
    assert context.plan(ahead=True).proposals and len(plans) == 1
    fill(context)
    page(context)
    assert len(plans) == 1 and summaries(context)
    vetoed = at_warning(writer)
    vetoed.on("before-compaction", lambda plan: refold.types.Veto("not now"))
    assert not vetoed.plan(ahead=True).proposals


def test_a_writer_that_fails_leaves_what_code_made() -> None:
    context = at_warning(Scripted(RuntimeError("down")))
    assert context.plan(ahead=True).proposals
    fill(context)
    heard = heard_by(context)
    page(context)
    assert "compaction-failed" in names(heard) and "compaction-complete" in names(heard)
    assert context.stats().current < context.budget.warn_at
