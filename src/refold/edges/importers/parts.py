"""A message of which the file had only a part when it was imported, and has more now.

Its key in the log says how many parts of it were there. If nobody did anything to it since, it is
written again, whole, in its place; else what the user did stays, and the rest is a message that
continues it. Neighbours: `follow` asks and writes, `known` finds what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from refold.core.model import MOMENT
from refold.edges.importers.entry import STAND_IN, Entry, Said
from refold.edges.importers.lines import digest
from refold.log.keys import KEY_CHARS_MAX

MORE = "more:"  # what the key of a message begins with that continues another
ROOM_CHARS = 40  # in a key, for what is put around it

SomeEntry = TypeVar("SomeEntry", bound=Entry)


# --- keys ---


def named(entry: SomeEntry) -> SomeEntry:
    """An entry under a key that a log can have."""
    if not all(map(_is_plain, entry.ids)):
        ids = (id if _is_plain(id) else _digest(id) for id in entry.ids)
        entry = replace(entry, ids=tuple(ids))
    return entry if _is_plain(entry.key) else replace(entry, key=_digest(entry.key))


def _is_plain(name: str) -> bool:
    is_short = len(name) <= KEY_CHARS_MAX - ROOM_CHARS
    return is_short and name.isprintable() and not name.startswith((MORE, STAND_IN, MOMENT))


def _digest(name: str) -> str:
    return digest(name.encode("utf-8", "replace"))


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


def has_names(said: Said) -> bool:
    """Whether every part of a message can be told from others, by the id of its line or by its
    moment, and some by an id."""
    if not said.parts or not any(said.ids):
        return False
    return all(id or at_ms is not None for id, at_ms in zip(said.ids, said.times))


def cut(said: Said, first: int, last: int) -> Said:
    """The parts of a message from one to another."""
    return chosen(said, range(first, last))


def chosen(said: Said, places: Sequence[int]) -> Said:
    """Some of the parts of a message."""
    content = [said.message["content"][at] for at in places]
    ids = tuple(said.ids[at] for at in places) if said.ids else ()
    times = tuple(said.times[at] for at in places) if said.times else ()
    return replace(said, message={**said.message, "content": content}, ids=ids, times=times)
