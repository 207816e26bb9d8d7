"""A damaged database is refused, or its damage is found by the chain; it never shows as other
content."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import apsw

from refold.core import codec
from refold.core.model import Event
from refold.errors import RefoldError
from refold.stores.contract.kit import grown
from refold.stores.sqlite import SqliteStore
from tests.stores.places import filled


def checked(events: list[Event]) -> list[str]:
    try:
        return list(codec.check(events))
    except (ValueError, struct.error) as error:
        # An id that is no UUID, or a time before 1970, cannot even be hashed.
        return [str(error)]


def outcome(path: Path, events: list[Event]) -> str:
    """How a damaged file answers: same, refused, or found by the chain; anything else is a
    failure."""
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
            # SQLite takes a smaller cell count at its word. The page's sums no longer agree, and
            # its check says so.
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
