"""Recorded sessions as the lists that their agents send: Anthropic's messages and OpenAI's items.

What was thought is sent too, sealed as the providers do: a seal of twice its length, as the raw
sessions have it. Neighbours: `proxied` sends these through the proxy.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from bench.sessions import Message

Wire = dict[str, Any]
# A model whose provider binds thinking to the front, as that of most clients does.
CLAUDE, CODEX = "claude-opus-5-5", "gpt-5.5"
TOOLS = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}]
FUNCTIONS = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
SEAL_RATIO = 2


class Talk(ABC):
    """What an agent has said and heard; its system prompt apart."""

    path: bytes
    key: str

    def __init__(self, *, thinks: bool = False) -> None:
        self.thinks = thinks
        self.system: list[Message] = []
        self.wires: list[Wire] = []

    def take(self, message: Message) -> None:
        """Takes the next message of a recorded session."""
        if message["role"] == "system" and not self.wires:
            self.system.append(message)
        else:
            self._take(message)

    @property
    def system_text(self) -> str:
        return "\n\n".join(one["content"] for one in self.system)

    def body(self) -> bytes:
        """The call for the next answer."""
        return json.dumps({**self._fields(), self.key: self.wires}).encode()

    def _thought(self, message: Message) -> str:
        return str(message.get("reasoning") or "") if self.thinks else ""

    @abstractmethod
    def _take(self, message: Message) -> None: ...

    @abstractmethod
    def _fields(self) -> Wire: ...


class MessagesTalk(Talk):
    """As Claude Code calls Anthropic."""

    path, key = b"/anthropic/v1/messages", "messages"

    def _fields(self) -> Wire:
        return {"model": CLAUDE, "max_tokens": 8_000, "system": self.system_text, "tools": TOOLS}

    def _take(self, message: Message) -> None:
        """Results of one answer are one message."""
        blocks = list(self._blocks(message))
        last = self.wires[-1]["content"][-1] if self.wires else {}
        if message["role"] == "tool" and last.get("type") == "tool_result":
            content = [*self.wires[-1]["content"], *blocks]
            self.wires[-1] = {"role": "user", "content": content}
        elif blocks:
            role = "assistant" if message["role"] == "assistant" else "user"
            self.wires.append({"role": role, "content": blocks})

    def _blocks(self, message: Message) -> Iterator[Wire]:
        content = message.get("content") or ""
        if message["role"] == "tool":
            call = message["tool_call_id"]
            yield {"type": "tool_result", "tool_use_id": call, "content": content}
            return
        if thought := self._thought(message):
            yield {"type": "thinking", "thinking": thought, "signature": sealed(thought)}
        if content:
            yield {"type": "text", "text": content}
        for call in message.get("tool_calls") or ():
            yield {"type": "tool_use", "id": call["id"], "name": call["name"], "input": given(call)}


class ItemsTalk(Talk):
    """As Codex calls OpenAI."""

    path, key = b"/openai/v1/responses", "input"

    def _fields(self) -> Wire:
        said = {"model": CODEX, "instructions": self.system_text, "tools": FUNCTIONS}
        return {**said, "store": False, "include": ["reasoning.encrypted_content"]}

    def _take(self, message: Message) -> None:
        content = message.get("content") or ""
        if message["role"] == "tool":
            call = message["tool_call_id"]
            self.wires.append({"type": "function_call_output", "call_id": call, "output": content})
            return
        if thought := self._thought(message):
            parts = [{"type": "summary_text", "text": thought}]
            sealed_item = {"type": "reasoning", "summary": parts}
            self.wires.append({**sealed_item, "encrypted_content": sealed(thought)})
        if content:
            kind = "output_text" if message["role"] == "assistant" else "input_text"
            said = [{"type": kind, "text": content}]
            self.wires.append({"type": "message", "role": message["role"], "content": said})
        for call in message.get("tool_calls") or ():
            asked = {"call_id": call["id"], "name": call["name"]}
            arguments = json.dumps(given(call))
            self.wires.append({"type": "function_call", **asked, "arguments": arguments})


def given(call: Message) -> Wire:
    """The arguments of a recorded call."""
    arguments = call["arguments"]
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def sealed(thought: str) -> str:
    return "S" * SEAL_RATIO * len(thought)


# --- and back ---


def spoken(wire: Wire) -> Iterator[Message]:
    """A message of Anthropic's in the measure's shape, results and what the user says each by
    itself."""
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
        whole = {"role": wire["role"], "content": "\n".join(texts)}
        yield {**whole, "tool_calls": calls} if calls else whole


def text_in(content: object) -> str:
    """The text of a result."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
