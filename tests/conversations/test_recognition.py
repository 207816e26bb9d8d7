"""The conversation that a list belongs to is found by what it says, among all of a store."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.conversations import recognise
from refold.conversations.importer import fronts_of
from refold.stores import open_store

Wire = dict[str, Any]


def said(*texts: str) -> list[Wire]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


@pytest.fixture(params=["memory:", "sqlite:{}/a.db", "files:{}/logs"])
def store(request, tmp_path):
    opened = open_store(request.param.format(tmp_path))
    yield opened
    opened.close()


def write(store, id: str, messages: list[Wire]) -> None:
    with refold.open(id, store=store) as context:
        context.mirror(messages)


def test_the_longest_front_wins(store):
    write(store, "short", said("hi", "hello"))
    write(store, "long", said("hi", "hello", "more", "yes"))
    write(store, "other", said("hi", "good day", "more", "yes"))
    found = recognise(store, said("hi", "hello", "more", "no"))
    assert (found.conversation.id, found.shared) == ("long", 3)
    assert recognise(store, said("good evening")) is None


def test_what_was_appended_otherwise_is_found_too(store):
    with refold.open("plain", store=store) as context:
        for message in said("hi", "hello", "more"):
            context.append(message)
    found = recognise(store, said("hi", "hello", "more", "new"))
    assert (found.conversation.id, found.shared) == ("plain", 3)


def test_it_follows_what_grew_went_back_and_was_deleted(store):
    write(store, "one", said("hi", "hello"))
    assert recognise(store, said("hi", "hello", "more")).shared == 2
    write(store, "one", said("hi", "hello", "more"))
    assert recognise(store, said("hi", "hello", "more")).shared == 3
    write(store, "one", said("hi", "hello", "less"))
    assert recognise(store, said("hi", "hello", "more")).shared == 2
    assert recognise(store, said("hi", "hello", "less")).shared == 3
    refold.conversations.delete(store, ["one"])
    assert recognise(store, said("hi", "hello", "less")) is None


def test_a_damaged_file_of_fronts_is_made_again(tmp_path):
    store = open_store(f"sqlite:{tmp_path}/a.db")
    write(store, "one", said("hi", "hello"))
    assert recognise(store, said("hi")).shared == 1
    path = store.derived_path("fronts.db")
    with open(path, "r+b") as file:
        file.write(b"no database at all, but enough bytes to look like something" * 100)
    assert recognise(store, said("hi", "hello")).shared == 2
    store.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1, max_size=8))
def test_it_is_what_comparing_with_every_conversation_finds(talks):
    store = open_store("memory:")
    lists = [said(*talk) for talk in talks]
    for number, messages in enumerate(lists[:-1]):
        write(store, f"c{number}", messages)
    wanted = lists[-1]
    shared = [
        next((at for at in range(min(len(a), len(wanted))) if a[at] != wanted[at]), min(len(a), len(wanted)))
        for a in lists[:-1]
    ]  # fmt: skip
    found = recognise(store, wanted)
    assert (found.shared if found else 0) == max(shared, default=0)


def digest(messages: list[Wire]) -> bytes:
    return fronts_of(messages, "openai_chat")[-1]


@pytest.mark.parametrize("url", ["sqlite:{}/a.db", "files:{}/logs"])
@pytest.mark.parametrize("way", ["delete", "erase"])
def test_the_file_keeps_no_digest_of_what_is_gone(url, way, tmp_path):
    gone = said("hi", "the pin is 4711", "good")
    store = open_store(url.format(tmp_path))
    write(store, "one", gone)
    with refold.open("one", store=store) as context:
        fork = context.fork("two")
        fork.append({"role": "user", "content": "more"})
        seq = context.view.slots[1].seq
    assert recognise(store, gone).shared == 3
    path = store.derived_path("fronts.db")
    assert digest(gone[:2]) in files_at(path)
    if way == "delete":
        refold.conversations.delete(store, ["one", "two"])
    else:
        refold.conversations.erase(store, "one", [seq])
    assert digest(gone[:2]) not in files_at(path)
    store.close()


def test_what_was_erased_is_not_logged_again_when_its_owner_sends_it(store):
    history = said("hi", "the pin is 4711", "good")
    write(store, "one", history)
    with refold.open("one", store=store) as context:
        seq = context.view.slots[1].seq
    refold.conversations.erase(store, "one", [seq])
    write(store, "one", [*history, *said("next")])
    assert recognise(store, [*history, *said("next")]).shared == 4
    events = [event for id in ids(store) for event in store.read(id)]
    assert not any(b"4711" in event.body for event in events)


def ids(store) -> list[str]:
    return [about.id for about in store.conversations()]


def files_at(path: str) -> bytes:
    return b"".join(one.read_bytes() for one in Path(path).parent.glob(f"{Path(path).name}*"))


def test_many_may_ask_at_once(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    store = open_store(url)
    start = threading.Barrier(4)

    def ask(thread: int) -> list[int]:
        start.wait()
        shared = []
        for turn in range(10):
            messages = said(f"thread {thread}", *map(str, range(turn)))
            write(store, f"log-{thread}", messages)
            shared.append(recognise(url, messages).shared)
        return shared

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [list(range(1, 11))] * 4
    store.close()
