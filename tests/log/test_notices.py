"""Row Y-25: listeners of a Context that is not awaited may be coroutine functions all the same."""

from __future__ import annotations

import asyncio

import refold
from refold.log.notices import Notice


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
        for _ in range(3):
            await asyncio.sleep(0)
        context.append(
            {"role": "user", "content": "go on"}
        )  # what failed on the loop is told with the next call
        return heard

    heard = asyncio.run(run())
    assert heard.count("async context-warning") == 2 and heard[-1] == "RuntimeError: late"
