"""Points to go back to: which are listed, what lies between two of them, what a restore takes
off."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Totals
from refold.errors import Invalid, NotFound
from refold.testing import fixed_clock

HOUR_MS = 3_600_000


def opened(id: str = "work", **given: Any) -> refold.Context:
    return refold.open(
        id, store="memory:", **{"window": 24_000, "config": {"auto": False}, **given}
    )


def said(context: refold.Context, count: int, size: int = 1) -> None:
    for n in range(count):
        context.append(
            {
                "role": "user" if n % 2 == 0 else "assistant",
                "content": f"message {n} " + "word " * size,
            }
        )


def used(context: refold.Context, id: str, name: str, output: str = "ok", **arguments: Any) -> None:
    context.append(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}],
        }
    )
    context.append_result(id, output)


def replied(context: refold.Context, n: int) -> None:
    context.request("openai_chat")
    message, usage = (
        {"role": "assistant", "content": f"reply {n}"},
        {"prompt_tokens": 100, "completion_tokens": 10},
    )
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    context.record(
        {
            "id": f"r{n}",
            "object": "chat.completion",
            "model": "gpt-4o",
            "choices": [choice],
            "usage": usage,
        }
    )


# --- which there are ---


def test_every_tenth_message_and_the_place_before_a_compaction_are_listed() -> None:
    """G-31: 25 messages: two points, and one before the compaction; nothing is written for any
    of them."""
    context = opened()
    said(context, 25, size=300)
    before = context.view.head
    context.compact("summarize", target=3_000)
    head = context.view.head
    assert [(p.seq, p.messages, p.reason) for p in context.log.points()] == [
        (before, 25, "before a compaction"),
        (before - 5, 20, "after 20 messages"),
        (before - 15, 10, "after 10 messages"),
    ]
    assert context.view.head == head
    context.undo()
    context.restore(before)
    assert [p.reason for p in context.log.points()[:3]] == [
        "before a restore",
        "before an undo",
        "before a compaction",
    ]
    assert [p.seq for p in context.log.points(every=8)][-3:] == [25, 17, 9]


def test_checkpoints_are_listed_by_the_name_they_have_now() -> None:
    """G-31, G-33: `restore` takes a point's name or seq."""
    context = opened()
    said(context, 10)
    context.checkpoint("draft")
    said(context, 3)
    context.checkpoint("draft")
    context.checkpoint("final")
    points = context.log.points()
    assert [(p.name, p.messages) for p in points] == [("final", 13), ("draft", 13), ("", 10)]
    assert all(context.restore(p.name or p.seq, dry_run=True).seq == p.seq for p in points)


def test_a_thousand_checkpoints_cost_little(tmp_path: Path) -> None:
    """G-34: a name for a position, whatever lies before it."""
    url = f"sqlite:{tmp_path}/refold.db"

    def size() -> int:
        return sum(path.stat().st_size for path in tmp_path.iterdir())

    with refold.open("talk", store=url, window=200_000) as context:
        said(context, 100, size=5_000)
    before = size()
    with refold.open("talk", store=url, window=200_000) as context:
        for n in range(1_000):
            context.checkpoint(f"point {n}")
    assert size() - before < 1_000_000


def test_old_points_leave_the_list_and_named_ones_do_not() -> None:
    """G-33: ten old points and two names: the five newest and the names. All can still be
    restored."""
    with fixed_clock(1_700_000_000_000) as clock:
        context = opened()
    said(context, 50)
    context.checkpoint("a")
    said(context, 50)
    context.checkpoint("b")
    assert len(context.log.points()) == 12
    clock.advance(hours=25)
    assert [p.name or p.messages for p in context.log.points()] == ["b", 100, 90, 80, 70, 60, "a"]
    assert len(context.log.points(hours=48)) == 12 and len(context.log.points(keep=0)) == 2


def test_a_new_conversation_has_no_points() -> None:
    context = opened()
    assert context.log.points() == []
    assert context.restore(0, dry_run=True).requests == [] and context.log.diff(0).added == ()


# --- what lies between two ---


def test_two_points_differ_by_messages_edits_artifacts_and_files() -> None:
    """M-85: and looking changes nothing."""
    context = opened(config={"auto": False, "offload_tokens": 500})
    said(context, 12, size=200)
    first = context.checkpoint("first")
    context.append({"role": "user", "content": "now edit"})
    used(context, "c1", "edit", path="a.py", old_string="x", new_string="y")
    used(context, "c2", "bash", "line of the build\n" * 900, command="make")
    full = context.view.head
    receipt = context.compact("window", keep=5)
    head = context.view.head
    grown = context.log.diff("first", full)
    assert (grown.removed, grown.changed, grown.batches, grown.files) == ((), (), (), ("a.py",))
    assert len(grown.added) == 5 and all(seq > first for seq in grown.added)
    assert grown.artifacts == tuple(artifact.id for artifact in context.artifacts.list())
    shortened = context.log.diff(full)
    assert shortened.batches == (receipt.batch,) and shortened.removed and not shortened.added
    back = context.log.diff(full, "first")
    assert back.removed == grown.added and back.added == ()
    assert context.view.head == head
    with pytest.raises(NotFound):
        context.log.diff("nope")
    with pytest.raises(Invalid):
        context.log.diff(1, 9_999)


