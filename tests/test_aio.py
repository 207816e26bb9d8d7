"""refold.aio: the same story told with and without await gives the same page."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading

import pytest

import refold
from refold import aio, dialects
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.writer.asker import Answer
from tests.turns import call

LINE = "src/app/login.py:41: the session expires too early and the token is lost\n"


async def settled(value):
    return await value if inspect.isawaitable(value) else value


async def story(context) -> list[object]:
    """What an agent does with a context; `settled` lets the same lines drive both kinds."""
    seen: list[object] = []
    await settled(context.append({"role": "user", "content": "Fix the login test"}))
    for n in range(12):
        await settled(context.append(call(n)))
        await settled(context.append_result(f"c{n}", f"run {n}\n" + LINE * 40))
    await settled(context.pin(2))
    mark = await settled(context.checkpoint("before"))
    receipt = await settled(context.compact(target=4_000))
    request = await settled(context.request("openai_chat"))
    assert dialects.dialect("openai_chat").check(request) == []
    seen += [
        mark,
        receipt.tokens_after,
        json.dumps(request),
        (await settled(context.view)).slot_tokens,
    ]
    seen.append((await settled(context.unfold("#3"))).text)
    seen.append((await settled(context.undo())).kind)
    twin = await settled(context.fork("twin"))
    await settled(twin.append({"role": "user", "content": "another way"}))
    seen += [(await settled(twin.stats())).messages, (await settled(context.stats())).messages]
    await settled(context.restore("before"))
    seen.append((await settled(context.view)).tokens)
    await settled(twin.close())
    await settled(context.close())
    return seen


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_both_apis_behave_alike(kind, tmp_path):
    """X-40: one story, told with and without await."""

    def url(name: str) -> str:
        return "memory:" if kind == "memory" else f"sqlite:{tmp_path}/{name}.db"

    async def both() -> tuple[list[object], list[object]]:
        plain = await story(refold.open("work", store=url("plain"), window=24_000))
        awaited = await story(await aio.open("work", store=url("awaited"), window=24_000))
        return plain, awaited

    plain, awaited = asyncio.run(both())
    assert plain == awaited


def test_every_public_name_of_a_context_is_there():
    async def names() -> tuple[set[str], set[str]]:
        async with await aio.open("work", store="memory:") as context:
            return set(dir(context)), {name for name in dir(Context) if not name.startswith("_")}

    found, wanted = asyncio.run(names())
    assert wanted <= found


def test_the_loop_goes_on_while_a_call_waits():
    """A slow writer blocks its own call, nothing else; it may be a coroutine function."""

    async def run() -> tuple[str, int]:
        ticks = 0

        async def writer(request) -> Answer:
            nonlocal ticks
            for _ in range(5):
                await asyncio.sleep(0.01)
                ticks += 1
            return Answer(text="")

        async with await aio.open("work", store="memory:", window=24_000, writer=writer) as context:
            await context.append({"role": "user", "content": "go"})
            for n in range(12):
                await context.append(call(n))
                await context.append_result(f"c{n}", f"run {n}\n" + LINE * 40)
            receipt = await context.compact("summarize")
            return receipt.strategy, ticks

    strategy, ticks = asyncio.run(run())
    assert strategy == "summarize" and ticks >= 5


def test_listeners_may_be_coroutine_functions_and_fail_alone():
    """Y-25: sync and async listeners; one that raises stops nobody."""
    told: list[tuple[str, bool]] = []

    async def run() -> None:
        loop_thread = threading.get_ident()

        async def on_loop(notice) -> None:
            await asyncio.sleep(0)
            told.append((f"async {notice.name}", threading.get_ident() == loop_thread))

        async def broken(notice) -> None:
            raise RuntimeError("listener")

        async with await aio.open("work", store="memory:", window=8_000) as context:
            await context.on("context-warning", broken)
            off = await context.on("context-warning", on_loop)
            await context.on("listener-failed", lambda notice: told.append((notice.reason, True)))
            await context.append({"role": "user", "content": LINE * 420})
            off()

    asyncio.run(run())
    assert ("async context-warning", True) in told and ("RuntimeError: listener", True) in told


def test_appends_at_once_are_all_kept_once():
    async def run() -> list[str]:
        async with await aio.open("work", store="memory:") as context:
            await asyncio.gather(
                *(context.append({"role": "user", "content": f"m{n}"}) for n in range(50))
            )
            return [slot.message.blocks[0].text for slot in (await context.view).slots]

    assert sorted(asyncio.run(run())) == sorted(f"m{n}" for n in range(50))


def test_errors_come_through_and_a_closed_context_says_so():
    async def run() -> None:
        context = await aio.open("work", store="memory:")
        with pytest.raises(NotFound):
            await context.unfold("#9")
        with pytest.raises(AttributeError):
            _ = context.no_such_thing
        await context.close()
        with pytest.raises(Invalid, match="closed"):
            await context.append({"role": "user", "content": "late"})
        with pytest.raises(Invalid):
            await aio.open("../../x")

    asyncio.run(run())


def test_a_cancelled_call_comes_to_its_end():
    async def run() -> int:
        async with await aio.open("work", store="memory:") as context:
            task = asyncio.create_task(context.append({"role": "user", "content": LINE * 2_000}))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await context.append({"role": "user", "content": "next"})
            return len((await context.view).slots)

    assert asyncio.run(run()) in (1, 2)
