"""Listeners: each hears what it asked for, one that fails stops nobody, coroutine functions are
run as well."""

from __future__ import annotations

import asyncio
import threading

import refold
from refold.log.notices import Notice
from tests import turns
from tests.waiting import LONG_S


def told(context: refold.Context) -> list[str]:
    """Listeners of both kinds, of which some fail; what they heard."""
    heard: list[str] = []

    async def waits(notice: Notice) -> None:
        await asyncio.sleep(0)
        heard.append(f"async {notice.name}")

    async def fails(notice: Notice) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("late")

    context.on("context-warning", waits)
    context.on("context-warning", fails)
    context.on("context-warning", lambda notice: waits(notice))
    context.on("context-warning", lambda notice: heard.append(f"sync {notice.name}"))
    context.on("listener-failed", lambda notice: heard.append(notice.reason))
    context.append({"role": "user", "content": "word " * 3_000})
    return heard


def opened() -> refold.Context:
    return refold.open("work", store="memory:", window=4_000, config={"auto": False})


def test_coroutine_functions_are_run_to_their_end() -> None:
    """Y-25: in the calling thread, in order, and one that raises stops nobody."""
    assert told(opened()) == [
        "async context-warning",
        "async context-warning",
        "sync context-warning",
        "RuntimeError: late",
    ]


def test_where_a_loop_runs_they_are_its_tasks() -> None:
    """Y-25: the call does not wait for them, and none is lost."""

    async def run() -> list[str]:
        context = opened()
        heard = told(context)
        assert heard == ["sync context-warning"]
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(others) == 3
        await asyncio.gather(*others, return_exceptions=True)
        context.append(
            {"role": "user", "content": "go on"}
        )  # what failed on the loop is told with the next call
        return heard

    heard = asyncio.run(run())
    assert heard.count("async context-warning") == 2 and heard[-1] == "RuntimeError: late"


def test_the_warning_comes_once_and_again_after_a_compaction():
    """Y-23, Y-24: order warning, auto-compacting, compaction-complete."""
    context, heard = turns.opened(), []
    context.on("*", lambda notice: heard.append(notice.name))
    context.append({"role": "user", "content": "go"})
    turns.work(context, 60, size=80)
    assert heard[: heard.index("compaction-complete") + 1].count("context-warning") == 1
    order = [
        name
        for name in heard
        if name in ("context-warning", "auto-compacting", "compaction-complete")
    ]
    assert order[:3] == ["context-warning", "auto-compacting", "compaction-complete"]
    assert 2 <= heard.count("context-warning") <= heard.count("compaction-complete") + 1


def test_a_listener_that_raises_stops_nobody():
    """Y-25."""
    context, heard = turns.opened(), []
    context.on("context-warning", lambda notice: 1 / 0)
    off = context.on("context-warning", heard.append)
    failed = []
    context.on("listener-failed", failed.append)
    context.append({"role": "user", "content": "go"})
    turns.work(context, 40)
    assert len(heard) >= 1
    assert "ZeroDivisionError" in failed[0].reason
    off()
    heard.clear()
    turns.work(context, 30)
    assert heard == []


def test_a_listener_may_use_the_context():
    """Listeners are called with no lock held, from any thread."""
    context, sizes = turns.opened(), []

    def listen(notice):
        thread = threading.Thread(target=lambda: sizes.append(context.stats().current))
        thread.start()
        thread.join(timeout=LONG_S)

    context.on("context-warning", listen)
    context.append({"role": "user", "content": "go"})
    turns.work(context, 40)
    assert sizes
