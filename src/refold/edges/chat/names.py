"""What a new conversation is called: by the time it began."""

from __future__ import annotations

from datetime import datetime

from refold.log.reading import is_taken
from refold.stores.protocol import Store

TRIES_MAX = 1_000


def new_id(store: Store) -> str:
    """An id that no conversation of the store has."""
    stem = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, TRIES_MAX):
        id = stem if number == 1 else f"{stem}-{number}"
        if not is_taken(store, id):
            return id
    raise AssertionError(f"{TRIES_MAX} conversations began in one second")
