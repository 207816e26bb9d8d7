"""The SDKs' asynchronous clients beside `refold.aio`."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai
import pytest
from google import genai

import refold
from refold import aio
from tests.real.sdks.providers import ASKED, KEY, PROVIDERS, Provider
from tests.real.sdks.test_conversation import JSON, STREAM, TOOLS, answer_calls, request
from tests.real.sdks.test_conversation import first_turn as first_plain_turn
from tests.servers import Play, serving


async def opened(provider: Provider) -> Any:
    context = await aio.open(
        "work",
        store="memory:",
        model=provider.model,
        config=refold.Config(dialect=provider.dialect),
        system="You fix tests.",
        tools=TOOLS,
    )
    await context.append({"role": "user", "content": "Read a.py and b.py"})
    return context


async def create(provider: Provider, url: str, asked: dict[str, Any]) -> Any:
    match provider.dialect:
        case "anthropic":
            async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
                return await client.messages.create(**asked)
        case "gemini":
            client = genai.Client(api_key=KEY, http_options={"base_url": url})
            try:
                return await client.aio.models.generate_content(**asked)
            finally:
                await client.aio.aclose()
                client.close()
        case _:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
                if provider.dialect == "openai_chat":
                    return await client.chat.completions.create(**asked)
                return await client.responses.create(**ASKED, **asked)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_an_awaited_conversation_gives_the_same_requests(provider: Provider) -> None:
    plain, response = first_plain_turn(provider)
    answer_calls(plain, response)

    async def turn() -> dict[str, Any]:
        context = await opened(provider)
        asked = await context.request(provider.dialect)
        with serving(Play(provider.body(0), **JSON)) as server:
            response = await create(provider, server.url, asked)
        await context.record(response)
        for call in refold.tool_calls(response):
            await context.append_result(call.id, f"print('{call.arguments['path']}')")
        next_request: dict[str, Any] = await context.request(provider.dialect)
        await context.close()
        return next_request

    assert asyncio.run(turn()) == request(plain, provider)


def test_a_finished_asynchronous_stream_is_recorded() -> None:
    provider = PROVIDERS["anthropic"]

    async def turn() -> int:
        context = await opened(provider)
        asked = await context.request("anthropic")
        with serving(Play(provider.events(0), **STREAM)) as server:
            async with (
                anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY) as client,
                client.messages.stream(**asked) as stream,
            ):
                await stream.until_done()
                return len(await context.record(stream))

    assert asyncio.run(turn()) == 2
