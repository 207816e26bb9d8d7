"""The checks that every store makes first, the errors that all of them raise, and events as lines.

A gap in the events or a link of another user is refused here, so no store has to trust its input
further in. Events become the lines of a file or of an HTTP body: a space before the end of a line
says that its batch continues on the next line. JSON ignores it, and it shows whether lines are
missing at the end of a batch after a kill or a power loss. A body that is not one line of JSON is
stored as base64 beside it. Neighbours: `core.codec` knows plain names, digests and lines,
`files.log` finds lines, `remote` sends them.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.checked import NUMBER_MAX, checked, quoted
from refold.core import codec
from refold.core.codec import from_line, from_lines, to_line
from refold.core.model import Event, Meta
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound
from refold.stores.protocol import Store

S = TypeVar("S")
SEQ_MAX = (1 << 40) - 1
_POSITION = re.compile(r"[1-9][0-9]{0,8}")


def checked_store(store: type[S]) -> type[S]:
    """The class with its arguments checked in every method of a store. A number beyond every seq
    is one that no event has, not a wrong value."""

    def door(method: Callable[..., Any]) -> Callable[..., Any]:
        check = checked(method)

        @wraps(method)
        def call(*args: Any, **given: Any) -> Any:
            named = {name: _countable(value) for name, value in given.items()}
            return check(*map(_countable, args), **named)

        return call

    for name, method in list(vars(store).items()):
        if name in vars(Store) and not name.startswith("_") and callable(method):
            setattr(store, name, door(method))
    return store


def _countable(value: Any) -> Any:
    is_number = type(value) is int
    return min(max(-NUMBER_MAX, value), NUMBER_MAX) if is_number else value


def check_append(
    conversation: str, events: Sequence[Event], expect: int, *, known: bool = False
) -> None:
    """Raises Invalid unless the events follow head `expect` without a gap. The id of a `known`
    conversation was checked before."""
    if not known:
        codec.conversation_checked(conversation)
    if not 0 <= expect <= SEQ_MAX - len(events):
        hint = "pass the seq of the newest event, 0 for a new log"
        raise Invalid(f"expect={expect} is not a head", hint=hint)
    for seq, event in enumerate(events, expect + 1):
        if event.seq != seq:
            message = f"event {event.seq} is in the place of {seq}"
            raise Invalid(message, hint="number events from expect + 1")


def refuse_link_of_another(path: str, found: os.stat_result) -> None:
    """Raises Denied for a link that another user may point elsewhere."""
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        message = f"{path} is a link that belongs to user {found.st_uid}"
        raise Denied(message, hint="use the real path of the store")


def bounded(number: int) -> int:
    """The number, limited to the range of a seq: a limit or an end beyond it means the same."""
    return min(max(0, number), SEQ_MAX)


def stamp() -> str:
    """A unique name with the time: two repairs may happen in one millisecond."""
    return f"{now_ms()}-{secrets.token_hex(4)}"


def now_ms() -> int:
    """The clock for the time of a `put`."""
    return time.time_ns() // 1_000_000


def title_in(events: Iterable[Event]) -> str | None:
    """The newest title in these events; None without one."""
    title = None
    for event in events:
        if event.kind == "meta":
            # A store keeps every event, even an unreadable one: the fold reports it.
            with suppress(Corrupt):
                body = codec.decode(event)
                if isinstance(body, Meta) and body.title is not None:
                    title = body.title
    return title


def is_repeat(kept: Sequence[Event], events: Sequence[Event]) -> bool:
    """Whether exactly these events are stored already: a retry of an append whose answer was lost.
    The chain of an event covers all events before it."""
    return [event.chain for event in kept] == [event.chain for event in events]


# --- errors ---


def unknown(conversation: str) -> NotFound:
    # A user who means a position in the list may leave out the "@".
    is_position = _POSITION.fullmatch(conversation)
    meant = f"@{conversation} is the one at that place of the list; " if is_position else ""
    hint = f"{meant}refold list shows those there are"
    return NotFound(f"there is no conversation {conversation!r}", hint=hint)


def moved(conversation: str, expect: int, head: int) -> Conflict:
    return Conflict(f"{conversation!r} is at event {head}, not at {expect}", head=head)


def written_meanwhile(conversation: str, head: int) -> Conflict:
    hint = "stop the agent that writes to it, then repair again"
    return Conflict(f"{conversation!r} was written to in the meantime", head=head, hint=hint)


def taken(conversation: str, head: int) -> Conflict:
    return Conflict(
        f"the conversation {conversation!r} exists already", head=head, hint="choose another id"
    )


def forked(conversation: str, fork: str, head: int) -> Conflict:
    return Conflict(
        f"{conversation!r} is still read by its fork {fork!r}",
        head=head,
        hint=f"delete {fork!r} first, or keep both",
    )


def outside(conversation: str, at: int, head: int) -> Invalid:
    return Invalid(
        f"{conversation!r} has no event {at} to fork at", hint=f"choose a seq from 1 to {head}"
    )


def no_event(conversation: str, seq: int, head: int) -> NotFound:
    return NotFound(f"{conversation!r} has no event {seq}", hint=f"its events are 1 to {head}")


def no_artifact(digest: str) -> NotFound:
    message = f"this store has no content of {codec.artifact_id(digest)}"
    return NotFound(message, hint="refold verify says what is missing")


def not_bytes(error: TypeError) -> Invalid:
    return Invalid(f"an artifact is made of bytes: {error}", hint="encode text first")


def closed(url: str) -> Invalid:
    return Invalid(f"{url} is closed", hint="open the store again")


class TooNew(Invalid):
    """A newer refold wrote the data; an error of its own, so that a server can recognize it."""


class Encrypted(Denied):
    """Only a device with the key can read this; a retry is pointless. `said` is the message without
    the URL, for a server to show."""

    def __init__(self, conversation: str, key: str, url: str) -> None:
        self.said = f"{conversation} is encrypted with the key {quoted(key, 40)}"
        where = f"{self.said} in {url}, and this store has none (&key=FILE)"
        hint = "copy the key file from a device that has it: hybrid:NEAR?far=FAR&key=FILE"
        super().__init__(where, hint=hint)


def too_new(path: str, version: int, newest: int) -> TooNew:
    message = f"{path} has version {version}, this refold reads up to {newest}"
    return TooNew(message, hint="upgrade refold")


# --- events as lines ---

# The largest event in base64, and its envelope. A longer line is never read into memory.
LINE_BYTES_MAX = 4 * codec.EVENT_BYTES_MAX // 3 + 64 * 1024
_BYTES = b'"body":null,"bytes":"'
_EMPTY = (b"null", b"")


class _Bytes(msgspec.Struct):
    bytes: str


def batch_of(events: Sequence[Event]) -> bytes:
    """The events as the lines of one batch."""
    return b" \n".join(map(line_of, events)) + b"\n"


def line_of(event: Event) -> bytes:
    """The event as one line, without the newline."""
    line = _encoded(event)
    if len(line) > LINE_BYTES_MAX:
        size = f"event {event.seq} has {len(line):,} bytes, over the limit of {LINE_BYTES_MAX:,}"
        raise Invalid(size, hint="store large content as an artifact")
    return line


def _encoded(event: Event) -> bytes:
    try:
        line = to_line(event)
        if b"\n" not in line and _reads_back(line, event):
            return line
        envelope = to_line(replace(event, body=b"null"))
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError) as error:
        raise Invalid(
            f"not storable: {error}", hint="text without surrogates, numbers of 64 bits"
        ) from error
    line = envelope[:-1] + b',"bytes":"' + base64.b64encode(event.body) + b'"}'
    if not _reads_back(line, event):
        raise Invalid(
            f"event {event.seq} is not storable", hint="its id is a UUID, its numbers have 64 bits"
        )
    return line


def _reads_back(line: bytes, event: Event) -> bool:
    try:
        return event_of(line) == event
    except Corrupt:
        return False


def event_of(line: bytes) -> Event:
    """The event in a line."""
    event = from_line(line)
    # With a null body the line is only the envelope, in which a quote is always escaped.
    if event.body in _EMPTY and _BYTES in line:
        try:
            body = base64.b64decode(decoding.decode(line, _Bytes).bytes, validate=True)
        except (msgspec.DecodeError, ValueError) as error:
            raise Corrupt(f"not an event: {error}", hint=codec.REPAIR) from error
        return replace(event, body=body)
    return event


def events_in(batch: bytes, *, most: int) -> list[Event]:
    """The events of a batch of lines. Corrupt, with the line number, if one is not an event;
    Invalid for more than `most`."""
    count = batch.count(b"\n") + (not batch.endswith(b"\n") and batch != b"")
    if count > most:
        raise Invalid(f"{count:,} events in one batch", hint=f"send at most {most:,}")
    with suppress(Corrupt):
        events = from_lines(batch)
        # A body in base64 is beside an empty one; only then is the batch searched for it.
        has_bytes = any(event.body in _EMPTY for event in events) and _BYTES in batch
        if len(events) == count and not has_bytes:
            return events
    # One by one, so that an error can name its line.
    events = []
    for number, line in enumerate(batch.removesuffix(b"\n").split(b"\n") if batch else [], 1):
        try:
            events.append(event_of(line))
        except Corrupt as error:
            raise Corrupt(f"line {number}: {error.message}", hint=error.hint) from error
    return events
