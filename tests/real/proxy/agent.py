"""An agent as the proxy sees it: it sends its whole history at every call, keeps what it is
answered, and tries again when a call fails."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx

from refold.dialects import assemble
from refold.edges.proxy.body import is_answer
from tests.real.proxy.strict.server import Upstream

Message = dict[str, Any]
MODEL = "claude-opus-5-5"
MARK = {"type": "ephemeral"}
SYSTEM = [
    {"type": "text", "text": "You are an agent."},
    {"type": "text", "text": "Work carefully. " * 200, "cache_control": MARK},
]
TOOLS = [
    {"name": name, "description": f"The tool {name}. " * 20, "input_schema": {"type": "object"}}
    for name in ("Read", "Bash", "Edit", "Grep")
]
TRIES_MAX, WAIT_S = 480, 0.25
_QUEUES = itertools.count(1)


@dataclass
class Agent:
    """Calls Anthropic's messages at a base URL."""

    path: ClassVar[str] = "/v1/messages?beta=true"
    headers: ClassVar[dict[str, str]] = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    url: str
    upstream: Upstream
    streams: bool = False
    model: str = MODEL
    talk: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    queue: str = field(default_factory=lambda: f"agent-{next(_QUEUES)}")

    @property
    def sent_bytes(self) -> int:
        return sum(self.sizes)

    def turn(self, said: list[Message], answer: list[Message]) -> list[Message]:
        """Says something, and is answered this; gives what came."""
        self.talk += said
        self.upstream.script.add(answer, queue=self.queue)
        content = self.ask()
        self.talk += self.repeated(content)
        return content

    def repeated(self, content: list[Message]) -> list[Message]:
        """An answer as it stands in the next request."""
        return [{"role": "assistant", "content": content}]

    def ask(self) -> list[Message]:
        for _ in range(TRIES_MAX):
            try:
                response = self.post()
            except httpx.HTTPError:
                time.sleep(WAIT_S)
                continue
            if response.status_code == 200:
                return self._content(response)
            if response.status_code < 500:
                raise AssertionError(f"{response.status_code}: {response.text[:500]}")
            time.sleep(WAIT_S)
        raise AssertionError("no answer came")

    def post(self) -> httpx.Response:
        body = json.dumps(self.request()).encode()
        self.sizes.append(len(body))
        headers = {**self.headers, "x-script": self.queue}
        return httpx.post(f"{self.url}{self.path}", content=body, headers=headers, timeout=120)

    def request(self) -> dict[str, Any]:
        fields = {"model": self.model, "max_tokens": 8_000, "system": SYSTEM, "tools": TOOLS}
        messages = list(self.talk)
        users = [at for at, one in enumerate(messages) if one["role"] == "user"]
        for at in users[-2:]:
            messages[at] = marked(messages[at])
        return {**fields, "stream": self.streams, "messages": messages}

    def _content(self, response: httpx.Response) -> list[Message]:
        if not self.streams:
            return list(response.json()["content"])
        lines = response.text.splitlines()
        events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
        return list(assemble(events)["content"])


@dataclass
class ResponsesAgent(Agent):
    """The same over OpenAI's responses, with nothing kept there, as Codex calls them."""

    path: ClassVar[str] = "/v1/responses"
    headers: ClassVar[dict[str, str]] = {"authorization": "Bearer k"}
    model: str = "gpt-5.5"

    def repeated(self, content: list[Message]) -> list[Message]:
        return content

    def request(self) -> dict[str, Any]:
        fields = {"model": self.model, "instructions": SYSTEM[1]["text"], "store": False}
        include = ["reasoning.encrypted_content"]
        return {**fields, "include": include, "stream": self.streams, "input": list(self.talk)}

    def _content(self, response: httpx.Response) -> list[Message]:
        if not self.streams:
            return list(response.json()["output"])
        lines = response.text.splitlines()
        events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
        return list(assemble(events)["output"])


def marked(message: Message) -> Message:
    """The message with a cache mark on its last block."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    *rest, last = content
    return {**message, "content": [*rest, {**last, "cache_control": MARK}]}


def turns(messages: list[Message]) -> Iterator[tuple[list[Message], list[Message]]]:
    """A recorded list as what was said, and what was answered to it."""
    said: list[Message] = []
    answer: list[Message] = []
    for message in messages:
        if message["role"] == "assistant":
            blocks = message["content"]
            answer += [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            continue
        if answer:
            yield said, list(map(unsigned, answer))
            said, answer = [], []
        said.append(message)
    if answer:
        yield said, list(map(unsigned, answer))


def item_turns(items: list[Message]) -> Iterator[tuple[list[Message], list[Message]]]:
    """The same for a list of items. Calls of tools that the provider runs itself are left out:
    their results are not in the record."""
    said: list[Message] = []
    answer: list[Message] = []
    for item in map(unsigned, items):
        if item.get("type") in HOSTED:
            continue
        if is_answer(item):
            answer.append(item)
            continue
        if answer:
            yield said, answer
            said, answer = [], []
        said.append(item)
    if answer:
        yield said, answer


HOSTED = ("web_search_call", "tool_search_call", "tool_search_output")
_SEALED = frozenset(
    {"signature", "encrypted_content", "internal_chat_message_metadata_passthrough"}
)


def unsigned(block: Message) -> Message:
    """A block or item without what the upstream makes itself: signatures, seals, ids of items."""
    is_item = "call_id" in block or block.get("type") in ("reasoning", "message")
    left_out = _SEALED | {"id", "status"} if is_item else _SEALED
    return {key: value for key, value in block.items() if key not in left_out}


def tool_loop(count: int, chars: int = 3_000) -> list[Message]:
    """A made-up session with thinking before every call."""
    messages: list[Message] = [{"role": "user", "content": "Find out why the login fails."}]
    for number in range(count):
        id = f"toolu_{number:04d}"
        use = {"type": "tool_use", "id": id, "name": "Read", "input": {"path": f"f{number}.py"}}
        thought = {"type": "thinking", "thinking": f"I look at file {number}."}
        text = f"file {number}\n" + f"def function_{number}(): return {number}\n" * (chars // 30)
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        messages += [
            {"role": "assistant", "content": [thought, use]},
            {"role": "user", "content": [result]},
        ]
    return [*messages, {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}]
