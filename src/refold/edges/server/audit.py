"""The audit log: who read, erased and administered what, as notes in the server's own store.

What erases is written before it is answered. Reads are gathered and written each second, one note
for each token and conversation, so that reading stays cheap: a server that is killed loses the last
second of reads. Contents never stand in it. Neighbours: `app` tells, `refold token audit` shows.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import msgspec
from msgspec import Struct

from refold.core.codec import decode
from refold.core.model import Note
from refold.errors import NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.reading import pages_of
from refold.stores.protocol import Store

KIND = "audit"


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the audit log."""

    at_ms: int
    token: str
    action: str
    route: str
    what: str = ""
    times: int = 1


class Audit:
    """Writes the audit log of all organizations, each in a log of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reads: Counter[tuple[str, str, str, str]] = Counter()

    def read(self, org: str, token: str, route: str, what: str) -> None:
        """Remembers a read until the next `flush`."""
        with self._lock:
            self._reads[org, token, route, what] += 1

    def write(self, org: str, token: str, action: str, route: str, what: str) -> None:
        """Writes at once; durable when this returns."""
        now = time.time_ns() // 1_000_000
        self._append(org, [Entry(at_ms=now, token=token, action=action, route=route, what=what)])

    def flush(self) -> None:
        """Writes the reads that were remembered."""
        with self._lock:
            reads, self._reads = self._reads, Counter()
        now = time.time_ns() // 1_000_000
        by_org: dict[str, list[Entry]] = {}
        for (org, token, route, what), times in reads.items():
            entry = Entry(
                at_ms=now, token=token, action="read", route=route, what=what, times=times
            )
            by_org.setdefault(org, []).append(entry)
        for org, entries in by_org.items():
            self._append(org, entries)

    def _append(self, org: str, entries: list[Entry]) -> None:
        notes = [Note(kind=KIND, data=msgspec.to_builtins(entry)) for entry in entries]
        drafts = [Draft(body=note, by="server") for note in notes]
        with self._lock:
            Log(self._store, log_of(org)).append(drafts)
            self._store.flush()


def log_of(org: str) -> str:
    return f"audit-{org}"


def entries_of(store: Store, org: str, *, limit: int) -> list[Entry]:
    """The newest lines of an organization's audit log, oldest first."""
    try:
        head = store.conversation(log_of(org)).head
    except NotFound:
        return []
    found = []
    for page in pages_of(store, log_of(org), after=max(0, head - limit), last=head):
        for event in page:
            body = decode(event)
            if isinstance(body, Note) and body.kind == KIND:
                found.append(msgspec.convert(body.data, Entry))
    return found
