"""The events of a log that can still be read: damage in one place hides only what stands there.

Neighbours: `verifying` says what is wrong; `scanning`, `cleaning` and `purging` go on with what is
left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from refold.core.codec import decode
from refold.core.model import Artifact, Conversation, Event
from refold.errors import Corrupt
from refold.stores.protocol import Store

READ_EVENTS = 500
PAGE = 200


def readable(store: Store, about: Conversation, after: int = 0) -> Iterator[Event | Corrupt]:
    """Every event behind `after` up to the head, and the error in the place of one that cannot
    be read. Where two in a row fail for the very same reason, it is the whole log that does, and
    the walk ends."""
    if not about.head:
        # No log is empty: a list may have what asking for it finds to be damaged.
        about = yield from _known(store, about)
    reason = ""
    while after < about.head:
        last = min(after + READ_EVENTS, about.head)
        for event in _page(store, about.id, after, last):
            yield event
            if isinstance(event, Corrupt) and str(event) == reason:
                return
            reason = str(event) if isinstance(event, Corrupt) else ""
        after = last


def _known(store: Store, about: Conversation) -> Generator[Corrupt, None, Conversation]:
    try:
        return store.conversation(about.id)
    except Corrupt as error:
        yield error
        return about


def _page(store: Store, id: str, after: int, last: int) -> Iterator[Event | Corrupt]:
    """These events; around a damaged one, one by one."""
    try:
        yield from store.read(id, after=after, last=last, limit=READ_EVENTS)
    except Corrupt as error:
        if last == after + 1:
            yield error
            return
        for seq in range(after + 1, last + 1):
            yield from _page(store, id, seq - 1, seq)


def named_by(store: Store, about: Conversation, after: int = 0) -> tuple[list[Artifact], bool]:
    """The artifacts that the readable events name, and whether that is all: an event that cannot
    be read may name another."""
    found: list[Artifact] = []
    is_all = True
    for event in readable(store, about, after):
        try:
            body = (
                decode(event)
                if not isinstance(event, Corrupt) and event.kind == "artifact"
                else None
            )
        except Corrupt:
            body, is_all = None, False
        is_all &= not isinstance(event, Corrupt)
        found += [body] if isinstance(body, Artifact) else []
    return found, is_all


def events_of(store: Store, about: Conversation) -> Iterator[Event]:
    """The log up to the head that `about` speaks of, page by page."""
    after = 0
    while after < about.head:
        events = store.read(about.id, after=after, last=about.head, limit=READ_EVENTS)
        if not events:
            raise Corrupt(f"{about.id}: event {after + 1} is missing", hint="refold verify")
        yield from events
        after = events[-1].seq


def conversations(store: Store) -> Iterator[Conversation]:
    """All conversations by id, page by page."""
    after = ""
    while page := store.conversations(after=after, limit=PAGE):
        yield from page
        after = page[-1].id
