"""What every store checks before it touches anything, and what an operating system error means to a
caller.

A bad id, a gap in the events or a name that is no digest is refused here, so no store has to trust
its input further in. Neighbours: each store calls these at the door of its methods; `codec` knows
what a plain name is.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterable, Sequence

from refold.core import codec
from refold.core.model import Event, Meta
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable

SEQ_MAX = (1 << 40) - 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM}


def append_checked(
    conversation: str, events: Sequence[Event], expect: int, *, known: bool = False
) -> None:
    """Raises Invalid unless the events are those that follow head `expect`, one by one. The id
    of a conversation that is `known` was checked before."""
    if not known:
        codec.conversation_checked(conversation)
    if not 0 <= expect <= SEQ_MAX - len(events):
        raise Invalid(
            f"expect={expect} is not a head",
            hint="pass the seq of the newest event, 0 for a new log",
        )
    for seq, event in enumerate(events, expect + 1):
        if event.seq != seq:
            raise Invalid(
                f"event {event.seq} stands where {seq} belongs",
                hint="number events from expect + 1",
            )


def bounded(number: int) -> int:
    """The number, held between 0 and what a seq can be: a limit or an end beyond that means the
    same."""
    return min(max(0, number), SEQ_MAX)


def digest_checked(digest: str) -> str:
    """The digest itself, if it is a sha256 in lower-case hex."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Invalid(f"{digest!r} is not a digest", hint="64 hex digits, as `put` gave them")
    return digest


def now_ms() -> int:
    """The clock by which a store remembers when a content was put."""
    return time.time_ns() // 1_000_000


def title_in(events: Iterable[Event]) -> str | None:
    """The newest title that these events give the conversation, None if they do not speak of it."""
    title = None
    for event in events:
        if event.kind == "meta" and (found := _title(event)) is not None:
            title = found
    return title


def _title(event: Event) -> str | None:
    try:
        body = codec.decode(event)
    except Corrupt:
        # A store keeps what it is given, also a meta it cannot read: the fold is the one to
        # complain.
        return None
    return body.title if isinstance(body, Meta) else None


def unknown(conversation: str) -> NotFound:
    return NotFound(
        f"there is no conversation {conversation!r}", hint="refold list shows those there are"
    )


def moved(conversation: str, expect: int, head: int) -> Conflict:
    return Conflict(f"{conversation!r} is at event {head}, not at {expect}", head=head)


def taken(conversation: str, head: int) -> Conflict:
    return Conflict(
        f"there is a conversation {conversation!r} already", head=head, hint="choose another id"
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


def os_failure(error: OSError, doing: str) -> RefoldError:
    """The error of the family for a failed system call; raise it `from` the original."""
    reason = f"{doing}: {error.strerror or error}"
    if error.errno in _FULL:
        return Unavailable(reason, hint="free some space, then try again")
    if error.errno in _REFUSED:
        return Denied(
            reason,
            hint="the files of a store belong to the user who made it: check their owner and mode",
        )
    if error.errno == errno.EROFS:
        return Unavailable(
            reason, hint="the disk is read-only: reading works, writing needs another place"
        )
    return Unavailable(reason, hint="check the path and the disk, then try again")
