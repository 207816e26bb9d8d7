"""A small world in which devices sync through a server, all of it real but the wires and the disks.

A device is a `Log` on a `HybridStore` on a near store whose disk forgets what was not flushed. Its
far store is the real `RemoteStore`, whose calls go to the real routes of the server. Every call of a
store is a step: before and after it the device may be killed, the call or its answer may be lost,
come twice or late, and other devices may act. One seed gives one history, and it can be had again.
"""

from __future__ import annotations

import copy
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import msgspec

from refold.conversations.exporter import json_chunks
from refold.core import codec
from refold.core.ids import (
    artifact_id,
)
from refold.core.model import Artifact, Conversation, Erase, Event, Message, Note, Text
from refold.edges.server import content_routes, log_routes
from refold.edges.server.group_commit import Ends
from refold.edges.server.route import Call, Lines, Plain
from refold.errors import RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores.encrypted.keys import Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.conversation_sync import Exchange, all_conversations
from refold.stores.hybrid.full_sync import Rounds, Timing
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore
from refold.stores.protocol import SyncReport
from refold.stores.remote.store import RemoteStore

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000
STEPS_MAX = 4_000
NESTED_MAX = 2
DANGER = {"rewrite": 8, "fork": 4}  # kills where a mistake would cost most


class Killed(BaseException):
    """The process of a device ends here."""


class Disk(MemoryStore):
    """A near disk: what was not flushed may be gone after the power was cut, each log by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._versions: list[dict[str, Any]] = [{}]
        self.freed: set[str] = set()  # forks that became logs of their own

    def _changed(self) -> None:
        self._versions.append({id: _copied(log) for id, log in self.logs.items()})

    def append(self, conversation: str, events: Any, *, expect: int) -> None:
        super().append(conversation, events, expect=expect)
        self._changed()

    def fork(self, conversation: str, at: int, new: str) -> None:
        super().fork(conversation, at, new)
        self._changed()

    def rewrite(self, conversation: str, events: Any, *, after: int, seen: Any) -> str:
        if seen.parent and not after:
            self.freed.add(conversation)
        kept = super().rewrite(conversation, events, after=after, seen=seen)
        self._changed()
        return kept

    def erase(self, conversation: str, seq: int) -> None:
        super().erase(conversation, seq)
        self.flush()

    def flush(self) -> None:
        self._changed()
        del self._versions[:-1]

    def cut_power(self, chance: random.Random) -> None:
        """Each log is as it was at the last flush, or at any moment since."""
        newest = self._versions[-1]
        kept = {}
        for id in newest:
            version = chance.choice((self._versions[0], newest, chance.choice(self._versions)))
            if id in version:
                kept[id] = version[id]
        for log in list(kept.values()):
            while log.parent:
                # No store lets a fork outlive what it reads.
                if log.parent not in kept or kept[log.parent].head < log.parent_seq:
                    kept[log.parent] = newest[log.parent]
                log = kept[log.parent]
        self.logs = {id: _copied(log) for id, log in kept.items()}
        self.flush()

    def restore(self, saved: dict[str, Any]) -> None:
        self.logs = {id: _copied(log) for id, log in saved.items()}
        self.flush()

    def backup(self) -> dict[str, Any]:
        return {id: _copied(log) for id, log in self.logs.items()}


def _copied(log: Any) -> Any:
    twin = copy.copy(log)
    twin.events = list(log.events)
    twin.bookmark = None
    return twin


class Stepping:
    """A store, each of whose calls is a step of the world."""

    def __init__(self, store: Any, step: Callable[[str], None]) -> None:
        self._store, self._step = store, step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name in ("derived_path", "location", "close"):
            return found

        def stepped(*args: Any, **kwargs: Any) -> Any:
            self._step(name)
            answer = found(*args, **kwargs)
            self._step(name)
            return answer

        return stepped


class Orgs:
    """The server's one organization."""

    def __init__(self, kept: MemoryStore) -> None:
        self._kept = kept

    def store(self, org: str) -> MemoryStore:
        return self._kept

    def ends(self, org: str) -> Ends:
        return Ends(self._kept)


_ROUTES = [
    (
        route,
        re.compile(
            re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path.removeprefix(log_routes.BASE + "/"))
        ),
    )
    for route in [*log_routes.ROUTES, *content_routes.ROUTES]
]


