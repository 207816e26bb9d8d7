"""A memory that is open: its scopes, its lock, how an entry is written, and what is told.
What can be asked of it is in `semantic`. Neighbours: `scopes`, `journal`.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Sequence

from refold.core.model import Memory
from refold.errors import Invalid
from refold.memory.entry import MemoryEntry
from refold.memory.journal import Journal
from refold.memory.scopes import Scopes
from refold.search.embedders import Embedder
from refold.search.upkeep import Tell
from refold.stores.protocol import Store


class OpenMemory:
    """Entries of the scopes `project` and `agent.NAME`, which are in the store that is given, and
    `user`, which is in the user's own. `conversation` is what new entries name as their source;
    `vectors` the vector store, if it is not refold's own index; `threshold` the least score of what
    is retrieved where none is given."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | str | bool | None = None,
        scope: str = "project",
        conversation: str = "",
        tell: Tell | None = None,
        owns_store: bool = False,
        user: Callable[[], Store] | None = None,
        vectors: str = "",
        threshold: float | None = None,
    ) -> None:
        self.said: builtins.list[tuple[str, str]] = []
        self._store, self._owns_store, self._listener = store, owns_store, tell
        self.conversation, self._threshold = conversation, threshold
        self._scopes = Scopes(
            store, scope, embedder=embedder, tell=self._tell, user=user, vectors=vectors
        )
        self.scope = self._scopes.own
        self._lock = threading.RLock()

    # --- writing ---

    def _write(self, journal: Journal, body: Memory) -> MemoryEntry:
        with self._lock:
            entries = journal.append([body], lambda: self._scopes.finder(journal))
            run = entries.run_of(body.entry)
            assert run is not None
            return entries.entry(run, journal.scope)

    def _source(self, source: int | tuple[str, int] | None) -> tuple[str, int] | None:
        if source is None or isinstance(source, tuple):
            return source
        if not self.conversation:
            hint = "give a conversation and a seq"
            raise Invalid(f"source={source} names no conversation", hint=hint)
        return self.conversation, source

    def _count_use(self, found: Sequence[MemoryEntry]) -> None:
        for journal in self._scopes.opened():
            ids = [entry.id for entry in found if entry.scope == journal.scope]
            if ids:
                self._scopes.finder(journal).count_use(ids)

    def _tell(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._listener is not None:
            self._listener(name, reason)
