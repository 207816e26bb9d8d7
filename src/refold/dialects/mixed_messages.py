"""Messages of mixed form: calls and results spelled one provider's way, the rest another's.

Gateways and converters produce them: `tool_calls` of Chat Completions with content blocks of
Anthropic, for example. The parts of each spelling are read by their own dialect, and the blocks are
joined, so no call and no result is lost; the message belongs to the dialect of its thinking.
Neighbour: `dialects` asks here before it chooses one dialect for a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from refold import dialects
from refold.core.call_arguments import arguments_object
from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.dialects.input import checked_message, plain, refused, text_in, without_marks

_CHAT, _ITEMS, _BLOCKS, _PARTS = "openai_chat", "openai_responses", "anthropic", "gemini"
MIXED = "mixed"
_ID = "tool_call_id"
# Fields of a Chat Completions message that hold a call, or name the call it answers.
_FIELDS = ("tool_calls", "function_call", _ID)
_KEYS = ("functionCall", "function_call", "functionResponse", "function_response")
_BLOCK_KINDS = ("tool_use", "tool_result")
_ITEM_KINDS = tuple(
    f"{kind}{end}" for kind in ("function_call", "custom_tool_call") for end in ("", "_output")
)
_CARRIERS = {_PARTS, *_BLOCK_KINDS, *_ITEM_KINDS}


def owner_of(wire: Mapping[str, Any]) -> str | None:
    """The dialect of a message's calls and results; `MIXED` if they are spelled in more than one
    way, or otherwise than its other parts; None if there are none."""
    content, parts = wire.get("content"), wire.get("parts")
    has_fields = any(map(wire.get, _FIELDS))
    listed = content if isinstance(content, list) else []
    called = parts if isinstance(parts, list) and (has_fields or "content" in wire) else []
    has_parts = any(_kind(part) == _PARTS for part in called)
    if not has_fields and not has_parts and _CARRIERS.isdisjoint(map(_kind, listed)):
        return None
    owners = {owner for owner in map(_owner, listed) if owner}
    owners |= ({_CHAT} if has_fields else set()) | ({_PARTS} if has_parts else set())
    if owners in ({_CHAT}, {_BLOCKS}):
        return owners.pop()
    return MIXED


def joined(wire: Any) -> list[Message]:
    """The messages in a mixed message."""
    return _Joined(checked_message(plain(wire))).messages()


def _kind(part: Any) -> str:
    """The type of a part; the name of Gemini's dialect for a call or result in its spelling."""
    if not isinstance(part, Mapping):
        return ""
    kind = part.get("type")
    if isinstance(kind, str):
        return kind
    return _PARTS if any(key in part for key in _KEYS) else ""


def _owner(part: Any) -> str:
    """The dialect that reads a part; empty if every dialect does."""
    kind = _kind(part)
    if kind in ("", "text", _PARTS):
        return _PARTS if kind == _PARTS else ""
    if kind in _ITEM_KINDS:
        return _ITEMS
    if kind == "thinking" and not isinstance(part.get("thinking"), str):
        return ""
    alone = {"role": "user", "content": [without_marks(part)]}
    return dialects.dialect_of(alone) or ""


def _readable(block: Block) -> Block:
    """The block; a call of the old kind, which has no id, as its text."""
    return Text(block.text) if isinstance(block, Opaque) and block.text else block


