"""A store that syncs by itself, in a thread, where that was asked for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import refold
from refold.log.stored_logs import conversations as conversations_in
from refold.settings import logins
from refold.stores import open_store
from refold.stores.contract.kit import grown
from refold.stores.hybrid.automatic_sync import Worker
from refold.stores.protocol import NewHeads
from tests.edges.server.running import Running
from tests.waiting import LONG_S, until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits for its last sync, however busy the machine is."""
    monkeypatch.setattr("refold.stores.hybrid.automatic_sync.CLOSE_S", LONG_S)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & {"refold-sync", "refold-feed"}


def test_a_store_syncs_by_itself_only_where_that_was_asked_for(tmp_path: Path) -> None:
    quiet = open_store(f"hybrid:{tmp_path}/a.db?far=files:{tmp_path}/far")
    grown(quiet, "quiet", 1)
    assert not threads()
    store = open_store(f"hybrid:{tmp_path}/b.db?far=files:{tmp_path}/far&sync_s=60")
    assert not threads()
    events = grown(store, "c", 3)
    # A folder tells nobody of changes, so nobody listens.
    assert threads() == {"refold-sync"}
    # Closing syncs what waits, and a second time does nothing.
    store.close()
    store.close()
    assert not threads()
    far = open_store(f"files:{tmp_path}/far")
    assert far.read("c") == events
    assert [about.id for about in conversations_in(far)] == ["c"]
    far.close()
    quiet.close()


def test_changes_are_sent_soon(tmp_path: Path) -> None:
    store = open_store(f"hybrid:{tmp_path}/b.db?far=files:{tmp_path}/far&sync_s=3600")
    grown(store, "c", 3)
    far = open_store(f"files:{tmp_path}/far")
    until(lambda: [about.id for about in conversations_in(far)] == ["c"])
    far.close()
    store.close()


# --- what is synced when ---


