"""Entries: the content of a session file, one value after another, and the report on its import.

`line` is the position in the file: a line, or an element where the file is one JSON value.
`session` names a side chain (empty: the session itself); `key` is the name of the entry in the file
and does not change when the file grows. Neighbours: readers make entries, `follow` writes them,
`importer` reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from msgspec import Struct

from refold.core.model import Usage

# Kinds of notes.
LEFT_BRANCH = "left-branch"  # a message of an abandoned branch
ADOPTED = "adopted-compaction"  # a summary of the file that was taken over
REWOUND = "rewound"  # a line of the file that took others back
UNREAD = "unread"  # an unparseable message, in its place


class Entry(Struct, frozen=True, kw_only=True):
    """The fields of every entry. `at_ms` is its time, if the file has one; `ids` are the ids that
    the file gives to its lines, empty where it gives none."""

    line: int = 0
    session: str = ""
    key: str = ""
    at_ms: int | None = None
    ids: tuple[str, ...] = ()

    @property
    def has_line_ids(self) -> bool:
        """Whether every line of the entry has an id."""
        return bool(self.ids) and all(self.ids)


class Where(TypedDict, total=False):
    """The position and time of an entry, as readers pass them on."""

    line: int
    session: str
    at_ms: int | None


class SessionFacts(Entry, frozen=True, kw_only=True):
    """Facts about the session, valid from here on; None says nothing."""

    model: str | None = None
    title: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


class MessageEntry(Entry, frozen=True, kw_only=True):
    """A message in any provider's shape, with its usage if the file has it there. Where the file
    may bring more of it later, `parts` is the number of its content parts so far, and `ids` has the
    id of the line of each part (empty: the line has none)."""

    message: Any
    usage: Usage | None = None
    parts: int = 0


class UsageEntry(Entry, frozen=True, kw_only=True):
    """Usage on a line of its own, after its reply."""

    usage: Usage


class NoteEntry(Entry, frozen=True, kw_only=True):
    """A line that is not a message. `kind` is the file's own word for it; in an abandoned branch,
    `message` names the message that the line belongs to."""

    kind: str
    data: Any
    message: str = ""


class SummaryEntry(Entry, frozen=True, kw_only=True):
    """A summary that replaces everything before it."""

    text: str


class RewindEntry(Entry, frozen=True, kw_only=True):
    """A line that takes back the messages with these keys."""

    keys: frozenset[str]


class UnreadLine(Entry, frozen=True, kw_only=True):
    """A line that could not be read, and why."""

    reason: str


class Branch(NamedTuple):
    """An abandoned branch of a session: its name, and its entries from the beginning on. The first
    ones are those of the session itself."""

    name: str
    entries: Callable[[], Iterator[Entry]]


class Session(Struct, frozen=True, kw_only=True):
    """A conversation that follows a session: its messages in the file, how many of them are new,
    how many a rewind took back, and how many the file no longer has. Restoring `left_at` shows the
    abandoned branch alone; `left` counts the messages of branches that the file itself abandoned
    and that are only notes. All counts are of messages, not of lines."""

    conversation: str
    title: str
    head: int
    messages: int
    new: int
    restored: int = 0
    left_at: int = 0
    missing: int = 0
    left: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """The result of an import. `unread` has the first unreadable lines, of `unread_total`; where
    the file has no lines, `unit` says what their numbers count."""

    file: str
    source: str
    sessions: list[Session]
    unread: list[UnreadLine]
    unread_total: int = 0
    unit: str = "line"


def printable(path: Path) -> str:
    """A file name for reports; names on a disk may have bytes that are not text."""
    return os.fsencode(path).decode("utf-8", "replace")


class Tally:
    """Counts what an import wrote of one session, over all its attempts: another process may write
    to the log meanwhile, and then the import starts over and recognizes its own messages.

    `new` and `restored` (taken back by a rewind) count messages; `left_at` is the head before
    something was taken off. `again` has the keys of messages that are written once more because a
    message grew, and `grown_at` the head before that. `unparsed` has the keys of messages that
    count as new and are notes. Messages that only wait to be written do not count yet."""

    def __init__(self) -> None:
        self.new = self.restored = 0
        self.left_at = self.grown_at = 0
        self.again: set[str] = set()
        self.unparsed: set[str] = set()
        self._written = 0  # events, at the last count
        self._waiting = 0
        self._waiting_again: set[str] = set()

    def count(self, key: str, written: int) -> None:
        """Counts a message that waits to be written, after `written` events."""
        self._settle(written)
        if key in self.again:
            self.again.remove(key)
            self._waiting_again.add(key)
        else:
            self.new += 1
            self._waiting += 1

    def take_back(self, count: int, left_at: int) -> None:
        """Counts messages taken off; `left_at` is the head before that."""
        self.restored += count
        self.left_at = left_at

    def end(self) -> None:
        """Counts messages that the file no longer has at its end as taken back."""
        if self.again:
            self.take_back(len(self.again), self.left_at or self.grown_at)
            self.again.clear()

    def stop(self, written: int) -> None:
        """Ends an attempt: messages that still wait do not count."""
        self._settle(written)
        self.new -= self._waiting
        self.again |= self._waiting_again
        self._settle(-1)
        self._written = 0

    def _settle(self, written: int) -> None:
        """Lets go of waiting messages once something was written."""
        if written != self._written:
            self._waiting, self._waiting_again = 0, set()
            self._written = written
