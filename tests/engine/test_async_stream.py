"""`aio` checks what it is to stream when it is given, not when it is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from refold import Invalid, aio


@pytest.mark.parametrize("wrong", [None, 5, "text", [], {}, object(), iter([])])
def test_what_is_not_an_asynchronous_stream_is_refused_at_once(wrong: Any) -> None:
    async def ask() -> None:
        async with await aio.open("work", store="memory:") as context:
            with pytest.raises(Invalid, match="response"):
                context.stream(wrong)

    asyncio.run(ask())


def test_chunks_are_handed_on_and_recorded() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}}]}

    async def chunks() -> Any:
        yield {"object": "chat.completion.chunk", "id": "c1", **chunk}

    async def ask() -> None:
        async with await aio.open("work", store="memory:", model="gpt-4o") as context:
            await context.append({"role": "user", "content": "hi"})
            assert len([one async for one in context.stream(chunks())]) == 1
            assert len((await context.view).slots) == 2

    asyncio.run(ask())
