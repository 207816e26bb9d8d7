"""What the SQLite file promises beyond the contract: privacy, refusal of what is not ours, and
honest failure."""

from __future__ import annotations

import os
import random
import stat
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Event
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, Unavailable
from refold.stores.contract.kit import grown, sealed
from refold.stores.sqlite import SqliteStore
from refold.stores.sqlite.database_file import VERSION
from tests.stores.places import filled


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o777])
def test_files_and_folders_are_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        store = SqliteStore(str(tmp_path / "a" / "b" / "x.db"))
        grown(store, "log", 1)
    finally:
        os.umask(before)
    folder = tmp_path / "a" / "b"
    names = ("x.db", "x.db-wal", "x.db-shm")
    assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(names, 0o600)
    assert mode(folder) == mode(tmp_path / "a") == 0o700
    store.close()


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from(["append", "fork", "delete"]), st.sampled_from("ab")
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_a_log_that_was_looked_for_in_vain_is_seen_once_it_is_there(
    steps: list[tuple[int, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("absent") / "x.db")
    stores = [SqliteStore(path), SqliteStore(path)]
    grown(stores[0], "root", 2)
    there: set[str] = set()
    for who, what, id in steps:
        if what == "delete" and id in there:
            stores[who].delete(id)
            there.discard(id)
        elif what == "fork" and id not in there:
            stores[who].fork("root", 1, id)
            there.add(id)
        elif what == "append" and id not in there:
            grown(stores[who], id, 1)
            there.add(id)
        assert [found(store) for store in stores] == [there, there]
    for store in stores:
        store.close()


def found(store: SqliteStore) -> set[str]:
    """Which of two logs a store can read."""
    seen: set[str] = set()
    for id in "ab":
        with suppress(NotFound):
            seen.update(id for _ in store.read(id, limit=1))
    return seen


def test_a_store_that_comes_to_be_elsewhere_is_seen(tmp_path: Path) -> None:
    reader = SqliteStore(str(tmp_path / "x.db"))
    assert reader.conversations() == []
    events = filled(tmp_path / "x.db")
    assert reader.read("log") == events
    reader.close()


def test_a_closed_store_refuses_work(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "x.db"))
    events = grown(store, "log", 1)
    store.close()
    with pytest.raises(Invalid, match="closed"):
        store.read("log")
    with pytest.raises(Invalid, match="closed"):
        store.append("log", sealed(events[0], [b"{}"]), expect=1)


def test_a_newer_version_is_refused_untouched_and_both_versions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    filled(path)
    other = apsw.Connection(str(path))
    other.pragma("user_version", 7)
    other.close()
    before = path.read_bytes()
    for attempt in (
        lambda s: s.conversations(),
        lambda s: s.append("new", sealed(None, [b"{}"]), expect=0),
    ):
        with pytest.raises(Invalid, match=rf"version 7.*up to {VERSION}") as refusal:
            attempt(SqliteStore(str(path)))
        assert "upgrade refold" in refusal.value.hint
    assert path.read_bytes() == before


def foreign_database(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE recipes(name); INSERT INTO recipes VALUES ('soup')")
    other.close()


@pytest.mark.parametrize("kind", ["database", "text", "cut short"])
def test_a_file_that_is_not_ours_is_refused_untouched(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    if kind == "database":
        foreign_database(path)
    else:
        path.write_bytes(
            b"Dear diary, " * 100 if kind == "text" else b"SQLite format 3\0" + bytes(10)
        )
    before = path.read_bytes()
    for attempt in (
        lambda s: s.conversations(),
        lambda s: s.append("new", sealed(None, [b"{}"]), expect=0),
    ):
        with pytest.raises(Corrupt, match=r"x\.db") as refusal:
            attempt(SqliteStore(str(path)))
        assert refusal.value.hint
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch(mode=0o600)
    store = SqliteStore(str(path))
    assert store.conversations() == [] and path.stat().st_size == 0
    events = grown(store, "log", 1)
    assert store.read("log") == events
    store.close()


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not a file"):
        SqliteStore(str(tmp_path)).conversations()


def test_a_file_in_the_way_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(Unavailable):
        SqliteStore(str(tmp_path / "a" / "x.db")).append("log", sealed(None, [b"{}"]), expect=0)


def test_an_erased_body_is_in_no_file_of_the_store(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "x.db"))
    last: dict[str, Event] = {}
    secrets: dict[tuple[str, int], bytes] = {}
    chance = random.Random(3)
    for n in range(300):
        id, token = chance.choice("abcdef"), b"<%08x>" % n
        last[id] = sealed(last.get(id), [token * chance.choice([1, 5, 30, 60, 400])])[0]
        store.append(id, [last[id]], expect=last[id].seq - 1)
        secrets[id, last[id].seq] = token
    for id, seq in chance.sample(sorted(secrets), 25):
        store.erase(id, seq)
        for path in tmp_path.iterdir():
            assert path.is_dir() or secrets[id, seq] not in path.read_bytes(), (id, seq, path)
    store.close()


def test_a_deleted_conversation_and_its_bookmark_leave_the_file(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "x.db"))
    grown(store, "other", 3)
    store.append("log", sealed(None, [b"first secret " * 300, b"second secret"]), expect=0)
    store.keep_bookmark("log", b"third secret")
    store.delete("log")
    for path in tmp_path.iterdir():
        assert b"secret" not in path.read_bytes(), path
    store.close()


def test_a_link_that_belongs_to_somebody_else_is_denied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a link to another user needs root")
    filled(tmp_path / "real" / "x.db")
    for link, target, path in (
        (tmp_path / "link.db", tmp_path / "real" / "x.db", tmp_path / "link.db"),
        (tmp_path / "folder", tmp_path / "real", tmp_path / "folder" / "x.db"),
    ):
        link.symlink_to(target)
        store = SqliteStore(str(path))
        assert store.conversation("log").head == 5
        grown(store, "other" if link.suffix else "third", 1)
        store.flush()
        store.close()
        os.lchown(link, 65_534, 65_534)
        with pytest.raises(Denied, match="65534"):
            SqliteStore(str(path)).conversations()


def test_a_store_of_another_user_is_denied(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    filled(tmp_path / "x.db")
    for folder in [tmp_path, *list(tmp_path.parents)[:-1]]:
        if "pytest" in str(folder):
            folder.chmod(0o755)
    for readable in (False, True):
        (tmp_path / "x.db").chmod(0o644 if readable else 0o600)
        os.seteuid(65_534)
        try:
            with pytest.raises(Denied):
                SqliteStore(str(tmp_path / "x.db")).append("log", sealed(None, [b"{}"]), expect=0)
            with pytest.raises(Denied):
                SqliteStore(str(tmp_path / "new" / "y.db")).append(
                    "log", sealed(None, [b"{}"]), expect=0
                )
        finally:
            os.seteuid(0)


def test_a_busy_database_is_unavailable_with_a_time_to_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.stores.sqlite.database_file.BUSY_MS", 50)
    filled(tmp_path / "x.db")
    other = apsw.Connection(str(tmp_path / "x.db"))
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(str(tmp_path / "x.db"))
    with pytest.raises(Unavailable) as refusal:
        grown(store, "new", 1)
    assert refusal.value.retry_after_s
    assert len(store.read("log")) == 5
    other.execute("ROLLBACK")
    grown(store, "new", 1)
    store.close()
    other.close()


def test_a_wal_that_was_taken_away_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refold.stores.sqlite.wal.WAL_CHECK_S", 0.0)
    store = SqliteStore(str(tmp_path / "x.db"))
    events = grown(store, "log", 2)
    store.flush()
    (tmp_path / "x.db-wal").rename(tmp_path / "elsewhere")
    events += grown(store, "log", 1, before=events[-1])
    for _ in range(2):
        with pytest.raises(Unavailable, match="open the store again"):
            store.flush()
    with pytest.raises(Unavailable, match="open the store again"):
        store.append("log", sealed(events[-1], [b"{}"]), expect=3)
    store.close()


def test_a_store_may_be_carried_over_a_fork(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "x.db"))
    events = grown(store, "log", 3)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            grown(store, "child", 3)
            status = 0 if len(store.read("log")) >= 3 else 2
        finally:
            os._exit(status)
    events += grown(store, "log", 3, before=events[-1])
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("log") == events and store.conversation("child").head == 3
    store.close()


def test_a_conflict_tells_where_another_store_left_the_head(tmp_path: Path) -> None:
    here, there = SqliteStore(str(tmp_path / "x.db")), SqliteStore(str(tmp_path / "x.db"))
    events = grown(here, "log", 2)
    grown(there, "log", 1, before=events[-1])
    with pytest.raises(Conflict) as refusal:
        here.append("log", sealed(events[-1], [b"{}"]), expect=2)
    assert refusal.value.head == 3
    here.close()
    there.close()


def test_a_reader_at_the_head_sees_what_another_connection_appends(tmp_path: Path) -> None:
    """The short way of `read`, where nobody wrote, must not hide that somebody did."""
    ours, theirs = (SqliteStore(str(tmp_path / "refold.db")) for _ in range(2))
    first, second, third = sealed(None, [b"{}"] * 3)
    ours.append("c", [first], expect=0)
    assert ours.read("c", after=1) == [] == ours.read("c", after=1)
    theirs.append("c", [second], expect=1)
    assert ours.read("c", after=1) == [second]
    assert ours.read("c", after=2) == [] == ours.read("c", after=2)
    theirs.append("c", [third], expect=2)
    assert ours.read("c", after=2) == [third]
    ours.close()
    theirs.close()


def preview_of(path: Path) -> None:
    """Turns a database into what the preview wrote: version 0, without titles and bookmarks."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "ALTER TABLE conversations DROP COLUMN title; DROP TABLE bookmarks; "
        "DROP TABLE recent; PRAGMA user_version=0"
    )
    connection.close()


@pytest.mark.parametrize("first", ["read", "append"])
def test_an_older_version_is_migrated_and_a_copy_of_it_is_kept(first: str, tmp_path: Path) -> None:
    """X-06: the log is the same event for event, and the old file is still there as it was."""
    path = tmp_path / "refold.db"
    store = SqliteStore(str(path))
    events = grown(store, "log", 5)
    store.close()
    preview_of(path)
    store = SqliteStore(str(path))
    if first == "append":
        events += sealed(events[-1], [b"{}"])
        store.append("log", events[-1:], expect=5)
    assert (
        store.read("log") == events
        and store.conversation("log").title == ""
        and store.bookmark("log") is None
    )
    store.keep_bookmark("log", b"mark")
    store.close()
    copy = apsw.Connection(str(tmp_path / "refold.db.v0"), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.pragma("user_version") == 0 and copy.execute("SELECT count(*) FROM events").get == 5
    assert mode(tmp_path / "refold.db.v0") == 0o600
    again = SqliteStore(str(path))
    assert again.bookmark("log") == b"mark"
    again.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "refold.db"
    store = SqliteStore(str(path))
    grown(store, "log", 2)
    store.close()
    preview_of(path)
    odd = apsw.Connection(str(path))
    odd.execute("CREATE TABLE bookmarks(x)")
    odd.close()
    with pytest.raises(Corrupt, match="cannot be brought"):
        SqliteStore(str(path)).read("log")
    left = apsw.Connection(str(path))
    assert left.pragma("user_version") == 0
    assert "title" not in [row[1] for row in left.execute("PRAGMA table_info(conversations)")]


def test_two_databases_in_a_folder_do_not_share_their_contents(tmp_path):
    """X-54: what one of them drops is still there for the other."""
    one, other = SqliteStore(f"{tmp_path}/refold.db"), SqliteStore(f"{tmp_path}/work.db")
    digest = one.put([b"the same output"])
    assert other.put([b"the same output"]) == digest
    assert one.drop(digest, before_ms=1 << 42)
    assert b"".join(other.get(digest)) == b"the same output"
    assert sorted(name for name in os.listdir(tmp_path) if "artifacts" in name) == [
        "artifacts",
        "work.artifacts",
    ]
