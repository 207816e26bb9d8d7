"""Brings one conversation to the same state on both sides. Every step can be repeated if the
process is killed.

Nothing is queued: the events to send are those above the far head. Contents are transferred before
the events that name them, in both directions, and an event is erased before the event that records
the erasure arrives. If both sides have grown, the far log wins: the near tail goes on top of it, or
into a fork that is durable before the near log is replaced. The far store is never called while
appends are blocked. Neighbours: `diverged_logs` compares and erases, `sync_record.Moves` notifies
holders of a replaced log, `full_sync` syncs one conversation after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from refold.core import codec, ids
from refold.core.model import ENCRYPTED, Conversation, Event, is_cleanup
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.stores import refuse_encrypted
from refold.stores.hybrid import diverged_logs
from refold.stores.hybrid.sync_record import Move, Moves
from refold.stores.protocol import Store, SyncListener

ROUNDS_MAX = 20  # lost races against other writers
FORKS_MAX = 4  # of one tail, each created because the previous one had diverged
PAGE_EVENTS = 256
PAGE_BYTES = 1024 * 1024
SUFFIX = ".bin"


class Exchanged(Struct, kw_only=True):
    """Work done for one conversation: transferred events and contents, the fork created from
    a near tail, and the common `head`. A conversation that `was_here` and is now gone was deleted,
    and is not fetched again. `missing` holds the artifacts that neither side has, by the seq of
    the event that names them."""

    conversation: str
    was_here: bool = False
    pulled: int = 0
    pushed: int = 0
    contents: int = 0
    erased: int = 0
    head: int = 0
    fork: str = ""
    fork_head: int = 0
    missing: dict[int, str] = field(default_factory=dict)


class Fork(Struct, frozen=True, kw_only=True):
    """The fork for a near tail, branching off `parent` at `at`, whether or not it exists yet.
    `rest` holds the events that it still lacks."""

    id: str
    parent: str
    at: int
    rest: list[Event]


Check = Callable[[Sequence[Event]], None]


class Exchange:
    """Brings conversations to the same state in the near and the far store. `check` raises an error
    for events that must not be sent."""

    def __init__(
        self,
        near: Store,
        far: Store,
        moves: Moves,
        *,
        check: Check | None = None,
        progress: SyncListener | None = None,
        device_name: str = "",
    ) -> None:
        self.near, self.far, self.moves = near, far, moves
        self._check, self._progress = check, progress
        self.device_name = device_name
        self._present: set[str] = set()  # contents that the far store has

    def sync(self, id: str, *, is_here: bool = False, missing: Sequence[int] = ()) -> Exchanged:
        """Transfers missing events in both directions. Raises Conflict if other writers win
        the race too often. `is_here` means that the near store had the conversation a moment ago;
        `missing` holds the seqs of the events whose artifacts neither side had."""
        done = Exchanged(conversation=id, was_here=is_here, missing=dict.fromkeys(missing, ""))
        for _ in range(ROUNDS_MAX):
            try:
                if self._step(id, done):
                    done.missing = self._missing(id, done)
                    return done
            except Conflict:
                continue  # someone wrote in the meantime: compare again
        message = f"{id}: other writers got in first {ROUNDS_MAX} times"
        raise Conflict(message, hint="sync again")

    def _step(self, id: str, done: Exchanged) -> bool:
        """Takes one step; True once both sides are the same."""
        here, there = diverged_logs.about(self.near, id), diverged_logs.about(self.far, id)
        if here is None and there is None:
            raise NotFound(f"there is no conversation {id!r}, near or far", hint="refold list")
        if here is None:
            if done.was_here:
                return True
            assert there is not None
            self._begin(self.far, self.near, there, done)
            done.was_here = True
        elif there is None:
            self._begin(self.near, self.far, here, done)
        elif (here.head, here.chain) == (there.head, there.chain):
            done.head = here.head
            return True
        else:
            return self._reconcile(here, there, done)
        return False

    def _begin(self, source: Store, target: Store, known: Conversation, done: Exchanged) -> None:
        """Creates a conversation on the other side: as a fork if its parent is the same there,
        otherwise with all its events."""
        if known.parent and self._is_shared(source, target, known):
            target.fork(known.parent, known.parent_seq, known.id)
        elif source is self.far:
            self._pull(known.id, 0, known.head, codec.ZERO, done)
        else:
            self._push(known.id, 0, known.head, done)

    def _is_shared(self, source: Store, target: Store, fork: Conversation) -> bool:
        """Whether the parent of a fork is the same on the other side, up to the fork point."""
        try:
            self.sync(fork.parent)
        except Unavailable:
            raise
        except RefoldError:
            return False  # a blocked parent must not block its fork
        parent = diverged_logs.about(target, fork.parent)
        if parent is None or parent.head < fork.parent_seq:
            return False
        left = diverged_logs.chain_at(source, fork, fork.parent_seq)
        return diverged_logs.chain_at(target, parent, fork.parent_seq) == left

    def _reconcile(self, here: Conversation, there: Conversation, done: Exchanged) -> bool:
        """Takes one step for a conversation that both sides have; True if nothing is left."""
        common = diverged_logs.last_common(self.near, here, self.far, there)
        if common == here.head:
            self._pull(here.id, common, there.head, here.chain, done)
        elif common == there.head:
            return not self._try_push(here, common, done)
        else:
            self._replace_near(here, there, common, done)
        return False

    def _try_push(self, here: Conversation, common: int, done: Exchanged) -> bool:
        """Sends new near events. Returns False if writing is denied and they only confirm this
        device's erasures, which must not block a device without write permission."""
        try:
            self._push(here.id, common, here.head, done)
        except Denied:
            tail = pages(self.near, here.id, common, here.head)
            if not all(diverged_logs.is_confirmation(event) for page in tail for event in page):
                raise
            done.head = here.head
            return False
        return True

    # --- one side is behind ---

    def _pull(self, id: str, after: int, last: int, before: bytes, done: Exchanged) -> None:
        erased: list[Event] = []
        head_before = after
        for events in pages(self.far, id, after, last):
            _check_chain(self.far, id, events, after, before)
            self._fetch_contents(events, done)
            done.erased += self._erase_named(id, events, near_head=after, far_head=last)
            erased += diverged_logs.had(events, head_before)
            kept = diverged_logs.emptied(events, diverged_logs.targets(events))
            if self.device_name and erased and events[-1].seq == last:
                kept.append(diverged_logs.confirmation(self.device_name, erased, events[-1]))
            self.near.append(id, kept, expect=after)
            after, before = events[-1].seq, events[-1].chain
            done.pulled += len(events)
            self._report(id, len(events))
        self.near.flush()

    def _push(self, id: str, after: int, last: int, done: Exchanged) -> None:
        # After a power loss, the near store must still have every event that was sent.
        self.near.flush()
        for events in pages(self.near, id, after, last):
            if self._check is not None:
                self._check(events)
            self._send_contents(events, done)
            done.erased += self._erase_named(id, events, near_head=last, far_head=after)
            self.far.append(
                id, diverged_logs.emptied(events, diverged_logs.targets(events)), expect=after
            )
            after = events[-1].seq
            done.pushed += len(events)
            self._report(id, len(events))
        self.far.flush()

    def _erase_named(
        self, id: str, events: Sequence[Event], *, near_head: int, far_head: int
    ) -> int:
        """Erases, on both sides, the events named by these erase events, before these arrive."""
        count = 0
        for seq in sorted(diverged_logs.targets(events)):
            count += seq <= near_head and diverged_logs.erase_event(self.near, self.far, id, seq)
            count += seq <= far_head and diverged_logs.erase_event(self.far, self.near, id, seq)
        return count

    def _fetch_contents(self, events: Sequence[Event], done: Exchanged) -> None:
        for event in events:
            for artifact in diverged_logs.contents_of([event]):
                copied = _copy_content(artifact.digest, self.far, self.near)
                done.contents += copied
                if copied or diverged_logs.holds(self.near, artifact.digest):
                    self._present.add(artifact.digest)
                else:
                    done.missing[event.seq] = artifact.digest

    def _missing(self, id: str, done: Exchanged) -> dict[int, str]:
        """Tries again to fetch missing artifacts. Returns those still missing, by event, except
        those that the log records as cleaned up."""
        seqs, done.missing = done.missing, {}
        head = self.near.head(id) if seqs else None
        if head is None:
            return {}
        for seq in seqs:
            self._fetch_contents(self.far.read(id, after=seq - 1, last=seq, limit=1), done)
        cleaned = {
            artifact.digest
            for page in (pages(self.near, id, 0, head) if done.missing else ())
            for artifact in diverged_logs.contents_of(filter(is_cleanup, page))
        }
        return {
            seq: ids.artifact_id(digest)
            for seq, digest in done.missing.items()
            if digest not in cleaned
        }

    def _send_contents(self, events: Sequence[Event], done: Exchanged) -> None:
        for artifact in diverged_logs.contents_of(events):
            if artifact.digest not in self._present:
                done.contents += _copy_content(artifact.digest, self.near, self.far)
                self._present.add(artifact.digest)

    def _report(self, id: str, count: int) -> None:
        if self._progress is not None:
            self._progress(id, count)

    # --- both sides have grown ---

    def _replace_near(
        self, here: Conversation, there: Conversation, common: int, done: Exchanged
    ) -> None:
        """Replaces the near log with the far one; the near tail goes on top or into a fork."""
        log = self._merged_log(here, there, common, done)
        self._fetch_contents(log[common:], done)
        seen = self.near.salvage(here.id)
        own = [event for event in seen.pieces if isinstance(event, Event)]
        if len(own) != len(seen.pieces) or len(own) != here.head or own[-1].chain != here.chain:
            raise Conflict(f"{here.id!r} was written to in the meantime", head=len(own))
        tail = own[common:]
        moved = diverged_logs.on_top(log, tail, common)
        fork = None if moved is not None else self._fork_for(here.id, common, tail)
        goes_on = fork.id if fork else here.id
        with self.moves.replacing(Move(conversation=here.id, goes_on=goes_on)):
            self._detach_forks(here.id, common)
            if fork:
                self._keep_fork(fork, tail)
                done.fork = fork.id
            after = here.parent_seq if here.parent_seq <= common else 0
            kept = [*log, *(moved or ())]
            erased = diverged_logs.had(log[common:], common)
            if self.device_name and erased:
                kept.append(diverged_logs.confirmation(self.device_name, erased, kept[-1]))
            self.near.rewrite(here.id, kept[after:], after=after, seen=seen)
            self.near.flush()
        done.pulled += len(log) - common
        if fork:
            exchanged = self.sync(fork.id)
            done.fork_head = exchanged.head
            done.pushed += exchanged.pushed
            done.pulled += exchanged.pulled
            done.contents += exchanged.contents

    def _merged_log(
        self, here: Conversation, there: Conversation, common: int, done: Exchanged
    ) -> list[Event]:
        """The common near events and the far tail. Events that the tail erases are erased before
        the near log is replaced, so that no copy of them remains."""
        tail = [event for page in pages(self.far, here.id, common, there.head) for event in page]
        before = diverged_logs.chain_at(self.near, here, common)
        _check_chain(self.far, here.id, tail, common, before)
        done.erased += self._erase_named(here.id, tail, near_head=common, far_head=there.head)
        log = [event for page in pages(self.near, here.id, 0, common) for event in page]
        return [*log, *diverged_logs.emptied(tail, diverged_logs.targets(tail))]

    def _detach_forks(self, id: str, common: int) -> None:
        """Detaches the forks that share events about to be replaced."""
        for about in all_conversations(self.near):
            if about.parent == id and about.parent_seq > common:
                seen = self.near.salvage(about.id)
                events = [event for event in seen.pieces if isinstance(event, Event)]
                if len(events) != about.head:
                    raise Corrupt(f"{about.id}: its log is damaged", hint=codec.REPAIR)
                self.near.rewrite(about.id, events, after=0, seen=seen)
        self.near.flush()

    def _fork_for(self, id: str, common: int, tail: Sequence[Event]) -> Fork:
        """The fork for a near tail. If an earlier fork of the same tail has since diverged, the
        new fork branches off that one."""
        parent, at, rest = id, common, list(tail)
        for _ in range(FORKS_MAX):
            fork = diverged_logs.fork_id(parent, rest[0])
            about = diverged_logs.about(self.near, fork)
            if about is None:
                return Fork(id=fork, parent=parent, at=at, rest=rest)
            if about.head < at or not codec.continues(
                rest[0], diverged_logs.chain_at(self.near, about, at)
            ):
                break  # an unrelated conversation with the same id
            there = self.near.read(fork, after=at, limit=len(rest))
            same = diverged_logs.shared(there, rest)
            if same == len(there):
                return Fork(id=fork, parent=parent, at=at, rest=rest[same:])
            parent, at, rest = fork, at + same, rest[same:]
        message = f"{id!r} cannot be forked: the id {fork!r} belongs to another conversation"
        raise Invalid(message, hint=f"copy {fork!r} to another store, then delete it here")

    def _keep_fork(self, fork: Fork, tail: Sequence[Event]) -> None:
        """Writes the near tail as a durable fork, with the same events, seqs and chains."""
        if fork.at and self.near.head(fork.id) is None:
            self.near.fork(fork.parent, fork.at, fork.id)
        if fork.rest:
            self.near.append(fork.id, fork.rest, expect=fork.rest[0].seq - 1)
        # An interrupted round may have written text there that has since been erased.
        for event in tail:
            if event.erased and not diverged_logs.is_erased(self.near, fork.id, event.seq):
                self.near.erase(fork.id, event.seq)
        self.near.flush()


