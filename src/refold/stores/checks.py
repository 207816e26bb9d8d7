"""The checks that every store runs first, and the errors that all stores raise.

A gap in the events or a symbolic link owned by another user is refused here, so the stores can
trust their input after that. Neighbours: `core.ids` checks ids and digests, `event_lines` writes
events as lines.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from refold.checked import checked, quoted
from refold.core import codec, ids
from refold.core.model import Event, Meta
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound
from refold.patterns import regex
from refold.stores.protocol import Store
from refold.system import posix

S = TypeVar("S")
SEQ_MAX = (1 << 40) - 1
_POSITION = regex(r"[1-9][0-9]{0,8}")


def checked_store(store: type[S]) -> type[S]:
    """Returns the class with arguments checked in every method of the store protocol. A number
    above the largest possible seq is valid: there is no such event."""

    for name, method in list(vars(store).items()):
        if name in vars(Store) and not name.startswith("_") and callable(method):
            setattr(store, name, checked(method, bounds_numbers=True))
    return store


def check_append(
    conversation: str, events: Sequence[Event], expect: int, *, known: bool = False
) -> None:
    """Raises Invalid unless the events follow head `expect` without a gap, none over its limit. The
    id of a `known` conversation has already been checked."""
    if not known:
        ids.conversation_checked(conversation)
    if not 0 <= expect <= SEQ_MAX - len(events):
        hint = "pass the seq of the newest event, 0 for a new log"
        raise Invalid(f"expect={expect} is not a head", hint=hint)
    for seq, event in enumerate(events, expect + 1):
        if event.seq != seq:
            message = f"expected event {seq}, got event {event.seq}"
            raise Invalid(message, hint="number events from expect + 1")
        if len(event.body) > codec.EVENT_BYTES_MAX:
            size = f"event {seq} has {len(event.body):,} bytes, over the limit"
            raise Invalid(size, hint="store large content as an artifact")


def refuse_link_of_another(path: str, found: os.stat_result) -> None:
    """Raises Denied for a symbolic link that another user could redirect."""
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, posix.user_id()):
        message = f"{path} is a symbolic link owned by user {found.st_uid}"
        raise Denied(message, hint="use the real path of the store")


def bounded(number: int) -> int:
    """The number, clamped to the range of a seq: a larger limit or end has the same effect."""
    return min(max(0, number), SEQ_MAX)


def stamp() -> str:
    """A unique name with the time. Two repairs may happen in the same millisecond."""
    return f"{now_ms()}-{secrets.token_hex(4)}"


def now_ms() -> int:
    """The current time in milliseconds."""
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
    """Whether exactly these events are already stored, by an append whose response was lost. The
    chain of an event covers all events before it."""
    return [event.chain for event in kept] == [event.chain for event in events]


# --- errors ---


def unknown(conversation: str) -> NotFound:
    # A user who means a position in the list may forget the "@".
    is_position = _POSITION.fullmatch(conversation)
    meant = f"for position {conversation} in the list, use @{conversation}; " if is_position else ""
    hint = f"{meant}refold list shows all conversations"
    return NotFound(f"there is no conversation {conversation!r}", hint=hint)


def moved(conversation: str, expect: int, head: int) -> Conflict:
    return Conflict(f"{conversation!r} is at event {head}, not at {expect}", head=head)


def written_meanwhile(conversation: str, head: int) -> Conflict:
    hint = "stop the agent that writes to it, then repair again"
    return Conflict(f"{conversation!r} was written to in the meantime", head=head, hint=hint)


def taken(conversation: str, head: int) -> Conflict:
    return Conflict(
        f"conversation {conversation!r} already exists", head=head, hint="choose another id"
    )


def forked(conversation: str, fork: str, head: int) -> Conflict:
    return Conflict(
        f"{conversation!r} is still used by its fork {fork!r}",
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
    message = f"this store has no content for {ids.artifact_id(digest)}"
    return NotFound(message, hint="refold verify shows what is missing")


def not_bytes(error: TypeError) -> Invalid:
    return Invalid(f"an artifact's content must be bytes: {error}", hint="encode text first")


def closed(url: str) -> Invalid:
    return Invalid(f"{url} is closed", hint="open the store again")


class TooNew(Invalid):
    """A newer refold wrote the data; a separate error class, so that a server can recognize it."""


class Encrypted(Denied):
    """Only a device with the key can read this; a retry is pointless. `said` is the message without
    the URL, for a server to show."""

    def __init__(self, conversation: str, key: str, url: str) -> None:
        self.said = f"{conversation} is encrypted with the key {quoted(key, 40)}"
        where = f"{self.said} in {url}, and this store was opened without it (&key=FILE)"
        hint = "copy the key file from a device that has it: hybrid:NEAR?far=FAR&key=FILE"
        super().__init__(where, hint=hint)


def too_new(path: str, version: int, newest: int) -> TooNew:
    message = f"{path} has version {version}; this refold reads versions up to {newest}"
    return TooNew(message, hint="upgrade refold")
