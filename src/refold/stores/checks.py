"""What every store checks before it touches anything, and the errors that all of them raise.

A gap in the events or a link of another user is refused here, so no store has to trust its input
further in. Neighbours: each store calls these first in its methods; `core.codec` knows what a plain
name and a digest are, `disk` what an error of the operating system means.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Sequence

from refold.checked import quoted
from refold.core import codec
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
