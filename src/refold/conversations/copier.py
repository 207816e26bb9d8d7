"""Conversations move from one store to another, byte for byte: events with their ids and chain,
forks, artifacts.

First both sides are compared, and nothing is written while any log there differs from the one here.
Then parents come before their forks, contents before the events that name them, and every log is
read again on the other side and compared with the one here. What is there already is not written
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
from refold.conversations.listing import id_of
from refold.core import codec
from refold.core.model import Artifact, Conversation, Event, is_cleanup
from refold.errors import Conflict, Corrupt, Invalid, NotFound
from refold.log.reading import artifact_of, chain_at, conversations, whole_pages
from refold.stores import is_same_place
from refold.stores.protocol import Store

PAGE_EVENTS = 200
NAMES_MAX = 5

CopyState = Literal["copied", "continued", "same", "ahead"]


class Copied(Struct, frozen=True, kw_only=True):
    """What became of one conversation. `ahead`: the other side has all of it, and went on.
    `events` and `artifacts` are those that were written; `problems` names contents that this
    side itself has lost."""

    id: str
    state: CopyState
    head: int
    events: int = 0
    artifacts: int = 0
    problems: tuple[str, ...] = ()


class CopyProgress(Struct, frozen=True, kw_only=True):
    """How far a copy is: events written and read again, of all."""

    conversation: str
    done: int
    total: int


CopyListener = Callable[[CopyProgress], None]


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
    def steps(self) -> int:
        """How many events are written and read again."""
        return 2 * self.about.head - self.about.parent_seq - self.first

    @property
    def state(self) -> CopyState:
        if self.is_ahead:
            return "ahead"
        if self.there < 0:
            return "copied"
        return "same" if self.there == self.about.head else "continued"


def copy(
    source: Store, target: Store, names: Sequence[str] = (), *, progress: CopyListener | None = None
) -> list[Copied]:
    """Copies these conversations, or all, and the parents of forks with them. Conflict, and
    nothing is written, if the target has another log under one of the ids."""
    if is_same_place(source, target):
        raise Invalid(f"{source.url} cannot be copied to itself", hint="name two stores")
    moves = _planned(source, target, _chosen(source, names))
    total = sum(move.steps for move in moves)
    copier = _Copier(source, target, progress or (lambda _: None), total)
    return [copier.move(move) for move in moves]


# --- what there is to do ---


def _chosen(source: Store, names: Sequence[str]) -> list[Conversation]:
    """The conversations, each after the one it was forked from."""
    chosen: dict[str, Conversation] = {}
    for id in _ids(source, names):
        for ancestor in reversed(_line_of(source, id, chosen)):
            chosen[ancestor.id] = ancestor
    return list(chosen.values())


def _ids(source: Store, names: Sequence[str]) -> list[str]:
    if names:
        return [id_of(source, name) for name in names]
    return [about.id for about in conversations(source)]


def _line_of(source: Store, id: str, known: dict[str, Conversation]) -> list[Conversation]:
    """A conversation and what it was forked from, as far as that is not known yet."""
    line: list[Conversation] = []
    while id and id not in known:
        # Each is asked for by itself: a list may show what reading finds to be damaged.
        line.append(source.conversation(id))
        id = line[-1].parent
    return line


def _planned(source: Store, target: Store, chosen: list[Conversation]) -> list[_Move]:
    moves: list[_Move] = []
    clashes: list[str] = []
    for about in chosen:
        move = _move(source, target, about)
        if isinstance(move, _Move):
            moves.append(move)
        else:
            clashes.append(move)
    if clashes:
        more = f" and {len(clashes) - NAMES_MAX} more" if len(clashes) > NAMES_MAX else ""
        named = "; ".join(clashes[:NAMES_MAX]) + more
        hint = "copy the others by their ids, or into another store"
        raise Conflict(f"{target.url} has another log: {named}; nothing was written", hint=hint)
    return moves


def _move(source: Store, target: Store, about: Conversation) -> _Move | str:
    """What is to be done for a conversation; a sentence if the two logs cannot be one."""
    try:
        there = target.conversation(about.id)
    except NotFound:
        return _Move(about=about, there=-1)
    if (there.parent, there.parent_seq) != (about.parent, about.parent_seq):
        return f"{about.id!r} {_descent(there)} there, and {_descent(about)} here"
    common = min(about.head, there.head)
    if chain_at(source, about, common) != chain_at(target, there, common):
        return f"{about.id!r} differs at or before event {common}"
    return _Move(about=about, there=common, is_ahead=there.head > about.head)


def _descent(about: Conversation) -> str:
    if about.parent:
        return f"left {about.parent!r} at event {about.parent_seq}"
    return "is not a fork"


# --- doing it ---


class _Copier:
    """Copies one conversation after the other. `present` are the contents that are known to be
    there."""

    def __init__(self, source: Store, target: Store, progress: CopyListener, total: int) -> None:
        self.source, self.target = source, target
        self.progress, self.total = progress, total
        self.done = self.put = 0
        self.present: set[str] = set()

    def move(self, move: _Move) -> Copied:
        """Writes what is missing there, and compares all of it with the log here."""
        about, put_before = move.about, self.put
        if move.there < 0 and about.parent:
            self.target.fork(about.parent, about.parent_seq, about.id)
        for events in self._pages(about, move.first):
            for artifact, _ in _artifacts(events):
                self._put_content(artifact)
            self.target.append(about.id, events, expect=events[0].seq - 1)
            self._tell(about.id, len(events))
        lost = self._verify(about)
        self.target.flush()
        return Copied(
            id=about.id,
            state=move.state,
            head=about.head,
            events=about.head - move.first,
            artifacts=self.put - put_before,
            problems=tuple(lost.values()),
        )

    def _pages(self, about: Conversation, after: int) -> Iterator[list[Event]]:
        """The log here, up to its head."""
        return whole_pages(self.source, about, after, PAGE_EVENTS)

    def _tell(self, id: str, count: int) -> None:
        self.done += count
        self.progress(CopyProgress(conversation=id, done=self.done, total=self.total))

    # --- what was written is read again ---

    def _verify(self, about: Conversation) -> dict[str, str]:
        """Reads the log there from its own first event on: the same events, in one chain, with
        their contents. Gives the contents that are lost here, by digest."""
        lost: dict[str, str] = {}
        after = about.parent_seq
        before = chain_at(self.source, about, after)
        for here in self._pages(about, after):
            last = here[-1]
            there = self.target.read(about.id, after=after, last=last.seq, limit=len(here))
            self._erase(about.id, here, there)
            self._check(about.id, here, there, before)
            self._note_lost(here, lost)
            after, before = last.seq, last.chain
            self._tell(about.id, len(here))
        return lost

    def _erase(self, id: str, here: list[Event], there: list[Event]) -> None:
        """Erases there what is erased here, in the store and among the events read from it."""
        for place, (ours, theirs) in enumerate(zip(here, there)):
            if ours.erased and not theirs.erased:
                there[place] = self._erase_there(id, theirs.seq)

    def _erase_there(self, id: str, seq: int) -> Event:
        """Erases one event in the target, and gives it back as it is now."""
        self.target.erase(id, seq)
        [event] = self.target.read(id, after=seq - 1, last=seq, limit=1)
        return event

    def _check(self, id: str, here: list[Event], there: list[Event], before: bytes) -> None:
        fault = self._fault(here, there, before)
        if fault:
            raise Corrupt(
                f"{self.target.url}: {id} was not copied correctly: {fault}",
                hint="verify both stores: refold verify --store URL",
            )

    def _fault(self, here: list[Event], there: list[Event], before: bytes) -> str:
        """The first thing that is wrong with the events there."""
        first, last = here[0].seq, here[-1].seq
        for fault in codec.check(there, after=first - 1, before=before):
            return fault
        if len(here) == len(there) and all(map(_agree, here, there)):
            return ""
        return f"events {first} to {last} are not those of {self.source.url}"

    # --- contents ---

    def _note_lost(self, events: list[Event], lost: dict[str, str]) -> None:
        for artifact, event in _artifacts(events):
            lost.pop(artifact.digest, None)
            fault = self._put_content(artifact)
            if fault and not is_cleanup(event):
                lost[artifact.digest] = f"{artifact.id}: {fault}"

    def _put_content(self, artifact: Artifact) -> str:
        """Makes sure that the content is there; says what is wrong with it here if that cannot
        be."""
        digest = artifact.digest
        if digest not in self.present and not _holds(self.target, digest):
            try:
                self._copy_content(artifact)
            except NotFound:
                return "its content is missing"
            except (Corrupt, Invalid) as error:
                return f"its content is damaged: {error.message}"
        self.present.add(digest)
        return ""

    def _copy_content(self, artifact: Artifact) -> None:
        path = self.source.location(artifact.digest)
        suffix = os.path.splitext(path)[1] if path else suffix_of(artifact)
        self.target.put(self.source.get(artifact.digest), suffix=suffix)
        self.put += 1


def _agree(ours: Event, theirs: Event) -> bool:
    """Whether two events are the same. What was erased there stays erased: then the envelope is
    all that must agree."""
    if theirs.erased:
        ours = replace(ours, body=b"", salt=b"")
    return ours == theirs


def _artifacts(events: list[Event]) -> Iterator[tuple[Artifact, Event]]:
    """The artifacts that events name, each with its event."""
    for event in events:
        try:
            artifact = artifact_of(event)
        except Corrupt:
            # It is carried as it is; `refold verify` says what is wrong with it.
            continue
        if artifact is not None:
            yield artifact, event


def _holds(store: Store, digest: str) -> bool:
    """Whether the store has the content, whole and unchanged."""
    try:
        for _ in store.get(digest):
            pass
    except (NotFound, Corrupt, Invalid):
        return False
    return True
