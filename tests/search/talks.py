"""Conversations to search in, in stores of every kind, and embedders that are scripted."""

from __future__ import annotations

from collections.abc import Iterable

from refold.core.model import Message, Text
from refold.log.draft import Draft
from refold.log.log import Log
from refold.search.searcher import Searcher
from refold.stores import open_store
from refold.stores.protocol import Store

DAY_MS = 86_400_000


def talk(
    store: Store,
    id: str,
    texts: Iterable[str],
    *,
    at_ms: int = 1_700_000_000_000,
    role: str = "user",
) -> Log:
    """A conversation of plain messages, a minute apart; a text may begin with its role and a
    bar."""
    times = iter(range(at_ms, at_ms + 10**12, 60_000))
    log = Log(store, id, clock=lambda: next(times))
    for text in texts:
        who, bar, said = text.partition("|")
        one = Message(role=who if bar else role, blocks=(Text(said if bar else text),))
        log.append([Draft(body=one, by="test")])
    return log


def memory() -> Store:
    return open_store("memory:")


class Topics:
    """An embedder that knows three topics by their words: no arithmetic, no package."""

    name = "topics"
    threshold = 0.5
    WORDS = (
        ("car", "vehicle", "engine"),
        ("pasta", "supper", "noodles"),
        ("login", "password", "token"),
    )

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [
            [float(any(word in text.lower() for word in topic)) for topic in self.WORDS] + [0.1]
            for text in texts
        ]


def seqs(hits) -> list[int]:
    return [hit.seq for hit in hits]


def full_text(store, **given) -> Searcher:
    return Searcher(store, embedder=False, **given)
