"""What was learnt of an encrypted far store, so that it need not be read again: which near chain a
far log ends with, and where it keeps an artifact.

It lies in `sync-encrypted.json` beside the near store. All of it stands in the far logs, encrypted;
a file that is lost costs a read for each conversation, and contents that were dropped near cannot
be fetched again until the event that names them is. That it is there says that the near store was
synced with a key. Neighbours: `store` asks and adds, `hybrid.address` asks whether it is there.
"""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.errors import RefoldError
from refold.system import disk

NAME = "sync-encrypted.json"


class Known(Struct, kw_only=True):
    """By conversation the far chain and the near one that it stands for; by digest of a content
    its digest in the far store, the same where it lies there as it is."""

    ends: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)


def is_kept(path: str | None) -> bool:
    """Whether the near store was synced with a key, also if nothing can be read of it."""
    return path is not None and os.path.lexists(path)


def read(path: str | None) -> Known:
    """What is known; nothing where the file is lost."""
    try:
        with disk.open_regular(path or "") as file:
            return decoding.decode(file.read(), Known)
    except (OSError, RefoldError, msgspec.DecodeError, UnicodeDecodeError):
        return Known()


def write(path: str | None, known: Known) -> None:
    """Adds what is known to what others keep there, where there is a place for it; that it cannot
    costs nothing more than a lost file does."""
    if path is None or not os.path.isdir(os.path.dirname(path)):
        return
    kept = read(path)
    kept.ends |= known.ends
    kept.contents |= known.contents
    with suppress(OSError):
        disk.replace_file(path, msgspec.json.encode(kept))
