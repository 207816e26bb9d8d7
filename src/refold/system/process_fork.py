"""What a fork of the process must not share between parent and child: connections, locks and open
files.

An object that holds some of these registers itself here once, with `watch`. Before a fork it may
let go of what it holds; after it, on either side, it goes on. Whoever uses another one registers
after it, and is told first before a fork: locks are taken in the order in which they always are.
Objects that nobody uses any more are forgotten. Neighbours: the SQLite store lets go of its
connection, the files store opens its files again in the child, the search index leaves its
connection to the parent.
"""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack
from typing import Protocol


class ForkAware(Protocol):
    """What a process may hold while it forks: first `before_fork`, then `after_fork`."""

    def before_fork(self) -> None:
        """Runs in the parent, just before it forks."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Runs once in the parent and once in the child."""
        ...


_WATCHED: weakref.WeakKeyDictionary[ForkAware, None] = weakref.WeakKeyDictionary()  # by age
_HELD: list[ForkAware] = []  # from before a fork until after it


def watch(held: ForkAware) -> None:
    """Tells the object about every fork from now on, for as long as it lives."""
    _WATCHED[held] = None


def _before() -> None:
    _HELD.extend(_WATCHED)
    # The newest hears first, and one that fails does not keep the others from hearing.
    with ExitStack() as each:
        for held in _HELD:
            each.callback(held.before_fork)


def _after(*, in_child: bool) -> None:
    with ExitStack() as each:
        while _HELD:
            each.callback(_HELD.pop().after_fork, in_child=in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(in_child=False),
        after_in_child=lambda: _after(in_child=True),
    )
