"""What the proxy sends, without HTTP: a client that repeats its whole list at every call, handed to
the proxy's observer, and the provider's usage back.

As a policy it stands beside the library in the measure of `fidelity`: the same sessions, budgets
and needs, once held by the caller's own `Context` and once behind a base URL. Neighbours: `proxy`
measures whole processes, `proxy_pages` makes tables of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

import refold
from bench.sessions import Message, tokens_of_all
from refold.core.model import Usage
from refold.edges.proxy.body import asked_of
from refold.edges.proxy.book import Book, Folding
from refold.edges.proxy.limits import Limits
from refold.edges.proxy.observer import Observer, Taken
from refold.edges.proxy.route import target_of

Wire = dict[str, Any]
# A model whose provider binds thinking to the front, as that of most clients does.
MODEL = "claude-opus-5-5"
TARGET = target_of("POST", b"/anthropic/v1/messages", ())
TOOLS = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}]


class Passage:
    """A proxy that folds into this window, with nothing on either side of it."""

    def __init__(self, window: int, **config: Any) -> None:
        folding = Folding(folds=True, window=window, config=config)
        self.book = Book(refold.open_store("memory:"), folding, Limits())
        self._observer = Observer(self.book)
        self._taken: Taken | None = None

    def sent(self, body: bytes) -> bytes:
        """What goes up for a call."""
        asked = asked_of(body, TARGET, "")
        assert asked is not None
        self._taken = self._observer.take(asked)
        own = self._taken is None or self._taken.body is None
        return body if own else self._taken.body

    def answered(self, tokens: int) -> None:
        """The provider answered, and billed so many tokens for what went up."""
        if self._taken is not None and self._taken.held is not None:
            self._taken.answered()
            self._observer.finish(self._taken, Usage(input=tokens, output=1), None)

    def close(self) -> None:
        self.book.close()


def body_of(wires: list[Wire], system: str = "") -> bytes:
    """A call of a client, as it comes."""
    said = {"model": MODEL, "max_tokens": 8_000, "system": system, "tools": TOOLS}
    return json.dumps({**said, "messages": wires}).encode()


class Proxied:
    """The proxy as a policy: each turn's list goes in, and what is sent for it is the prompt."""

    def __init__(self, **config: Any) -> None:
        self.config = {"reserve_tokens": 0, **config}

    def start(self, budget: int) -> None:
        self.passage = Passage(budget, **self.config)
        self.system: list[Message] = []
        self.wires: list[Wire] = []
        self.asked_bytes = self.sent_bytes = 0

    def observe(self, message: Message) -> None:
        if message["role"] == "system" and not self.wires:
            self.system.append(message)
            return
        take(self.wires, message)

    def prompt(self) -> list[Message]:
        system = "\n\n".join(one["content"] for one in self.system)
        asked = body_of(self.wires, system)
        sent = self.passage.sent(asked)
        self.asked_bytes += len(asked)
        self.sent_bytes += len(sent)
        body = msgspec.json.decode(sent)
        prompt = [*self.system, *(said for wire in body["messages"] for said in spoken(wire))]
        self.passage.answered(tokens_of_all(prompt))
        return prompt


# --- recorded messages as Anthropic's, and back ---


def take(wires: list[Wire], message: Message) -> None:
    """Puts a recorded message at the end of a client's list. Results of one answer are one
    message."""
    blocks = list(_blocks(message))
    role = "assistant" if message["role"] == "assistant" else "user"
    is_result = message["role"] == "tool"
    if is_result and wires and wires[-1]["role"] == "user" and _is_result(wires[-1]["content"][-1]):
        wires[-1] = {"role": role, "content": [*wires[-1]["content"], *blocks]}
    elif blocks:
        wires.append({"role": role, "content": blocks})


def _is_result(block: Wire) -> bool:
    return bool(block["type"] == "tool_result")


def _blocks(message: Message) -> Iterator[Wire]:
    content = message.get("content") or ""
    if message["role"] == "tool":
        yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
        return
    if content:
        yield {"type": "text", "text": content}
    for call in message.get("tool_calls") or ():
        arguments = call["arguments"]
        given = arguments if isinstance(arguments, dict) else {"input": arguments}
        yield {"type": "tool_use", "id": call["id"], "name": call["name"], "input": given}


def spoken(wire: Wire) -> Iterator[Message]:
    """A message of a request in the measure's shape, results and what the user says each by itself."""
    content = wire["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts, calls = [], []
    for block in blocks:
        if block["type"] == "tool_result":
            said = text_in(block.get("content"))
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said}
        elif block["type"] == "tool_use":
            calls.append({"id": block["id"], "name": block["name"], "arguments": block["input"]})
        elif wire["role"] == "user":
            yield {"role": "user", "content": block["text"]}
        else:
            texts.append(block["text"])
    if texts or calls:
        said = {"role": wire["role"], "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def text_in(content: object) -> str:
    """The text of a result."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