class Work:
    """Syncs as it is told to, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.answers: list[bool] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, ids) -> bool:
        self.asked.append(tuple(ids))
        assert self.may_end.wait(LONG_S)
        return self.answers.pop(0) if self.answers else True


def test_what_changed_is_synced_alone_and_everything_at_the_beginning() -> None:
    work = Work()
    work.may_end.clear()
    worker = Worker(work, 3_600.0)
    worker.begin()
    until(lambda: work.asked == [()])
    # All of them come while the first sync is under way.
    for id in ("a", "b", "a"):
        worker.wake(id)
    work.may_end.set()
    until(lambda: len(work.asked) == 2)
    assert work.asked[1] == ("a", "b")
    worker.close()
    # Nothing waits, so closing syncs nothing.
    assert len(work.asked) == 2


def test_a_sync_that_did_not_end_is_followed_by_one_of_everything() -> None:
    work = Work()
    work.answers = [True, False]
    worker = Worker(work, 0.2)
    worker.begin()
    until(lambda: work.asked)
    worker.wake("a")
    until(lambda: len(work.asked) >= 3)
    worker.close()
    assert work.asked[2] == ()


def test_two_threads_that_wake_it_first_begin_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    worker = Worker(work, 3_600.0)
    begun: list[str] = []

    def made(**given) -> threading.Thread:
        begun.append(given["name"])
        if len(begun) == 1:
            other = threading.Thread(target=worker.wake, args=("b",))
            other.start()
            # It comes to its end only where it may begin the worker a second time.
            other.join(0.2)
        return threading.Thread(**given)

    monkeypatch.setattr(
        "refold.stores.hybrid.automatic_sync.threading",
        SimpleNamespace(Thread=made, Event=threading.Event, Lock=threading.Lock),
    )
    worker.wake("a")
    worker.close()
    assert begun == ["refold-sync"]
    assert not threads()


def test_a_closed_worker_does_not_begin_again() -> None:
    work = Work()
    worker = Worker(work, 3_600.0)
    worker.close()
    worker.begin()
    worker.wake("a")
    assert not threads() and work.asked == []


def test_a_forked_process_syncs_by_itself_too(tmp_path: Path) -> None:
    store = open_store(f"hybrid:{tmp_path}/b.db?far=files:{tmp_path}/far&sync_s=3600")
    grown(store, "parent", 1)
    child = os.fork()
    if not child:
        status = 1
        try:
            grown(store, "child", 1)
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    store.close()
    far = open_store(f"files:{tmp_path}/far")
    assert {about.id for about in conversations_in(far)} == {"parent", "child"}
    far.close()


def test_a_store_that_was_only_opened_syncs_nothing_when_it_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The close comes before the first sync, however long it takes to come.
    monkeypatch.setattr("refold.stores.hybrid.automatic_sync.SOON_S", LONG_S)
    work = Work()
    worker = Worker(work, 3_600.0)
    worker.begin()
    worker.close()
    assert work.asked == []


class Told:
    """A far store that tells of a change once everything was synced."""

    def __init__(self, hint: NewHeads, work: Work) -> None:
        self.cursor = "1"
        self._hint, self._work, self._ended = hint, work, threading.Event()

    def __iter__(self) -> Iterator[NewHeads]:
        until(lambda: self._work.asked)
        yield self._hint
        self._ended.wait(LONG_S)

    def end(self) -> None:
        self._ended.set()


def test_only_what_is_not_here_yet_is_news() -> None:
    work = Work()
    heads = {"here": 3, "longer": 2}
    told = Told(NewHeads(heads={"here": 3, "new": 1, "longer": 4}), work)
    worker = Worker(
        work,
        3_600.0,
        listen=lambda cursor: told,
        is_news=lambda id, head: heads.get(id) != head,
    )
    worker.begin()
    until(lambda: len(work.asked) == 2)
    worker.close()
    assert work.asked == [(), ("new", "longer")]
    assert not threads()


# --- a server that tells ---


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "server").mkdir()
    server = Running(tmp_path / "server")
    yield server.place(dict(os.environ))
    server.stop()


def test_what_another_device_says_arrives_without_asking(place: str, tmp_path: Path) -> None:
    # Nothing but the feed can be the reason: the safety net is an hour away.
    urls = [f"hybrid:sqlite:{tmp_path}/{n}.db?far={place}&sync_s=3600" for n in ("one", "two")]
    stores = [open_store(url) for url in urls]
    contexts = [refold.open("talk", store=store, model="gpt-4o") for store in stores]
    contexts[0].append({"role": "user", "content": "hello"})
    until(lambda: contexts[1].view.slots)
    contexts[1].append({"role": "assistant", "content": "hello you"})
    until(lambda: len(contexts[0].view.slots) == 2)
    assert contexts[0].view.slots[1].message.blocks[0].text == "hello you"
    assert threads() == {"refold-sync", "refold-feed"}
    for context, store in zip(contexts, stores):
        context.close()
        store.close()
    assert not threads()


def test_what_was_deleted_here_is_not_fetched_by_a_hint(place: str, tmp_path: Path) -> None:
    one = open_store(f"hybrid:sqlite:{tmp_path}/one.db?far={place}&sync_s=3600")
    other = open_store(place)
    events = grown(other, "gone", 2)
    one.bookmark("begin")
    until(lambda: "gone" in {about.id for about in one.conversations()})
    one.delete("gone")
    grown(other, "gone", 1, before=events[-1])
    grown(other, "later", 1)
    until(lambda: "later" in {about.id for about in one.conversations()})
    assert [about.id for about in one.conversations()] == ["later"]
    one.close()
    other.close()


def test_listening_goes_on_after_the_server_was_away(tmp_path: Path, place: str) -> None:
    one = open_store(f"hybrid:sqlite:{tmp_path}/one.db?far={place}&sync_s=3600")
    one.bookmark("begin")
    other = open_store(place)
    grown(other, "first", 1)
    until(one.conversations)
    follower = one.worker.follower
    until(lambda: follower.hints is not None)
    # The connection ends as it does when a server goes away.
    follower.hints.end()
    grown(other, "second", 1)
    until(lambda: len(one.conversations()) == 2)
    one.close()
    other.close()


def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.stores.hybrid.automatic_sync.CLOSE_S", 0.5)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}/org"
        logins.keep(place, "rft_" + "x" * 40, dict(os.environ))
        store = open_store(f"hybrid:sqlite:{tmp_path}/one.db?far={place}&sync_s=3600")
        events = grown(store, "c", 2)
        until(lambda: "refold-feed" in threads())
        store.close()
    # What was not waited for ends once nobody listens there any more.
    until(lambda: not threads())
    near = open_store(f"sqlite:{tmp_path}/one.db")
    assert near.read("c") == events
    near.close()