class _Joined:
    """The blocks of one mixed message, and the dialect of its thinking."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self.wire, self.dialect = wire, _CHAT
        self.blocks: list[Block] = []

    def messages(self) -> list[Message]:
        """The message, followed by the results that an answer had along with its calls."""
        content, parts = self.wire.pop("content", None), self.wire.pop("parts", None)
        is_answer = self.wire["role"] in ("assistant", "model")
        role = "assistant" if is_answer else "user"
        if isinstance(content, str) and content:
            self.add([Text(content)])
        for owner, run in groupby(content if isinstance(content, list) else (), _owner):
            self.read(owner, role, list(run))
        if isinstance(parts, list):
            self.read(_PARTS, role, parts)
        metadata = self.wire.pop("metadata", None)
        calls = self.wire.get("tool_calls") or self.wire.get("function_call")
        if calls and not is_answer:
            raise refused("the calls of a message that is not an answer", calls, "an answer")
        if call := text_in(self.wire, _ID):
            self.answer(call)
        elif is_answer:
            self.beside()
        results = [block for block in self.blocks if isinstance(block, ToolResult)]
        said = [block for block in self.blocks if not (is_answer and block in results)]
        if not is_answer:
            kind: Role = "tool" if results == said else "user"
            return [self.made(kind, said, metadata)]
        answers = [Message(role="tool", blocks=(one,), dialect=_CHAT) for one in results]
        return [self.made("assistant", said, metadata), *answers]

    def made(self, role: Role, blocks: list[Block], metadata: Any) -> Message:
        """A message of these blocks."""
        kept = metadata if isinstance(metadata, dict) else {}
        return Message(role=role, blocks=tuple(blocks), dialect=self.dialect, metadata=kept)

    def read(self, owner: str, role: str, parts: list[Any]) -> None:
        """Reads consecutive parts by their dialect."""
        reader = dialects.dialect(owner or _CHAT)
        if owner == _ITEMS:
            items = [part for part in parts if _kind(part) in _ITEM_KINDS]
            others = [part for part in parts if part not in items]
            wires = [*([{"role": role, "content": others}] if others else []), *items]
        elif owner == _PARTS:
            wires = [{"role": "model" if role == "assistant" else "user", "parts": parts}]
        else:
            wires = [{"role": role, "content": parts}]
        for wire in wires:
            for message in reader.parse(wire):
                self.take(message)

    def take(self, message: Message) -> None:
        """Adds the blocks of a message."""
        if any(isinstance(block, Thinking) for block in message.blocks):
            self.dialect = message.dialect
        self.add(message.blocks)

    def beside(self) -> None:
        """Adds the fields of an answer outside its content; thinking only if the content has
        none."""
        answers = dialects.dialect(_CHAT).parse({**self.wire, "role": "assistant", "content": None})
        blocks = [_readable(block) for answer in answers for block in answer.blocks]
        if not any(isinstance(block, Thinking) for block in self.blocks):
            self.blocks[:0] = [block for block in blocks if isinstance(block, Thinking)]
        self.add([block for block in blocks if not isinstance(block, Thinking)])

    def add(self, blocks: Iterable[Block]) -> None:
        """Adds blocks, without calls and results that are repeated in another spelling."""
        for block in blocks:
            if not isinstance(block, ToolCall | ToolResult) or not self.repeats(block):
                self.blocks.append(block)

    def repeats(self, block: ToolCall | ToolResult) -> bool:
        """Whether a call or result is there already. If one of the two lacks arguments or content,
        they are taken from the other."""
        for index, there in enumerate(self.blocks):
            if (
                isinstance(block, ToolCall)
                and isinstance(there, ToolCall)
                and ((block.id, block.name) == (there.id, there.name))
            ):
                old, new = arguments_object(there), arguments_object(block)
                if old == {}:
                    self.blocks[index] = block
                if old == {} or new == {} or (old == new and old is not None):
                    return True
            if isinstance(block, ToolResult) and isinstance(there, ToolResult):
                is_same = block.call == there.call
                if is_same and (not block.content or block.content == there.content):
                    return True
        return False

    def answer(self, call: str) -> None:
        """Turns everything in the message but its results into the content of a result."""
        results = [block for block in self.blocks if isinstance(block, ToolResult)]
        for block in self.blocks:
            if isinstance(block, ToolCall | Thinking):
                kind = "a tool call" if isinstance(block, ToolCall) else "thinking"
                accepted = "text or media; only an answer has calls and thinking: this"
                raise refused(f"{kind} in a tool's result", block, accepted)
        content = tuple(block for block in self.blocks if isinstance(block, Text | Media | Opaque))
        if content or call not in {result.call for result in results}:
            name, is_error = text_in(self.wire, "name"), self.wire.get("is_error") is True
            results.insert(0, ToolResult(call, content, is_error=is_error, name=name))
        self.blocks = [*results]
