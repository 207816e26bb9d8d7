"""Processes tell each other of changes: many hints in one message, none that keeps an append
waiting, and a way that is lost is replaced by looking, until it is back."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from refold.edges.server import change_feed
from refold.edges.server import change_feed as hints
from refold.edges.server.change_feed import Exchange
from refold.errors import Invalid, Unavailable
from refold.stores import hints_of, open_store
from refold.stores.contract.kit import sealed
from refold.stores.protocol import Hint
from tests.edges.server.kit import BASE, Served, served

END_S = 60.0


class Wire:
    """What a place with hints would be: all that is told is put down, and what a test says is
    heard."""

    def __init__(self) -> None:
        self.told: list[list[Hint]] = []
        self.says: queue.SimpleQueue[Hint | Exception] = queue.SimpleQueue()
        self.refuses: Exception | None = None
        self.asked = self.ears = 0

    def publish(self, given: Sequence[Hint]) -> None:
        self.told.append(list(given))

    @contextmanager
    def receiver(self) -> Iterator[Wire]:
        self.asked += 1
        if self.refuses is not None:
            raise self.refuses
        self.ears += 1
        yield self

    def receive(self, wait_s: float) -> list[Hint]:
        try:
            said = self.says.get(timeout=min(wait_s, 0.05))
        except queue.Empty:
            return []
        if isinstance(said, Exception):
            raise said
        return [said]


async def in_thread(work):
    return await asyncio.to_thread(work)


async def until(is_so) -> None:
    end = time.monotonic() + END_S
    while not is_so():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.01)


def exchanged(wire: Wire | None, work) -> None:
    """Runs work with an exchange and what it has heard."""
    heard: list[Hint] = []

    async def run() -> None:
        exchange = Exchange(wire, in_thread, heard.append)
        exchange.start()
        try:
            await work(exchange, heard)
        finally:
            await exchange.stop()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hints, "PAUSE_S", 0.02)
    monkeypatch.setattr(hints, "HINTS_STEP_S", 0.05)


def test_hints_that_come_together_are_told_together_and_only_the_newest_of_a_log():
    wire = Wire()

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        for head in range(1, 101):
            exchange.publish(Hint("acme", f"log-{head % 3}", head))
        await until(lambda: wire.told)

    exchanged(wire, work)
    [told] = wire.told
    assert sorted(hint.head for hint in told) == [98, 99, 100]


def test_what_waits_is_told_before_the_end():
    wire = Wire()

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        exchange.publish(Hint("acme", "log", 1))

    exchanged(wire, work)
    assert wire.told == [[Hint("acme", "log", 1)]]


def test_more_than_can_wait_are_dropped(monkeypatch):
    monkeypatch.setattr(hints, "WAITING_MAX", 5)
    wire = Wire()

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        for number in range(50):
            exchange.publish(Hint("acme", f"log-{number}", 1))

    exchanged(wire, work)
    assert sum(map(len, wire.told)) == 5


def test_what_others_tell_is_heard_and_a_lost_way_comes_back():
    wire = Wire()
    wire.refuses = Unavailable("not yet")

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        await until(lambda: wire.asked > 1)
        assert not exchange.is_hearing
        wire.refuses = None
        await until(lambda: exchange.is_hearing)
        wire.says.put(Hint("acme", "log", 7))
        wire.says.put(Unavailable("the connection is gone"))
        await until(lambda: wire.ears == 2 and exchange.is_hearing)
        wire.says.put(Hint("acme", "log", 8))
        await until(lambda: len(heard) > 1)
        assert [hint.head for hint in heard] == [7, 8]

    exchanged(wire, work)


def test_what_is_heard_after_the_end_is_left():
    """The thread comes back from a slow connection when the loop is gone."""
    wire, is_late = Wire(), threading.Event()

    def heard(wait_s: float) -> list[Hint]:
        assert is_late.wait(END_S)
        return [Hint("acme", "log", 7)]

    wire.heard = heard
    listening: list[threading.Thread] = []

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        await until(lambda: exchange.is_hearing)
        listening.append(exchange._thread)

    exchanged(wire, work)
    is_late.set()
    # What a thread raises fails the test.
    listening[0].join(END_S)
    assert not listening[0].is_alive()


def test_a_place_where_nothing_can_be_heard_is_not_asked_again():
    wire = Wire()
    wire.refuses = Invalid("a pooler")

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        # The thread that would ask again has ended.
        await until(lambda: not exchange._thread.is_alive())
        assert not exchange.is_hearing and wire.asked == 1
        exchange.publish(Hint("acme", "log", 1))

    exchanged(wire, work)
    assert wire.told, "telling does not need an ear"


def test_without_hints_there_is_no_thread_and_nothing_waits():
    before = {*threading.enumerate()}

    async def work(exchange: Exchange, heard: list[Hint]) -> None:
        exchange.publish(Hint("acme", "log", 1))
        assert {*threading.enumerate()} <= before and not exchange.is_hearing

    exchanged(None, work)


def test_a_store_on_this_disk_has_no_direct_address(tmp_path):
    store = open_store(f"sqlite:{tmp_path}/one.db")
    assert hints_of(store) is None
    with pytest.raises(Invalid, match="direct address"):
        hints_of(store, "postgresql://db/work")


async def cursor_of(served: Served) -> str:
    return (await served.call("GET", "feed", params={"wait": 0})).json()["cursor"]


async def changes_after(served: Served, cursor: str) -> list[dict[str, object]]:
    answer = await served.call("GET", "feed", params={"after": cursor, "wait": 25})
    return answer.json()["changes"]


def with_wire(monkeypatch) -> Wire:
    """Servers of this test tell and hear over a wire of ours, and all but never look."""
    wire = Wire()
    monkeypatch.setattr("refold.edges.server.app.hints_of", lambda store, direct: wire)
    monkeypatch.setattr(change_feed, "HEARD_POLL_S", 3_600.0)
    monkeypatch.setattr(change_feed, "POLL_S", 3_600.0)
    return wire


def test_a_listener_hears_of_what_another_server_appended(tmp_path, monkeypatch):
    wire = with_wire(monkeypatch)

    async def work(served: Served) -> None:
        cursor = await cursor_of(served)
        wire.says.put(Hint("other", "theirs", 3))
        wire.says.put(Hint("acme", "log", 7))
        assert await changes_after(served, cursor) == [{"conversation": "log", "head": 7}]

    served(tmp_path, work)


def test_a_listener_hears_of_every_write_whichever_route_it_takes(tmp_path, monkeypatch):
    """Appends are told as they are; of all else it is told that something has changed."""
    wire = with_wire(monkeypatch)
    message = {"message": {"role": "user", "content": "hello"}, "key": "k"}
    writes = [
        ("POST", "conversations", {"json": {"id": "made"}}, "made"),
        ("POST", "conversations/made/messages", {"json": message}, "made"),
        ("POST", "conversations/made/artifacts", {"json": {"name": "n", "content": "c"}}, "made"),
        ("POST", "conversations/made/fork", {"json": {"at": 1, "new": "fork"}}, "fork"),
        ("POST", "conversations/log/events?expect=0",
         {"content": append_body()}, "log"),
    ]  # fmt: skip

    async def work(served: Served) -> None:
        for method, path, given, changed in writes:
            cursor = await cursor_of(served)
            answer = await served.call(method, path, **given)
            assert answer.is_success, answer.text
            changes = await changes_after(served, cursor)
            assert changed in [change["conversation"] for change in changes], path
        await until(lambda: Hint("acme", "log", 1) in [one for told in wire.told for one in told])
        assert Hint("acme") in [one for told in wire.told for one in told]

    served(tmp_path, work)


def append_body() -> bytes:
    from refold.stores import batch_of

    return batch_of(sealed(None, [b'{"kind":"n","data":1}'], kind="note"))


def test_a_hint_that_something_changed_makes_another_server_look(tmp_path, monkeypatch):
    wire = with_wire(monkeypatch)

    async def work(served: Served) -> None:
        cursor = await cursor_of(served)
        store = served.server.orgs.store("acme")
        store.append("log", sealed(None, [b'{"kind":"n","data":1}'], kind="note"), expect=0)
        wire.says.put(Hint("acme"))
        assert await changes_after(served, cursor) == [{"conversation": "log", "head": 1}]

    served(tmp_path, work)


def test_the_metrics_say_whether_others_are_heard(tmp_path, monkeypatch):
    with_wire(monkeypatch)

    async def work(served: Served) -> None:
        await until(lambda: served.server.listening.hears)
        assert "refold_feed_hears 1\n" in (await served.call("GET", f"{BASE}/metrics")).text

    served(tmp_path, work)
