"""Stores that are opened for reading: nothing is written, through them or beside them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from refold.errors import Corrupt, Denied, Invalid, NotFound, Unavailable
from refold.stores import Store, is_read_only, open_store, reading_store
from refold.stores.contract.kit import grown, sealed
from tests.stores.places import url_in

KINDS = ("sqlite", "files")
WRITES: dict[str, Callable[[Store], Any]] = {
    "append": lambda store: store.append("log", sealed(None, [b"{}"]), expect=0),
    "keep_bookmark": lambda store: store.keep_bookmark("log", b"mark"),
    "put": lambda store: store.put([b"bytes"]),
    "drop": lambda store: store.drop("0" * 64, before_ms=0),
    "fork": lambda store: store.fork("log", 1, "new"),
    "erase": lambda store: store.erase("log", 1),
    "delete": lambda store: store.delete("log"),
}


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_write_is_refused_and_reading_goes_on(tmp_path: Path, kind: str) -> None:
    url = url_in(tmp_path, kind)
    writer = open_store(url)
    events = grown(writer, "log", 5)
    digest = writer.put([b"some bytes"])
    writer.close()
    before = files(tmp_path)
    store = open_store(url, read_only=True)
    for name, write in WRITES.items():
        with pytest.raises(Denied, match="reading only"):
            write(store)
        assert store.read("log") == events, name
    assert b"".join(store.get(digest)) == b"some bytes"
    assert store.conversations() == [store.conversation("log")]
    store.flush()
    store.close()
    assert files(tmp_path) == before
    with pytest.raises(Invalid, match="closed"):
        store.read("log")


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_where_nothing_is_stays_empty(tmp_path: Path, kind: str) -> None:
    store = open_store(url_in(tmp_path, kind), read_only=True)
    assert store.conversations() == []
    with pytest.raises(NotFound):
        store.conversation("log")
    assert store.head("log") is None
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_appended_later_is_read(tmp_path: Path, kind: str) -> None:
    """The reader is open all the time; the writer comes, goes, and comes again."""
    url = url_in(tmp_path, kind)
    reader = open_store(url, read_only=True)
    assert reader.conversations() == []
    events: list[Any] = []
    for _ in range(3):
        writer = open_store(url)
        for _ in range(2):
            events += sealed(events[-1] if events else None, [b"{}", b"{}"])
            writer.append("log", events[-2:], expect=len(events) - 2)
            assert reader.read("log") == events
            assert reader.read("log", after=len(events)) == []
            assert reader.conversation("log").head == reader.head("log") == len(events)
        writer.close()
        assert reader.read("log") == events
    reader.close()


def close_at_look(
    writer: Store, number: int, look: str, monkeypatch: pytest.MonkeyPatch
) -> list[set[str]]:
    """Closes the writer, which removes its -wal file, right after that look at the file. The names
    in the folder are in the list then."""
    real = getattr(os, look)
    names: list[set[str]] = []
    looks = 0

    def look_and_close(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        nonlocal looks
        found: os.stat_result = real(path, *args, **kwargs)
        if str(path).endswith("-wal"):
            looks += 1
            if looks == number:
                writer.close()
                names.append(set(os.listdir(os.path.dirname(path))))
        return found

    monkeypatch.setattr(os, look, look_and_close)
    return names


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_writer_may_close_whenever_a_reader_looks_at_its_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "refold.db"
    writer = open_store(f"sqlite:{path}")
    events = grown(writer, "log", 3)
    writer.flush()
    reader = open_store(f"sqlite:{path}", read_only=True)
    names = close_at_look(writer, number, "stat", monkeypatch)
    while not names:
        assert reader.read("log") == events
    assert reader.head("log") == 3
    reader.close()
    assert set(os.listdir(tmp_path)) == names[0], "the reader made or removed a file"


@pytest.mark.parametrize("number", [1, 2])
def test_a_writer_may_close_while_another_one_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "refold.db"
    writer = open_store(f"sqlite:{path}")
    events = grown(writer, "log", 3)
    close_at_look(writer, number, "lstat", monkeypatch)
    other = open_store(f"sqlite:{path}")
    assert other.read("log") == events
    other.close()


def test_an_older_layout_is_read_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "refold.db"
    writer = open_store(f"sqlite:{path}")
    events = grown(writer, "log", 5)
    writer.close()
    connection = apsw.Connection(str(path))
    connection.execute(
        "ALTER TABLE conversations DROP COLUMN title; DROP TABLE bookmarks; "
        "DROP TABLE recent; PRAGMA user_version=0"
    )
    connection.close()
    before = files(tmp_path)
    store = open_store(f"sqlite:{path}", read_only=True)
    assert store.read("log") == events
    assert store.bookmark("log") is None
    store.close()
    assert files(tmp_path) == before


def test_commits_that_cannot_be_read_without_writing_are_said_in_time(tmp_path: Path) -> None:
    path = tmp_path / "refold.db"
    writer = open_store(f"sqlite:{path}")
    grown(writer, "log", 3)
    for name in ("refold.db", "refold.db-wal"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
    writer.close()
    before = files(tmp_path)
    store = open_store(f"sqlite:{tmp_path}/copy/refold.db", read_only=True)
    start = time.monotonic()
    with pytest.raises(Unavailable, match="-shm"):
        store.read("log")
    assert time.monotonic() - start < 10
    store.close()
    assert files(tmp_path) == before


def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "refold.db"
    path.write_bytes(b"words " * 1_000)
    store = open_store(f"sqlite:{path}", read_only=True)
    with pytest.raises(Corrupt):
        store.conversations()
    assert os.listdir(tmp_path) == ["refold.db"]


def test_a_store_in_memory_is_read_through_the_one_that_is_there() -> None:
    store = open_store("memory:")
    events = grown(store, "log", 3)
    reader = reading_store(store)
    assert is_read_only(reader)
    assert not is_read_only(store)
    assert reader.read("log") == events
    reader.close()
    assert store.read("log") == events
