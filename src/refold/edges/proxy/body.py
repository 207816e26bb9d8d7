"""What the body of a known call says: its list of messages, and all else as the client's own bytes.

Only the top level is taken apart. To swap the list, every other field is written again as the very
bytes that came, in their order. A body that names a state kept by the provider (an earlier
response, a thread) is not a whole conversation, and is not read. Neighbours: `route` says which
call it is, `repeated` reads the list, `book` looks for it, `page` brings another.

The list of a body, read only as far as it is new.

An agent sends its whole list at every call, mostly beginning with the very bytes of the call
before. What was read of those is kept (`Begun`), and a body that begins with them is read from
there on; the messages before are the same objects again, so whoever compares lists sees at once how
much is old. A beginning ends between two messages of the list, and JSON itself proves it: closed
by `]}`, it is a body that has the list last. Whatever is unusual after it (a name twice, no list)
is read as a whole instead. Neighbours: `body` asks, `book` keeps what was begun.

The answer of a call, read from the copy of it: the messages that the client will hand over next.

Only a whole answer counts, one that the provider ended itself: what was cut off or refused, the
client may word as it likes. Neighbours: `usage` holds the copy, `observer` keeps the answer where
it may be the last of its session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from refold import decoding
from refold.dialects import assemble, tool_calls
from refold.dialects.streams import joined_parts
from refold.dialects.wire import objects_in
from refold.edges.endpoints.client import objects
from refold.edges.proxy.gate import Target
from refold.errors import RefoldError

RepeatedWire = dict[str, Any]
REPEATED_MARK = "cache_control"
MOVING = 8  # among so many last messages, clients move their cache marks
_SPACE = b" \t\r\n"
_EMPTY = Raw(b"[]")
_fields_of = decoding.decoder(dict[str, Raw]).decode
_raws_of = decoding.decoder(list[Raw]).decode


class Placed(Struct, frozen=True):
    """A cache mark: on which message, on which of its blocks, and what it says."""

    place: int
    block: int
    says: Any


class Begun(Struct, frozen=True):
    """The bytes of a body up to the end of a message of its list, which begins at `list_at`, and
    what they say: the fields before the list, and the messages, without marks."""

    raw: bytes
    list_at: int
    key: str
    fields: dict[str, Raw]
    messages: list[RepeatedWire]
    marks: list[Placed]


class Listed(Struct, frozen=True):
    """A body as it was read: its fields in their order, each as its own bytes (the list empty); its
    messages without cache marks, and those; the list as it came, empty where a plain text was one;
    and what its next call may begin with."""

    fields: dict[str, Raw]
    messages: list[RepeatedWire]
    marks: list[Placed]
    came: memoryview
    begun: Begun | None = None


def read(body: bytes, key: str, known: Iterable[Begun] = ()) -> Listed | None:
    """What a body says that has a list under this key; None if it has none. Raises what msgspec
    raises for a body that is no JSON."""
    fitting = [one for one in known if one.key == key and body.startswith(one.raw)]
    longest = max(fitting, key=lambda one: len(one.raw), default=None)
    found = None if longest is None else _read_on(body, longest)
    return found or _read_whole(body, key)


# --- the rest of a body ---


def _read_on(body: bytes, begun: Begun) -> Listed | None:
    """The body by what it has after a known beginning; None if that is unusual."""
    rest = body[len(begun.raw) :].lstrip(_SPACE)
    if rest[:1] == b",":
        rest = rest[1:].lstrip(_SPACE)
        if rest[:1] != b"{":
            return None
    elif rest[:1] != b"]":
        return None
    name = _unused_name(rest)
    text = b'{"%s":[%s' % (name.encode(), rest)
    try:
        after = _fields_of(text)
        listed = after.pop(name)
        raws = _raws_of(listed)
    except msgspec.DecodeError:
        return None
    if begun.key in after or not begun.fields.keys().isdisjoint(after):
        return None
    found = _taken(raws, len(begun.messages))
    if found is None:
        return None
    messages, marks = begun.messages + found[0], begun.marks + found[1]
    rest_at = len(body) - len(rest)
    ends_at = rest_at + len(listed) - 1  # its `[` is none of the rest
    return Listed(
        {**begun.fields, begun.key: _EMPTY, **after},
        messages,
        marks,
        memoryview(body)[begun.list_at : ends_at],
        _begun_on(begun, body, rest_at, raws, messages, marks),
    )


def _unused_name(rest: bytes) -> str:
    """A name that no field has."""
    name = "list"
    while b'"%s"' % name.encode() in rest:
        name += "_"
    return name


def _begun_on(
    before: Begun,
    body: bytes,
    rest_at: int,
    raws: Sequence[Raw],
    messages: list[RepeatedWire],
    marks: list[Placed],
) -> Begun:
    """What the next body may begin with: as far as no mark is expected to move."""
    steady = _steady(len(messages), marks)
    new = steady - len(before.messages)
    if new <= 0:
        return before
    beginning = body[: _end(body, raws[:new], rest_at)]
    return _cut(beginning, before.list_at, before.key, before.fields, messages[:steady], marks)


# --- a whole body ---


def _read_whole(body: bytes, key: str) -> Listed | None:
    fields = _fields_of(body)
    if key not in fields:
        return None
    if bytes(fields[key]).startswith(b'"'):
        # A plain text is one message of the user.
        text = msgspec.json.decode(fields[key])
        return Listed(fields, [{"role": "user", "content": text}], [], memoryview(b""))
    try:
        raws = _raws_of(fields[key])
    except msgspec.ValidationError:
        return None
    found = _taken(raws, 0)
    if found is None:
        return None
    messages, marks = found
    begun = _proven(body, key, raws, messages, marks)
    return Listed({**fields, key: _EMPTY}, messages, marks, memoryview(fields[key]), begun)


def _proven(
    body: bytes, key: str, raws: Sequence[Raw], messages: list[RepeatedWire], marks: list[Placed]
) -> Begun | None:
    """What the next body may begin with, if the place where that ends is certain."""
    steady = _steady(len(messages), marks)
    if not steady:
        return None
    beginning = body[: _end(body, raws[:steady], 0)]
    try:
        fields = _fields_of(beginning + b"]}")
        name, listed = fields.popitem()
        is_there = name == key and len(_raws_of(listed)) == steady
    except msgspec.DecodeError:
        return None
    if not is_there:
        return None
    head = {name: raw.copy() for name, raw in fields.items()}
    list_at = len(beginning) + 1 - len(listed)
    return _cut(beginning, list_at, key, head, messages[:steady], marks)


# --- parts of both ---


def _taken(raws: Sequence[Raw], first: int) -> tuple[list[RepeatedWire], list[Placed]] | None:
    """The messages without cache marks, which move at every call, and the marks, of each message
    the last; None if these are no messages."""
    messages: list[RepeatedWire] = []
    marks: list[Placed] = []
    for place, raw in enumerate(raws, start=first):
        message = msgspec.json.decode(raw)
        if not isinstance(message, dict):
            return None
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        found = [
            at for at, one in enumerate(blocks) if isinstance(one, dict) and REPEATED_MARK in one
        ]
        if found:
            marks.append(Placed(place, found[-1], blocks[found[-1]][REPEATED_MARK]))
            message = {**message, "content": list(map(_without_mark, blocks))}
        messages.append(message)
    return messages, marks


def _without_mark(block: Any) -> Any:
    if not isinstance(block, dict) or REPEATED_MARK not in block:
        return block
    return {key: value for key, value in block.items() if key != REPEATED_MARK}


def _steady(length: int, marks: Iterable[Placed]) -> int:
    """How many messages come before the first that has a mark which may move."""
    moving = (mark.place for mark in marks if mark.place >= length - MOVING)
    return min(moving, default=length)


def _end(body: bytes, raws: Iterable[Raw], start: int) -> int:
    """Where the last of these messages ends: between two there is nothing but a comma and space."""
    for raw in raws:
        start = body.index(bytes(raw), start) + len(bytes(raw))
    return start


def _cut(
    raw: bytes,
    list_at: int,
    key: str,
    fields: dict[str, Raw],
    messages: list[RepeatedWire],
    marks: Iterable[Placed],
) -> Begun:
    kept = [mark for mark in marks if mark.place < len(messages)]
    return Begun(raw, list_at, key, fields, messages, kept)


Wire = RepeatedWire
MARK = REPEATED_MARK

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


class ParsedCall(Struct, frozen=True, kw_only=True):
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
) -> ParsedCall | None:
    """What a known call says; None for what is not a whole conversation. A body that begins like
    one that is known is read from there on. Raises what msgspec raises for a body that is no
    JSON."""
    assert target.known is not None
    listed = read(body, LISTS[target.known.dialect], known)
    if listed is None or not _is_whole(listed.fields, listed.messages):
        return None
    length, messages = len(listed.messages), listed.messages
    if target.known.dialect == "gemini":
        messages = _whole_answers(messages)
    return ParsedCall(
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


def begins(asked: ParsedCall) -> bool:
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


_WHOLE = frozenset({"end_turn", "stop_sequence", "tool_use", "stop", "tool_calls", "STOP"})
_CHAT_FIELDS = ("role", "content", "tool_calls", "reasoning_content")


class Copy(Struct, frozen=True):
    """The bytes of an answer, unpacked."""

    content: bytes
    is_stream: bool


class Reply(Struct, frozen=True):
    """A whole answer, as messages of its dialect. `calls` says that it asks for tools, so that it
    comes back with what they gave."""

    messages: list[Wire]
    calls: bool


def reply_of(copy: Copy, dialect: str) -> Reply | None:
    """What the model said; None if it did not come to its end, or cannot be read."""
    try:
        response = response_of(copy)
    except (RefoldError, msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None
    return reply_in(response, dialect)


def reply_in(response: Any, dialect: str) -> Reply | None:
    """The same for a response that is read already: the provider's object as plain JSON."""
    try:
        messages = _MESSAGES[dialect](response)
        return Reply(messages, bool(tool_calls(response))) if messages else None
    except (RefoldError, LookupError, TypeError, AttributeError, ValueError):
        return None


