"""Conversations move from one store to another, byte for byte: events with their ids and chain,
forks, artifacts.

First both sides are compared, and nothing is written while any log there differs from the one here.
Then parents come before their forks, contents before the events that name them, and every log is
read again on the other side and held against the one here. What is there already is not written
twice: a copy that was interrupted goes on where it was, and the same copy again changes nothing.
Neighbours: two stores below, `refold copy` above.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.offload import suffix_of
from refold.conversations.listing import found
from refold.core import codec
from refold.core.model import CLEANER, Artifact, Conversation, Event
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.reading import conversations
from refold.stores.protocol import Store

PAGE_EVENTS = 200
NAMES_MAX = 5

State = Literal["copied", "continued", "same", "ahead"]


class Copied(Struct, frozen=True, kw_only=True):
    """What became of one conversation. `ahead`: the other side has all of it, and went on.
    `events` and `artifacts` are those that were written; `problems` names contents that this
    side itself has lost."""

    id: str
    state: State
    head: int
    events: int = 0
    artifacts: int = 0
    problems: tuple[str, ...] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """How far a copy is: events written and read again, of all."""

    conversation: str
    done: int
    total: int


Listener = Callable[[Progress], None]


class _Move(Struct, frozen=True, kw_only=True):
    """A conversation here, and how much of it is there: -1 if it is unknown there."""

    about: Conversation
    there: int
    is_ahead: bool = False

    @property
    def first(self) -> int:
        """The event after which there is something to write."""
        return max(self.there, self.about.parent_seq)

    @property
    def state(self) -> State:
        if self.is_ahead:
            return "ahead"
        return (
            "copied" if self.there < 0 else "same" if self.there == self.about.head else "continued"
        )


def copy(
    source: Store, target: Store, names: Sequence[str] = (), *, progress: Listener | None = None
) -> list[Copied]:
    """Copies these conversations, or all, and the parents of forks with them. Conflict, and
    nothing is written, if the target has another log under one of the ids."""
    if source is target or (source.url == target.url and not source.url.startswith("memory:")):
        raise Invalid(f"{source.url} cannot be copied to itself", hint="name two stores")
    moves = _compared(source, target, _chosen(source, names))
    total = sum(2 * move.about.head - move.about.parent_seq - move.first for move in moves)
    copier = _Copier(source, target, progress or (lambda _: None), total)
    return [copier.move(move) for move in moves]


# --- what there is to do ---


def _chosen(source: Store, names: Sequence[str]) -> list[Conversation]:
    """The conversations, each behind the one it was forked from."""
    wanted = (
        [source.conversation(found(source, name)) for name in names]
        if names
        else conversations(source)
    )
    chosen: dict[str, Conversation] = {}
    for about in wanted:
        line = [about]
        while line[-1].parent and line[-1].parent not in chosen:
            line.append(source.conversation(line[-1].parent))
        # Asking again: a list may show what reading finds to be damaged.
        chosen |= {
            one.id: source.conversation(one.id) for one in reversed(line) if one.id not in chosen
        }
    return list(chosen.values())


def _compared(source: Store, target: Store, chosen: list[Conversation]) -> list[_Move]:
    moves = [_move(source, target, about) for about in chosen]
    clashes = [move for move in moves if isinstance(move, str)]
    if clashes:
        more = f" and {len(clashes) - NAMES_MAX} more" if len(clashes) > NAMES_MAX else ""
        said = f"{target.url} has another log: {'; '.join(clashes[:NAMES_MAX])}{more}; nothing was written"
        raise Conflict(said, hint="copy the others by their ids, or into another store")
    return [move for move in moves if isinstance(move, _Move)]


def _move(source: Store, target: Store, about: Conversation) -> _Move | str:
    """What is to be done for a conversation; a sentence if the two logs cannot be one."""
    try:
        there = target.conversation(about.id)
    except NotFound:
        return _Move(about=about, there=-1)
    if (there.parent, there.parent_seq) != (about.parent, about.parent_seq):
        return f"{about.id!r} {_descent(there)} there, and {_descent(about)} here"
    common = min(about.head, there.head)
    if _chain_at(source, about, common) != _chain_at(target, there, common):
        return f"{about.id!r} differs at or before event {common}"
    return _Move(about=about, there=common, is_ahead=there.head > about.head)


def _descent(about: Conversation) -> str:
    return f"left {about.parent!r} at event {about.parent_seq}" if about.parent else "is no fork"


def _chain_at(store: Store, about: Conversation, seq: int) -> bytes:
    if seq == about.head:
        return about.chain
    [event] = store.read(about.id, after=seq - 1, last=seq, limit=1) if seq else [None]
    return event.chain if event else codec.ZERO


# --- doing it ---


class _Copier:
    """Copies one conversation after the other. `checked` are the contents that are known to be
    there."""

    def __init__(self, source: Store, target: Store, progress: Listener, total: int) -> None:
        self.source, self.target, self.progress, self.total = source, target, progress, total
        self.done = self.put = 0
        self.checked: set[str] = set()

    def move(self, move: _Move) -> Copied:
        """Writes what is missing there, and holds all of it against the log here."""
        about, before = move.about, self.put
        if move.there < 0 and about.parent:
            self.target.fork(about.parent, about.parent_seq, about.id)
        for events in self._pages(self.source, about, move.first):
            self._put(events)
            self.target.append(about.id, events, expect=events[0].seq - 1)
            self._tell(about.id, len(events))
        lost = self._verify(about)
        self.target.flush()
        return Copied(
            id=about.id,
            state=move.state,
            head=about.head,
            events=about.head - move.first,
            artifacts=self.put - before,
            problems=tuple(lost.values()),
        )

    def _pages(self, store: Store, about: Conversation, after: int) -> Iterator[list[Event]]:
        while after < about.head:
            events = store.read(about.id, after=after, last=about.head, limit=PAGE_EVENTS)
            if not events:
                raise Corrupt(
                    f"{store.url}: {about.id} has no event {after + 1}", hint="refold verify"
                )
            yield events
            after = events[-1].seq

    def _verify(self, about: Conversation) -> dict[str, str]:
        """Reads the log there from its own first event on: the same events, in one chain, with
        their contents. Gives the contents that are lost here, by digest."""
        lost: dict[str, str] = {}
        after = about.parent_seq
        before = _chain_at(self.source, about, after)
        for here in self._pages(self.source, about, after):
            there = self.target.read(about.id, after=after, last=here[-1].seq, limit=len(here))
            self._check(about.id, here, self._erased(about.id, here, there), before)
            for artifact, event in _artifacts(here):
                lost.pop(artifact.digest, None)
                if (fault := self._fault(artifact)) and event.by != CLEANER:
                    lost[artifact.digest] = f"{artifact.id}: {fault}"
            after, before = here[-1].seq, here[-1].chain
            self._tell(about.id, len(here))
        return lost

    def _erased(self, id: str, here: list[Event], there: list[Event]) -> list[Event]:
        """The events there, after those that are erased here were erased there too."""
        late = [
            n
            for n, (ours, theirs) in enumerate(zip(here, there))
            if ours.erased and not theirs.erased
        ]
        for n in late:
            self.target.erase(id, there[n].seq)
            [there[n]] = self.target.read(id, after=there[n].seq - 1, last=there[n].seq, limit=1)
        return there

    def _check(self, id: str, here: list[Event], there: list[Event], before: bytes) -> None:
        # What was erased there stays erased: the envelope is all that must agree.
        kept = [
            replace(ours, body=b"", salt=b"") if theirs.erased else ours
            for ours, theirs in zip(here, there)
        ]
        faults = list(codec.check(there, after=here[0].seq - 1, before=before))
        if faults or kept != there or len(here) != len(there):
            what = (
                faults[0]
                if faults
                else f"events {here[0].seq} to {here[-1].seq} are not those of {self.source.url}"
            )
            raise Corrupt(
                f"{self.target.url}: {id} was not copied right: {what}",
                hint="refold verify on both stores",
            )

    def _put(self, events: list[Event]) -> None:
        for artifact, _ in _artifacts(events):
            self._fault(artifact)

    def _fault(self, artifact: Artifact) -> str:
        """Makes sure that the content is there; says what is wrong with it here if that cannot
        be."""
        digest = artifact.digest
        if digest in self.checked or _holds(self.target, digest):
            self.checked.add(digest)
            return ""
        try:
            self.target.put(self.source.get(digest), suffix=self._suffix(artifact))
        except NotFound:
            return "its content is missing"
        except (Corrupt, Invalid) as error:
            return f"its content is damaged: {error}"
        self.put += 1
        self.checked.add(digest)
        return ""

    def _suffix(self, artifact: Artifact) -> str:
        path = self.source.location(artifact.digest)
        return os.path.splitext(path)[1] if path else suffix_of(artifact)

    def _tell(self, id: str, count: int) -> None:
        self.done += count
        self.progress(Progress(conversation=id, done=self.done, total=self.total))


def _artifacts(events: list[Event]) -> Iterator[tuple[Artifact, Event]]:
    """The artifacts that events name, each with its event; one that cannot be read names
    nothing."""
    for event in events:
        if event.kind == "artifact":
            try:
                body = codec.decode(event)
            except Corrupt:
                # It is carried as it is; `refold verify` says what is wrong with it.
                continue
            if isinstance(body, Artifact):
                yield body, event


def _holds(store: Store, digest: str) -> bool:
    """Whether the store has the content, whole and unchanged."""
    try:
        for _ in store.get(digest):
            pass
    except (NotFound, Corrupt, Invalid):
        return False
    return True
