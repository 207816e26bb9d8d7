"""The fold at any place of a log, and after any event that reaches back, is the fold of the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core import bookmark
from refold.core.codec import decode
from refold.core.fold import fold
from refold.core.model import Erase, Event
from refold.errors import Invalid
from refold.log import past
from refold.log.log import Log
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore
from tests.core.logs import bodies, logs, sealed


def grown(events: list[Event], appends: list[int]) -> Log:
    """A log that grew by these events, in appends of these sizes; erased bodies are gone."""
    store = MemoryStore()
    log = Log(store, "c")
    at = 0
    while at < len(events):
        batch = events[at : at + appends[at % len(appends)]]
        store.append("c", batch, expect=at)
        at += len(batch)
        if at % 3 == 0:
            log.past.keep_near(log.state)
        for event in batch:
            body = decode(event)
            if isinstance(body, Erase) and 0 < body.seq <= at:
                store.erase("c", body.seq)
        log.catch_up()
        log.past.note(batch, log.state)
    return log


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bookmarks at every few events, so that short logs have some."""
    monkeypatch.setattr(past, "ALONG_EVENTS", 3)
    monkeypatch.setattr(past, "ALONG_SHARE", 0)


long_logs = bodies(48).map(sealed)


@settings(deadline=None, max_examples=60)
@given(logs | long_logs, st.lists(st.integers(1, 4), min_size=1, max_size=5), st.randoms())
def test_every_place_of_a_log_has_the_page_of_its_events(log, appends, random) -> None:
    live = grown(log, appends)
    log = list(live.read()) if log else []
    assert live.state.view() == fold(log)
    places = list(range(len(log) + 1))
    random.shuffle(places)
    live.keep_bookmark()
    reopened = Log(live.store, "c")
    for seq in places:
        assert live.past.at(seq).view() == fold(log[:seq])
        assert reopened.past.at(seq).view() == fold(log[:seq])


def test_the_page_at_a_place_is_the_page_that_was_sent_there() -> None:
    context = refold.open("c", store="memory:", window=8_000)
    pages: dict[int | str, object] = {}
    for number in range(40):
        context.append({"role": "user", "content": f"{number} " + "words " * 40})
        if number % 10 == 9:
            context.compact(target=600)
        if number % 15 == 14:
            context.undo()
        pages[context.view.head] = context.page()
    context.checkpoint("here")
    pages["here"] = context.page()
    for at, page in pages.items():
        assert context.page(at=at) == page
    with pytest.raises(Invalid, match="#999"):
        context.page(at=999)


class Counted(MemoryStore):
    """Counts the events that were read."""

    count = 0

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        events = super().read(conversation, after=after, last=last, limit=limit)
        self.count += len(events)
        return events


@pytest.mark.parametrize("act", ["undo", "redo", "restore", "fork", "diff", "page"])
def test_going_back_reads_the_events_near_it_not_the_log(act: str) -> None:
    def read(messages: int) -> int:
        store = Counted()
        context = refold.open("c", store=store, window=8_000, embedder=False)
        for number in range(messages):
            context.append({"role": "user", "content": f"{number} " + "words " * 40})
            if number % 10 == 9:
                context.compact(target=600)
        if act == "redo":
            context.undo()
        head, before = context.view.head, store.count
        acts = {
            "undo": context.undo,
            "redo": context.redo,
            "restore": lambda: context.restore(head - 5),
            "fork": lambda: context.fork("f", at=head - 5),
            "diff": lambda: context.log.diff(head - 5),
            "page": lambda: context.page(at=head // 2),
        }
        acts[act]()
        return store.count - before

    assert read(240) < 160


@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
def test_the_own_stores_keep_a_bookmark_for_a_place(kind: str, tmp_path: Path) -> None:
    store = open_store("memory:" if kind == "memory" else f"{kind}:{tmp_path / 'store'}")
    context = refold.open("c", store=store, embedder=False)
    for number in range(9):
        context.append({"role": "user", "content": f"{number}"})
    head = context.view.head
    bookmarks = [store.bookmark("c", at=at) for at in range(1, head + 1)]
    kept = {bookmark.read(one).head for one in bookmarks if one}  # type: ignore[union-attr]
    assert max(kept) > head - 4 and len(kept) > 1
    context.fork("f", at=head - 1).close()
    assert store.bookmark("f", at=head - 1) == bookmarks[head - 2]
    store.close()
