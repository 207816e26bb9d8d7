"""Clauses about artifacts: bytes go in as a stream, are kept once under their sha256, and come
back checked; and about files that are derived from what a store holds."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

from refold.errors import Invalid, NotFound
from refold.stores.contract.kit import Make, collector, grown, on_new_store, refused
from refold.stores.protocol import Store

CLAUSES, clause = collector()

CONTENTS = [
    b"",
    b"\0",
    "naïve \u2028\r\n".encode(),
    bytes(range(256)) * 4_096,
    b"x" * 262_144,
    b"y" * 262_145,
]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@clause
@on_new_store
def contents_come_back_under_their_digest(store: Store) -> None:
    for content in CONTENTS:
        assert store.put([content]) == _digest(content)
        assert b"".join(store.get(_digest(content))) == content
    for content in CONTENTS:
        assert b"".join(store.get(_digest(content))) == content


@clause
@on_new_store
def how_content_is_cut_does_not_matter(store: Store) -> None:
    whole = store.put([b"abcdef"])
    assert store.put([b"a", b"", b"bcd", b"ef"]) == whole
    assert store.put(iter([b"abc", b"def"]), suffix=".txt") == whole
    assert b"".join(store.get(whole)) == b"abcdef"


@clause
@on_new_store
def content_streams_in_bounded_chunks(store: Store) -> None:
    digest = store.put(b"z" * 100_000 for _ in range(50))
    sizes = [len(chunk) for chunk in store.get(digest)]
    assert sum(sizes) == 5_000_000 and max(sizes) <= 1_048_576 and min(sizes) > 0
    next(store.get(digest))  # whoever stops early leaves nothing open


@clause
@on_new_store
def content_that_was_never_put_is_not_found(store: Store) -> None:
    digest = _digest(b"never")
    for _ in range(2):
        with refused(NotFound):
            list(store.get(digest))
        assert store.location(digest) is None
        store.put([b"other"])


@clause
@on_new_store
def what_is_not_a_digest_is_refused(store: Store) -> None:
    for wrong in ("", "abc", "../../etc/passwd", "A" * 64, "g" * 64, "0" * 63, "0" * 64 + "\n"):
        with refused(Invalid):
            list(store.get(wrong))
        with refused(Invalid):
            store.location(wrong)


@clause
@on_new_store
def a_put_that_fails_on_the_way_keeps_nothing(store: Store) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise KeyError("the source ended early")

    try:
        store.put(broken())
    except KeyError:
        digest = _digest(b"half")
        assert store.location(digest) is None
        with refused(NotFound):
            list(store.get(digest))
    else:
        raise AssertionError("the error of the source was swallowed")
    with refused(Invalid):
        store.put(["text"])  # type: ignore[list-item]


@clause
@on_new_store
def a_location_is_a_plain_file_with_the_same_bytes(store: Store) -> None:
    digest = store.put([b"grep me\n"], suffix=".log")
    path = store.location(digest)
    if path is not None:
        assert path.endswith(".log") and os.path.isfile(path)
        with open(path, "rb") as file:
            assert file.read() == b"grep me\n"


@clause
def another_store_on_the_same_data_finds_what_was_put(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    first = here.put([b"first"])
    assert b"".join(there.get(first)) == b"first"
    second = there.put([b"second"])
    assert b"".join(here.get(second)) == b"second"
    assert here.put([b"second"], suffix=".txt") == second
    assert here.location(second) == there.location(second)
    here.close()
    there.close()


# --- removing ---

LATER_MS = 1 << 42  # a time that no clock has reached


@clause
@on_new_store
def dropped_content_is_gone_and_can_be_put_again(store: Store) -> None:
    digest, other = store.put([b"gone"]), store.put([b"stays"])
    assert store.drop(digest, before_ms=LATER_MS)
    with refused(NotFound):
        list(store.get(digest))
    assert store.location(digest) is None
    assert b"".join(store.get(other)) == b"stays"
    assert store.put([b"gone"]) == digest
    assert b"".join(store.get(digest)) == b"gone"


@clause
@on_new_store
def dropping_what_is_not_there_changes_nothing(store: Store) -> None:
    digest = _digest(b"never")
    assert store.drop(digest, before_ms=LATER_MS) and store.drop(digest, before_ms=0)
    for wrong in ("", "../../etc/passwd", "A" * 64):
        with refused(Invalid):
            store.drop(wrong, before_ms=LATER_MS)


@clause
@on_new_store
def content_that_was_put_since_is_not_dropped(store: Store) -> None:
    digest = store.put([b"precious"])
    assert not store.drop(digest, before_ms=1)
    before_ms = time.time_ns() // 1_000_000
    time.sleep(0.02)  # file systems keep times by the tick of the kernel's clock
    assert store.put([b"precious"]) == digest
    assert not store.drop(digest, before_ms=before_ms)
    assert b"".join(store.get(digest)) == b"precious"


@clause
def another_store_on_the_same_data_misses_what_was_dropped(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    digest = here.put([b"shared"])
    assert b"".join(there.get(digest)) == b"shared"
    assert there.drop(digest, before_ms=LATER_MS)
    with refused(NotFound):
        list(here.get(digest))
    assert here.put([b"shared"]) == digest
    assert b"".join(there.get(digest)) == b"shared"
    here.close()
    there.close()


# --- derived files ---


@clause
def a_derived_file_has_a_place_on_this_disk_or_none(make: Make) -> None:
    place = make()
    store = place.open()
    before = store.derived_path("index.db")
    grown(store, "log", 1)
    path = store.derived_path("index.db")
    assert path == before == place.open().derived_path("index.db")
    if path is not None:
        assert os.path.isabs(path) and path.endswith("index.db")
        assert os.path.isdir(os.path.dirname(path))
        assert store.derived_path("other.db") not in (path, None)
    store.close()


@clause
def a_derived_file_is_not_shared_with_another_store(make: Make) -> None:
    here, there = make().open(), make().open()
    mine, yours = here.derived_path("index.db"), there.derived_path("index.db")
    assert mine is None or mine != yours
    here.close()
    there.close()


@clause
def asking_for_a_derived_file_makes_nothing(make: Make) -> None:
    store = make().open()
    path = store.derived_path("index.db")
    assert path is None or not os.path.exists(path)
    store.close()


@clause
def what_lies_at_a_derived_path_does_not_disturb_the_store(make: Make) -> None:
    place = make()
    store = place.open()
    events = grown(store, "log", 2)
    path = store.derived_path("index.db")
    if path is not None:
        with open(path, "wb") as file:
            file.write(b"of a search")
    events += grown(store, "log", 1, before=events[-1])
    store.close()
    if path is not None:
        again = place.open()
        assert [found.id for found in again.conversations()] == ["log"]
        assert again.read("log") == events
        again.close()