class Wire:
    """The calls of a `RemoteStore`, on their way to the routes: what `Client` is over HTTP."""

    def __init__(self, world: World, device: Device) -> None:
        self._world, self._device = world, device

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        body: bytes | None = None,
        repeats: bool = True,
    ) -> bytes:
        def work() -> bytes:
            answer = self._world.answer(method, path, query or {}, body or b"")
            if isinstance(answer, Lines):
                return answer.lines
            return answer.content if isinstance(answer, Plain) else msgspec.json.encode(answer)

        return self._world.carried(self._device, work)

    def value(self, type: Any, method: str, path: str, **given: Any) -> Any:
        return msgspec.json.decode(self.call(method, path, **given), type=type)

    def send(self, path: str, chunks: Iterator[bytes], query: Any, type: Any) -> Any:
        return self.value(type, "POST", path, query=query, body=b"".join(chunks))

    def chunks(self, path: str) -> Iterator[bytes]:
        def work() -> list[bytes]:
            return list(self._world.answer("GET", path, {}, b"").chunks)

        return iter(self._world.carried(self._device, work))

    def close(self) -> None:
        """A wire has nothing to close."""


class Device:
    """A machine with a near store, and a program that talks in conversations."""

    def __init__(self, world: World, name: str, disk: Disk) -> None:
        self.world, self.name, self.disk = world, name, disk
        self.skew_ms = world.chance.choice((0, -DAY_MS, DAY_MS))
        self.is_gone = self.is_syncing = self.is_cut_off = False
        self.start()

    def start(self) -> None:
        """The process begins: what it knew is gone, what is on the disk is there."""
        self.is_syncing = False
        self.memory: dict[str, Any] = {}
        far = RemoteStore("https://server.example/org")
        far.client = Wire(self.world, self)  # type: ignore[assignment]
        keys = self.world.keys
        self.far = EncryptedStore(far, lambda: keys, near=self.disk) if keys else far
        self.hybrid = HybridStore(self.disk, lambda: self.far, url=f"hybrid:{self.name}")
        self.logs: dict[str, Log] = {}

    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    def say(self, id: str, *, kind: str, count: int = 1) -> None:
        """Appends to a conversation, as a program does that holds it open; flushed at the end."""
        log = self.logs.get(id)
        if log is None:
            log = self.logs[id] = Log(self.hybrid, id, clock=self.now_ms)
        log.catch_up()
        drafts = [self._draft(kind) for _ in range(count)]
        events = log.append(drafts)
        self.disk.flush()
        self.world.acknowledge(events)
        self.memory.setdefault("queue", []).extend((log.conversation, event) for event in events)

    def erase(self) -> None:
        """Erases a message that is known here, as `refold erase` does."""
        known = [
            (about.id, event)
            for about in all_conversations(self.disk)
            for event in log_of(self.disk, about)
            if event.kind == "message" and not event.erased and event.id in self.world.acknowledged
        ]
        if known:
            id, event = self.world.chance.choice(known)
            log = Log(self.hybrid, id, clock=self.now_ms)
            if log.conversation == id:
                log.append([Draft(body=Erase(seq=event.seq), by="user")])
                self.disk.erase(id, event.seq)
                self.world.erased.add(event.id)

    def _draft(self, kind: str) -> Draft:
        words = f"{self.name} {self.world.count()}"
        if kind == "note":
            return Draft(body=Note(kind="n", data=words), by="user")
        if kind == "artifact":
            digest = self.disk.put([words.encode()])
            body = Artifact(id=artifact_id(digest), digest=digest, size_bytes=len(words))
            return Draft(body=body, by="user")
        return Draft(body=Message(role="user", blocks=(Text(words),)), by="user")

    def sync(self) -> SyncReport | None:
        """A sync, which may be killed at any step."""
        if self.is_syncing:
            return None
        self.is_syncing = True
        near = Stepping(self.disk, lambda name: self.world.step(self, DANGER.get(name, 1)))
        exchange = self.world.exchange(near, self.far, self.hybrid.moves)
        exchange.device = self  # type: ignore[attr-defined]
        timing = Timing(now_ms=self.now_ms, wait=lambda _: None, share=self.world.chance.random)
        try:
            return Rounds(near, self.far, exchange, timing=timing).run()  # type: ignore[arg-type]
        except Killed:
            self.die(by_power=self.world.chance.random() < 0.5)
            return None
        finally:
            self.is_syncing = False

    def die(self, *, by_power: bool) -> None:
        self.world.happened["deaths of devices"] += 1
        if by_power:
            self.disk.cut_power(self.world.chance)
        self.start()


