"""`refold.open_memory`: a memory without a conversation."""

from __future__ import annotations

from os import PathLike

from refold.checked import checked
from refold.memory.journal import scope_checked
from refold.memory.semantic import SemanticMemory
from refold.search.embedders import Embedder
from refold.settings.sources import default_store, user_store
from refold.stores import open_store
from refold.stores.protocol import Store


@checked
def open_memory(
    scope: str = "project",
    *,
    store: str | PathLike[str] | Store | None = None,
    embedder: Embedder | str | bool | None = None,
) -> SemanticMemory:
    """Opens the memory of a scope: `user`, `project` or `agent.NAME`. `store` is a URL or a store;
    without one, the user's own or that of this project. Nothing is written before something is
    stored. Close it, or use it in a `with` block."""
    is_users = scope_checked(scope) == "user"
    if store is None:
        store = user_store() if is_users else default_store()
    opened = open_store(store) if isinstance(store, str | PathLike) else store
    return SemanticMemory(
        opened,
        embedder=embedder,
        scope=scope,
        owns_store=opened is not store,
        user=(lambda: opened) if is_users else None,
    )
