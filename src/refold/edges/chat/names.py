"""What a new conversation is called: by the time it began."""

from __future__ import annotations

from datetime import datetime

from refold.errors import Corrupt, NotFound
from refold.stores.protocol import Store

TRIES_MAX = 1_000


def new_id(store: Store) -> str:
    """An id that no conversation of the store has."""
    stem = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, TRIES_MAX):
        id = stem if number == 1 else f"{stem}-{number}"
        if not is_there(store, id):
            return id
    raise AssertionError(f"{TRIES_MAX} conversations began in one second")


def is_there(store: Store, id: str) -> bool:
    """Whether the store has a conversation of that id, readable or not."""
    try:
        store.conversation(id)
    except NotFound:
        return False
    except Corrupt:
        return True
    return True
