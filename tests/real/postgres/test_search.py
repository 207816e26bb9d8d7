"""The tests of search, on an index that lies in PostgreSQL: the same questions, the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from refold.search.searcher import Searcher
from refold.stores import Store, open_store
from refold.stores.postgres import schema
from refold.stores.protocol import Phrases, TermQuery
from tests.real.postgres.cluster import Server
from tests.real.postgres.conftest import fresh_org
from tests.search import test_bounds, test_dates, test_finding, test_newest, test_searcher
from tests.search.talks import Topics, full_text, seqs, talk
from tests.search.test_bounds import *  # noqa: F403
from tests.search.test_dates import *  # noqa: F403
from tests.search.test_finding import *  # noqa: F403
from tests.search.test_newest import *  # noqa: F403
from tests.search.test_searcher import *  # noqa: F403

# It looks into the tables of a local index.
del test_only_short_talk_asks_and_nothing_that_has_to_do_with_tools  # noqa: F821

MODULES = (test_bounds, test_dates, test_finding, test_newest, test_searcher)


@pytest.fixture
def place(server: Server) -> str:
    return f"{server.url}?org={fresh_org()}"


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    opened = open_store(place)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _stores_in_postgres(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests take for a store of their own is one in PostgreSQL."""
    for module in MODULES:
        if hasattr(module, "memory"):
            monkeypatch.setattr(
                module, "memory", lambda: open_store(f"{server.url}?org={fresh_org()}")
            )


WORDS = [
    "walrus",
    "zebra",
    "otter",
    "lemon",
    "river",
    "stone",
    "lantern",
    "meeting",
    "met",
    "bought",
    "garden",
    "Ann",
    "Bob",
    "why",
    "how",
]


def random_talk(chance: random.Random, number: int) -> list[str]:
    def said() -> str:
        words = chance.choices(WORDS, k=chance.choice([1, 3, 8, 140]))
        author = chance.choice(["", "Ann: ", "Bob: "])
        return (
            f"{chance.choice(['user', 'assistant'])}|{author}{' '.join(words)}{chance.choice('.?')}"
        )

    return [said() for _ in range(number)]


def test_the_order_is_that_of_a_local_index(store: Store) -> None:
    """The same talks in memory and in PostgreSQL: every query gives the same places and scores."""
    chance = random.Random(7)
    local = open_store("memory:")
    for id in ("one", "two", "three"):
        texts = random_talk(chance, 60)
        for place in (local, store):
            talk(place, id, texts, at_ms=1_700_000_000_000)
    for place in (local, store):
        place.fork("one", 30, "branch")
        talk(place, "branch", [])
    here, there = full_text(local), full_text(store)
    for _ in range(60):
        query = " ".join(chance.choices(WORDS, k=chance.choice([1, 2, 4, 7])))
        asked = {
            "limit": 200,
            "role": chance.choice([None, "user"]),
            "conversation": chance.choice([None, "one", "branch"]),
        }
        assert scores(here, query, asked) == scores(there, query, asked), (query, asked)


def scores(searcher: Searcher, query: str, asked: dict) -> dict[tuple[str, int], float]:
    hits = searcher.search(query, **asked)
    return {(hit.conversation, hit.seq): round(hit.score, 6) for hit in hits}


def test_what_one_machine_indexed_another_finds(place: str) -> None:
    here, there = open_store(place), open_store(place)
    talk(here, "a", ["the walrus sleeps", "a zebra runs"])
    assert seqs(full_text(here).search("walrus")) == [1]
    asked: list[str] = []
    there.read = lambda *args, **given: asked.append("read") or here.read(*args, **given)  # type: ignore[method-assign]
    searcher = full_text(there)
    assert searcher.catch_up() == 0 and asked == []
    assert seqs(searcher.search("zebra")) == [2]
    here.close()
    there.close()


def test_what_is_erased_or_deleted_leaves_the_index_at_once(server: Server, place: str) -> None:
    store = open_store(place)
    talk(store, "a", ["the secretword sleeps", "a zebra runs"])
    talk(store, "b", ["another secretword"])
    assert len(full_text(store).search("secretword")) == 2
    store.erase("a", 1)
    store.delete("b")
    left = server.psql(
        f"SELECT count(*) FROM {schema.NAME}.search_entries WHERE org = '{store.org}' AND terms::text LIKE '%secretword%'"
    )
    assert left == "0" and full_text(store).search("secretword") == []
    assert seqs(full_text(store).search("zebra")) == [2]
    store.close()


def test_orgs_do_not_find_each_others_words(server: Server, place: str) -> None:
    mine, yours = open_store(place), open_store(f"{server.url}?org={fresh_org()}")
    talk(mine, "a", ["the walrus sleeps"])
    talk(yours, "a", ["a zebra runs"])
    assert full_text(yours).search("walrus") == [] and seqs(full_text(mine).search("walrus")) == [1]
    mine.close()
    yours.close()


def test_who_only_reads_searches_what_is_indexed_and_is_told_what_is_missing(place: str) -> None:
    store = open_store(place)
    log = talk(store, "a", ["the walrus sleeps"])
    full_text(store).search("walrus")
    reader = full_text(open_store(place, read_only=True))
    assert seqs(reader.search("walrus")) == [1] and reader.said == []
    assert log.state.head == 1
    talk(store, "b", ["a zebra runs"])
    assert reader.search("zebra") == []
    assert [name for name, _ in reader.said] == ["index-behind"]
    store.close()


def test_how_often_a_term_occurs_is_known_exactly(store: Store) -> None:
    """Up to what a tsvector keeps of one term."""
    times = [1, 2, 3, 7, 20, 50, 100, 200, 255]
    talk(store, "a", [f"zebra {'walrus ' * count}" for count in times])
    full_text(store).search("walrus")
    sought = TermQuery(all_of=(Phrases((("walru",), ("zebra",))),), lanes=(0,))
    found = store.terms.postings(sought, None, 100)
    assert sorted(count for _, count in found) == [count + 1 for count in times]


def test_an_embedder_that_was_asked_for_is_told_that_there_are_no_vectors(store: Store) -> None:
    talk(store, "a", ["the walrus sleeps"])
    for asked, told in ((None, []), (False, []), (Topics(), ["embedder-failed"])):
        searcher = Searcher(store, embedder=asked)
        assert seqs(searcher.search("walrus")) == seqs(searcher.search("walrus")) == [1]
        assert [name for name, _ in searcher.said] == told


def test_a_very_long_text_and_very_long_words_are_found(store: Store) -> None:
    long_word = "q" * 5_000
    many = " ".join(f"word{number}x" for number in range(60_000))
    talk(store, "a", [f"one {long_word} here", f"{many} walrus", "wal rus"])
    assert seqs(full_text(store).search(long_word)) == [1]
    assert seqs(full_text(store).search("word7x")) == [2]
    assert seqs(full_text(store).search('"wal rus"')) == [3]
