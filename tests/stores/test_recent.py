"""A store that knows what changed last agrees with a look at all conversations, after any writes by
several of its openings, and after damage, deletion and migration."""

from __future__ import annotations

from contextlib import closing
from secrets import token_bytes

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.codec import seal
from refold.core.ids import uuid7
from refold.log.stored_logs import conversations, newest_first
from refold.stores import changing, open_store, version_of
from refold.stores.sqlite import SqliteStore

IDS = ("a", "b", "c", "memory.m")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(IDS), st.integers(0, 9)),
        st.tuples(st.just("fork"), st.sampled_from(IDS), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.sampled_from((*IDS, "fork")), st.just(0)),
        st.tuples(st.just("reopen"), st.just(""), st.just(0)),
        st.tuples(st.just("look"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


def append(store, id: str, at_ms: int) -> None:
    head = store.head(id) or 0
    chain = store.conversation(id).chain if head else bytes(16)
    body, salt = b'{"kind":"k"}', bytes(16)
    name = uuid7(at_ms, token_bytes(26))
    event = seal(
        chain, head + 1, id=name, at_ms=at_ms, by="user", kind="note", body=body, salt=salt
    )
    store.append(id, [event], expect=head)


class Follower:
    """Keeps the heads of a store from its changes alone."""

    def __init__(self) -> None:
        self.upto, self.heads = 0, {}

    def look(self, store, limit: int) -> None:
        while True:
            found = changing(store).changes(self.upto, limit=limit)
            if found is None:
                return
            for about in found.conversations:
                self.heads[about.id] = about.head, about.chain
            if found.has_deleted:
                ids = {about.id for about in store.conversations(limit=1_000)}
                self.heads = {id: head for id, head in self.heads.items() if id in ids}
            if found.upto <= self.upto:
                self.upto = found.upto
                return
            self.upto = found.upto


@given(steps=STEPS, limit=st.integers(1, 5))
def test_order_and_changes_agree_with_a_look_at_everything(tmp_path_factory, steps, limit):
    path = str(tmp_path_factory.mktemp("recent") / "refold.db")
    stores = [SqliteStore(path), SqliteStore(path)]
    follower, before = Follower(), version_of(stores[0])
    try:
        for at, (step, id, value) in enumerate(steps):
            store = stores[at % 2]
            heads = {about.id: about.head for about in store.conversations()}
            forked = {about.parent for about in store.conversations()}
            if step == "append":
                append(store, id, at_ms=1_000 + value)
                assert version_of(stores[1 - at % 2]) != before
            elif step == "fork" and heads.get(id, 0) >= value and "fork" not in heads:
                store.fork(id, value, "fork")
            elif step == "delete" and id in heads and id not in forked:
                store.delete(id)
            elif step == "reopen":
                store.close()
                stores[at % 2] = SqliteStore(path)
            elif step == "look":
                follower.look(store, limit)
            before = version_of(store)
        store = stores[0]
        in_order = sorted(conversations(store), key=lambda about: (-about.updated_ms, about.id))
        assert [*newest_first(store)] == in_order
        follower.look(store, limit)
        assert follower.heads == {
            about.id: (about.head, about.chain) for about in store.conversations()
        }
    finally:
        for store in stores:
            store.close()


def older(path: str) -> None:
    """Makes the database one of the version before."""
    with closing(apsw.Connection(path)) as connection:
        connection.execute("DROP TABLE recent; PRAGMA user_version = 1")


@pytest.fixture
def store(tmp_path):
    with closing(SqliteStore(str(tmp_path / "refold.db"))) as store:
        for number in range(12):
            append(store, f"c{number:02}", at_ms=1_000 + 7 * number % 5)
        append(store, "c03", at_ms=1_002)
        yield store


def test_an_older_database_is_read_as_it_is_and_completed_by_a_writer(store):
    store.close()
    older(store.path)
    reader = open_store(store.url, read_only=True)
    before = [*newest_first(reader)]
    assert changing(reader).newest() is None
    reader.close()
    with closing(SqliteStore(store.path)) as writer:
        assert [*newest_first(writer)] == before
        assert len(writer.newest(limit=5)) == 5
        append(writer, "c05", at_ms=9_000)
        assert writer.newest(limit=1)[0].id == "c05"


def test_a_page_of_the_newest_reads_no_more_than_its_own_rows(store):
    rows = 0
    connection = store._connected(writing=True)

    def trace(cursor, row):
        nonlocal rows
        rows += 1
        return row

    connection.row_trace = trace
    store.newest(limit=3)
    few = rows
    connection.row_trace = None
    for number in range(200):
        append(store, f"d{number}", at_ms=2_000 + number)
    rows, connection.row_trace = 0, trace
    store.newest(limit=3)
    assert rows == few


def test_a_count_of_another_database_means_that_anything_may_have_changed(store):
    upto = store.changes(0).upto
    found = store.changes(upto + 10**6)
    assert found.has_deleted and found.upto == 0
