"""An index that can be lost, locked or behind at any time, and what must leave it (M-27, X-05)."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import Erase
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.log.draft import Draft
from refold.search.searcher import Searcher
from refold.search.upkeep import IndexLost, Upkeep, index_path, retried
from refold.stores import open_store
from tests.search.talks import full_text, memory, seqs, talk


def test_a_deleted_conversation_is_found_no_more_and_its_name_can_be_used_again(store):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    store.delete("a")
    assert searcher.search("walrus") == []
    talk(store, "a", ["a zebra", "another zebra"])
    assert searcher.search("walrus") == [] and len(searcher.search("zebra")) == 2
    with pytest.raises(NotFound):
        searcher.search("zebra", conversation="b")


def test_an_erased_event_leaves_the_index_and_its_words_leave_the_file(store):
    log = talk(store, "a", ["the password is walrusique", "harmless zebra"])
    searcher = full_text(store)
    assert seqs(searcher.search("walrusique")) == [1]
    store.erase("a", 1)
    log.append([Draft(body=Erase(seq=1), by="test")])
    assert searcher.search("walrusique") == [] and seqs(searcher.search("zebra"))[0] == 2
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


def test_an_erasure_that_the_log_does_not_speak_of_is_noticed_at_the_hit(store):
    talk(store, "a", ["the password is walrusique"])
    searcher = full_text(store)
    searcher.catch_up()
    store.erase("a", 1)
    assert searcher.search("walrusique") == []
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


def test_what_comes_later_is_found_and_nothing_is_written_by_an_append(store, tmp_path):
    log = talk(store, "a", ["one walrus"])
    assert os.listdir(tmp_path) == ["refold.db"] or "index.db" not in os.listdir(tmp_path)
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    before = os.stat(searcher.path).st_mtime_ns
    talk(store, "a", ["two walrus"])
    assert os.stat(searcher.path).st_mtime_ns == before
    assert len(searcher.search("walrus")) == 2
    assert stat.S_IMODE(os.stat(searcher.path).st_mode) == 0o600
    assert log.state.head == 1


def test_a_memory_store_has_no_file_and_a_store_that_is_not_there_yet_gets_none(tmp_path):
    assert Searcher(memory(), embedder=False).path == ":memory:"
    never = open_store(f"sqlite:{tmp_path / 'never' / 'refold.db'}")
    assert full_text(never).search("walrus") == []
    assert not (tmp_path / "never").exists()


def test_two_stores_in_one_folder_have_their_own_index(tmp_path):
    one, other = (open_store(f"sqlite:{tmp_path / name}") for name in ("refold.db", "other.db"))
    talk(one, "a", ["one walrus"])
    talk(other, "a", ["two zebras"])
    assert full_text(one).search("zebra") == [] and len(full_text(other).search("zebra")) == 1


def truncate(path):
    os.truncate(path, 5_000)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(0)
        file.write(b"not a database at all " * 300)


def drop_table(path):
    connection = apsw.Connection(path)
    connection.execute("DROP TABLE documents")
    connection.close()


def older_version(path):
    connection = apsw.Connection(path)
    connection.pragma("user_version", 99)
    connection.close()


@pytest.mark.parametrize("harm", [os.unlink, truncate, overwrite, drop_table, older_version])
def test_a_lost_or_damaged_index_is_built_anew_and_said(store, harm):
    talk(store, "a", [f"walrus number {number}" for number in range(200)])
    first = full_text(store)
    assert len(first.search("walrus", limit=50)) == 50
    first.close()
    harm(first.path)
    again = full_text(store)
    assert len(again.search("walrus", limit=50)) == 50
    assert [name for name, _ in again.said] == ([] if harm is os.unlink else ["index-rebuilt"])


def test_an_index_that_another_process_is_sealing_is_not_taken_for_changed(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    first = full_text(store)
    assert len(first.search("walrus")) == 1
    closed, opened, set_time = threading.Event(), threading.Event(), os.utime

    def later(*args, **kwargs):
        closed.set()
        opened.wait(10)
        set_time(*args, **kwargs)

    monkeypatch.setattr(os, "utime", later)
    with ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(first.close)
        assert closed.wait(10)
        inode = os.stat(first.path).st_ino
        slept = time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: (opened.set(), slept(seconds)))
        again = full_text(store)
        assert len(again.search("walrus")) == 1 and again.said == []
        sealing.result()
    assert opened.is_set() and os.stat(again.path).st_ino == inode


def test_damage_that_shows_in_the_middle_of_a_search_is_survived(store):
    talk(store, "a", [f"walrus number {number} " + "x" * 200 for number in range(300)])
    searcher = full_text(store)
    searcher.search("walrus")
    harm = "PRAGMA trusted_schema=ON; DELETE FROM documents_data WHERE id > 10"
    with contextlib.closing(apsw.Connection(searcher.path)) as other:
        other.execute(harm).fetchall()
    assert len(searcher.search("walrus", limit=50)) == 50
    assert searcher.said[-1][0] == "index-rebuilt"


def test_a_database_of_another_program_is_left_alone(store):
    talk(store, "a", ["one walrus"])
    path = full_text(store).path
    other = apsw.Connection(path)
    other.execute("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1)")
    other.close()
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    assert searcher.said[0][0] == "index-in-memory" and "another program" in searcher.said[0][1]
    with pytest.raises(Invalid):
        searcher.rebuild()
    searcher.close()
    assert apsw.Connection(path).execute("SELECT x FROM theirs").get == 1


def test_a_locked_index_answers_with_what_it_has(store, monkeypatch):
    monkeypatch.setattr("refold.search.database.BUSY_MS", 1)
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    other = apsw.Connection(searcher.path)
    other.execute("BEGIN IMMEDIATE")
    talk(store, "a", ["two walrus"])
    assert seqs(searcher.search("walrus")) == [1]
    assert searcher.said[-1][0] == "index-behind" and "busy" in searcher.said[-1][1]
    other.execute("ROLLBACK")
    assert len(searcher.search("walrus")) == 2


def test_a_read_only_index_answers_with_what_it_has(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    first = full_text(store)
    first.search("walrus")
    first.close()
    talk(store, "a", ["two walrus"])
    searcher = full_text(store)
    # Root may write any file, so the mode of the file shows nothing; what counts is what SQLite
    # says of it.
    monkeypatch.setattr("refold.search.index.Index.is_writable", False)
    assert seqs(searcher.search("walrus")) == [1]
    assert searcher.said[-1] == (
        "index-behind",
        f"{searcher.path} is read-only; the newest messages may be missing",
    )


def test_an_index_that_cannot_be_made_is_kept_in_memory(tmp_path):
    store = open_store(f"sqlite:{tmp_path / 'refold.db'}")
    talk(store, "a", ["one walrus"])
    os.mkdir(tmp_path / "index.db")
    searcher = full_text(store)
    assert len(searcher.search("walrus")) == 1
    assert "in memory" in searcher.said[0][1]


def test_catching_up_is_bounded_and_goes_on_where_it_was(store):
    talk(store, "a", [f"walrus number {number}" for number in range(50)])
    searcher = full_text(store)
    assert searcher.catch_up(20) == 30
    assert searcher.catch_up(20) == 10
    assert searcher.catch_up(20) == 0
    assert len(searcher.search("walrus", limit=100)) == 50


def test_a_search_that_could_not_take_in_everything_says_so(store, monkeypatch):
    monkeypatch.setattr("refold.search.upkeep.SEARCH_EVENTS", 10)
    talk(store, "a", [f"walrus number {number}" for number in range(25)])
    searcher = full_text(store)
    assert len(searcher.search("walrus", limit=100)) == 10
    assert searcher.said[-1][0] == "index-behind" and "15 events" in searcher.said[-1][1]


def test_a_rebuild_tells_how_far_it_is(store, monkeypatch):
    monkeypatch.setattr("refold.search.upkeep.BATCH_EVENTS", 500)
    talk(store, "a", [f"walrus number {number}" for number in range(1_200)])
    steps: list[tuple[int, int]] = []
    searcher = full_text(store)
    assert searcher.rebuild(lambda done, total: steps.append((done, total))) == 1_200
    assert steps == [(500, 1_200), (1_000, 1_200), (1_200, 1_200)]
    assert searcher.rebuild() == 1_200


def test_two_searchers_on_one_index_take_every_event_in_once(place):
    stores = [open_store(place), open_store(place)]
    talk(stores[0], "a", [f"walrus number {number}" for number in range(40)])
    one, other = (full_text(store) for store in stores)
    one.catch_up(15)
    other.catch_up(15)
    one.catch_up(100)
    assert other.catch_up(100) == 0
    assert len(other.search("walrus", limit=100)) == len(one.search("walrus", limit=100)) == 40


def test_a_process_that_was_forked_opens_an_index_of_its_own(store):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    searcher.search("walrus")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if len(searcher.search("walrus")) == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(searcher.search("walrus")) == 1


def test_threads_share_a_searcher(store):
    talk(store, "a", [f"walrus number {number}" for number in range(300)])
    searcher = full_text(store)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda number: searcher.search(f'"walrus number {number}"')[0].seq, range(40))
        )
    assert found == list(range(1, 41))


def test_closing_catches_up_where_somebody_has_searched_before(store):
    talk(store, "a", ["one walrus"])
    never = full_text(store)
    never.close()
    assert not os.path.exists(never.path)
    first = full_text(store)
    first.search("walrus")
    first.close()
    talk(store, "a", ["two walrus"])
    full_text(store).close(conversation="a")
    reader = apsw.Connection(first.path, flags=apsw.SQLITE_OPEN_READONLY)
    assert reader.execute("SELECT head FROM conversations").get == 2


def test_a_fork_that_erases_what_it_shares_takes_it_from_the_index(store):
    talk(store, "a", ["the password is walrusique", "more"])
    store.fork("a", 2, "b")
    searcher = full_text(store)
    assert len(searcher.search("walrusique")) == 1
    store.erase("b", 1)
    talk(store, "b", []).append([Draft(body=Erase(seq=1), by="test")])
    searcher.catch_up()
    searcher.close()
    assert b"walrusiqu" not in Path(searcher.path).read_bytes()


def test_a_damaged_log_does_not_keep_the_others_from_being_found(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    talk(store, "b", ["two walrus"])
    read = store.read

    def damaged(conversation, **given):
        if conversation == "a":
            raise Corrupt("a: event 1 is not a message", hint="refold verify")
        return read(conversation, **given)

    monkeypatch.setattr(store, "read", damaged)
    searcher = full_text(store)
    assert [hit.conversation for hit in searcher.search("walrus")] == ["b"]
    assert searcher.said == [("index-behind", "a cannot be read: a: event 1 is not a message")]


def test_a_rebuild_that_cannot_remove_the_file_says_why(store, monkeypatch):
    talk(store, "a", ["one walrus"])
    searcher = full_text(store)
    searcher.search("walrus")

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("refold.search.database.os.unlink", refused)
    with pytest.raises(Unavailable) as error:
        searcher.rebuild()
    assert "Permission denied" in str(error.value)


def test_work_is_started_again_once_when_the_index_is_lost_under_it():
    calls = []

    @retried
    def work(times_lost: int) -> str:
        calls.append(times_lost)
        if len(calls) <= times_lost:
            raise IndexLost("index.db: damaged")
        return "done"

    assert work(1) == "done" and len(calls) == 2
    calls.clear()
    with pytest.raises(Corrupt):
        work(5)
    assert len(calls) == 2


def test_an_error_that_is_not_about_the_index_leaves_it_as_it_is(store):
    talk(store, "a", ["walrus"])
    notices: list[str] = []
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: notices.append(name))
    upkeep.catch_up(100)
    with pytest.raises(Corrupt, match="a log"), upkeep.index() as index:
        raise Corrupt("a log is damaged")
    with upkeep.index() as same:
        assert same is index and notices == []


class Listing:
    """Counts how often all conversations of a store are listed."""

    def __init__(self, store):
        self.listed, self._conversations = 0, store.conversations
        store.conversations = self

    def __call__(self, **bounds):
        self.listed += 1
        return self._conversations(**bounds)


def test_a_complete_index_looks_only_at_what_changed(store):
    for number in range(30):
        talk(store, f"c{number}", [f"walrus {number}"])
    searcher = full_text(store)
    assert len(searcher.search("walrus", limit=50)) == 30
    listing = Listing(store)
    assert len(searcher.search("walrus", limit=50)) == 30
    talk(store, "c30", ["one more walrus"])
    assert len(searcher.search("walrus", limit=50)) == 31
    assert listing.listed == 0
    store.delete("c7")
    assert len(searcher.search("walrus", limit=50)) == 30
    assert listing.listed == 1


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["say", "other", "delete", "search"]), st.integers(0, 4)),
        max_size=25,
    )
)
def test_an_index_that_follows_changes_finds_what_a_new_one_finds(tmp_path_factory, steps):
    url = f"sqlite:{tmp_path_factory.mktemp('follow')}/refold.db"
    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(url)) as other:
        searcher = full_text(store)
        for at, (step, number) in enumerate(steps):
            if step in ("say", "other"):
                talk(store if step == "say" else other, f"c{number}", [f"walrus {at}"])
            elif step == "delete" and store.head(f"c{number}") is not None:
                other.delete(f"c{number}")
            elif step == "search":
                searcher.catch_up(budget=2)
        followed = searcher.search("walrus", limit=100)
        anew = Searcher(store, embedder=False, path=":memory:").search("walrus", limit=100)
        places = lambda hits: sorted((hit.conversation, hit.seq) for hit in hits)  # noqa: E731
        assert places(followed) == places(anew)
        searcher.close()