# --- what a restore takes off ---


def test_what_a_restore_would_take_off_is_told_before_it_happens() -> None:
    """C-67, M-85: requests and billed calls behind the point, files as they are on disk; nothing
    changes."""
    context = opened()
    context.append({"role": "user", "content": "first"})
    replied(context, 1)
    point = context.checkpoint("start")
    [second] = context.append({"role": "user", "content": "second"})
    replied(context, 2)
    used(context, "c1", "edit", path="a.py", old_string="x", new_string="y")
    [third] = context.append({"role": "user", "content": "third"})
    replied(context, 3)
    head, billed = context.view.head, context.stats().billed
    planned = context.restore("start", dry_run=True)
    assert context.view.head == head and planned == context.restore(point, dry_run=True)
    assert (planned.seq, planned.files, planned.requests) == (
        point,
        ["a.py"],
        [second.seq, third.seq],
    )
    assert [call.response for call in planned.calls] == ["r2", "r3"]
    context.restore("start")
    assert context.stats().billed == billed
    again = context.restore("start", dry_run=True)
    assert (again.requests, again.calls, again.files) == (
        [],
        [],
        ["a.py"],
    )  # off already; on disk still so
    context.undo()
    assert context.restore("start", dry_run=True).requests == [second.seq, third.seq]


# --- forks ---


def test_a_fork_knows_which_totals_it_inherited() -> None:
    """Y-11: billed totals at the fork point; neither side's calls change the other's."""
    context = opened()
    context.append({"role": "user", "content": "first"})
    replied(context, 1)
    at = context.stats().billed
    twin = context.fork("twin")
    twin.append({"role": "user", "content": "mine"})
    replied(twin, 2)
    replied(context, 3)
    assert twin.stats().billed.calls == 2 and twin.stats().inherited == at
    assert context.stats().billed.calls == 2 and context.stats().inherited == Totals()
    third = twin.fork("third")
    assert third.stats().inherited == twin.stats().billed


def test_a_point_says_what_the_edits_after_it_were_for():
    context = refold.open("work", store="memory:", window=24_000)
    for n in range(12):
        context.append({"role": "user", "content": f"message {n}"})
    context.hide(3, 4)
    context.compact(span=(5, 6), summary="two messages", author="other")
    context.clear()
    reasons = {point.reason for point in context.log.points(every=0)}
    assert reasons == {
        "before messages were hidden by hand",
        "before a compaction from elsewhere",
        "before the page was cleared",
    }


# --- by time ---

START_MS = 1_763_000_000_000


def spoken(steps_ms: list[int]) -> refold.Context:
    """A log with a message at each time."""
    context = opened()
    at_ms = START_MS
    for n, step in enumerate(steps_ms):
        at_ms += step
        context.append({"role": "user", "content": f"message {n}"}, at=at_ms)
    return context


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 90_000), min_size=1, max_size=8), st.integers(0, 400_000))
def test_a_time_is_the_last_event_until_then(steps: list[int], later_ms: int) -> None:
    context = spoken(steps)
    at_ms = START_MS + steps[0] + later_ms
    until = [event.seq for event in context.log.events() if event.at_ms <= at_ms]
    messages = {event.seq for event in context.log.events() if event.kind == "message"}
    last = until[-1]
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    forms = (
        at_ms,
        moment,
        moment.isoformat(),
        moment.astimezone().replace(tzinfo=None),
        at_ms / 1e3,
    )
    assert {context.restore(form, dry_run=True).seq for form in forms} == {last}
    context.restore(moment)
    assert {slot.seq for slot in context.view.slots} == messages & {*until}


def test_a_time_before_the_log_and_what_is_no_time_are_refused() -> None:
    context = spoken([0, 1_000])
    context.checkpoint("2025-11-20")
    assert context.restore("2025-11-20", dry_run=True).seq == context.view.checkpoints["2025-11-20"]
    with pytest.raises(NotFound, match="no event as early as"):
        context.restore("2024-01-01", dry_run=True)
    for wrong in (1.5, math.nan, -math.inf, 7, "yesterday"):
        with pytest.raises((Invalid, NotFound)):
            context.restore(wrong, dry_run=True)
