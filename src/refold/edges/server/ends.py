"""How logs end: what an append must continue.

A log that cannot be verified is not taken in, so every append is checked against the chain of the
event before it. Most appends go on from one that this process wrote a moment ago, whose chain it
remembers; else the store is asked. Neighbours: `logs` and `commit` ask before they append.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from refold.core.codec import continues, first_unsealed
from refold.core.model import Conversation, Event
from refold.errors import Conflict, Invalid, NotFound
from refold.log.reading import chain_at
from refold.stores.protocol import Store

KEPT_MAX = 10_000
# Another server may delete a log and begin it anew; what is remembered does not live long.
KEPT_S = 60.0


class Ends:
    """The ends of the logs of one store, as far as this process wrote them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, bytes, float]] = {}

    def check(self, id: str, events: Sequence[Event], expect: int) -> None:
        """Conflict if the log has moved and the events were not sealed on top of its event
        `expect`; Invalid if they are not a part of any log."""
        before = self._remembered(id, expect)
        if before is None or first_unsealed(events, before) is not None:
            self._check_with_store(id, events, expect)

    def _remembered(self, id: str, expect: int) -> bytes | None:
        head, chain, at = self._known.pop(id, (0, b"", 0.0))
        return chain if head == expect and time.monotonic() - at < KEPT_S else None

    def _check_with_store(self, id: str, events: Sequence[Event], expect: int) -> None:
        try:
            about = self._store.conversation(id)
        except NotFound:
            about = Conversation(id=id, head=0, chain=bytes(16))
        moved = Conflict(f"{id!r} is at event {about.head}, not at {expect}", head=about.head)
        if expect > about.head:
            raise moved
        before = chain_at(self._store, about, expect)
        if events and expect < about.head and not continues(events[0], before):
            raise moved
        check_chain(events, before)

    def keep(self, id: str, events: Sequence[Event]) -> None:
        """Remembers how a log ends after an append."""
        if events and len(self._known) < KEPT_MAX:
            self._known[id] = events[-1].seq, events[-1].chain, time.monotonic()
        elif events:
            self._known.clear()

    def forget(self) -> None:
        self._known.clear()


def check_chain(events: Sequence[Event], before: bytes) -> None:
    """Invalid if the events do not continue one another and the chain before them, or have other
    bodies than were sealed."""
    wrong = first_unsealed(events, before)
    if wrong is not None:
        said = f"event {wrong.seq} is not what was sealed on top of the one before it"
        raise Invalid(said, hint="read the log again, and seal the events on top of its end")
