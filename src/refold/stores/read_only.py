"""Stores for readers: every write is refused, whatever the wrapped store is.

The wrapped store was opened for reading (`open_store(url, read_only=True)`) and leaves the disk as
it is; this wrapper refuses writes for all kinds of stores. `ProgressStore` also reports how far it
was read, so that a caller can watch a long task that knows nothing about progress. Neighbours:
`protocol` defines a store, `stores` itself opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from refold.core.model import Conversation, Event
from refold.errors import Denied
from refold.stores import checks
from refold.stores.protocol import Recovery, Salvage, Store


@checks.checked_store
class ReadOnlyStore:
    """A read-only view of another store; satisfies `Store`. Closing it closes the other store only
    if it `owns` that."""

    def __init__(self, store: Store, *, owns: bool) -> None:
        self.store, self.url = store, store.url
        self._owns = owns

    @property
    def recovered(self) -> Sequence[Recovery]:
        return self.store.recovered

    # --- reading ---

    def conversations(self, *, after: str = "", limit: int = 100) -> list[Conversation]:
        return self.store.conversations(after=after, limit=limit)

    def head(self, conversation: str) -> int | None:
        return self.store.head(conversation)

    def conversation(self, conversation: str) -> Conversation:
        return self.store.conversation(conversation)

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        return self.store.read(conversation, after=after, last=last, limit=limit)

    def salvage(self, conversation: str) -> Salvage:
        return self.store.salvage(conversation)

    def bookmark(self, conversation: str, *, at: int | None = None) -> bytes | None:
        return self.store.bookmark(conversation, at=at)

    def get(self, digest: str) -> Iterator[bytes]:
        return self.store.get(digest)

    def location(self, digest: str) -> str | None:
        return self.store.location(digest)

    def derived_path(self, name: str) -> str | None:
        """Path of a derived file that a writer made; never write to it."""
        return self.store.derived_path(name)

    # --- refused ---

    def append(self, conversation: str, events: Sequence[Event], *, expect: int) -> None:
        raise self._refusal(f"append to {conversation!r}")

    def rewrite(
        self, conversation: str, events: Sequence[Event], *, after: int, seen: Salvage
    ) -> str:
        raise self._refusal(f"rewrite {conversation!r}")

    def keep_bookmark(self, conversation: str, data: bytes, *, at: int | None = None) -> None:
        raise self._refusal(f"keep a bookmark of {conversation!r}")

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        raise self._refusal("keep an artifact")

    def drop(self, digest: str, *, before_ms: int) -> bool:
        raise self._refusal("remove an artifact")

    def fork(self, conversation: str, at: int, new: str) -> None:
        raise self._refusal(f"fork {conversation!r}")

    def erase(self, conversation: str, seq: int) -> None:
        raise self._refusal(f"erase event {seq} of {conversation!r}")

    def delete(self, conversation: str) -> None:
        raise self._refusal(f"delete {conversation!r}")

    def _refusal(self, doing: str) -> Denied:
        message = f"cannot {doing}: {self.url} is open for reading only"
        return Denied(message, hint="open it without read_only=True to write")

    # --- the end ---

    def flush(self) -> None:
        """Does nothing: nothing was written."""

    def close(self) -> None:
        if self._owns:
            self.store.close()


ReadListener = Callable[[str, int], None]  # the conversation, and the number of events read in all


class ProgressStore(ReadOnlyStore):
    """A read-only view that reports every read to a listener; a repeated event counts once."""

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
