"""What the body of a known call says: its list of messages, and all else as the client's own bytes.

Only the top level is taken apart. To swap the list, every other field is written again as the very
bytes that came, in their order. A body that names a state kept by the provider (an earlier
response, a thread) is not a whole conversation, and is not read. Neighbours: `route` says which
call it is, `book` looks for the list, `page` brings another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from refold.edges.proxy.route import Target

Wire = dict[str, Any]

# Where a dialect has its messages, and what else refold reads.
LISTS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
# The provider keeps the conversation, or a part of it.
_ELSEWHERE = ("previous_response_id", "conversation", "thread", "cachedContent", "cached_content")
_NULL = b"null"
_NO_TOOLS = (_NULL, b"[]")
MARK = "cache_control"
# Calls of agents that are to warm a cache or try a key.
_THROWN_AWAY = frozenset({"warmup", "quota", "count"})
_ANSWERING = frozenset({"assistant", "model"})


class Mark(Struct, frozen=True):
    """A cache mark of the client: on which message, counted from the end, and which of its blocks,
    and what it says."""

    from_end: int
    block: int
    says: Any


class Asked(Struct, frozen=True, kw_only=True):
    """A call as it was read, its messages without cache marks. `is_native` says that the provider
    was asked to shorten the list itself: then it is not folded here."""

    dialect: str
    model: str
    messages: list[Wire]
    marks: list[Mark]
    session: str
    size_bytes: int
    is_native: bool
    fields: dict[str, Raw]

    @property
    def system(self) -> Any:
        return next((_value(self.fields, name) for name in _SYSTEM if name in self.fields), None)

    @property
    def tools(self) -> list[Any] | None:
        tools = _value(self.fields, "tools") if self.has_tools else None
        return tools if isinstance(tools, list) else None

    @property
    def has_tools(self) -> bool:
        return bytes(self.fields.get("tools", Raw(_NULL))).strip() not in _NO_TOOLS

    @property
    def beside(self) -> tuple[bytes, ...]:
        """The system prompt and the tools as they came."""
        names = (*_SYSTEM, "tools")
        return tuple(bytes(self.fields[name]) for name in names if name in self.fields)

    def with_list(self, encoded: Sequence[bytes]) -> bytes:
        """The body with other messages, each encoded already; everything else as it came."""
        key = LISTS[self.dialect]
        swapped = b"[" + b",".join(encoded) + b"]"
        return b"{" + b",".join(
            msgspec.json.encode(name) + b":" + (swapped if name == key else bytes(raw))
            for name, raw in self.fields.items()
        ) + b"}"  # fmt: skip


def asked_of(body: bytes, target: Target, session: str) -> Asked | None:
    """What a known call says; None for what is not a whole conversation. Raises what msgspec
    raises for a body that is no JSON."""
    assert target.known is not None
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    messages = _messages(fields, LISTS[target.known.dialect])
    if messages is None:
        return None
    plain, marks = _unmarked(messages)
    return Asked(
        dialect=target.known.dialect,
        model=target.model or _text(_value(fields, "model")),
        messages=plain,
        marks=marks,
        session=session,
        size_bytes=len(body),
        is_native=_is_native(fields),
        fields=fields,
    )


def _messages(fields: Mapping[str, Raw], key: str) -> list[Wire] | None:
    """The list, if it is the whole conversation."""
    if key not in fields:
        return None
    if any(bytes(fields.get(name, Raw(_NULL))) != _NULL for name in _ELSEWHERE):
        return None
    messages = _list_of(msgspec.json.decode(fields[key]))
    if messages is None or any(one.get("type") == "item_reference" for one in messages):
        return None
    return messages


def _value(fields: Mapping[str, Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _is_native(fields: Mapping[str, Raw]) -> bool:
    """Whether the provider is asked for a compaction. Clearing old thinking, which some agents ask
    for at every call, is none."""
    if _value(fields, "compaction"):
        return True
    management = _value(fields, "context_management")
    edits = management.get("edits") if isinstance(management, dict) else management
    kinds = (one.get("type") for one in edits or () if isinstance(one, dict))
    return any(str(kind).startswith("compact") for kind in kinds)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list_of(value: object) -> list[Wire] | None:
    """The messages; None if these are none. A plain text is one message of the user."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    return value


# --- cache marks ---


def _unmarked(messages: list[Wire]) -> tuple[list[Wire], list[Mark]]:
    """The list without cache marks, which move at every call, and where they were: of each message
    the last."""
    plain, marks = list(messages), []
    for place, message in enumerate(messages):
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        found = [at for at, one in enumerate(blocks) if isinstance(one, dict) and MARK in one]
        if found:
            marks.append(Mark(len(messages) - place, found[-1], blocks[found[-1]][MARK]))
            plain[place] = {**message, "content": list(map(_without_mark, blocks))}
    return plain, marks


def _without_mark(block: Any) -> Any:
    if not isinstance(block, dict) or MARK not in block:
        return block
    return {key: value for key, value in block.items() if key != MARK}


# --- who said it ---


def is_answer(message: Wire) -> bool:
    """Whether the model said this: by its role, or by the kind of an item that has none."""
    role = message.get("role")
    if role is not None:
        return role in _ANSWERING
    kind = str(message.get("type", ""))
    return kind.endswith("_call") or kind in ("reasoning", "compaction", "message", "program")


def answered_upto(messages: Sequence[Wire]) -> int:
    """How many messages the list has up to its last answer, which is not counted as one if
    nothing follows it: then it is the beginning of an answer that the client asks for."""
    end = len(messages)
    while end and is_answer(messages[end - 1]):
        end -= 1
    while end and not is_answer(messages[end - 1]):
        end -= 1
    return end


def has_one_answer(messages: Sequence[Wire]) -> bool:
    """Whether these are one answer and what came after it, or no answer at all."""
    kinds = [is_answer(one) for one in messages]
    return kinds == sorted(kinds, reverse=True)


def begins(asked: Asked) -> bool:
    """Whether these are the first words of an agent: it has tools, and something to say that is
    not sent to be thrown away."""
    if not asked.has_tools or not asked.messages or is_answer(asked.messages[-1]):
        return False
    return _last_text(asked.messages[-1]).strip().lower() not in _THROWN_AWAY


def _last_text(message: Wire) -> str:
    said = message.get("content") or message.get("parts")
    if isinstance(said, list):
        texts = [_text(one.get("text")) for one in said if isinstance(one, dict)]
        said = texts[-1] if texts else ""
    return _text(said)
