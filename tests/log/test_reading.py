"""Stored logs, read page by page."""

from __future__ import annotations

import pytest

from refold.core import codec
from refold.core.model import Conversation, Event
from refold.errors import Corrupt
from refold.log import stored_logs
from refold.log.stored_logs import (
    chain_at,
    complete_pages,
    conversations,
    events_of,
    pages_of,
    readable,
)
from refold.stores.contract.kit import grown
from refold.stores.in_memory import MemoryStore


class Damaged(MemoryStore):
    """A store in which some events cannot be read."""

    def __init__(self, *seqs: int, reason: str = "event {seq} is damaged") -> None:
        super().__init__()
        self.seqs, self.reason = seqs, reason

    def read(
        self, conversation: str, *, after: int = 0, last: int | None = None, limit: int = 1_000
    ) -> list[Event]:
        events = super().read(conversation, after=after, last=last, limit=limit)
        for event in events:
            if event.seq in self.seqs:
                raise Corrupt(self.reason.format(seq=event.seq))
        return events


def longer(about: Conversation, by: int) -> Conversation:
    """The conversation as if its log were longer."""
    return Conversation(id=about.id, head=about.head + by, chain=about.chain)


def test_conversations_come_by_id_whatever_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for number in range(5):
        grown(store, f"talk-{number}", 1)
    for size in (1, 2, 4, 5, 6):
        monkeypatch.setattr(stored_logs, "LIST_CONVERSATIONS", size)
        assert [about.id for about in conversations(store)] == [f"talk-{n}" for n in range(5)]


def test_pages_hold_every_event_once_and_end_where_the_log_does() -> None:
    store = MemoryStore()
    events = grown(store, "talk", 7)
    for size in (1, 2, 3, 7, 10):
        pages = list(pages_of(store, "talk", last=100, size=size))
        assert [event for page in pages for event in page] == events
        assert all(len(page) <= size for page in pages)
    assert list(pages_of(store, "talk", after=2, last=4)) == [events[2:4]]
    assert list(pages_of(store, "talk", after=7, last=7)) == []


def test_a_log_that_ends_before_its_head_is_corrupt() -> None:
    store = MemoryStore()
    events = grown(store, "talk", 3)
    about = store.conversation("talk")
    assert list(events_of(store, about)) == events
    with pytest.raises(Corrupt, match="event 4 is missing"):
        list(events_of(store, longer(about, 1)))
    with pytest.raises(Corrupt, match="event 4 is missing"):
        list(complete_pages(store, longer(about, 2), after=3))


def test_the_chain_at_a_seq_is_that_of_its_event() -> None:
    store = MemoryStore()
    events = grown(store, "talk", 3)
    about = store.conversation("talk")
    chains = [chain_at(store, about, seq) for seq in range(4)]
    assert chains == [codec.ZERO, *(event.chain for event in events)]
    with pytest.raises(Corrupt, match="event 4 is missing"):
        chain_at(store, about, 4)


def test_a_damaged_event_hides_only_itself() -> None:
    store = Damaged(2, 5)
    grown(store, "talk", 6)
    seqs = [
        0 if isinstance(event, Corrupt) else event.seq
        for event in readable(store, store.conversation("talk"))
    ]
    assert seqs == [1, 0, 3, 4, 0, 6]


def test_a_log_that_fails_for_one_reason_is_not_read_to_its_end() -> None:
    store = Damaged(*range(1, 1_000), reason="the file is gone")
    grown(store, "talk", 50)
    assert len(list(readable(store, store.conversation("talk")))) == 2
