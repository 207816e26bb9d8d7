"""What the body of a known call says: its list of messages, and all else as the client's own bytes.

Only the top level is taken apart. To swap the list, every other field is written again as the very
bytes that came, in their order. A body that names a state kept by the provider (an earlier
response, a thread) is not a whole conversation, and is not read. Neighbours: `route` says which
call it is, `repeated` reads the list, `book` looks for it, `page` brings another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from refold.dialects.streams import joined_parts
from refold.dialects.wire import objects_in
from refold.edges.proxy import repeated
from refold.edges.proxy.repeated import Begun
from refold.edges.proxy.route import Target

Wire = repeated.Wire
MARK = repeated.MARK

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
    was asked to shorten the list itself: then it is not folded here. `came` is the list as it came,
    marks and all; in `fields` it is empty."""

    dialect: str
    model: str
    messages: list[Wire]
    marks: list[Mark]
    session: str
    size_bytes: int
    is_native: bool
    fields: dict[str, Raw]
    came: memoryview = memoryview(b"")
    begun: Begun | None = None  # what the next call may begin with
    retries: bool = False  # the client says that it asks again

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


def asked_of(
    body: bytes,
    target: Target,
    session: str,
    known: Iterable[Begun] = (),
    *,
    retries: bool = False,
) -> Asked | None:
    """What a known call says; None for what is not a whole conversation. A body that begins like
    one that is known is read from there on. Raises what msgspec raises for a body that is no
    JSON."""
    assert target.known is not None
    listed = repeated.read(body, LISTS[target.known.dialect], known)
    if listed is None or not _is_whole(listed.fields, listed.messages):
        return None
    length, messages = len(listed.messages), listed.messages
    if target.known.dialect == "gemini":
        messages = _whole_answers(messages)
    return Asked(
        dialect=target.known.dialect,
        model=target.model or _text(_value(listed.fields, "model")),
        messages=messages,
        marks=[Mark(length - mark.place, mark.block, mark.says) for mark in listed.marks],
        session=session,
        size_bytes=len(body),
        is_native=_is_native(listed.fields),
        fields=listed.fields,
        came=listed.came,
        begun=listed.begun,
        retries=retries,
    )


def _is_whole(fields: Mapping[str, Raw], messages: Sequence[Wire]) -> bool:
    """Whether the list is the whole conversation: nothing of it is kept by the provider."""
    if any(bytes(fields.get(name, Raw(_NULL))) != _NULL for name in _ELSEWHERE):
        return False
    return not any(one.get("type") == "item_reference" for one in messages)


def _whole_answers(contents: Sequence[Wire]) -> list[Wire]:
    """The contents, with an answer as one of them, and its texts in one piece: clients repeat each
    chunk of a stream as a content or as a part of its own."""
    whole: list[Wire] = []
    for content in contents:
        before = whole[-1] if whole else {}
        if content.get("role") == before.get("role") == "model":
            parts = [*objects_in(before.get("parts")), *objects_in(content.get("parts"))]
            whole[-1] = {**before, "parts": joined_parts(parts)}
        else:
            whole.append(in_one_piece(content))
    return whole


def in_one_piece(content: Wire) -> Wire:
    """A content of Gemini's; of an answer, pieces of one text as that text."""
    parts = content.get("parts")
    if content.get("role") != "model" or not isinstance(parts, list) or len(parts) < 2:
        return content
    joined = joined_parts(objects_in(parts))
    return content if len(joined) == len(parts) else {**content, "parts": joined}


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
