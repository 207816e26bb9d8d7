"""What the SQLite file promises beyond the contract: privacy, refusal of what is not ours, and honest failure."""

from __future__ import annotations

import os
import random
import stat
import struct
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from refold.core import codec
from refold.core.model import Event
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.stores import open_store
from refold.stores.contract.kit import grown, sealed
from refold.stores.sqlite import SqliteStore
from tests.stores.disks import needs_strace, run, tmpfs


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def filled(path: Path, count: int = 5) -> list[Event]:
    store = SqliteStore(str(path))
    events = grown(store, "log", count)
    store.close()
    return events


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


def test_reading_a_store_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "a" / "x.db"))
    assert store.conversations() == [] and store.bookmark("log") is None
    for refused in (
        lambda: store.read("log"),
        lambda: store.keep_bookmark("log", b""),
        lambda: store.fork("log", 1, "new"),
        lambda: store.delete("log"),
        lambda: store.erase("log", 1),
    ):
        with pytest.raises(NotFound):
            refused()
    store.append("log", [], expect=0)
    store.flush()
    store.close()
    assert list(tmp_path.iterdir()) == []


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
    for attempt in (lambda s: s.conversations(), lambda s: s.append("new", sealed(None, [b"{}"]), expect=0)):
        with pytest.raises(Invalid, match=r"version 7.*up to 1") as refusal:
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
        path.write_bytes(b"Dear diary, " * 100 if kind == "text" else b"SQLite format 3\0" + bytes(10))
    before = path.read_bytes()
    for attempt in (lambda s: s.conversations(), lambda s: s.append("new", sealed(None, [b"{}"]), expect=0)):
        with pytest.raises(Corrupt, match=r"x\.db") as refusal:
            attempt(SqliteStore(str(path)))
        assert refusal.value.hint
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch(mode=0o600)
    store = SqliteStore(str(tmp_path / "x.db"))
    assert store.conversations() == []
    assert (tmp_path / "x.db").stat().st_size == 0
    assert store.read("log") == [] if grown(store, "log", 1) == [] else True
    store.close()


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not a file"):
        SqliteStore(str(tmp_path)).conversations()


def test_a_file_in_the_way_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(Unavailable):
        SqliteStore(str(tmp_path / "a" / "x.db")).append("log", sealed(None, [b"{}"]), expect=0)


def checked(events: list[Event]) -> list[str]:
    try:
        return list(codec.check(events))
    except (ValueError, struct.error) as error:
        # An id that is no UUID, or a time before 1970, cannot even be hashed.
        return [str(error)]


def outcome(path: Path, events: list[Event]) -> str:
    """How a damaged file answers: same, refused, or found by the chain; anything else is a failure."""
    store = SqliteStore(str(path))
    try:
        store.conversations()
        read = store.read("log")
        complaints = checked(read)
    except RefoldError as error:
        assert error.hint, error
        return "refused"
    finally:
        store.close()
    if complaints:
        return "found"
    if len(read) < len(events):
        assert read == events[: len(read)]
        return "shorter"
    assert [event.chain for event in read] == [event.chain for event in events]
    return "same"


def test_a_flipped_byte_is_refused_found_or_harmless(tmp_path: Path) -> None:
    path, damaged = tmp_path / "x.db", tmp_path / "y.db"
    events = filled(path, 12)
    whole = path.read_bytes()
    seen: dict[str, int] = {}
    for place in random.Random(1).sample(range(len(whole)), 1_500):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        answer = outcome(damaged, events)
        seen[answer] = seen.get(answer, 0) + 1
        if answer == "shorter":
            # SQLite takes a smaller cell count at its word. The page's sums no longer agree, and its check says so.
            assert apsw.Connection(str(damaged)).pragma("integrity_check") != "ok", place
    assert seen["refused"] and seen["found"] and seen.get("shorter", 0) < 30, seen


def test_a_file_cut_anywhere_is_refused_or_reads_as_before(tmp_path: Path) -> None:
    path, damaged = tmp_path / "x.db", tmp_path / "y.db"
    events = filled(path, 12)
    whole = path.read_bytes()
    for length in range(1, len(whole), 97):
        damaged.write_bytes(whole[:length])
        assert outcome(damaged, events) in ("refused", "found", "same"), length


def test_damage_in_the_wal_never_shows_as_other_content(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "x.db"))
    events = grown(store, "log", 12)
    files = {suffix: (tmp_path / f"x.db{suffix}").read_bytes() for suffix in ("", "-wal")}
    store.close()
    for place in random.Random(2).sample(range(len(files["-wal"])), 200):
        wal = bytearray(files["-wal"])
        wal[place] ^= 0xFF
        (tmp_path / "y.db").write_bytes(files[""])
        (tmp_path / "y.db-wal").write_bytes(wal)
        assert outcome(tmp_path / "y.db", events) in ("refused", "shorter", "same"), place
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"y.db{suffix}").unlink(missing_ok=True)


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
                SqliteStore(str(tmp_path / "new" / "y.db")).append("log", sealed(None, [b"{}"]), expect=0)
        finally:
            os.seteuid(0)


