"""Vector stores of others: what one must be, and which are known by name.

A vector store keeps the vectors of memories instead of refold's own index. It is given numbers and
ids, never a text; words are found by refold's index in any case. `chroma` is known; a program makes
others known by `refold.register.vector_store`. Neighbours: `outside_vectors` asks one, `chroma` is
one.

The vectors of memories in a vector store of somebody else's, ranked like our own.

The index still knows the words, and up to where entries have vectors; only the numbers are
elsewhere. Another embedder, another length of its vectors or another store is noticed by the facts
of the index: then all vectors are made again. What the store raises is told, and the answer is by
words alone. Neighbours: `vector_store` says what a store is, `search.vectors` does the same inside
the index.
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
from refold.search.embedders import Embedder, name_of
from refold.search.index import CONVERSATION_BITS, POSITION_BITS, POSITION_MASK, Index, Range
from refold.search.vectors import Compared, Vectors, fused, pieces_of
from refold.search.words import Query
from refold.stores.protocol import Store

CHROMA = "chroma"


class VectorStore(Protocol):
    """Keeps vectors by id, in groups. All vectors that it is given have one length; an id that is
    added again has the new vector."""

    def add(self, group: int, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keeps these vectors, by id."""

    def nearest(
        self, group: int, vector: Sequence[float], limit: int
    ) -> Iterable[tuple[str, float]]:
        """The ids of a group whose vectors are nearest, each with its cosine."""

    def remove(self, group: int, ids: Sequence[str]) -> None:
        """Removes these, as far as they are there."""

    def clear(self) -> None:
        """Removes everything."""

    def close(self) -> None:
        """Lets go of every file."""


OpenVectorStore = Callable[[str], VectorStore]
"""Opens a vector store in a folder; an empty path means that it is kept in memory."""

_REGISTERED: dict[str, OpenVectorStore] = {}


def register(name: str, opener: OpenVectorStore) -> None:
    """Makes a vector store usable by name."""
    if not name.strip() or name == CHROMA or not callable(opener):
        hint = "give a name of its own, and a function from a folder to a vector store"
        raise Invalid(f"{quoted(name)} with {shown(opener)} is no vector store", hint=hint)
    _REGISTERED[name] = opener


def check_name(name: str) -> None:
    """Invalid for a name that is not known."""
    known = (CHROMA, *_REGISTERED)
    if name and name not in known:
        hint = f"{suggestion(name, known)}; another is made known by refold.register.vector_store"
        raise Invalid(f"memory_vectors: there is no vector store {quoted(name)}", hint=hint)


def opener_of(name: str) -> OpenVectorStore:
    """What opens the vector store of that name. Unavailable, with what to install, if its package
    is missing."""
    check_name(name)
    if name != CHROMA:
        return _REGISTERED[name]
    if importlib.util.find_spec("chromadb") is None:
        hint = f"{install_hint('chroma')}; or leave memory_vectors empty"
        raise Unavailable("the vector store chroma is not installed", hint=hint)
    from refold.memory.chroma import Chroma

    return Chroma


NEAREST = 200
_GROWN = "UPDATE lanes SET embedded = ? WHERE number = ?"


class Outside:
    """A vector store by its name, opened when it is first needed; `folder` is where it may keep
    files, empty for memory."""

    def __init__(self, name: str, opener: OpenVectorStore, folder: str) -> None:
        self.name, self._opener, self._folder = name, opener, folder
        self._store: VectorStore | None = None

    @contextmanager
    def asked(self) -> Iterator[VectorStore]:
        """The store. Unavailable if it, which is somebody else's code, fails in here."""
        try:
            if self._store is None:
                self._store = self._opener(self._folder)
            yield self._store
        except RefoldError:
            raise
        except Exception as error:
            said = f"the vector store {self.name} failed: {failure(error)}"
            raise Unavailable(
                said, hint="refold search --reindex --memory makes its vectors again"
            ) from error

    def close(self) -> None:
        """Closes the store, if it was opened."""
        if self._store is not None:
            with self.asked() as store:
                store.close()
            self._store = None


