"""Entries: the content of a session file as a sequence of values, and the report on its import.

`line` is the position in the file: a line, or an element where the file is one JSON value.
`session` names a side chain (empty: the session itself); `key` is the name of the entry in the file
and does not change when the file grows. Neighbours: readers make entries, `session_update` writes
them, `importer` reports.
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
ADOPTED = "adopted-compaction"  # a summary taken over from the file
REWOUND = "rewound"  # a line of the file that took back others
UNREAD = "unread"  # an unparseable message


class Entry(Struct, frozen=True, kw_only=True):
    """Common fields. `at_ms` is the time of the entry, if the file has it; `ids` are the ids of its
    lines, empty where a line has none."""

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
    """Position and time of an entry, passed on by readers."""

    line: int
    session: str
    at_ms: int | None


class SessionFacts(Entry, frozen=True, kw_only=True):
    """Facts about the session, valid from here on; None means unchanged. `window` is the model's,
    as the agent has it."""

    model: str | None = None
    window: int | None = None
    title: str | None = None
    system: Any = None
    tools: list[Any] | None = None
    metadata: dict[str, Any] | None = None


class MessageEntry(Entry, frozen=True, kw_only=True):
    """A message in any provider's format, with its usage if known. If the message may still grow,
    `parts` is the number of its content parts so far, and `ids` has one line id per part."""

    message: Any
    usage: Usage | None = None
    parts: int = 0


class UsageEntry(Entry, frozen=True, kw_only=True):
    """Usage on a line of its own, after its reply."""

    usage: Usage


class NoteEntry(Entry, frozen=True, kw_only=True):
    """A line that is not a message. `kind` is its type in the file; in an abandoned branch,
    `message` names the message of the line."""

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
    """An unreadable line."""

    reason: str


class Branch(NamedTuple):
    """An abandoned branch of a session: its name, and its entries from the start of the session."""

    name: str
    entries: Callable[[], Iterator[Entry]]


class Session(Struct, frozen=True, kw_only=True):
    """The conversation of a session, with message counts: in the file, new, taken back by a rewind
    (`restored`), and missing from the file. Restoring `left_at` shows only the abandoned branch;
    `left` counts the messages of branches abandoned in the file, which are only notes. Nothing is
    taken from the file into a conversation that was `erased` as a whole."""

    conversation: str
    title: str
    head: int
    messages: int
    new: int
    restored: int = 0
    left_at: int = 0
    missing: int = 0
    left: int = 0
    erased: bool = False


class Report(Struct, frozen=True, kw_only=True):
    """The result of an import. `unread` has the first of `unread_total` unreadable lines; `unit`
    names what their numbers count, if not lines."""

    file: str
    source: str
    sessions: list[Session]
    unread: list[UnreadLine]
    unread_total: int = 0
    unit: str = "line"


def printable(path: Path) -> str:
    """A file name for reports, with bytes that are not text replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


class Tally:
    """Message counts of an import, over all its attempts: if another process writes to the log
    meanwhile, the import starts over and recognizes its own messages.

    `new` and `restored` (taken back by a rewind) count messages; `left_at` is the head before
    messages were reverted. `again` has the keys of messages written again because a message grew,
    and `grown_at` the head before that. `unparsed` has the keys of new messages that are notes.
    Messages do not count until they are written."""

    def __init__(self) -> None:
        self.new = self.restored = 0
        self.left_at = self.grown_at = 0
        self.again: set[str] = set()
        self.unparsed: set[str] = set()
        self._written = 0  # events, at the last count
        self._waiting = 0
        self._waiting_again: set[str] = set()

    def count(self, key: str, written: int) -> None:
        """Counts a pending message, after `written` events."""
        self._settle(written)
        if key in self.again:
            self.again.remove(key)
            self._waiting_again.add(key)
        else:
            self.new += 1
            self._waiting += 1

    def take_back(self, count: int, left_at: int) -> None:
        """Counts reverted messages; `left_at` is the head before that."""
        self.restored += count
        self.left_at = left_at

    def end(self) -> None:
        """Counts messages missing at the end of the file as taken back."""
        if self.again:
            self.take_back(len(self.again), self.left_at or self.grown_at)
            self.again.clear()

    def stop(self, written: int) -> None:
        """Ends an attempt, without its pending messages."""
        self._settle(written)
        self.new -= self._waiting
        self.again |= self._waiting_again
        self._settle(-1)
        self._written = 0

    def _settle(self, written: int) -> None:
        """Clears the pending messages once they were written."""
        if written != self._written:
            self._waiting, self._waiting_again = 0, set()
            self._written = written
