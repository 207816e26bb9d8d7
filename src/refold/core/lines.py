"""An event as one line of JSON, and back: what files, exports and HTTP bodies hold.

The body's bytes stand in the line as they are, so that its digest can be checked. Neighbours:
`codec` makes the bytes, `stores.lines` puts lines together into batches.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from refold import decoding
from refold.core import codec
from refold.core.model import Event
from refold.errors import Corrupt, Invalid


class _Line(msgspec.Struct, kw_only=True):
    v: int
    seq: int
    id: str
    at_ms: int
    by: str
    kind: str
    salt: str
    digest: str
    chain: str
    tokens: int = 0
    counter: str = ""
    body: msgspec.Raw


_LINES = decoding.decoder(_Line)


def to_line(event: Event) -> bytes:
    """The event as one line of JSON, without the newline. The body's bytes stand in it
    untouched."""
    line = _Line(
        v=codec.FORMAT,
        seq=event.seq,
        id=event.id,
        at_ms=event.at_ms,
        by=event.by,
        kind=event.kind,
        salt=event.salt.hex(),
        digest=event.digest.hex(),
        chain=event.chain.hex(),
        tokens=event.tokens,
        counter=event.counter,
        body=msgspec.Raw(b"null" if event.erased else event.body),
    )
    return codec.ENCODE(line)


def from_line(line: bytes) -> Event:
    """The event that a line holds. The body is taken as the exact bytes that stand there."""
    try:
        return _event_of(_LINES.decode(line))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not an event: {error}", hint=codec.REPAIR) from error


def from_lines(lines: bytes) -> list[Event]:
    """The same for many lines at once, which costs less. Corrupt if one of them is no event."""
    try:
        return [_event_of(read) for read in _LINES.decode_lines(lines)]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Corrupt(f"not all are events: {error}", hint=codec.REPAIR) from error


def _event_of(read: _Line) -> Event:
    if read.v > codec.FORMAT:
        raise Invalid(
            f"format version {read.v}, this refold reads up to {codec.FORMAT}",
            hint="upgrade refold",
        )
    if not codec.EVENT_ID.fullmatch(read.id):
        UUID(read.id)  # there are other spellings, and texts that are none
    salt, body = bytes.fromhex(read.salt), bytes(read.body)
    return Event(
        seq=read.seq,
        id=read.id,
        at_ms=read.at_ms,
        by=read.by,
        kind=read.kind,
        body=body if salt else b"",
        salt=salt,
        digest=bytes.fromhex(read.digest),
        chain=bytes.fromhex(read.chain),
        tokens=read.tokens,
        counter=read.counter,
    )
