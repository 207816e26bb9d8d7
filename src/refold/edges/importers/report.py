"""What became of a file that was imported: its sessions, and what was not understood.

Neighbours: `importer` reports, `unchanged` keeps reports, the command shows them.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from refold.edges.importers.entry import Unread


class Session(Struct, frozen=True, kw_only=True):
    """A conversation that follows a session: its messages in the file, how many of them were new,
    how many a rewound session took back, and how many the file no longer has. To restore `left_at`
    gives the branch that was left, alone; `left` are the messages of branches that were left in
    the file itself, which are notes and nothing else; `erased` were left out, since they may be
    what was erased before and stand in another place now. All of them count messages, not lines."""

    conversation: str
    title: str
    head: int
    messages: int
    new: int
    restored: int = 0
    left_at: int = 0
    missing: int = 0
    left: int = 0
    erased: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """What became of a file. `unread` has the first lines that were not understood, of
    `unread_total`; where the file has no lines, `unit` says what their numbers count."""

    file: str
    source: str
    sessions: list[Session]
    unread: list[Unread]
    unread_total: int = 0
    unit: str = "line"


def printable(path: Path) -> str:
    """The name of a file as it can be reported; names on a disk may have bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "replace")