def outside_of(name: str, store: Store, embedder: Embedder | None) -> Outside | None:
    """The vector store of that name for the memories of a store; None for the index itself.
    Unavailable without its package, or without an embedder."""
    if not name:
        return None
    opener = opener_of(name)
    if embedder is None:
        hint = f"{install_hint('semantic')}; or give embedder="
        raise Unavailable(f"nothing makes the vectors that {name} would keep", hint=hint)
    return Outside(name, opener, store.derived_path(f"memory.{name}") or "")


class OutsideVectors(Vectors):
    """The vectors of an index, kept outside of it."""

    def __init__(self, index: Index, embedder: Embedder, outside: Outside) -> None:
        super().__init__(index, embedder)
        self._outside = outside

    def adopt_embedder(self) -> str:
        known, name = self._fact("embedder"), f"{name_of(self.embedder)} in {self._outside.name}"
        if known == name:
            return ""
        self._forget()
        self._set_fact("embedder", name)
        return f"vectors of {known} are made again by {name}" if known else ""

    def _forget(self) -> None:
        super()._forget()
        with self._outside.asked() as store:
            store.clear()

    def add(self, ids: Sequence[int], texts: Mapping[int, str]) -> None:
        """Hands the vectors of these entries to the store, then notes how far it is: who is killed
        in between adds them again."""
        said = {id: pieces_of(texts[id])[0] for id in ids if texts.get(id, "").strip()}
        if said:
            vectors = self._embed(list(said.values()))
            self._check_dimension(len(vectors[0]))
            groups: dict[int, dict[str, Sequence[float]]] = {}
            for id, vector in zip(said, vectors):
                groups.setdefault(id >> CONVERSATION_BITS, {})[str(id)] = _plain(vector)
            with self._outside.asked() as store:
                for group, some in groups.items():
                    store.add(group, some)
        lasts = {id >> POSITION_BITS: id for id in ids}
        grown = [((id & POSITION_MASK) + 1, lane) for lane, id in lasts.items()]
        with database.transaction(self.index.connection):
            self.index.connection.executemany(_GROWN, grown)

    def wholes(self, ids: Sequence[int]) -> dict[int, Sequence[float]]:
        """Nothing: the store gives no vectors back."""
        return {}

    def compared(
        self,
        query: Query,
        found: Sequence[rank.Matches],
        scored: Mapping[int, float],
        ranges: Sequence[Range],
        *,
        least: float | None = None,
    ) -> Compared:
        total, _ = self.index.size(ranges)
        asked = self._query_vector(query, found, total)
        if asked is None:
            return Compared(dict(scored), {})
        self._check_dimension(len(asked))
        cosines = self._nearest(asked, ranges)
        # Of what is far the store says nothing: the farthest that it names counts for nothing.
        farthest = min(cosines.values(), default=0.0)
        weight = rank.VECTOR_WEIGHT / rank.spread(cosines, len(cosines))[1]
        rows = ((id, cosine, weight * (cosine - farthest)) for id, cosine in cosines.items())
        return fused(scored, total, rows, least or 0.0)

    def _nearest(self, asked: Sequence[float], ranges: Sequence[Range]) -> dict[int, float]:
        """The cosines of the nearest entries of these ranges."""
        with self._outside.asked() as store:
            rows = [
                row
                for first, _ in ranges
                for row in store.nearest(first >> CONVERSATION_BITS, _plain(asked), NEAREST)
            ]
        return {int(id): float(cosine) for id, cosine in rows}

    def remove(self, ids: Sequence[int]) -> None:
        """Removes the vectors of these entries."""
        groups: dict[int, list[str]] = {}
        for id in ids:
            groups.setdefault(id >> CONVERSATION_BITS, []).append(str(id))
        with self._outside.asked() as store:
            for group, some in groups.items():
                store.remove(group, some)


def _plain(vector: Sequence[float]) -> list[float]:
    """The numbers themselves, whatever an embedder or a library keeps them in."""
    return [float(number) for number in vector]
