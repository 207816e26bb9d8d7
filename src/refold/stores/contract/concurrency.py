"""Clauses about many at once: threads and processes append to one log, and nobody's event is lost
or doubled.

`python -m refold.stores.contract.concurrency URL CONVERSATION NAME COUNT` is one of the writers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from refold.core import codec
from refold.core.model import Event
from refold.errors import Conflict, NotFound
from refold.stores import open_store
from refold.stores.contract.kit import Make, collector, grown, on_new_store, refused, sealed
from refold.stores.protocol import Store
from refold.system import own_python

CLAUSES, clause = collector()

TRIES_MAX = 10_000


def write(store: Store, conversation: str, name: str, count: int) -> None:
    """Appends `count` events of this writer, reading the head again after each conflict."""
    newest: Event | None = None
    for n in range(count):
        for _ in range(TRIES_MAX):
            event = sealed(newest, [f'{{"writer":"{name}","n":{n}}}'.encode()], by=name)[0]
            try:
                store.append(conversation, [event], expect=event.seq - 1)
            except Conflict as conflict:
                newest = store.read(conversation, after=conflict.head - 1, last=conflict.head)[0]
                continue
            newest = event
            break
        else:
            raise AssertionError(f"{name} met {TRIES_MAX} conflicts in a row")


def check_crowd(store: Store, conversation: str, names: list[str], count: int) -> None:
    """Every writer's events are there once and in its order; the log is dense and its chain
    whole."""
    events = store.read(conversation, limit=len(names) * count + 1)
    assert list(codec.check(events)) == []
    assert Counter(event.by for event in events) == Counter(dict.fromkeys(names, count))
    for name in names:
        bodies = [event.body for event in events if event.by == name]
        assert bodies == [f'{{"writer":"{name}","n":{n}}}'.encode() for n in range(count)]


def in_processes(url: str, names: list[str], count: int) -> None:
    """Runs one writer per name, each in a process of its own, all at once."""
    command = ("-m", "refold.stores.contract.concurrency", url, "log")
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    writers = [own_python.start(*command, name, str(count), **pipes) for name in names]
    for writer in writers:
        # Each says that it is ready and waits for its stdin to end, so that they really meet.
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
        writer.stdin = None
    for writer in writers:
        _, complaint = writer.communicate(timeout=120)
        assert writer.returncode == 0, complaint.decode()


def _in_threads(*jobs: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@clause
@on_new_store
def threads_that_share_a_store_lose_nothing(store: Store) -> None:
    names = ["ann", "bob", "cid", "dot"]
    _in_threads(*(lambda name=name: write(store, "log", name, 40) for name in names))
    check_crowd(store, "log", names, 40)


@clause
def two_stores_on_one_log_lose_nothing(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    _in_threads(lambda: write(here, "log", "ann", 60), lambda: write(there, "log", "bob", 60))
    for store in (here, there):
        check_crowd(store, "log", ["ann", "bob"], 60)
    here.close()
    there.close()


@clause
def two_processes_on_one_log_lose_nothing(make: Make) -> None:
    place = make()
    if not place.url:
        return
    in_processes(place.url, ["ann", "bob"], 300)
    store = place.open()
    check_crowd(store, "log", ["ann", "bob"], 300)
    store.close()


@clause
def a_reader_sees_whole_batches_only(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    heads: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            try:
                heads.add(len(there.read("log")))
            except NotFound:
                heads.add(0)

    def fill() -> None:
        newest = None
        try:
            for _ in range(30):
                batch = sealed(newest, [b"{}"] * 7)
                here.append("log", batch, expect=batch[0].seq - 1)
                newest = batch[-1]
        finally:
            done.set()

    _in_threads(watch, fill)
    assert all(head % 7 == 0 for head in heads), sorted(heads)
    here.close()
    there.close()


@clause
def another_store_sees_deletes_and_new_beginnings(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    old = grown(here, "log", 3)
    assert there.read("log") == old
    old += grown(there, "log", 1, before=old[-1])
    here.delete("log")
    with refused(Conflict):
        there.append("log", sealed(old[-1], [b"{}"]), expect=4)
    new = grown(here, "log", 3)
    new += grown(there, "log", 1, before=new[-1])
    with refused(Conflict):
        there.append("log", sealed(old[2], [b"{}"]), expect=3)
    assert there.read("log") == new
    here.delete("log")
    other = grown(here, "other", 4)
    with refused(Conflict):
        there.append("log", sealed(new[-1], [b"{}"]), expect=4)
    assert there.read("other") == other
    here.close()
    there.close()


@clause
def the_same_content_put_by_many_is_kept_once(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    digests: list[str] = []
    content = [b"same" * 10_000] * 10
    _in_threads(
        *(
            lambda store=store: digests.append(store.put(content))
            for store in (here, there, here, there)
        )
    )
    assert len(set(digests)) == 1
    assert b"".join(here.get(digests[0])) == b"".join(content)
    here.close()
    there.close()


def main(url: str, conversation: str, name: str, count: str) -> None:
    store = open_store(url)
    print("ready", flush=True)
    sys.stdin.read()
    write(store, conversation, name, int(count))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
