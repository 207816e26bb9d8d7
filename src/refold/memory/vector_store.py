"""Vector stores of others: what one must be, and which are known by name.

A vector store keeps the vectors of memories instead of refold's own index. It is given numbers and
ids, never a text; words are found by refold's index in any case. `chroma` is known; a program makes
others known by `refold.register.vector_store`. Neighbours: `outside_vectors` asks one, `chroma` is
one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from refold.checked import quoted, shown
from refold.display import suggestion
from refold.errors import Invalid, Unavailable, install_hint

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
