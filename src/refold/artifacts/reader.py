"""What a handle names, and how its content is read: the reading side of a conversation's artifacts.

A handle is an artifact's id, or `#41` or `#41-58` for messages. Contents are streamed, with no lock
held. Neighbours: `listing` knows what there is, `log.unfold` gives originals, `artifacts` is what
callers see of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from refold.artifacts.listing import ArtifactIndex, StoredArtifact, is_in_log, query_id
from refold.core.model import Artifact
from refold.log.open_log import OpenLog
from refold.log.unfold import Original, content_of, original
from refold.stores.protocol import Store

PREFIX = "artifact://"


class Sources(Struct, frozen=True):
    """The contents of outputs, by digest from the store, by handle from the log."""

    store: Store
    message_bytes: Callable[[str], Iterator[bytes]]

    def get(self, digest: str) -> Iterator[bytes]:
        return self.message_bytes(digest) if digest.startswith("#") else self.store.get(digest)

    def location(self, digest: str) -> str | None:
        return None if digest.startswith("#") else self.store.location(digest)


class ArtifactReader:
    """The artifacts of one open log."""

    def __init__(self, log: OpenLog) -> None:
        self._open = log
        self._index = ArtifactIndex(log.log)

    def move(self) -> None:
        """The log is another one now."""
        self._index = ArtifactIndex(self._open.log)

    def list(
        self, task: str | int | None, query: str | None, tool: str | None
    ) -> Sequence[StoredArtifact]:
        """In the order in which they were kept, cleaned-up ones among them."""
        query = query_id(query) if query is not None else None
        given = {"task": task, "query": query, "tool": tool}
        wanted = {name: str(value) for name, value in given.items() if value is not None}
        with self._open.reading():
            self._index.refresh()
            listing = self._index.grouped(**wanted) if wanted else self._index.listing()
            return listing.held()

    def count(self) -> int:
        """How many still have their bytes."""
        with self._open.reading():
            self._index.refresh()
            return self._index.count()

    def named(self, handle: str) -> Sequence[Artifact]:
        """The artifact that a handle names; for an unknown one, the newest others."""
        id = id_of(handle)
        with self._open.reading():
            self._index.refresh()
            return self._index.named(id) if id.startswith("art-") else []

    def original(self, handle: str, *, level: str = "full") -> Original:
        """What a handle names, as a stream; NotFound or Invalid if it names nothing here."""
        with self._open.guard:
            return original(self._open.log, self.named(handle), handle, level=level)

    def content(self, artifact: Artifact) -> Iterator[bytes]:
        if is_in_log(artifact):
            return self._message_bytes(artifact.id)
        return content_of(self._open.log, artifact)

    def _message_bytes(self, handle: str) -> Iterator[bytes]:
        texts = self.original(handle).texts
        return (text.encode("utf-8", "surrogatepass") for text in texts)

    @property
    def sources(self) -> Sources:
        """Where the contents of listed outputs are read from."""
        return Sources(self._open.store, self._message_bytes)

    def contents(self, handle: str) -> Iterator[tuple[str, Iterable[bytes]]]:
        """The content that a handle names; without one, of every artifact, newest first."""
        if not handle:
            yield from self._all_contents()
            return
        found = self.original(handle)
        if found.artifact is not None:
            yield found.handle, self.content(found.artifact)
        else:
            yield found.handle, (text.encode("utf-8", "replace") for text in found.texts)

    def _all_contents(self) -> Iterator[tuple[str, Iterable[bytes]]]:
        seen: set[str] = set()
        for one in reversed(self.list(None, None, None)):
            if not one.cleaned_ms and one.id not in seen:
                seen.add(one.id)
                yield one.id, self.content(one.artifact)


def id_of(handle: str) -> str:
    """The id in a handle, which may be written as a reference."""
    return handle.strip().removeprefix(PREFIX)
