"""A store that tells how far it was read, for whoever watches long work: nothing that reads has to
know of it."""

from __future__ import annotations

from collections.abc import Callable

from refold.core.model import Event
from refold.stores.protocol import Store
from refold.stores.read_only import ReadOnlyStore

ReadListener = Callable[[str, int], None]  # the conversation, and how many events were read in all


class ToldStore(ReadOnlyStore):
    """What another store holds, to be read. An event that is read again counts once."""

    def __init__(self, store: Store, listener: ReadListener) -> None:
        super().__init__(store, owns=False)
        self._listener = listener
        self._reached: dict[str, int] = {}
        self._done = 0

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        events = super().read(conversation, after=after, last=last, limit=limit)
        reached = self._reached.get(conversation, 0)
        if events and events[-1].seq > reached:
            self._reached[conversation] = events[-1].seq
            self._done += events[-1].seq - reached
            self._listener(conversation, self._done)
        return events
