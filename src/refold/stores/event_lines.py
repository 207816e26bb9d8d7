"""Events as lines of JSON, in the batches of a file or of an HTTP body.

A space before the end of a line says that its batch continues on the next line. JSON ignores it,
and it shows whether lines are missing at the end of a batch after a kill or a power loss. A body
that is not one line of JSON is stored as base64 in a separate field. Neighbours: `core.codec` has
the form of one line, `files.log` finds lines in a file, `remote` sends them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.core import codec
from refold.core.codec import from_line, from_lines, to_line
from refold.core.model import Event
from refold.errors import Corrupt, Invalid

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
            f"not storable: {error}", hint="use text without surrogates, and 64-bit numbers"
        ) from error
    line = envelope[:-1] + b',"bytes":"' + base64.b64encode(event.body) + b'"}'
    if not _reads_back(line, event):
        raise Invalid(
            f"event {event.seq} is not storable",
            hint="its id must be a UUID, its numbers must fit in 64 bits",
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
        # A base64 body comes with an empty body; without an empty one, the batch is not searched
        # for it.
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
