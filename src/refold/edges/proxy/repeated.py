"""The list of a body, read only as far as it is new.

An agent sends its whole list at every call, mostly beginning with the very bytes of the call
before. What was read of those is kept (`Begun`), and a body that begins with them is read from
there on; the messages before are the same objects again, so whoever compares lists sees at once how
much is old. A beginning ends between two messages of the list, and JSON itself proves it: closed
by `]}`, it is a body that has the list last. Whatever is unusual after it (a name twice, no list)
is read as a whole instead. Neighbours: `body` asks, `book` keeps what was begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from refold import decoding

Wire = dict[str, Any]
MARK = "cache_control"
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
    messages: list[Wire]
    marks: list[Placed]


class Listed(Struct, frozen=True):
    """A body as it was read: its fields in their order, each as its own bytes (the list empty); its
    messages without cache marks, and those; the list as it came, empty where a plain text was one;
    and what its next call may begin with."""

    fields: dict[str, Raw]
    messages: list[Wire]
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
    messages: list[Wire],
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
    body: bytes, key: str, raws: Sequence[Raw], messages: list[Wire], marks: list[Placed]
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


def _taken(raws: Sequence[Raw], first: int) -> tuple[list[Wire], list[Placed]] | None:
    """The messages without cache marks, which move at every call, and the marks, of each message
    the last; None if these are no messages."""
    messages: list[Wire] = []
    marks: list[Placed] = []
    for place, raw in enumerate(raws, start=first):
        message = msgspec.json.decode(raw)
        if not isinstance(message, dict):
            return None
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        found = [at for at, one in enumerate(blocks) if isinstance(one, dict) and MARK in one]
        if found:
            marks.append(Placed(place, found[-1], blocks[found[-1]][MARK]))
            message = {**message, "content": list(map(_without_mark, blocks))}
        messages.append(message)
    return messages, marks


def _without_mark(block: Any) -> Any:
    if not isinstance(block, dict) or MARK not in block:
        return block
    return {key: value for key, value in block.items() if key != MARK}


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
    messages: list[Wire],
    marks: Iterable[Placed],
) -> Begun:
    kept = [mark for mark in marks if mark.place < len(messages)]
    return Begun(raw, list_at, key, fields, messages, kept)