class World:
    """Devices, a server, and what was acknowledged. `plague` is how often something goes wrong.
    With keys, the server is one that can read nothing."""

    def __init__(
        self,
        seed: int,
        exchange: type[Exchange] = Exchange,
        *,
        restores: bool = True,
        keys: Keys | None = None,
    ) -> None:
        self.keys = keys
        self.chance = random.Random(seed)
        self.seed, self._exchange = seed, exchange
        self.plague = self.chance.choice((0.0, 0.01, 0.03, 0.08))
        self.restores = restores and self.chance.random() < 0.2
        self.server = Disk()
        self.now_ms = START_MS
        self.acknowledged: dict[str, tuple[bytes, str]] = {}
        self.erased: set[str] = set()
        self.late: list[Callable[[], object]] = []
        self.happened: Counter[str] = Counter()
        self.is_healed = False
        self.reports: list[SyncReport | None] = []
        self.was_restored = False
        self._steps = self._depth = self._count = 0
        self.devices = [Device(self, f"d{n}", Disk()) for n in range(self.chance.choice((1, 2, 3)))]

    def exchange(self, near: Any, far: Any, moves: Any) -> Exchange:
        return self._exchange(near, far, moves)

    def count(self) -> int:
        self._count += 1
        return self._count

    def acknowledge(self, events: list[Event]) -> None:
        self.happened["events acknowledged"] += len(events)
        for event in events:
            self.acknowledged[event.id] = event.body, event.kind

    # --- the server ---

    def answer(self, method: str, path: str, query: Any, body: bytes) -> Any:
        for route, pattern in _ROUTES:
            found = pattern.fullmatch(path)
            if found and route.method == method:
                asked = {name: str(value) for name, value in query.items()}
                parts = {"org": "org", **found.groupdict()}
                answer = route.run(Call(orgs=Orgs(self.server), path=parts, query=asked, body=body))  # type: ignore[arg-type]
                if method == "POST" and "id" in parts:
                    check_log(self.server, self.server.conversation(parts["id"]))
                return answer
        raise AssertionError(f"no route for {method} {path}")

    def carried(self, device: Device, work: Callable[[], Any]) -> Any:
        """A call and its answer, over a wire that loses, doubles and delays both."""
        self.step(device)
        if device.is_cut_off:
            raise Unavailable("cut off")
        fate = self.chance.random() if not self.is_healed else 1.0
        self.happened["calls"] += 1
        self.happened["calls lost, doubled or late"] += fate < 3 * self.plague
        if fate < self.plague:
            if self.chance.random() < 0.5:
                self.late.append(work)
            raise Unavailable("lost on the way")
        answer = work()
        if fate < 2 * self.plague:
            raise Unavailable("its answer was lost")
        if fate < 3 * self.plague:
            self.late.append(work)
        self.step(device)
        return answer

    # --- what happens ---

    def step(self, device: Device, danger: int = 1) -> None:
        """Between any two calls: others act, and this device may end."""
        self._steps += 1
        assert self._steps < STEPS_MAX, f"seed {self.seed}: no end"
        if self.is_healed:
            return
        if self.chance.random() < self.plague and self._depth < NESTED_MAX:
            self._depth += 1
            try:
                self.act(self.chance.choice(self.devices))
            finally:
                self._depth -= 1
        if device.is_syncing and self.chance.random() < danger * self.plague:
            raise Killed

    def act(self, device: Device) -> None:
        """One thing that a device does, or that is done to it."""
        self.now_ms += self.chance.randrange(1_000)
        choice = self.chance.random()
        if device.is_gone:
            return
        if choice < 0.55:
            kind = self.chance.choice(("message", "message", "note", "artifact"))
            main = self.chance.choice(("a", "b"))
            device.say(main, kind=kind, count=self.chance.choice((1, 1, 2)))
        elif choice < 0.57:
            device.erase()
        elif choice < 0.85:
            device.sync()
        elif choice < 0.90:
            device.is_cut_off = not device.is_cut_off
        elif choice < 0.93:
            if not device.is_syncing:
                device.die(by_power=self.chance.random() < 0.5)
        elif choice < 0.95:
            # Back to the main line, as a program does that opens the conversation anew.
            device.logs.clear()
        elif choice < 0.97:
            self.deliver_late()
        elif choice < 0.98 and len(self.devices) < 4 and not device.is_syncing:
            self.clone(device)
        elif choice < 0.99 and self.restores:
            self.restore_server()
        elif choice >= 0.995 and len(self.devices) > 2:
            device.is_gone = True

    def deliver_late(self) -> None:
        while self.late:
            work = self.late.pop(self.chance.randrange(len(self.late)))
            # Nobody waits for its answer any more.
            with suppress(RefoldError):
                work()

    def clone(self, device: Device) -> None:
        self.happened["clones of devices"] += 1
        disk = Disk()
        disk.restore(device.disk.backup())
        disk.contents = dict(device.disk.contents)
        self.devices.append(Device(self, f"{device.name}c{self.count()}", disk))

    def restore_server(self) -> None:
        """The server goes back to a moment in the past; those who synced since still have it."""
        saved = getattr(self, "saved", None)
        if saved is not None and not any(one.is_gone for one in self.devices):
            self.happened["backups put back"] += 1
            self.server.restore(saved)
            self.was_restored = True
        self.saved = self.server.backup()

    def run(self, actions: int) -> None:
        with drawn_by(self.seed):
            for _ in range(actions):
                self.act(self.chance.choice(self.devices))
            self.heal()

    def heal(self) -> None:
        """Faults stop, and everybody syncs until nothing is left to do."""
        self.deliver_late()
        self.is_healed = True
        self._steps = 0
        for device in self.devices:
            device.is_cut_off = False
        for _ in range(3):
            self.reports = []
            for device in self.devices:
                device.is_gone = False
                self.reports.append(device.sync())

    @property
    def freed(self) -> set[str]:
        """Forks that still share what they shared with a parent that is another log now."""
        return set().union(*(device.disk.freed for device in self.devices))

    def stores(self) -> list[Any]:
        server = Decrypted(self.server, self.keys) if self.keys else self.server
        return [server, *(device.disk for device in self.devices)]


