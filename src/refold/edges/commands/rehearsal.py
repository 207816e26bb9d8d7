"""A change tried on a copy in memory, so that a person can be asked about what it would do.

The copy has the whole log and no contents of artifacts; what is done to it is done nowhere else.
Neighbours: `undo` asks with what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.log.reading import pages_of
from refold.stores import open_store


@contextmanager
def rehearsal(session: Session) -> Iterator[Context]:
    """The conversation asked for once more, as it would go on."""
    store, id = session.store, session.conversation
    copy = open_store("memory:")
    for events in pages_of(store, id, last=store.conversation(id).head):
        copy.append(id, events, expect=events[0].seq - 1)
    with Context(copy, id, config=session.config_beside) as context:
        yield context
