"""Ways in which others sync, each with the fault that it has: the simulator must find every one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from refold.core import codec, ids
from refold.core.model import Conversation, Event
from refold.stores.hybrid import diverged_logs
from refold.stores.hybrid.conversation_sync import Exchange, Exchanged, Fork
from refold.stores.hybrid.sync_record import Move


class QueueInMemory(Exchange):
    """Sends what this process has appended, and nothing else."""

    def _push(self, id: str, after: int, last: int, done: Exchanged) -> None:
        queue = [event for of, event in self.device.memory.get("queue", ()) if of == id]  # type: ignore[attr-defined]
        first = min((event.seq for event in queue), default=last + 1)
        if first > after + 1:
            return
        super()._push(id, after, last, done)

    def _step(self, id: str, done: Exchanged) -> bool:
        super()._step(id, done)
        return True


class NoDeduplication(Exchange):
    """Gives every event a new name on its way, as a server does that names what it is sent."""

    def _push(self, id: str, after: int, last: int, done: Exchanged) -> None:
        before = diverged_logs.about(self.far, id)
        chain = before.chain if before else codec.ZERO
        events: list[Event] = []
        for event in self.near.read(id, after=after, last=last):
            named = replace(event, id=ids.uuid7(event.at_ms, secrets.token_bytes(10)))
            events.append(codec.resealed(named, chain, event.seq))
            chain = events[-1].chain
        self._send_contents(events, done)
        self.far.append(id, events, expect=after)
        seen = self.near.salvage(id)
        own = [event for event in seen.pieces if isinstance(event, Event)]
        kept = [*own[:after], *events, *own[last:]]
        parting = seen.parent_seq if seen.parent_seq <= after else 0
        with self.moves.replacing(Move(conversation=id, goes_on=id)):
            self.near.rewrite(id, kept[parting:], after=parting, seen=seen)


class LastWriteWins(Exchange):
    """The side that wrote last is right."""

    def _replace_near(
        self, here: Conversation, there: Conversation, common: int, done: Exchanged
    ) -> None:
        if there.updated_ms >= here.updated_ms:
            seen = self.near.salvage(here.id)
            log = self._merged_log(here, there, common, done)
            self._fetch_contents(log, done)
            after = here.parent_seq if here.parent_seq <= common else 0
            with self.moves.replacing(Move(conversation=here.id, goes_on=here.id)):
                self.near.rewrite(here.id, log[after:], after=after, seen=seen)
        else:
            theirs = self.far.salvage(here.id)
            mine = self.near.read(here.id, limit=10_000)
            self._send_contents(mine, done)
            after = there.parent_seq if there.parent_seq <= common else 0
            self.far.rewrite(here.id, mine[after:], after=after, seen=theirs)


class PositionBeforeEvents(Exchange):
    """Remembers how far it has pulled before it has."""

    def _pull(self, id: str, after: int, last: int, before: bytes, done: Exchanged) -> None:
        positions = self.device.disk.__dict__.setdefault("positions", {})  # type: ignore[attr-defined]
        if positions.get(id, 0) >= last:
            return
        positions[id] = last
        super()._pull(id, after, last, before, done)

    def _step(self, id: str, done: Exchanged) -> bool:
        super()._step(id, done)
        return True


class EventBeforeArtifact(Exchange):
    """Sends what events name after the events."""

    def _push(self, id: str, after: int, last: int, done: Exchanged) -> None:
        events = self.near.read(id, after=after, last=last)
        self.far.append(id, events, expect=after)
        self._send_contents(events, done)


class RandomForkName(Exchange):
    """Calls a fork something else each time."""

    def _replace_near(
        self, here: Conversation, there: Conversation, common: int, done: Exchanged
    ) -> None:
        true = diverged_logs.fork_id
        diverged_logs.fork_id = lambda parent, first: f"{parent[:40]}-{secrets.token_hex(6)}"
        try:
            super()._replace_near(here, there, common, done)
        finally:
            diverged_logs.fork_id = true


class ReplacedBeforeForked(Exchange):
    """Replaces the near log before its fork is durable."""

    def _keep_fork(self, fork: Fork, tail: Sequence[Event]) -> None:
        near = self.near
        self.near = _NeverFlushed(near)  # type: ignore[assignment]
        try:
            super()._keep_fork(fork, tail)
        finally:
            self.near = near


class _NeverFlushed:
    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "flush" else getattr(self._store, name)


class EraseForgotten(Exchange):
    """Carries the event that says so, and erases nothing."""

    def _erase_named(
        self, id: str, events: Sequence[Event], *, near_head: int, far_head: int
    ) -> int:
        return 0


BUGS: list[type[Exchange]] = [
    QueueInMemory,
    NoDeduplication,
    LastWriteWins,
    PositionBeforeEvents,
    EventBeforeArtifact,
    RandomForkName,
    ReplacedBeforeForked,
    EraseForgotten,
]
