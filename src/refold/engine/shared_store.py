"""A store that several contexts hold: the last one that lets go of it closes it.

A context that opened its store itself hands it on to its forks and children; whichever of them is
closed first must not close it under the others. Neighbour: `engine.context`.
"""

from __future__ import annotations

import threading

from refold.stores.protocol import Store


class SharedStore:
    """How many hold a store. One that the caller opened is the caller's to close."""

    def __init__(self, store: Store, *, is_ours: bool) -> None:
        self._store, self._is_ours = store, is_ours
        self._lock = threading.Lock()
        self._holders = 0

    def hold(self) -> SharedStore:
        with self._lock:
            self._holders += 1
        return self

    def let_go(self) -> None:
        """Closes the store if nobody else holds it."""
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last and self._is_ours:
            self._store.close()
