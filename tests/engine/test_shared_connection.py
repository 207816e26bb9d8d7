"""Contexts of one process share one connection per SQLite database, and nothing else."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import RefoldError

CONTEXTS = 60
DESCRIPTORS_MAX = 20


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def url(folder: Path) -> str:
    return f"sqlite:{folder}/refold.db"


def say(context: refold.Context, text: str) -> None:
    context.append({"role": "user", "content": text})


def test_descriptors_do_not_grow_with_open_contexts(tmp_path: Path) -> None:
    """Y-110"""
    before = descriptors()
    contexts = [refold.open(f"c{n}", store=url(tmp_path), embedder=False) for n in range(CONTEXTS)]
    for context in contexts:
        say(context, "Hello")
        context.request()
        context.flush()
    assert descriptors() - before <= DESCRIPTORS_MAX
    for context in contexts[:-1]:
        context.close()
    say(contexts[-1], "Still here")
    contexts[-1].close()
    assert descriptors() == before
    assert sorted(os.listdir(tmp_path)) == ["refold.db"], "the last one closes the database"


@settings(max_examples=25, deadline=None)
@given(acts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=25))
def test_contexts_opened_closed_and_written_in_any_order_lose_nothing(
    acts: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Y-112"""
    store = url(tmp_path_factory.mktemp("store"))
    held: dict[int, refold.Context] = {}
    written: dict[int, list[str]] = {}
    for step, (place, act) in enumerate(acts):
        name = f"c{place % 2}"  # two contexts of each conversation
        if act == 0 and place in held:
            held.pop(place).close()
        elif place not in held:
            held[place] = refold.open(name, store=store, embedder=False)
        else:
            say(held[place], f"step {step}")
            written.setdefault(place % 2, []).append(f"step {step}")
    for context in held.values():
        context.close()
    for place, texts in written.items():
        with refold.open(f"c{place}", store=store, embedder=False, read_only=True) as context:
            assert [slot.message.blocks[0].text for slot in context.view.slots] == texts  # type: ignore[union-attr]


def test_threads_with_contexts_of_their_own_lose_nothing(tmp_path: Path) -> None:
    """Y-112"""

    def work(number: int) -> None:
        for part in range(5):
            with refold.open(f"c{number}", store=url(tmp_path), embedder=False) as context:
                for step in range(10):
                    say(context, f"{part} {step}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        with refold.open(f"c{number}", store=url(tmp_path), embedder=False) as context:
            assert len(context.view.slots) == 50


def test_a_child_process_writes_beside_its_parent(tmp_path: Path) -> None:
    """Y-112"""
    first, second = (refold.open(id, store=url(tmp_path), embedder=False) for id in ("a", "b"))
    say(first, "before")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            say(second, "in the child")
            with refold.open("c", store=url(tmp_path), embedder=False) as third:
                say(third, "new in the child")
            second.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    say(first, "after")
    assert [len(refold.open(id, store=url(tmp_path)).view.slots) for id in "abc"] == [2, 1, 1]
    first.close()


def test_a_database_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    """Y-112"""
    folder, other = tmp_path / "one", tmp_path / "two"
    for place, text in ((folder, "old"), (other, "new")):
        with refold.open("a", store=url(place), embedder=False) as context:
            say(context, text)
    held = refold.open("a", store=url(folder), embedder=False)
    shutil.move(folder, tmp_path / "away")
    shutil.move(other, folder)
    with refold.open("a", store=url(folder), embedder=False) as context:
        assert context.view.slots[0].message.blocks[0].text == "new"  # type: ignore[union-attr]
    assert held.view.slots[0].message.blocks[0].text == "old"  # type: ignore[union-attr]


def test_a_failed_open_leaves_the_others_their_connection(tmp_path: Path) -> None:
    """Y-112"""
    held = refold.open("a", store=url(tmp_path), embedder=False)
    say(held, "one")
    with pytest.raises(RefoldError):
        refold.open("b", store=url(tmp_path), counter="no-such-counter")
    say(held, "two")
    with refold.open("a", store=url(tmp_path), read_only=True) as reader:
        assert len(reader.view.slots) == 2
    held.close()
    with apsw.Connection(str(tmp_path / "refold.db")) as connection:
        assert connection.pragma("integrity_check") == "ok"
