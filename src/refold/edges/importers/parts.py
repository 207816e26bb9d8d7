"""A message of which the file had only a part when it was imported, and has more now.

Its key in the log says how many parts of it were there. If nobody did anything to it since, it is
written again, whole, in its place; else what the user did stays, and the rest is a message that
continues it. Neighbours: `follow` asks and writes, `known` finds what there is.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from refold.edges.importers.entry import STAND_IN, Entry, Said
from refold.edges.importers.lines import digest
from refold.log.keys import KEY_CHARS_MAX

MORE = "more:"  # what the key of a message begins with that continues another
ROOM_CHARS = 40  # in a key, for what is put around it

SomeEntry = TypeVar("SomeEntry", bound=Entry)


# --- keys ---


def named(entry: SomeEntry) -> SomeEntry:
    """An entry under a key that a log can have."""
    is_short = len(entry.key) <= KEY_CHARS_MAX - ROOM_CHARS
    if is_short and entry.key.isprintable() and not entry.key.startswith((MORE, STAND_IN)):
        return entry
    return replace(entry, key=digest(entry.key.encode("utf-8", "replace")))


def written(said: Said) -> str:
    """The key under which a message is written."""
    return f"{said.key}#{said.parts}" if said.parts else said.key


def is_of(key: str, entry: Entry) -> bool:
    """Whether a key in the log is that of an entry, or of the beginning of it."""
    if not isinstance(entry, Said) or not entry.parts:
        return key == entry.key
    stem, _, parts = key.rpartition("#")
    return stem == entry.key and parts.isascii() and parts.isdecimal()


def continuing(said: Said) -> str:
    """The key under which the rest of a message is written."""
    return MORE + written(said)


def continued(key: str) -> str:
    """The key, in the file, of the message that one with this key continues."""
    return key.removeprefix(MORE).rpartition("#")[0]


def parts_in(key: str) -> int:
    """How many parts of a message there were when it was written under this key."""
    return int(key.rpartition("#")[2][:9])


# --- parts ---


def cut(said: Said, first: int, last: int) -> Said:
    """Some of the parts of a message."""
    content = said.message["content"][first:last]
    return replace(said, message={**said.message, "content": content})
