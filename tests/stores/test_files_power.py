"""What was flushed survives power loss in the tree, whatever was done: titles, forks, erased
events, deletes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refold.core import codec
from refold.stores import Store, open_store
from refold.stores.contract.kit import TEXT, sealed, titled
from tests.stores.disks import disk

Step = Callable[[Store], None]


def append(id: str, count: int) -> Step:
    def step(store: Store) -> None:
        head = (
            store.conversation(id).head if any(one.id == id for one in store.conversations()) else 0
        )
        before = store.read(id, after=head - 1)[0] if head else None
        store.append(id, sealed(before, [TEXT] * count), expect=head)

    return step


def title(id: str, text: str) -> Step:
    def step(store: Store) -> None:
        head = store.conversation(id).head
        store.append(id, [titled(store.read(id, after=head - 1)[0], text)], expect=head)

    return step


# What is done, and what must be seen once it was flushed: heads, titles, what is erased.
STEPS: list[tuple[Step, Callable[[Store], bool]]] = [
    (append("log", 3), lambda store: store.conversation("log").head >= 3),
    (title("log", "one"), lambda store: store.conversation("log").title != ""),
    (append("log", 2), lambda store: store.conversation("log").head >= 6),
    (
        lambda store: store.fork("log", 5, "fork"),
        lambda store: store.conversation("fork").parent_seq == 5,
    ),
    (append("fork", 1), lambda store: store.conversation("fork").head >= 6),
    (
        lambda store: store.erase("fork", 2),
        lambda store: store.read("log")[1].erased and store.read("fork")[1].erased,
    ),
    (title("log", "two"), lambda store: store.conversation("log").title == "two"),
    (
        lambda store: store.fork("fork", 6, "twig"),
        lambda store: store.conversation("twig").head >= 6,
    ),
    (lambda store: store.erase("twig", 6), lambda store: store.read("fork")[5].erased),
    (append("gone", 1), lambda store: True),
    (
        lambda store: store.delete("gone"),
        lambda store: all(one.id != "gone" for one in store.conversations()),
    ),
    (append("twig", 9), lambda store: store.conversation("twig").head == 15),
]


def write(url: str, into: int, *, flush: bool) -> None:
    store = open_store(url)
    for step, _ in STEPS:
        step(store)
        if flush:
            store.flush()
        os.write(into, b".")
    time.sleep(60)


def killed(url: str, *, flush: bool) -> int:
    """Runs the steps in a process that is killed somewhere on the way; gives how many it had
    done for sure."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write(url, into, flush=flush)
        finally:
            os._exit(1)
    os.close(into)
    count, wanted = 0, random.randrange(len(STEPS))
    while count < wanted:
        told = os.read(out, wanted - count)
        assert told, "the writer ended by itself"
        count += len(told)
    time.sleep(random.uniform(0, 0.01))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    count += len(os.read(out, 1_000))
    os.close(out)
    return count


def cuts(folder: Path, count: int, *, flush: bool) -> None:
    with disk(folder) as power:
        for _ in range(count):
            power.clear()
            url = f"files:{power.place / 'tree'}"
            done = killed(url, flush=flush)
            power.cut()
            store = open_store(url)
            for one in store.conversations():
                assert list(codec.check(store.read(one.id))) == [], one
            for number, (_, is_kept) in enumerate(STEPS[: done if flush else 0]):
                assert is_kept(store), (number, done, store.conversations())
            store.close()


def test_what_was_flushed_survives_four_power_cuts(tmp_path: Path) -> None:
    cuts(tmp_path, 4, flush=True)


@pytest.mark.soak
@pytest.mark.parametrize("flush", [True, False])
def test_what_was_flushed_survives_a_hundred_power_cuts(flush: bool, tmp_path: Path) -> None:
    cuts(tmp_path, 100, flush=flush)
