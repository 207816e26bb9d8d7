"""Which model a conversation was held with, so that `--continue` goes on with it; and what a user
need not be told again.

It is remembered in the user's own data folder and not in the log: a store may be part of a project
that somebody else wrote, and a project never chooses where a conversation goes. Losing it costs a
`--model`. Neighbours: `settings.trust` has the folder, `loop` asks.

What a new conversation is called: by the time it began.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from refold.errors import RefoldError
from refold.log.reading import is_taken
from refold.settings.sources import data_folder
from refold.stores.protocol import Store

SPEC_BYTES_MAX = 1_000


def remember(store_url: str, conversation: str, spec: str, environ: Mapping[str, str]) -> None:
    """Keeps the model of a conversation."""
    # Without a data folder it is asked for again the next time.
    with suppress(OSError, RefoldError):
        place = _place(store_url, conversation, environ)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(place, flags, 0o600), "wb") as file:
            file.write(spec.encode())


def spec_of(store_url: str, conversation: str, environ: Mapping[str, str]) -> str:
    """The model that a conversation was held with last; empty if that is not known."""
    try:
        kept = _place(store_url, conversation, environ).read_bytes()
        return kept[:SPEC_BYTES_MAX].decode()
    except (OSError, RefoldError, UnicodeDecodeError):
        return ""


def history_file(environ: Mapping[str, str]) -> Path:
    """Where the lines are kept that the user typed."""
    return data_folder(environ) / "refold" / "chat" / "history"


def was_told(environ: Mapping[str, str]) -> bool:
    """Whether the user was told before what a chat could have; from now on, they were."""
    with suppress(OSError, RefoldError):
        place = data_folder(environ) / "refold" / "chat" / "told"
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            place.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return True
    return False


def _place(store_url: str, conversation: str, environ: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(f"{store_url}\n{conversation}".encode()).hexdigest()
    return data_folder(environ) / "refold" / "chat" / digest[:32]


TRIES_MAX = 1_000


def new_id(store: Store) -> str:
    """An id that no conversation of the store has."""
    stem = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, TRIES_MAX):
        id = stem if number == 1 else f"{stem}-{number}"
        if not is_taken(store, id):
            return id
    raise AssertionError(f"{TRIES_MAX} conversations began in one second")
