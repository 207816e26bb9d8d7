"""A proxy in this process between a client and a provider that answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import httpx

import refold
from refold.core.model import Message as Opening
from refold.edges.local_access import Gate
from refold.edges.proxy.app import Proxy
from refold.edges.proxy.conversation_registry import ConversationRegistry
from refold.edges.proxy.folding import Folding
from refold.edges.proxy.observer import Observer
from refold.edges.proxy.upstream import Limits, Upstream

T = TypeVar("T")
MODEL = "claude-opus-5-5"
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
Message = dict[str, Any]


class Provider:
    """Answers every call, and keeps what came: bodies as bytes, headers, paths."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        query = scope["query_string"].decode()
        self.paths.append(scope["raw_path"].decode() + (f"?{query}" if query else ""))
        status, headers, answer = self.answers.pop(0) if self.answers else plain_answer(body)
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": answer})

    @property
    def last(self) -> Any:
        return json.loads(self.bodies[-1])


def plain_answer(body: bytes) -> tuple[int, dict[str, str], bytes]:
    """An answer of Anthropic's whose usage follows from the size of the request. It is not whole,
    so nothing of it is kept: what these clients repeat is not what this provider says."""
    usage = {"input_tokens": max(1, len(body) // 4), "output_tokens": 5}
    said = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "usage": usage,
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "pause_turn",
    }  # fmt: skip
    return 200, {"content-type": "application/json"}, json.dumps(said).encode()


class Running:
    """A proxy, the provider behind it, and a client in front of it."""

    def __init__(self, proxy: Proxy, provider: Provider, book: ConversationRegistry) -> None:
        self.proxy, self.provider, self.book = proxy, provider, book
        transport = httpx.ASGITransport(proxy)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8743")

    async def messages(self, messages: list[Message], **fields: Any) -> httpx.Response:
        """A call of Anthropic's messages, as an agent makes it."""
        headers = {"x-api-key": "sk-ant-secret", **fields.pop("headers", {})}
        body = {"model": MODEL, "max_tokens": 100, "tools": TOOLS, **fields, "messages": messages}
        answer = await self.client.post("/anthropic/v1/messages", json=body, headers=headers)
        await self.settled()
        return answer

    async def settled(self) -> None:
        """Waits for what is written after an answer."""
        if self.proxy._finishing:
            await asyncio.wait(self.proxy._finishing)

    def kept(self) -> list[str]:
        """The ids of the conversations in the store."""
        return sorted(one.id for one in self.book.store.conversations())

    def view(self, id: str) -> Any:
        with refold.open(id, store=self.book.store, read_only=True) as context:
            return context.view


def with_proxy(
    work: Callable[[Running], Awaitable[T]],
    *,
    folds: bool = False,
    native: bool = False,
    tools: bool = False,
    opening: Opening | None = None,
    called: Iterable[str] = (),
    window: int | None = None,
    store: str | Path = "memory:",
    gate: Gate | None = None,
    limits: Limits | None = None,
    config: dict[str, Any] | None = None,
    provider: Provider | None = None,
) -> T:
    """Runs the work with a proxy, and stops it afterwards."""

    async def main() -> T:
        behind = provider or Provider()
        transport = httpx.ASGITransport(behind)
        given = limits or Limits()
        folding = Folding(
            folds=folds or tools or opening is not None,
            native=native,
            tools=tools,
            opening=opening,
            called=frozenset(called),
            window=window,
            config=config or {},
        )
        book = ConversationRegistry(refold.open_store(str(store)), folding, given)
        proxy = Proxy(
            Upstream(transport=transport), Observer(book), gate=gate, limits=given, close=book.close
        )
        try:
            return await work(Running(proxy, behind, book))
        finally:
            await proxy.stop()

    return asyncio.run(main())


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def answer(text: str) -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def call(number: int, **arguments: Any) -> Message:
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": arguments}
    return {"role": "assistant", "content": [use]}


def result(number: int, text: str) -> Message:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    return {"role": "user", "content": [block]}


def loop(turns: int, chars: int = 2_000) -> list[Message]:
    """A request, and so many tool calls with their results."""
    messages = [user("Find out why the login fails.")]
    for number in range(turns):
        text = f"file {number}\n" + f"line {number} of the file\n" * (chars // 20)
        messages += [call(number, path=f"src/file_{number}.py"), result(number, text)]
    return messages
