"""What was written into a memory, one change at a time, and how one is taken back.

A change is an event of the log. Taking it back is another event (`Revert`), which can be taken back
in turn; only what was forgotten is gone for good. Neighbours: `journal` has the log and obeys
reverts, `semantic` offers `log` and `revert`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Event, Memory, Revert
from refold.errors import Conflict, Invalid, NotFound
from refold.memory.journal import Journal

What = Literal[
    "stored", "changed", "ended", "waits", "rejected", "forgotten", "erased", "reverted", "unknown"
]
PAGE_EVENTS, EVENTS_MAX = 200, 100_000
LOG_HINT = "refold memory log has the numbers"


class MemoryChange(Struct, frozen=True, kw_only=True):
    """One event of a memory: what was done, to which entry, in which words. `replaces` are entries
    that it ends; `reverts` is the seq of a change that it takes back; `is_off` says that it was
    taken back itself."""

    seq: int
    at_ms: int
    by: str
    what: What
    scope: str = "project"
    entry: str = ""
    version: int = 0
    content: str = ""
    replaces: tuple[str, ...] = ()
    reverts: int = 0
    is_off: bool = False


def changes(journal: Journal, limit: int) -> Iterator[MemoryChange]:
    """The newest changes, the newest first. That an entry was forgotten takes several events, and
    is one change: the last of them."""
    forgotten: set[str] = set()
    for change in islice(_all_changes(journal), EVENTS_MAX):
        if change.what == "forgotten" and change.entry in forgotten:
            continue
        if not limit:
            return
        limit -= 1
        if change.what == "forgotten":
            forgotten.add(change.entry)
        yield change


def _all_changes(journal: Journal) -> Iterator[MemoryChange]:
    """What every event did, the newest first."""
    head = journal.entries().head
    while head > 0:
        first = max(0, head - PAGE_EVENTS)
        for event in reversed(journal.store.read(journal.id, after=first, last=head)):
            yield _change(journal, event)
        head = first


def _change(journal: Journal, event: Event) -> MemoryChange:
    body = None if event.erased else decode(event)
    memory = body if isinstance(body, Memory) else None
    return MemoryChange(
        seq=event.seq,
        at_ms=event.at_ms,
        by=event.by,
        what=_what(event, body),
        scope=journal.scope,
        entry=memory.entry if memory else "",
        version=memory.version if memory else 0,
        content=memory.content if memory else "",
        replaces=memory.replaces if memory else (),
        reverts=body.seq if isinstance(body, Revert) else 0,
        is_off=event.seq in journal.off,
    )


def _what(event: Event, body: object) -> What:
    if event.erased:
        return "erased"
    if isinstance(body, Revert):
        return "reverted"
    if not isinstance(body, Memory):
        return "unknown"
    if body.state == "forgotten":
        return "forgotten"
    if body.state == "rejected":
        return "rejected"
    if body.state == "waiting":
        return "waits"
    if body.closed:
        return "ended"
    return "stored" if body.version == 1 else "changed"


def _whose(scope: str) -> str:
    return f"the {scope}" if scope in ("project", "user") else scope


def revert(journal: Journal, seq: int) -> MemoryChange:
    """Takes back the change at a seq and gives it; Invalid if it cannot be taken back, Conflict if
    it was."""
    head = journal.entries().head
    if not 1 <= seq <= head:
        raise NotFound(
            f"there is no change {seq} in the memory of {_whose(journal.scope)}", hint=LOG_HINT
        )
    [event] = journal.store.read(journal.id, after=seq - 1, last=seq)
    change = _change(journal, event)
    if change.what in ("forgotten", "erased"):
        raise Invalid(f"change {seq} was forgotten, which cannot be undone", hint=LOG_HINT)
    if change.what == "unknown":
        raise Invalid(f"change {seq} is nothing that can be taken back", hint=LOG_HINT)
    if change.is_off:
        raise Conflict(f"change {seq} was taken back already", hint=LOG_HINT)
    journal.revert(seq)
    return change