def test_a_read_only_disk_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        events = filled(disk / "x.db")
        run("mount", "-o", "remount,ro", disk)
        store = SqliteStore(str(disk / "x.db"))
        assert store.read("log") == events
        with pytest.raises(Unavailable, match=r"x\.db") as refusal:
            store.append("log", sealed(events[-1], [b"{}"]), expect=5)
        assert "read-only" in refusal.value.hint
        with pytest.raises(Unavailable):
            store.put([b"content"])
        with pytest.raises(Unavailable):
            SqliteStore(str(disk / "new" / "y.db")).append("log", sealed(None, [b"{}"]), expect=0)
        assert store.read("log") == events
        store.close()


def test_a_wal_left_on_a_read_only_disk_is_not_passed_over(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        writer = SqliteStore(str(tmp_path / "w" / "x.db"))
        events = grown(writer, "log", 5)
        for suffix in ("", "-wal"):
            (disk / f"x.db{suffix}").write_bytes((tmp_path / "w" / f"x.db{suffix}").read_bytes())
        writer.close()
        run("mount", "-o", "remount,ro", disk)
        store = SqliteStore(str(disk / "x.db"))
        try:
            assert store.read("log") == events
        except Unavailable as error:
            assert error.hint
        store.close()


def test_a_full_disk_loses_nothing_and_works_again_when_there_is_space(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 1024 * 1024) as disk:
        (disk / "filler").write_bytes(bytes(300_000))
        store = SqliteStore(str(disk / "x.db"))
        events: list[Event] = []
        with pytest.raises(Unavailable) as refusal:
            while len(events) < 2_000:
                [event] = sealed(events[-1] if events else None, [b"x" * 3_000])
                store.append("log", [event], expect=len(events))
                events.append(event)
        assert "space" in refusal.value.hint
        assert store.read("log") == events
        store.flush()
        (disk / "filler").unlink()
        store.append("log", [event], expect=len(events))
        store.close()
        assert SqliteStore(str(disk / "x.db")).read("log") == [*events, event]


def test_a_disk_without_room_for_the_first_write_is_unavailable(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 256 * 1024) as disk:
        (disk / "filler").write_bytes(bytes(256 * 1024))
        store = SqliteStore(str(disk / "a" / "x.db"))
        with pytest.raises(Unavailable):
            grown(store, "log", 1)
        (disk / "filler").unlink()
        events = grown(store, "log", 3)
        assert store.read("log") == events
        store.close()


def test_a_busy_database_is_unavailable_with_a_time_to_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refold.stores.sqlite_file.BUSY_MS", 50)
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


def test_a_wal_that_was_taken_away_is_not_flushed_silently(tmp_path: Path) -> None:
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


APPENDER = """
import sys
from refold.errors import RefoldError
from refold.stores import open_store
from refold.stores.contract.kit import sealed
store = open_store(sys.argv[1])
before = None
for n in range(6):
    [event] = sealed(before, [b"x" * 2000])
    try:
        store.append("log", [event], expect=event.seq - 1)
        store.flush()
        store.flush()
        print("acked", event.seq, flush=True)
        before = event
    except RefoldError as error:
        print(error.code, "hinted" if error.hint else "bare", "cannot sync" in str(error), flush=True)
"""


@needs_strace
def test_a_flush_is_one_sync_and_none_when_nothing_was_appended(tmp_path: Path) -> None:
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", tmp_path / "trace", sys.executable, "-c", APPENDER]
    run(*command, f"sqlite:{tmp_path / 'x' / 'x.db'}")
    lines = (tmp_path / "trace").read_text().splitlines()
    steady = [line for line in lines if "fdatasync(" in line]
    assert len(steady) >= 6, lines
    last_folder = max(n for n, line in enumerate(lines) if " fsync(" in line and n < len(lines) - 4)
    assert sum("fdatasync(" in line for line in lines[last_folder:]) >= 5, lines


@needs_strace
@pytest.mark.parametrize(
    # SQLite passes over a failed sync of the folder (its 2nd and 5th); ours, the 2nd fsync, makes up for it.
    ("call", "when"),
    [("fdatasync", n) for n in (1, 3, 4, 6, 8)] + [("fsync", 2)] + [("pwrite64", n) for n in (1, 4, 9)],
)  # fmt: skip
def test_nothing_is_acknowledged_after_a_failed_sync_and_no_write_error_is_hidden(
    call: str, when: int, tmp_path: Path
) -> None:
    url = f"sqlite:{tmp_path / 'x' / 'x.db'}"
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"inject={call}:error=EIO:when={when}", sys.executable, "-c"]
    done = subprocess.run([*command, APPENDER, url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")[:-1]
    acked = [int(line.split()[1]) for line in lines if line.startswith("acked")]
    errors = [line for line in lines if not line.startswith("acked")]
    assert errors and {line.rsplit(" ", 1)[0] for line in errors} == {"unavailable hinted"}, lines
    if (failed := "unavailable hinted True") in lines:
        assert not any(line.startswith("acked") for line in lines[lines.index(failed) :]), lines
    store = open_store(url)
    read = store.read("log") if store.conversations() else []
    assert [event.seq for event in read][: len(acked)] == acked and list(codec.check(read)) == []
    store.close()


def test_a_conflict_is_not_mistaken_for_a_full_table(tmp_path: Path) -> None:
    here, there = SqliteStore(str(tmp_path / "x.db")), SqliteStore(str(tmp_path / "x.db"))
    events = grown(here, "log", 2)
    grown(there, "log", 1, before=events[-1])
    with pytest.raises(Conflict) as refusal:
        here.append("log", sealed(events[-1], [b"{}"]), expect=2)
    assert refusal.value.head == 3
    here.close()
    there.close()
