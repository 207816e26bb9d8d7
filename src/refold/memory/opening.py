"""`refold.open_memory`: a memory without a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from msgspec import Struct

from refold.checked import checked
from refold.config import Config
from refold.memory.journal import scope_checked
from refold.memory.semantic import SemanticMemory
from refold.memory.vector_store import check_name
from refold.search.embedders import Embedder, by_name
from refold.settings.sources import default_store, loaded, user_store
from refold.stores import open_store
from refold.stores.protocol import Store


@checked
def open_memory(
    scope: str = "project",
    *,
    store: str | PathLike[str] | Store | None = None,
    embedder: Embedder | str | bool | None = None,
    config: Config | Mapping[str, Any] | None = None,
) -> SemanticMemory:
    """Opens the memory of a scope: `user`, `project` or `agent.NAME`. `store` is a URL or a store;
    without one, the user's own or that of this project. `config` overrides the settings of this
    project. Nothing is written before something is stored. Close it, or use it in a `with` block.
    """
    settings = settings_of(loaded(config)[0], embedder)
    is_users = scope_checked(scope) == "user"
    if store is None:
        store = user_store() if is_users else default_store()
    opened = open_store(store) if isinstance(store, str | PathLike) else store
    return SemanticMemory(
        opened,
        embedder=settings.embedder,
        vectors=settings.vectors,
        threshold=settings.threshold,
        scope=scope,
        owns_store=opened is not store,
        user=(lambda: opened) if is_users else None,
    )


class MemorySettings(Struct, frozen=True, kw_only=True):
    """What a memory is told by the settings of a project."""

    embedder: Embedder | str | bool | None
    vectors: str
    threshold: float | None


def settings_of(config: Config, embedder: Embedder | str | bool | None = None) -> MemorySettings:
    """The settings of a memory. An embedder that is given wins over the one that is named. Invalid
    for names that are not known, Unavailable for an embedder that is not installed."""
    check_name(config.memory_vectors)
    return MemorySettings(
        embedder=by_name(config.memory_embedder) if embedder is None else embedder,
        vectors=config.memory_vectors,
        threshold=config.memory_threshold,
    )
