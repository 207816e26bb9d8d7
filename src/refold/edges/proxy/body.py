"""The body of a known call: its list of messages parsed, and every other field as the client's own
bytes; and the answer, in the form in which the client will repeat it.

Only the top level is parsed. An agent sends its whole list at every call, mostly with the very
bytes of the call before: the beginning is kept (`Begun`), and only the rest of a body is read; the
messages before are the same objects, so comparing lists is cheap. A beginning ends between two
messages, and JSON itself proves it: closed by `]}`, it is a valid body with the list last. A body
that names state kept by the provider is not a whole conversation, and is not read. Only a whole
answer counts, one that the provider ended itself. Neighbours: `upstream` recognizes the call,
`conversation_registry` keeps beginnings, `page` brings another list, `savings` holds the copy of
the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from refold import decoding
from refold.dialects import assemble, tool_calls
from refold.dialects.streams import joined_parts
from refold.dialects.wire import objects_in
from refold.edges.endpoints.client import objects
from refold.errors import RefoldError

if TYPE_CHECKING:
    from refold.edges.proxy.upstream import Target

Wire = dict[str, Any]
REPEATED_MARK = "cache_control"
MOVING = 8  # clients move their cache marks among the last messages
_SPACE = b" \t\r\n"
_EMPTY = Raw(b"[]")
_fields_of = decoding.decoder(dict[str, Raw]).decode
_raws_of = decoding.decoder(list[Raw]).decode


class Placed(Struct, frozen=True):
    """A cache mark: its message, its block, and its value."""

    place: int
    block: int
    says: Any


class Begun(Struct, frozen=True):
    """The bytes of a body up to the end of a message of its list, which begins at `list_at`, with
    the fields before the list and the messages without marks."""

    raw: bytes
    list_at: int
    key: str
    fields: dict[str, Raw]
    messages: list[Wire]
    marks: list[Placed]


class Listed(Struct, frozen=True):
    """A parsed body: its fields in their order, each as its own bytes (the list empty), its
    messages without cache marks, the marks, the list as it came (empty if it was plain text), and
    the beginning that its next call may share."""

    fields: dict[str, Raw]
    messages: list[Wire]
    marks: list[Placed]
    came: memoryview
    begun: Begun | None = None


def read(body: bytes, key: str, known: Iterable[Begun] = ()) -> Listed | None:
    """The body with a list under this key; None if it has none. Raises msgspec's errors for a body
    that is not JSON."""
    fitting = [one for one in known if one.key == key and body.startswith(one.raw)]
    longest = max(fitting, key=lambda one: len(one.raw), default=None)
    found = None if longest is None else _read_on(body, longest)
    return found or _read_whole(body, key)


# --- the rest of a body after a known beginning ---


def _read_on(body: bytes, begun: Begun) -> Listed | None:
    """The body, read from the end of a known beginning; None if the rest is unusual."""
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
    found = _parsed_messages(raws, len(begun.messages))
    if found is None:
        return None
    messages, marks = begun.messages + found[0], begun.marks + found[1]
    rest_at = len(body) - len(rest)
    ends_at = rest_at + len(listed) - 1  # its `[` is not part of the rest
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
    messages: list[Wire],
    marks: list[Placed],
) -> Begun:
    """The beginning that the next body may share: up to the first mark that may move."""
    steady = _steady(len(messages), marks)
    new = steady - len(before.messages)
    if new <= 0:
        return before
    beginning = body[: _end(body, raws[:new], rest_at)]
    return _beginning(
        beginning, before.list_at, before.key, before.fields, messages[:steady], marks
    )


# --- a whole body ---


def _read_whole(body: bytes, key: str) -> Listed | None:
    fields = _fields_of(body)
    if key not in fields:
        return None
    if bytes(fields[key]).startswith(b'"'):
        # Plain text is one user message.
        text = msgspec.json.decode(fields[key])
        return Listed(fields, [{"role": "user", "content": text}], [], memoryview(b""))
    try:
        raws = _raws_of(fields[key])
    except msgspec.ValidationError:
        return None
    found = _parsed_messages(raws, 0)
    if found is None:
        return None
    messages, marks = found
    begun = _proven(body, key, raws, messages, marks)
    return Listed({**fields, key: _EMPTY}, messages, marks, memoryview(fields[key]), begun)


def _proven(
    body: bytes, key: str, raws: Sequence[Raw], messages: list[Wire], marks: list[Placed]
) -> Begun | None:
    """The beginning that the next body may share, if its end is certain."""
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
    return _beginning(beginning, list_at, key, head, messages[:steady], marks)


# --- messages and marks ---


def _parsed_messages(raws: Sequence[Raw], first: int) -> tuple[list[Wire], list[Placed]] | None:
    """The messages without cache marks, which move at every call, and the last mark of each
    message; None if these are not messages."""
    messages: list[Wire] = []
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
    """The number of messages before the first one with a movable mark."""
    moving = (mark.place for mark in marks if mark.place >= length - MOVING)
    return min(moving, default=length)


def _end(body: bytes, raws: Iterable[Raw], start: int) -> int:
    """The end of the last of these messages; only a comma and space separate two."""
    for raw in raws:
        start = body.index(bytes(raw), start) + len(bytes(raw))
    return start


def _beginning(
    raw: bytes,
    list_at: int,
    key: str,
    fields: dict[str, Raw],
    messages: list[Wire],
    marks: Iterable[Placed],
) -> Begun:
    kept = [mark for mark in marks if mark.place < len(messages)]
    return Begun(raw, list_at, key, fields, messages, kept)


MARK = REPEATED_MARK

# The field of each dialect's messages, and the other fields that refold reads.
LISTS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
# Fields by which the provider keeps the conversation, or a part of it.
_ELSEWHERE = ("previous_response_id", "conversation", "thread", "cachedContent", "cached_content")
_NULL = b"null"
_NO_TOOLS = (_NULL, b"[]")
# Calls by which agents warm a cache or try a key.
_THROWN_AWAY = frozenset({"warmup", "quota", "count"})
_ANSWERING = frozenset({"assistant", "model"})


class Mark(Struct, frozen=True):
    """A cache mark of the client: its message, counted from the end, its block, and its value."""

    from_end: int
    block: int
    says: Any


class ParsedCall(Struct, frozen=True, kw_only=True):
    """A parsed call, its messages without cache marks. `is_native`: the provider is asked to
    shorten the list itself, so it is not folded here. `came` is the list as it came, with marks; in
    `fields` it is empty."""

    dialect: str
    model: str
    messages: list[Wire]
    marks: list[Mark]
    session: str
    size_bytes: int
    is_native: bool
    fields: dict[str, Raw]
    came: memoryview = memoryview(b"")
    begun: Begun | None = None  # the beginning that the next call may share
    retries: bool = False  # the client says that it retries

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
        """The body with other messages, already encoded; everything else as it came."""
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
    """The parsed call; None if it is not a whole conversation. A body with a known beginning is
    read from there on. Raises msgspec's errors for a body that is not JSON."""
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
    """Whether the list is the whole conversation: the provider keeps none of it."""
    if any(bytes(fields.get(name, Raw(_NULL))) != _NULL for name in _ELSEWHERE):
        return False
    return not any(one.get("type") == "item_reference" for one in messages)


