"""Servers are killed under load: what was acknowledged is there, once, in its order."""

from __future__ import annotations

import os
import signal
import threading

from refold.core.codec import continues
from refold.errors import RefoldError
from refold.stores import open_store
from refold.stores.contract.kit import sealed
from tests.real.server.process import running
from tests.waiting import LONG_S, until

WRITERS = 8
KILLS = 4
BETWEEN = 40  # events, so that every kill hits writers at work


class Writer(threading.Thread):
    """Appends to a log of its own until it is told to end; remembers what was acknowledged."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(daemon=True)
        self.id = f"c{number}"
        self._place, self._ending = place, threading.Event()
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []

    def run(self) -> None:
        store = open_store(self._place)
        last = None
        while not self._ending.is_set():
            count = 1 + len(self.acknowledged) % 3
            events = sealed(
                last, [b'{"kind":"n","data":%d}' % n for n in range(count)], kind="note"
            )
            try:
                store.append(self.id, events, expect=last.seq if last else 0)
            except RefoldError as error:
                self.failed.append(f"{type(error).__name__}: {error}")
                return
            self.acknowledged += [event.chain for event in events]
            last = events[-1]

    def end(self) -> None:
        self._ending.set()
        self.join(LONG_S)
        assert not self.is_alive()


def wait_for_more(writers: list[Writer], count: int = BETWEEN) -> None:
    """Returns once so many events more are acknowledged."""

    def acknowledged() -> int:
        assert not any(writer.failed for writer in writers)
        return sum(len(writer.acknowledged) for writer in writers)

    goal = acknowledged() + count
    until(lambda: acknowledged() >= goal)


def check_all_there(place: str, writers: list[Writer]) -> int:
    """How many events were acknowledged; each must stand in its log, once, in order."""
    store = open_store(place)
    total = 0
    for writer in writers:
        assert writer.failed == []
        before, kept = bytes(16), []
        while page := store.read(writer.id, after=len(kept)):
            for event in page:
                assert continues(event, before)
                before = event.chain
                kept.append(event.chain)
        assert kept == writer.acknowledged
        total += len(kept)
    return total


def test_killed_servers_lose_and_double_nothing(tmp_path):
    with running(tmp_path) as team:
        place = team.place()
        writers = [Writer(place, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            wait_for_more(writers)
            team.kill()
            team.start()
        wait_for_more(writers)
        for writer in writers:
            writer.end()
        assert check_all_there(place, writers) > 100


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path):
    with running(tmp_path) as team:
        place = team.place()
        writers = [Writer(place, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for _ in range(3):
            wait_for_more(writers)
            until(lambda: len(team.workers()) == 2)
            os.kill(team.workers()[0], signal.SIGKILL)
        until(lambda: len(team.workers()) == 2)
        for writer in writers:
            writer.end()
        assert check_all_there(place, writers) > 100


def test_a_server_that_is_stopped_finishes_its_appends(tmp_path):
    with running(tmp_path) as team:
        place = team.place()
        writers = [Writer(place, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        wait_for_more(writers)
        team.stop()
        team.start()
        wait_for_more(writers)
        for writer in writers:
            writer.end()
        assert check_all_there(place, writers) > 50
