"""Clauses about artifacts: bytes go in as a stream, are kept once under their sha256, and come
back checked."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

from refold.errors import Invalid, NotFound
from refold.stores.contract.kit import Make, collector, opened, refused

CLAUSES, clause = collector()

CONTENTS = [
    b"",
    b"\0",
    "naïve \u2028\r\n".encode(),
    bytes(range(256)) * 4_096,
    b"x" * 262_144,
    b"y" * 262_145,
]


@clause
def contents_come_back_under_their_digest(make: Make) -> None:
    store = opened(make)
    for content in CONTENTS:
        digest = store.put([content])
        assert digest == hashlib.sha256(content).hexdigest()
        assert b"".join(store.get(digest)) == content
    for content in CONTENTS:
        assert b"".join(store.get(hashlib.sha256(content).hexdigest())) == content
    store.close()


@clause
def how_content_is_cut_does_not_matter(make: Make) -> None:
    store = opened(make)
    whole = store.put([b"abcdef"])
    assert store.put([b"a", b"", b"bcd", b"ef"]) == whole
    assert store.put(iter([b"abc", b"def"]), suffix=".txt") == whole
    assert b"".join(store.get(whole)) == b"abcdef"
    store.close()


@clause
def content_streams_in_bounded_chunks(make: Make) -> None:
    store = opened(make)
    digest = store.put(b"z" * 100_000 for _ in range(50))
    sizes = [len(chunk) for chunk in store.get(digest)]
    assert sum(sizes) == 5_000_000 and max(sizes) <= 1_048_576 and min(sizes) > 0
    early = store.get(digest)
    next(early)
    del early
    store.close()


@clause
def content_that_was_never_put_is_not_found(make: Make) -> None:
    store = opened(make)
    digest = hashlib.sha256(b"never").hexdigest()
    for _ in range(2):
        with refused(NotFound):
            list(store.get(digest))
        assert store.location(digest) is None
        store.put([b"other"])
    store.close()


@clause
def what_is_no_digest_is_refused(make: Make) -> None:
    store = opened(make)
    for wrong in ("", "abc", "../../etc/passwd", "A" * 64, "g" * 64, "0" * 63, "0" * 64 + "\n"):
        with refused(Invalid):
            list(store.get(wrong))
        with refused(Invalid):
            store.location(wrong)
    store.close()


@clause
def a_put_that_fails_on_the_way_keeps_nothing(make: Make) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise KeyError("the source ended early")

    store = opened(make)
    try:
        store.put(broken())
    except KeyError:
        digest = hashlib.sha256(b"half").hexdigest()
        assert store.location(digest) is None
        with refused(NotFound):
            list(store.get(digest))
    else:
        raise AssertionError("the error of the source was swallowed")
    with refused(Invalid):
        store.put(["text"])  # type: ignore[list-item]
    store.close()


@clause
def a_location_is_a_plain_file_with_the_same_bytes(make: Make) -> None:
    store = opened(make)
    digest = store.put([b"grep me\n"], suffix=".log")
    path = store.location(digest)
    if path is not None:
        assert path.endswith(".log") and os.path.isfile(path)
        with open(path, "rb") as file:
            assert file.read() == b"grep me\n"
    store.close()


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
def dropped_content_is_gone_and_can_be_put_again(make: Make) -> None:
    store = opened(make)
    digest, other = store.put([b"gone"]), store.put([b"stays"])
    assert store.drop(digest, before_ms=LATER_MS)
    with refused(NotFound):
        list(store.get(digest))
    assert store.location(digest) is None
    assert b"".join(store.get(other)) == b"stays"
    assert store.put([b"gone"]) == digest
    assert b"".join(store.get(digest)) == b"gone"
    store.close()


@clause
def dropping_what_is_not_there_changes_nothing(make: Make) -> None:
    store = opened(make)
    digest = hashlib.sha256(b"never").hexdigest()
    assert store.drop(digest, before_ms=LATER_MS) and store.drop(digest, before_ms=0)
    for wrong in ("", "../../etc/passwd", "A" * 64):
        with refused(Invalid):
            store.drop(wrong, before_ms=LATER_MS)
    store.close()


@clause
def content_that_was_put_since_is_not_dropped(make: Make) -> None:
    store = opened(make)
    digest = store.put([b"precious"])
    assert not store.drop(digest, before_ms=1)
    before_ms = time.time_ns() // 1_000_000
    time.sleep(0.02)  # file systems keep times by the tick of the kernel's clock
    assert store.put([b"precious"]) == digest
    assert not store.drop(digest, before_ms=before_ms)
    assert b"".join(store.get(digest)) == b"precious"
    store.close()


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
