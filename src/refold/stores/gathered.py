"""Another store, to which events go in batches: for who writes many and can begin again.

What was appended waits until there is enough of it, and is read meanwhile as if it were there; an
`append` that returned is safe only after the next `flush`. So this is for an import, which knows by
its keys what a log has. Somebody else who writes to the same log meanwhile is found out when a
batch is written: then `Overtaken` says so, none of the batch is there, and the whole work is to be
begun again on a new one of these. Neighbours: `edges.importers` writes through it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from refold.core.model import Event
from refold.errors import Conflict, NotFound
from refold.stores.protocol import Overtaken, Recovery, Store

BATCH_EVENTS, BATCH_BYTES = 500, 4 << 20


class GatheredStore:
    """Satisfies `Store`. What is asked of it besides appends and their like is asked of the other
    store, once everything that waits is written."""

    def __init__(self, store: Store) -> None:
        self._store, self.url = store, store.url
        self._lock = threading.RLock()
        self._waiting: dict[str, list[Event]] = {}
        self._heads: dict[str, int] = {}  # of the logs that were appended to, as they are written
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        self.write()
        return getattr(self._store, name)

    @property
    def recovered(self) -> Sequence[Recovery]:
        return self._store.recovered

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        return self._store.put(chunks, suffix=suffix)

    def location(self, digest: str) -> str | None:
        return self._store.location(digest)

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        with self._lock:
            waiting = self._waiting.setdefault(conversation, [])
            head = waiting[-1].seq if waiting else self._written(conversation)
            if head != expect:
                raise Conflict(f"{conversation}: the head is {head}, not {expect}", head=head)
            waiting += events
            self._size += sum(len(event.body or b"") for event in events)
            if len(waiting) >= BATCH_EVENTS or self._size >= BATCH_BYTES:
                self.write()

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        with self._lock:
            head = self._heads.get(conversation)
            if head is None or after < head:
                self.write()
                return self._store.read(conversation, after=after, last=last, limit=limit)
            end = limit if last is None else min(limit, last - after)
            first = after - head
            return self._waiting[conversation][first : first + max(0, end)]

    def write(self) -> None:
        """Writes what waits."""
        with self._lock:
            for conversation, events in self._waiting.items():
                if not events:
                    continue
                try:
                    self._store.append(conversation, events, expect=self._heads[conversation])
                except Conflict as error:
                    said = f"{conversation}: somebody else wrote to it meanwhile"
                    raise Overtaken(said, hint="begin again") from error
                self._heads[conversation] = events[-1].seq
                self._waiting[conversation] = []
            self._size = 0

    def _written(self, conversation: str) -> int:
        """The head of a log as the other store has it."""
        if conversation not in self._heads:
            try:
                self._heads[conversation] = self._store.conversation(conversation).head
            except NotFound:
                self._heads[conversation] = 0
        return self._heads[conversation]
