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
# The provider keeps the conversation, or a part of it, or makes it shorter itself.
_ELSEWHERE = ("previous_response_id", "conversation", "thread", "cachedContent", "cached_content")
_NATIVE = ("context_management", "compaction")
_NULL = b"null"
_ANSWERING = frozenset({"assistant", "model"})


class Asked(Struct, frozen=True, kw_only=True):
    """A call as it was read. `is_native` says that the provider was asked to shorten the list
    itself: then it is not folded here."""

    dialect: str
    model: str
    messages: list[Wire]
    system: Any
    tools: list[Any] | None
    session: str
    size_bytes: int
    is_native: bool
    fields: dict[str, Raw]

    @property
    def list_bytes(self) -> int:
        """How many bytes of the body are the list."""
        return len(bytes(self.fields[LISTS[self.dialect]]))

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
    raw = fields.get(LISTS[target.known.dialect])
    if raw is None or any(bytes(fields.get(name, Raw(_NULL))) != _NULL for name in _ELSEWHERE):
        return None
    messages = _list_of(msgspec.json.decode(raw))
    if messages is None or any(one.get("type") == "item_reference" for one in messages):
        return None
    tools = _value(fields, "tools")
    return Asked(
        dialect=target.known.dialect,
        model=target.model or _text(_value(fields, "model")),
        messages=messages,
        system=next((_value(fields, name) for name in _SYSTEM if name in fields), None),
        tools=tools if isinstance(tools, list) and tools else None,
        session=session,
        size_bytes=len(body),
        is_native=any(_value(fields, name) for name in _NATIVE),
        fields=fields,
    )


def _value(fields: Mapping[str, Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list_of(value: object) -> list[Wire] | None:
    """The messages; None if these are none. A plain text is one message of the user."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return None
    return value


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