class Decrypted(EncryptedStore):
    """A server as a device with the key sees it."""

    def __init__(self, server: Disk, keys: Keys) -> None:
        super().__init__(server, lambda: keys, near=Disk())

    @property
    def contents(self) -> set[str]:
        return {digest for digest, there in self.known.contents.items() if self._has(there)}

    def _has(self, there: str) -> bool:
        return there in self.far.contents  # type: ignore[attr-defined]


@contextmanager
def drawn_by(seed: int) -> Iterator[None]:
    """Ids and salts follow from a seed: the names of forks do too, and so does their order."""
    chance = random.Random(f"bytes {seed}")
    os_bytes = patch.object(os, "urandom", chance.randbytes)
    with os_bytes, patch.object(random, "_urandom", chance.randbytes):
        yield


# --- what must hold ---


def log_of(store: MemoryStore, about: Conversation) -> list[Event]:
    return store.read(about.id, limit=100_000)


def check_server(server: MemoryStore) -> None:
    for about in all_conversations(server):
        check_log(server, about)


def check_log(server: MemoryStore, about: Conversation) -> None:
    """At every moment: a log is a chain without gaps, and what an event names is there."""
    events = log_of(server, about)
    faults = list(codec.check(events))
    assert not faults, f"I3, I4: {about.id}: {faults}"
    for event in events:
        if event.kind == "artifact" and not event.erased:
            digest = codec.decode(event).digest  # type: ignore[union-attr]
            assert digest in server.contents, f"I7: {about.id} #{event.seq} names nothing"


def check_nothing_lost(world: World) -> None:
    for number, store in enumerate(world.stores()):
        found = {
            event.id: event for about in all_conversations(store) for event in log_of(store, about)
        }
        for id, (body, kind) in world.acknowledged.items():
            assert id in found, f"I1: seed {world.seed}: {body!r} is lost in store {number}"
            assert found[id].kind == kind
            if id not in world.erased:
                assert found[id].body == body, f"I2: seed {world.seed}: {id}"


def check_erased(world: World) -> None:
    for number, store in enumerate(world.stores()):
        for about in all_conversations(store):
            for event in log_of(store, about):
                said = f"I9: seed {world.seed}: {about.id} #{event.seq} in store {number}"
                assert event.id not in world.erased or event.erased, said


def check_nothing_doubled(world: World) -> None:
    for store in world.stores():
        owners: dict[str, tuple[str, bytes]] = {}
        for about in all_conversations(store):
            ids = [event.id for event in log_of(store, about)]
            assert len(set(ids)) == len(ids), f"I2: seed {world.seed}: {about.id} says it twice"
            for event in log_of(store, about)[about.parent_seq :]:
                if event.kind == "message":
                    other, chain = owners.setdefault(event.id, (about.id, event.chain))
                    said = f"I2: seed {world.seed}: {event.id} in {other} and {about.id}"
                    is_shared = chain == event.chain and not world.freed.isdisjoint(
                        (other, about.id)
                    )
                    assert world.was_restored or other == about.id or is_shared, said
        if not world.was_restored:
            words = [
                (event.chain, event.body)
                for about in all_conversations(store)
                for event in log_of(store, about)
                if event.kind == "message" and not event.erased
            ]
            told = {body for _, body in words}
            assert len(told) == len(set(words)), f"I2: seed {world.seed}: words are doubled"


def check_converged(world: World) -> None:
    first, *others = [
        {about.id: b"".join(json_chunks(store, about.id)) for about in all_conversations(store)}
        for store in world.stores()
    ]
    for other in others:
        assert other == first, f"I5: seed {world.seed}: {sorted(first)} and {sorted(other)}"


def check_all(world: World) -> None:
    """What holds once the faults have stopped and everybody has synced."""
    is_done = all(report is not None and report.is_done for report in world.reports)
    assert is_done, f"I11: seed {world.seed}: {world.reports}"
    check_converged(world)
    check_nothing_lost(world)
    if not world.was_restored:
        check_erased(world)
    check_nothing_doubled(world)
    for store in world.stores():
        check_server(store)
