"""The sessions of a framework that are held open: one store, a conversation for each session.

A framework names its sessions as it likes; the id of the conversation follows from that name, and
the name is kept with it, so `refold list` shows it and two processes write one log. Only the newest
stay open. Neighbours: every adapter; `engine.opening` opens one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from typing import Any

import refold
from refold.conversations.names import id_for
from refold.settings.sources import default_store
from refold.types import Store

OPEN_MAX = 8  # one or two is the usual number

Place = str | PathLike[str] | Store | None  # what `refold.open` takes as a store


class Sessions:
    """Conversations by the names of their sessions. `settings` are those of `refold.open`."""

    def __init__(self, store: Place, settings: Mapping[str, Any] | None = None) -> None:
        self._place, self._settings = store, settings or {}
        self._guard = threading.RLock()
        self._contexts: OrderedDict[str, refold.Context] = OrderedDict()

    @cached_property
    def store(self) -> Store:
        """The store that was given, or the one that is named, opened when it is first used."""
        if self._place is None or isinstance(self._place, str | PathLike):
            return refold.open_store(self._place or default_store())
        return self._place

    @contextmanager
    def session(self, name: str) -> Iterator[refold.Context]:
        """The conversation of that name, for one caller at a time."""
        with self._guard:
            context = self._contexts.pop(name, None) or self._open(name)
            self._contexts[name] = context
            while len(self._contexts) > OPEN_MAX:
                self._contexts.popitem(last=False)[1].close()
            yield context

    def _open(self, name: str) -> refold.Context:
        id = id_for(self.store, name)
        return refold.open(id, name=name, store=self.store, **self._settings)

    def forget(self, name: str) -> None:
        """Lets go of a session that is to be deleted."""
        with self._guard:
            if name in self._contexts:
                self._contexts.pop(name).close()

    def close(self) -> None:
        """Lets go of all, and of the store if it was opened here."""
        with self._guard:
            for name in list(self._contexts):
                self.forget(name)
            opened = vars(self).pop("store", None)
            if opened is not None and opened is not self._place:
                opened.close()