def response_of(copy: Copy) -> Any:
    """The whole response, put together if it came as a stream."""
    if copy.is_stream:
        return assemble(objects([copy.content]))
    said = msgspec.json.decode(copy.content)
    return assemble(said) if isinstance(said, list) else said


def _of_anthropic(response: Any) -> list[Wire]:
    is_whole = response["stop_reason"] in _WHOLE and response["content"]
    return [{"role": "assistant", "content": response["content"]}] if is_whole else []


def _of_chat(response: Any) -> list[Wire]:
    [choice] = response["choices"]
    message = choice["message"]
    kept = {name: message[name] for name in _CHAT_FIELDS if message.get(name) is not None}
    return [kept] if choice["finish_reason"] in _WHOLE else []


def _of_responses(response: Any) -> list[Wire]:
    return list(response["output"]) if response["status"] == "completed" else []


def _of_gemini(response: Any) -> list[Wire]:
    [candidate] = response["candidates"]
    is_whole = candidate["finishReason"] in _WHOLE and candidate["content"]["parts"]
    return [in_one_piece(candidate["content"])] if is_whole else []


_MESSAGES = {
    "anthropic": _of_anthropic,
    "openai_chat": _of_chat,
    "openai_responses": _of_responses,
    "gemini": _of_gemini,
}
