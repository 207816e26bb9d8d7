"""Process forks: resources that parent and child must not share (connections, locks, open files).

An object with such resources registers itself once, with `watch`. It may release them before a
fork, and take them again after it, in parent and child. An object that uses another one registers
after it and is called first before a fork, so that locks are taken in their usual order.
Unreferenced objects are dropped. Neighbours: the SQLite store releases its connection, the files
store reopens its files in the child, the search index leaves its connection to the parent.
"""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack
from typing import Protocol


class ForkAware(Protocol):
    """An object that is called around a fork: first `before_fork`, then `after_fork`."""

    def before_fork(self) -> None:
        """Runs in the parent, just before it forks."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Runs once in the parent and once in the child."""
        ...


_WATCHED: weakref.WeakKeyDictionary[ForkAware, None] = weakref.WeakKeyDictionary()  # oldest first
_FORKING: list[ForkAware] = []  # strong references during a fork


def watch(resource: ForkAware) -> None:
    """Calls the object around every fork, as long as it lives."""
    _WATCHED[resource] = None


def _before() -> None:
    _FORKING.extend(_WATCHED)
    # The newest is called first, and a failure does not stop the others.
    with ExitStack() as calls:
        for resource in _FORKING:
            calls.callback(resource.before_fork)


def _after(*, in_child: bool) -> None:
    with ExitStack() as calls:
        while _FORKING:
            calls.callback(_FORKING.pop().after_fork, in_child=in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