def _whole_answers(contents: Sequence[Wire]) -> list[Wire]:
    """The contents, with an answer as one of them and its texts joined: clients repeat each chunk
    of a stream as a content or part of its own."""
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
    """A content of Gemini; in an answer, pieces of one text are joined."""
    parts = content.get("parts")
    if content.get("role") != "model" or not isinstance(parts, list) or len(parts) < 2:
        return content
    joined = joined_parts(objects_in(parts))
    return content if len(joined) == len(parts) else {**content, "parts": joined}


def _value(fields: Mapping[str, Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _is_native(fields: Mapping[str, Raw]) -> bool:
    """Whether the provider is asked for a compaction. Clearing old thinking, which some agents
    request at every call, does not count."""
    if _value(fields, "compaction"):
        return True
    management = _value(fields, "context_management")
    edits = management.get("edits") if isinstance(management, dict) else management
    kinds = (one.get("type") for one in edits or () if isinstance(one, dict))
    return any(str(kind).startswith("compact") for kind in kinds)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# --- answers ---


def is_answer(message: Wire) -> bool:
    """Whether the model wrote a message: by its role, or by the kind of an item without one."""
    role = message.get("role")
    if role is not None:
        return role in _ANSWERING
    kind = str(message.get("type", ""))
    return kind.endswith("_call") or kind in ("reasoning", "compaction", "message", "program")


def answered_upto(messages: Sequence[Wire]) -> int:
    """The number of messages up to the last answer. An answer at the very end does not count: it is
    the beginning of an answer that the client asks for."""
    end = len(messages)
    while end and is_answer(messages[end - 1]):
        end -= 1
    while end and not is_answer(messages[end - 1]):
        end -= 1
    return end


def has_one_answer(messages: Sequence[Wire]) -> bool:
    """Whether these are one answer and the messages after it, or no answer at all."""
    kinds = [is_answer(one) for one in messages]
    return kinds == sorted(kinds, reverse=True)


def begins(parsed: ParsedCall) -> bool:
    """Whether these are the first words of an agent: it has tools, and the call is not a
    throwaway."""
    if not parsed.has_tools or not parsed.messages or is_answer(parsed.messages[-1]):
        return False
    return _last_text(parsed.messages[-1]).strip().lower() not in _THROWN_AWAY


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
    """A whole answer, as messages of its dialect. `calls`: it calls tools, so it comes back with
    their results."""

    messages: list[Wire]
    calls: bool


def reply_of(copy: Copy, dialect: str) -> Reply | None:
    """The model's answer; None if it is incomplete or unreadable."""
    try:
        response = response_of(copy)
    except (RefoldError, msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None
    return reply_in(response, dialect)


def reply_in(response: Any, dialect: str) -> Reply | None:
    """The model's answer in a response that is parsed already, the provider's object as plain
    JSON."""
    try:
        messages = _MESSAGES[dialect](response)
        return Reply(messages, bool(tool_calls(response))) if messages else None
    except (RefoldError, LookupError, TypeError, AttributeError, ValueError):
        return None


def response_of(copy: Copy) -> Any:
    """The whole response, assembled if it came as a stream."""
    if copy.is_stream:
        return assemble(objects([copy.content]))
    said = decoding.foreign_value(copy.content)
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
