"""External vector stores: the protocol, the known names, and vectors kept in one of them.

A vector store keeps the vectors of memories instead of refold's own index. It receives numbers and
ids, never text; words are always found by refold's index, which also knows which entries have
vectors. If the facts in the index name another embedder, vector length or store, all vectors are
computed again. If the store fails, that is reported, and the answer comes from words alone.
`chroma` is built in, and `refold.register.vector_store` adds others. Neighbour: `search.vectors`
does the same inside the index.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from refold.checked import quoted, shown
from refold.display import failure, suggestion
from refold.errors import Invalid, RefoldError, Unavailable, install_hint
from refold.search import database, rank
from refold.search.embedders import Embedder
from refold.search.index import CONVERSATION_BITS, Index, Range
from refold.search.vectors import CombinedScores, Vectors, fused, pieces_of
from refold.search.words import Query
from refold.stores.protocol import Store

CHROMA = "chroma"


class VectorStore(Protocol):
    """Keeps vectors by id, in groups. All vectors have one length; adding an id again replaces its
    vector."""

    def add(self, group: int, vectors: Mapping[str, Sequence[float]]) -> None:
        """Stores these vectors by id."""

    def nearest(
        self, group: int, vector: Sequence[float], limit: int
    ) -> Iterable[tuple[str, float]]:
        """The ids of a group whose vectors are nearest, each with its cosine."""

    def remove(self, group: int, ids: Sequence[str]) -> None:
        """Removes these ids, if they exist."""

    def clear(self) -> None:
        """Removes everything."""

    def close(self) -> None:
        """Closes all files."""


OpenVectorStore = Callable[[str], VectorStore]
"""Opens a vector store in a folder, or in memory for an empty path."""

_REGISTERED: dict[str, OpenVectorStore] = {}


def register(name: str, opener: OpenVectorStore) -> None:
    """Makes a vector store usable by name."""
    if not name.strip() or name == CHROMA or not callable(opener):
        hint = "pass an unused name, and a function that opens a vector store in a folder"
        raise Invalid(f"{quoted(name)} with {shown(opener)} is not a vector store", hint=hint)
    _REGISTERED[name] = opener


def check_name(name: str) -> None:
    """Invalid for an unknown name."""
    known = (CHROMA, *_REGISTERED)
    if name and name not in known:
        hint = f"{suggestion(name, known)}; refold.register.vector_store adds another"
        raise Invalid(f"memory_vectors: there is no vector store {quoted(name)}", hint=hint)


def opener_of(name: str) -> OpenVectorStore:
    """The function that opens the vector store of this name. Unavailable, with an install hint, if
    its package is missing."""
    check_name(name)
    if name != CHROMA:
        return _REGISTERED[name]
    if importlib.util.find_spec("chromadb") is None:
        hint = f"{install_hint('chroma')}; or leave memory_vectors empty"
        raise Unavailable("the vector store chroma is not installed", hint=hint)
    from refold.memory.chroma import Chroma

    return Chroma


NEAREST = 200


class ExternalStore:
    """A vector store by name, opened at first use; `folder` is the place for its files, empty for
    memory."""

    def __init__(self, name: str, opener: OpenVectorStore, folder: str) -> None:
        self.name, self._opener, self._folder = name, opener, folder
        self._store: VectorStore | None = None

    @contextmanager
    def guarded_store(self) -> Iterator[VectorStore]:
        """The store. Turns any failure of this foreign code into Unavailable."""
        try:
            if self._store is None:
                self._store = self._opener(self._folder)
            yield self._store
        except RefoldError:
            raise
        except Exception as error:
            reason = f"the vector store {self.name} failed: {failure(error)}"
            hint = "refold search --reindex --memory makes its vectors again"
            raise Unavailable(reason, hint=hint) from error

    def close(self) -> None:
        """Closes the store, if it was opened."""
        if self._store is not None:
            with self.guarded_store() as store:
                store.close()
            self._store = None


def external_store(name: str, store: Store, embedder: Embedder | None) -> ExternalStore | None:
    """The vector store of this name for the memories of a store; None for the index itself.
    Unavailable without its package, or without an embedder."""
    if not name:
        return None
    opener = opener_of(name)
    if embedder is None:
        hint = f"{install_hint('semantic')}; or pass embedder="
        raise Unavailable(f"no embedder is configured for {name}", hint=hint)
    return ExternalStore(name, opener, store.derived_path(f"memory.{name}") or "")


class ExternalVectors(Vectors):
    """The vectors of an index, kept in an external store."""

    def __init__(self, index: Index, embedder: Embedder, external: ExternalStore) -> None:
        super().__init__(index, embedder)
        self._external = external

    def _embedder_name(self) -> str:
        return f"{super()._embedder_name()} in {self._external.name}"

    def _forget(self) -> None:
        super()._forget()
        with self._external.guarded_store() as store:
            store.clear()

    def add(self, ids: Sequence[int], texts: Mapping[int, str]) -> None:
        """Adds the vectors of these entries to the store, then marks them as done: a process killed
        in between adds them again."""
        pieces = {id: pieces_of(texts[id])[0] for id in ids if texts.get(id, "").strip()}
        if pieces:
            vectors = self._embed(list(pieces.values()))
            self._check_dimension(len(vectors[0]))
            groups: dict[int, dict[str, Sequence[float]]] = {}
            for id, vector in zip(pieces, vectors):
                groups.setdefault(id >> CONVERSATION_BITS, {})[str(id)] = _floats(vector)
            with self._external.guarded_store() as store:
                for group, some in groups.items():
                    store.add(group, some)
        with database.transaction(self.index.connection):
            self._mark_embedded(ids)

    def means(self, ids: Sequence[int]) -> dict[int, Sequence[float]]:
        """Empty: the store returns no vectors."""
        return {}

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> CombinedScores:
        total, _ = self.index.size(ranges)
        vector = self._query_vector(query, found, total)
        if vector is None:
            return CombinedScores(dict(scored), {})
        with self._external.guarded_store() as store:
            cosines = {
                int(id): float(cosine)
                for first, _ in ranges
                for id, cosine in store.nearest(
                    first >> CONVERSATION_BITS, _floats(vector), NEAREST
                )
            }
        # The store returns only near entries: the farthest of them counts as zero.
        farthest = min(cosines.values(), default=0.0)
        weight = rank.VECTOR_WEIGHT / rank.spread(cosines, len(cosines))[1]
        rows = ((id, cosine, weight * (cosine - farthest)) for id, cosine in cosines.items())
        return fused(scored, total, rows, least or 0.0)

    def remove(self, ids: Sequence[int]) -> None:
        """Removes the vectors of these entries."""
        groups: dict[int, list[str]] = {}
        for id in ids:
            groups.setdefault(id >> CONVERSATION_BITS, []).append(str(id))
        with self._external.guarded_store() as store:
            for group, some in groups.items():
                store.remove(group, some)


def _floats(vector: Sequence[float]) -> list[float]:
    """The numbers as Python floats, whatever type a library uses."""
    return [float(number) for number in vector]
