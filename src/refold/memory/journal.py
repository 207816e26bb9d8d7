"""One scope's log of memories, held open with its fold, and the changes in it.

`user` is in the user's own store, `project` and `agent.NAME` are in the project's. Writing is one
append; events of other processes are read before any answer. A change is an event of the log;
reverting it is another event (`Revert`), which can itself be reverted. Only forgotten words are
lost for good. Neighbours: `log` writes, `fold` reads, `semantic` offers `log` and `revert`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from refold.checked import quoted
from refold.core.codec import decode
from refold.core.ids import conversation_checked
from refold.core.model import MEMORY_PREFIX, Body, Event, Memory, Revert
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.stored_logs import pages_of
from refold.memory.bookmark import unpacked
from refold.memory.claim import claim_of
from refold.memory.entry import Version
from refold.memory.fold import Entries
from refold.stores.protocol import Store

AGENT = "agent."
PAGE_EVENTS = 1_000
BOOKMARK_EVENTS = 2_000  # a shorter log needs no bookmark
CHANGES_PAGE_EVENTS = 200
LOG_HINT = "refold memory log has the numbers"


def scope_checked(scope: str) -> str:
    """The scope; Invalid if there is no such scope."""
    if scope in ("user", "project"):
        return scope
    if scope.startswith(AGENT) and scope != AGENT:
        conversation_checked(MEMORY_PREFIX + scope)
        return scope
    hint = "scopes: user, project, agent.NAME"
    raise Invalid(f"scope: there is no scope {quoted(scope)}", hint=hint)


def switched_off(events: Iterable[tuple[int, Body | None]]) -> frozenset[int]:
    """The reverted seqs. A revert that was itself reverted has no effect."""
    reverts = [(seq, body.seq) for seq, body in events if isinstance(body, Revert)]
    off: set[int] = set()
    for seq, target in reversed(reverts):
        if seq not in off:
            off.add(target)
    return frozenset(off)


class Bookmarks(Protocol):
    """The storage of bookmarks: the index."""

    def bookmark(self, log: str) -> bytes | None:
        """The bookmark of a log, if there is one."""

    def keep_bookmark(self, log: str, kept: bytes) -> None:
        """Stores a bookmark, if that is possible now."""


class Journal:
    """The memories of one scope. Not locked: its owner has the lock."""

    def __init__(self, store: Store, scope: str) -> None:
        self.store, self.scope = store, scope
        self.id = MEMORY_PREFIX + scope
        self.off: frozenset[int] = frozenset()  # reverted seqs
        self._entries = Entries()
        self._glanced: Entries | None = None
        self._versions: dict[int, Version] = {}  # those read for `glance`
        self._log: Log | None = None

    def entries(self) -> Entries:
        """The current entries."""
        head = self._head()
        while self._entries.head < head:
            page = self.store.read(self.id, after=self._entries.head, limit=PAGE_EVENTS)
            if not page:
                break  # another process replaced the log in the meantime
            self._fold(page)
        return self._entries

    def glance(self, bookmarks: Bookmarks) -> Entries:
        """The current entries, for lookups by event and key alone. The first call continues from a
        bookmark; without one, or after much growth, it reads the whole log and stores one."""
        if not self._entries.head:
            self._glanced = self._glanced or self._opened_at(bookmarks.bookmark(self.id))
            if self._glanced is not None and self._catches_up(self._glanced):
                return self._glanced
        self._glanced = None
        self._versions.clear()
        is_first = not self._entries.head
        entries = self.entries()
        if is_first:
            self.keep_bookmark(bookmarks)
        return entries

    def by_key(self, bookmarks: Callable[[], Bookmarks]) -> Entries:
        """The current entries, for lookups by id and event alone. Looks for a bookmark only if the
        log is large and not read yet."""
        if self._entries.head or self._head() < BOOKMARK_EVENTS:
            return self.entries()
        try:
            return self.glance(bookmarks())
        except RefoldError:  # a failing index must not prevent reading the log
            return self.entries()

    def keep_bookmark(self, bookmarks: Bookmarks) -> None:
        """Stores a bookmark of a large log, for the next process."""
        entries = self.entries()
        if entries.head >= BOOKMARK_EVENTS and not entries.unfinished:
            bookmarks.keep_bookmark(self.id, entries.packed(self._event(entries.head).chain))

    def _opened_at(self, kept: bytes | None) -> Entries | None:
        """The state of a bookmark, if it was made from this log."""
        bookmark = unpacked(kept) if kept else None
        if bookmark is None or self.is_empty():
            return None
        try:
            is_ours = self._event(bookmark.head).chain == bookmark.chain
        except NotFound:
            return None
        return Entries.opened(bookmark, self._version) if is_ours else None

    def _catches_up(self, entries: Entries) -> bool:
        """Adds the new events; False if there are too many, or if one affects earlier events, which
        requires a complete fold."""
        page = self.store.read(self.id, after=entries.head, limit=PAGE_EVENTS)
        bodies = [(event, decode(event)) for event in page]
        memories = [
            (event, body)
            for event, body in bodies
            if isinstance(body, Memory) and body.state != "forgotten"
        ]
        if len(page) == PAGE_EVENTS or len(memories) < len(page):
            return False
        for event, body in memories:
            entries.add(event.seq, event.at_ms, body)
        return True

    def _event(self, seq: int) -> Event:
        found = self.store.read(self.id, after=seq - 1, last=seq, limit=1)
        if not found:
            raise NotFound(f"{self.id} has no event {seq}")
        return found[0]

    def _version(self, seq: int) -> Version:
        if seq not in self._versions:
            event = self._event(seq)
            body = decode(event)
            # An event erased since is empty.
            memory = body if isinstance(body, Memory) else Memory(entry="", content="")
            self._versions[seq] = Version(seq, event.at_ms, memory, claim_of(memory.content))
        return self._versions[seq]

    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return not self._head()

    def _head(self) -> int:
        return self.store.head(self.id) or 0

    def _fold(self, events: Sequence[Event]) -> None:
        for event in events:
            body = decode(event)
            if isinstance(body, Revert):
                self._fold_again()
                return
            self._entries.add(event.seq, event.at_ms, body if isinstance(body, Memory) else None)

    def _fold_again(self) -> None:
        """Folds the whole log without reverted events, because a revert affects earlier events."""
        head = self.store.conversation(self.id).head
        pages = pages_of(self.store, self.id, last=head, size=PAGE_EVENTS)
        events = [(event, decode(event)) for page in pages for event in page]
        self.off = switched_off((event.seq, body) for event, body in events)
        self._entries = Entries()
        for event, body in events:
            memory = body if isinstance(body, Memory) else None
            is_off = event.seq in self.off
            self._entries.add(event.seq, event.at_ms, memory, is_off=is_off)

    def events(self) -> Iterator[Event]:
        """The whole log."""
        for page in pages_of(self.store, self.id, last=self.entries().head, size=PAGE_EVENTS):
            yield from page

    def now_ms(self) -> int:
        return self._opened().clock()

    def _opened(self) -> Log:
        if self._log is None:
            self._log = Log(self.store, self.id)
        return self._log

    def revert(self, seq: int) -> None:
        """Reverts the event at a seq."""
        self._opened().append([Draft(body=Revert(seq=seq), by="user")])
        self.entries()

    def append(
        self, bodies: Sequence[Memory], bookmarks: Callable[[], Bookmarks] | None = None
    ) -> Entries:
        """Writes versions of entries; returns the entries with them, with bookmarks only for
        lookups by id."""
        events = self._opened().append([Draft(body=body, by=body.trust) for body in bodies])
        if events[0].seq != self._entries.head + 1:
            return self.entries() if bookmarks is None else self.by_key(bookmarks)
        self._fold(events)
        return self._entries


What = Literal[
    "stored", "changed", "ended", "waits", "rejected", "forgotten", "erased", "reverted", "unknown"
]


class MemoryChange(Struct, frozen=True, kw_only=True):
    """One event of a memory: the action, the entry and its words. `replaces` are the entries it
    ends, `reverts` is the seq of the change it reverts, and `is_off` says that it was itself
    reverted."""

    seq: int
    at_ms: int
    by: str
    what: What
    scope: str = "project"
    entry: str = ""
    version: int = 0
    content: str = ""
    replaces: tuple[str, ...] = ()
    reverts: int = 0
    is_off: bool = False


def changes(journal: Journal) -> Iterator[MemoryChange]:
    """The changes, the newest first. Forgetting an entry takes several events, but counts as one
    change, the last of them."""
    forgotten: set[str] = set()
    head = journal.entries().head
    while head > 0:
        first = max(0, head - CHANGES_PAGE_EVENTS)
        for event in reversed(journal.store.read(journal.id, after=first, last=head)):
            change = _change(journal, event)
            if change.what != "forgotten" or change.entry not in forgotten:
                yield change
            if change.what == "forgotten":
                forgotten.add(change.entry)
        head = first


def _change(journal: Journal, event: Event) -> MemoryChange:
    body = None if event.erased else decode(event)
    memory = body if isinstance(body, Memory) else None
    return MemoryChange(
        seq=event.seq,
        at_ms=event.at_ms,
        by=event.by,
        what=_what(event, body),
        scope=journal.scope,
        entry=memory.entry if memory else "",
        version=memory.version if memory else 0,
        content=memory.content if memory else "",
        replaces=memory.replaces if memory else (),
        reverts=body.seq if isinstance(body, Revert) else 0,
        is_off=event.seq in journal.off,
    )


def _what(event: Event, body: object) -> What:
    if event.erased:
        return "erased"
    if isinstance(body, Revert):
        return "reverted"
    if not isinstance(body, Memory):
        return "unknown"
    if body.state:
        return "waits" if body.state == "waiting" else body.state
    if body.closed:
        return "ended"
    return "stored" if body.version == 1 else "changed"


def revert(journal: Journal, seq: int) -> MemoryChange:
    """Reverts the change at a seq, and returns it. Invalid if it cannot be reverted, Conflict if it
    already was."""
    head = journal.entries().head
    if not 1 <= seq <= head:
        scope = journal.scope
        owner = f"the {scope}" if scope in ("project", "user") else scope
        raise NotFound(f"there is no change {seq} in the memory of {owner}", hint=LOG_HINT)
    [event] = journal.store.read(journal.id, after=seq - 1, last=seq)
    change = _change(journal, event)
    if change.what in ("forgotten", "erased"):
        raise Invalid(f"change {seq} was forgotten, which cannot be undone", hint=LOG_HINT)
    if change.what == "unknown":
        raise Invalid(f"change {seq} is nothing that can be taken back", hint=LOG_HINT)
    if change.is_off:
        raise Conflict(f"change {seq} was taken back already", hint=LOG_HINT)
    journal.revert(seq)
    return change
