"""What every store checks before it touches anything, and the errors that all of them raise.

A gap in the events or a link of another user is refused here, so no store has to trust its input
further in. Neighbours: each store calls these first in its methods; `core.codec` knows what a plain
name and a digest are, `disk` what an error of the operating system means.

Events as lines of a file or of an HTTP body, and back.

A line is what `core.lines` gives. A space before the line's end says that its batch goes on with
the next line: JSON does not see it, and it shows whether lines are missing at the end of a batch,
whoever was killed and wherever the power was cut. A body that is not one line of JSON is carried in
base64 beside it. Neighbours: `files.log` writes and finds lines, `remote` sends them.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.core import codec
from refold.core.codec import from_line, from_lines, to_line
from refold.core.model import Event, Meta
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound

SEQ_MAX = (1 << 40) - 1
_PLACE = re.compile(r"[1-9][0-9]{0,8}")


def check_append(
    conversation: str, events: Sequence[Event], expect: int, *, known: bool = False
) -> None:
    """Raises Invalid unless the events are those that follow head `expect`, one by one. The id
    of a conversation that is `known` was checked before."""
    if not known:
        codec.conversation_checked(conversation)
    if not 0 <= expect <= SEQ_MAX - len(events):
        hint = "pass the seq of the newest event, 0 for a new log"
        raise Invalid(f"expect={expect} is not a head", hint=hint)
    for seq, event in enumerate(events, expect + 1):
        if event.seq != seq:
            said = f"event {event.seq} is in the place of {seq}"
            raise Invalid(said, hint="number events from expect + 1")


def refuse_link_of_another(path: str, found: os.stat_result) -> None:
    """Raises Denied for a link that another user may point elsewhere: it is not a place for a
    private log."""
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        said = f"{path} is a link that belongs to user {found.st_uid}"
        raise Denied(said, hint="use the real path of the store")


def bounded(number: int) -> int:
    """The number, held between 0 and what a seq can be: a limit or an end beyond that means the
    same."""
    return min(max(0, number), SEQ_MAX)


def stamp() -> str:
    """The time, and letters that make it a name nobody else has: two repairs may fall into one
    millisecond."""
    return f"{now_ms()}-{secrets.token_hex(4)}"


def now_ms() -> int:
    """The clock by which a store remembers when a content was put."""
    return time.time_ns() // 1_000_000


def title_in(events: Iterable[Event]) -> str | None:
    """The newest title that these events give the conversation; None if they give none."""
    title = None
    for event in events:
        if event.kind == "meta" and (given := _title_of(event)) is not None:
            title = given
    return title


def _title_of(event: Event) -> str | None:
    try:
        body = codec.decode(event)
    except Corrupt:
        # A store keeps what it is given, even a meta event that it cannot read: the fold is the one
        # to complain.
        return None
    return body.title if isinstance(body, Meta) else None


def is_repeat(kept: Sequence[Event], events: Sequence[Event]) -> bool:
    """Whether exactly these events are kept already: a retry of an append whose answer was lost.
    The chain of an event tells all that came before it."""
    return [event.chain for event in kept] == [event.chain for event in events]


# --- errors ---


def unknown(conversation: str) -> NotFound:
    # Whoever names a place in the list may leave out its mark.
    is_place = _PLACE.fullmatch(conversation)
    meant = f"@{conversation} is the one at that place of the list; " if is_place else ""
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
    said = f"this store has no content of {codec.artifact_id(digest)}"
    return NotFound(said, hint="refold verify says what is missing")


def not_bytes(error: TypeError) -> Invalid:
    return Invalid(f"an artifact is made of bytes: {error}", hint="encode text first")


def closed(url: str) -> Invalid:
    return Invalid(f"{url} is closed", hint="open the store again")


class TooNew(Invalid):
    """A newer refold wrote there; whoever shows this to somebody else can tell it apart."""


class Encrypted(Denied):
    """What only a device with a key can read; asked again, it is refused again. `said` names no
    place, for whoever shows it to somebody else."""

    def __init__(self, conversation: str, key: str, url: str) -> None:
        self.said = f"{conversation} is encrypted with the key {quoted(key, 40)}"
        where = f"{self.said} in {url}, and this store has none (&key=FILE)"
        hint = "copy the key file from a device that has it: hybrid:NEAR?far=FAR&key=FILE"
        super().__init__(where, hint=hint)


def too_new(path: str, version: int, newest: int) -> TooNew:
    said = f"{path} has version {version}, this refold reads up to {newest}"
    return TooNew(said, hint="upgrade refold")


# An event as large as it may be, carried in base64, and its envelope. No longer line is ever read
# whole.
LINE_BYTES_MAX = 4 * codec.EVENT_BYTES_MAX // 3 + 64 * 1024
_BYTES = b'"body":null,"bytes":"'
_EMPTY = (b"null", b"")


class _Bytes(msgspec.Struct):
    bytes: str


def batch_of(events: Sequence[Event]) -> bytes:
    """The events as the lines of one batch."""
    return b" \n".join(map(line_of, events)) + b"\n"


def line_of(event: Event) -> bytes:
    """The event as one line, without its end."""
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
    """The event that a line holds."""
    event = from_line(line)
    # Where the body is null, nothing but the envelope stands in the line, and there a quote is
    # always escaped.
    if event.body in _EMPTY and _BYTES in line:
        try:
            body = base64.b64decode(decoding.decode(line, _Bytes).bytes, validate=True)
        except (msgspec.DecodeError, ValueError) as error:
            raise Corrupt(f"not an event: {error}", hint=codec.REPAIR) from error
        return replace(event, body=body)
    return event


def events_in(batch: bytes, *, most: int) -> list[Event]:
    """The events of a batch of lines. Corrupt, with the number of the line, if one is not an event;
    Invalid if there are too many."""
    count = batch.count(b"\n") + (not batch.endswith(b"\n") and batch != b"")
    if count > most:
        raise Invalid(f"{count:,} events in one batch", hint=f"send at most {most:,}")
    with suppress(Corrupt):
        events = from_lines(batch)
        if len(events) == count and not _has_bytes_beside(events, batch):
            return events
    return _each_event(batch.removesuffix(b"\n").split(b"\n") if batch else [])


def _has_bytes_beside(events: Sequence[Event], batch: bytes) -> bool:
    """Whether a body may stand in base64 beside its event. The batch is looked through only where
    an event leaves room for it."""
    return any(event.body in _EMPTY for event in events) and _BYTES in batch


def _each_event(lines: Sequence[bytes]) -> list[Event]:
    """One by one, so that an error can name its line."""
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(event_of(line))
        except Corrupt as error:
            raise Corrupt(f"line {number}: {error.message}", hint=error.hint) from error
    return events