# --- pages, chains, contents ---


def pages(store: Store, id: str, after: int, last: int) -> Iterator[list[Event]]:
    """The events after `after` up to `last`, in pages small enough for one call."""
    while after < last:
        events = store.read(id, after=after, last=last, limit=PAGE_EVENTS)
        if not events:
            raise Conflict(f"{id!r} ends at event {after}", head=after)
        first, size = 0, 0
        for at, event in enumerate(events):
            size += len(event.body)
            if size > PAGE_BYTES and at > first:
                yield events[first:at]
                first, size = at, len(event.body)
        yield events[first:]
        after = events[-1].seq


def all_conversations(store: Store) -> Iterator[Conversation]:
    """The conversations and memories of a store, ordered by id."""
    after = ""
    while page := store.conversations(after=after, limit=200):
        yield from page
        after = page[-1].id


def _check_chain(store: Store, id: str, events: Sequence[Event], after: int, before: bytes) -> None:
    """Raises Corrupt if the events do not form one chain, Denied if they are encrypted."""
    for event in events:
        if event.by == ENCRYPTED:
            refuse_encrypted(store, id, event)
    for fault in codec.check(events, after=after, before=before):
        hint = "verify the far store: refold verify --store URL"
        raise Corrupt(f"{store.url}: {id}: {fault}", hint=hint)


def _copy_content(digest: str, source: Store, target: Store) -> int:
    """Copies the content with this digest. Returns the number of copies made: 0 if the target
    already has it or the source lacks it, else 1."""
    if target.location(digest) is not None:
        return 0
    try:
        target.put(source.get(digest), suffix=SUFFIX)
    except NotFound:
        return 0
    return 1
