"""A bookmark of the fold: what goes on from one answers like what read the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Memory
from refold.memory import journal as journals
from refold.memory.bookmark import unpacked
from refold.memory.claim import claim_of
from refold.memory.entry import Version
from refold.memory.fold import Entries
from refold.memory.ranking import Finder
from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SAID = (
    "The port is 5432",
    "The port is 6432",
    "We moved the port from 5432 to 6432",
    "My manager is Helena",
    "Helena is no longer my manager",
    "We use Splunk",
    "Splunk has been switched off, logs go to Loki",
    "Mira lives in Porto",
    "Mira moved to Lisbon",
    "Mira does not live in Porto any more",
    "Use tabs instead of spaces",
    "The budget is 40 euros",
)
BODIES = st.lists(
    st.tuples(
        st.sampled_from(SAID),
        st.integers(1, 9),
        st.integers(0, 5),
        st.booleans(),
        st.sets(st.integers(1, 9), max_size=2),
    ),
    max_size=30,
)


def _bodies(said: list[tuple[str, int, int, bool, set[int]]]) -> list[Memory]:
    return [
        Memory(
            entry=f"mem-{entry}",
            content=content,
            valid_from_ms=1 + day,
            trust="user" if own else "tool",
            replaces=tuple(f"mem-{one}" for one in sorted(replaced)),
        )
        for content, entry, day, own, replaced in said
    ]


@given(BODIES, st.data())
def test_what_goes_on_from_a_bookmark_knows_what_the_whole_fold_knows(said, data) -> None:
    bodies = _bodies(said)
    cut = data.draw(st.integers(0, len(bodies)))
    whole, first = Entries(), Entries()
    for seq, body in enumerate(bodies, 1):
        whole.add(seq, 100 + seq, body)
        if seq <= cut:
            first.add(seq, 100 + seq, body)

    def version(seq: int) -> Version:
        body = bodies[seq - 1]
        return Version(seq, 100 + seq, body, claim_of(body.content))

    bookmark = unpacked(first.packed(b"chain"))
    assert bookmark is not None and bookmark.head == cut
    opened = Entries.opened(bookmark, version)
    for seq in range(cut + 1, len(bodies) + 1):
        opened.add(seq, 100 + seq, bodies[seq - 1])
    for seq in range(1, len(bodies) + 1):
        expected, found = whole.run_at(seq), opened.run_at(seq)
        assert expected == found
        if expected is not None and found is not None:
            assert whole.entry(expected, "project") == opened.entry(found, "project")
            after = [one.first.seq for one in whole.changes_after(expected, 10**6)]
            assert sorted(one.first.seq for one in opened.changes_after(found, 10**6)) == sorted(
                after
            )
            for other in (whole.run_at(one) for one in range(1, len(bodies) + 1)):
                if other is not None:
                    there, here = (
                        entries.shared(run, other, frozenset({"port"}))
                        for entries, run in ((whole, expected), (opened, found))
                    )
                    assert (there.asked, there.rest) == pytest.approx((here.asked, here.rest))


@given(st.binary(max_size=60))
def test_what_is_no_bookmark_is_none(kept: bytes) -> None:
    found = unpacked(kept)
    assert found is None or found.head >= 0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(journals, "BOOKMARK_EVENTS", 3)
    yield


def _filled(url: str) -> list[str]:
    with refold.open_memory("project", store=url, embedder=False) as memory:
        ids = [
            memory.store(content, at=BEGIN + timedelta(days=day)).id
            for day, content in enumerate(SAID)
        ]
    with refold.open_memory("project", store=url, embedder=False) as memory:
        memory.retrieve("port")  # keeps a bookmark
    return ids


def _reads(url: str, monkeypatch: pytest.MonkeyPatch, question: str = "port") -> list[str]:
    """Which question read the whole log, and what it found."""
    folded = []
    fold = journals.Journal._fold
    monkeypatch.setattr(
        journals.Journal, "_fold", lambda self, events: (folded.append(1), fold(self, events))[1]
    )
    with refold.open_memory("project", store=url, embedder=False) as memory:
        found = [entry.content for entry in memory.retrieve(question)]
    return [*found, "folded"] if folded else found


def test_the_first_question_of_a_process_does_not_read_the_whole_log(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    _filled(url)
    with refold.open_memory("project", store=url, embedder=False) as memory:
        memory.store("The port is 7432")
    found = _reads(url, monkeypatch)
    assert found[0] == "The port is 7432" and "folded" not in found


def test_what_asks_by_ids_does_not_read_the_whole_log(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    ids = _filled(url)
    folded: list[int] = []
    fold = journals.Journal._fold
    monkeypatch.setattr(
        journals.Journal, "_fold", lambda self, events: (folded.append(1), fold(self, events))[1]
    )
    for does in (
        lambda memory: memory.store("The port is 7432"),
        lambda memory: memory.store("Beer instead", replaces=ids[-2]),
        lambda memory: memory.update(ids[-1], "The budget is 50 euros"),
        lambda memory: memory.history(ids[-1]),
        lambda memory: memory.near(ids[-1]),
        lambda memory: memory.ids(ids[-1]),
    ):
        with refold.open_memory("project", store=url, embedder=False) as memory:
            assert does(memory) is not None
    assert not folded
    with refold.open_memory("project", store=url, embedder=False) as memory:
        said = [entry.content for entry in memory.list()]
        assert {"The port is 7432", "Beer instead", "The budget is 50 euros"} <= set(said)
        assert "Use tabs instead of spaces" not in said


def test_an_index_that_is_made_again_has_a_bookmark_again(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    _filled(url)
    with refold.open_memory("agent.scout", store=url, embedder=False) as memory:
        for content in SAID:
            memory.store(content)
        memory.reindex()
    assert "folded" not in _reads(url, monkeypatch)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(SAID), st.none() | st.integers(0, 11)), min_size=4, max_size=12
    )
)
def test_by_ids_the_same_is_told_with_and_without_a_bookmark(
    said: list[tuple[str, int | None]],
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/work.db"
        with refold.open_memory("project", store=url, embedder=False) as memory:
            ids: list[str] = []
            for day, (content, old) in enumerate(said):
                replaces = () if old is None else ids[old : old + 1]
                at = BEGIN + timedelta(days=day)
                ids.append(memory.store(content, at=at, replaces=replaces).id)
            told = {id: memory.history(id) for id in memory.ids() if _is_there(memory, id)}
        patch.setattr(journals, "BOOKMARK_EVENTS", 3)
        with refold.open_memory("project", store=url, embedder=False) as memory:
            memory.reindex()
        for id, history in told.items():
            with refold.open_memory("project", store=url, embedder=False) as memory:
                assert memory.history(id) == history
                assert memory.ids(id) == [id]


def _is_there(memory: SemanticMemory, id: str) -> bool:
    return any(id == entry.id for entry in memory.list(ended=True))


def test_after_something_was_forgotten_no_bookmark_has_it(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    ids = _filled(url)
    with refold.open_memory("project", store=url, embedder=False) as memory:
        memory.forget(ids[-1])
    assert _reads(url, monkeypatch, "budget") == ["folded"]
    assert _reads(url, monkeypatch, "budget") == []


def test_what_another_process_forgot_is_not_found_by_a_bookmark_that_is_open(
    tmp_path: Path, small: None
) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    ids = _filled(url)
    with (
        refold.open_memory("project", store=url, embedder=False) as memory,
        refold.open_memory("project", store=url, embedder=False) as other,
    ):
        assert memory.retrieve("budget")
        other.forget(ids[-1])
        assert not memory.retrieve("budget")
        journal = memory._scopes.journal()
        assert not journal._versions


def test_what_was_taken_back_is_seen_by_who_had_a_bookmark(tmp_path: Path, small: None) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    _filled(url)
    with (
        refold.open_memory("project", store=url, embedder=False) as memory,
        refold.open_memory("project", store=url, embedder=False) as other,
    ):
        assert memory.retrieve("budget")[0].content == "The budget is 40 euros"
        other.revert(len(SAID))
        assert not memory.retrieve("budget")


def test_a_question_is_answered_where_no_bookmark_can_be_kept(tmp_path: Path, small: None) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    _filled(url)
    with refold.open_memory("project", store=url, embedder=False) as memory:
        notices: list[str] = []
        store = refold.open_store(url)
        finder = Finder(store, embedder=False, tell=lambda name, reason: notices.append(name))
        kept = finder.bookmark("memory.project")
        other = apsw.Connection(str(tmp_path / "work.memory.db"))
        other.execute("DELETE FROM bookmarks; BEGIN IMMEDIATE")
        finder.keep_bookmark("memory.project", kept or b"")
        assert "index-behind" in notices
        other.execute("ROLLBACK")
        other.close()
        finder.close()
        store.close()
        assert memory.retrieve("budget")[0].content == "The budget is 40 euros"


def test_a_damaged_bookmark_is_not_used(tmp_path: Path, small: None) -> None:
    url = f"sqlite:{tmp_path / 'work.db'}"
    _filled(url)
    store = refold.open_store(url)
    finder = Finder(store, embedder=False, tell=lambda name, reason: None)
    kept = finder.bookmark("memory.project")
    assert kept is not None
    finder.keep_bookmark("memory.project", kept[: len(kept) // 2])
    finder.close()
    store.close()
    with refold.open_memory("project", store=url, embedder=False) as memory:
        assert memory.retrieve("port")[0].content == "We moved the port from 5432 to 6432"


@settings(max_examples=20)
@given(st.lists(st.sampled_from(SAID), min_size=4, max_size=12))
def test_answers_are_the_same_with_and_without_a_bookmark(said: list[str]) -> None:
    before, journals.BOOKMARK_EVENTS = journals.BOOKMARK_EVENTS, 3
    try:
        store = MemoryStore()
        with SemanticMemory(store, embedder=False, user=lambda: store) as memory:
            for content in said:
                memory.store(content)
            questions = (
                "port",
                "Where does Mira live?",
                "Who is my manager?",
                "What about Splunk?",
            )
            whole = [[hit.id for hit in memory.retrieve(one)] for one in questions]
            journal = memory._scopes.journal()
            entries, journal._entries = journal._entries, Entries()
            finder = memory._scopes.finder(journal)
            chain = store.read(journal.id, after=entries.head - 1, limit=1)[0].chain
            finder.keep_bookmark(journal.id, entries.packed(chain))
            assert [[hit.id for hit in memory.retrieve(one)] for one in questions] == whole
            assert not journal._entries.head
    finally:
        journals.BOOKMARK_EVENTS = before
