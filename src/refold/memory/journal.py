"""One scope's log of memories, held open with its fold.

`user` is in the user's own store, `project` and `agent.NAME` are in the project's. Writing is one
append; what other processes wrote is read before anything is answered. Neighbours: `log` writes,
`fold` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from refold.checked import quoted
from refold.core.codec import conversation_checked, decode
from refold.core.model import MEMORY_PREFIX, Body, Event, Memory, Revert
from refold.errors import Invalid, NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.reading import pages_of
from refold.memory.fold import Entries
from refold.stores.protocol import Store

AGENT = "agent."
PAGE_EVENTS = 1_000


def scope_checked(scope: str) -> str:
    """The scope itself, if it is one."""
    if scope in ("user", "project"):
        return scope
    if scope.startswith(AGENT) and scope != AGENT:
        conversation_checked(MEMORY_PREFIX + scope)
        return scope
    hint = "scopes: user, project, agent.NAME"
    raise Invalid(f"scope: there is no scope {quoted(scope)}", hint=hint)


def switched_off(events: Iterable[tuple[int, Body | None]]) -> frozenset[int]:
    """The seqs that were taken back: a revert that was taken back itself does nothing."""
    reverts = [(seq, body.seq) for seq, body in events if isinstance(body, Revert)]
    off: set[int] = set()
    for seq, target in reversed(reverts):
        if seq not in off:
            off.add(target)
    return frozenset(off)


class Journal:
    """The memories of one scope. Not locked: its owner sees to it."""

    def __init__(self, store: Store, scope: str) -> None:
        self.store, self.scope = store, scope
        self.id = MEMORY_PREFIX + scope
        self.off: frozenset[int] = frozenset()  # the seqs that were taken back
        self._entries = Entries()
        self._log: Log | None = None

    def entries(self) -> Entries:
        """What the log says now."""
        while True:
            try:
                page = self.store.read(self.id, after=self._entries.head, limit=PAGE_EVENTS)
            except NotFound:
                return self._entries
            self._fold(page)
            if len(page) < PAGE_EVENTS:
                return self._entries

    def _fold(self, events: Sequence[Event]) -> None:
        for event in events:
            body = decode(event)
            if isinstance(body, Revert):
                self._fold_again()
                return
            self._entries.add(event.seq, event.at_ms, body if isinstance(body, Memory) else None)

    def _fold_again(self) -> None:
        """Folds the whole log without what was taken back: a revert reaches back."""
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

    def markers(self, entries: set[str]) -> list[Memory]:
        """What was written when these entries were forgotten."""
        bodies = (decode(event) for event in self.events())
        memories = (body for body in bodies if isinstance(body, Memory))
        return [one for one in memories if one.state == "forgotten" and one.entry in entries]

    def now_ms(self) -> int:
        return self._opened().clock()

    def _opened(self) -> Log:
        if self._log is None:
            self._log = Log(self.store, self.id)
        return self._log

    def revert(self, seq: int) -> None:
        """Takes back what was written at a seq."""
        self._opened().append([Draft(body=Revert(seq=seq), by="user")])
        self.entries()

    def append(self, bodies: Sequence[Memory]) -> Entries:
        """Writes versions of entries; gives what the log says with them."""
        events = self._opened().append([Draft(body=body, by=body.trust) for body in bodies])
        if events[0].seq != self._entries.head + 1:
            return self.entries()
        self._fold(events)
        return self._entries
