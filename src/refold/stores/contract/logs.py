"""Clauses about one log and about artifacts.

Appended events come back exactly, in order, once, all or nothing. Bytes go in as a stream, are kept
once under their sha256, and come back checked; derived files have their own paths.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

import msgspec

from refold.core import codec
from refold.core.model import Meta
from refold.errors import Conflict, Invalid, NotFound
from refold.stores.contract.kit import (
    AT_MS,
    TEXT,
    Make,
    collector,
    grown,
    on_new_store,
    refused,
    sealed,
    titled,
)
from refold.stores.protocol import Store

CLAUSES, clause = collector()

STRANGE_BODIES = [
    b'{"text":"nul \\u0000 and raw \x00"}',
    '{"text":"\u2028\u2029\x85 and \U0001f600"}'.encode(),
    b'{"not": json, at all',
    b"\xff\xfe\x00 not even text",
    b'{"a":1,"a":2,"n":1e400}',
    b"  null\n\r\n",
    b"[" * 100_000,
    b"x" * 1_000_000,
    b"'; DROP TABLE events; --",
]
STRANGE_IDS = [
    "../../x",
    "..",
    "",
    "a/b",
    "a\0b",
    "CON",
    "nul",
    ".hidden",
    "x" * 65,
    "é",
    "a b",
    "x.lock",
    "a\n",
    "-r",
]


@clause
@on_new_store
def events_come_back_exactly_as_they_were_given(store: Store) -> None:
    with_salt = sealed(None, STRANGE_BODIES, kind="from-the-future", by="tool:naïve \u2028 \x00")
    store.append("log", with_salt, expect=0)
    assert store.read("log") == with_salt
    assert list(codec.check(store.read("log"))) == []


@clause
@on_new_store
def every_field_of_an_event_is_kept(store: Store) -> None:
    [event] = sealed(None, [b""])
    event = msgspec.structs.replace(
        event, at_ms=0, tokens=2**40, counter="o200k", by="", salt=b"", id=event.id.upper()
    )
    store.append("log", [event], expect=0)
    assert store.read("log") == [event] and store.read("log")[0].erased


@clause
@on_new_store
def a_new_store_is_empty(store: Store) -> None:
    assert store.conversations() == []
    assert store.bookmark("log") is None
    store.flush()


@clause
@on_new_store
def what_is_unknown_is_not_found(store: Store) -> None:
    for known in (False, True):
        for ask in (
            lambda: store.read("other"),
            lambda: store.conversation("other"),
            lambda: store.keep_bookmark("other", b"x"),
            lambda: store.fork("other", 1, "new"),
            lambda: store.erase("other", 1),
            lambda: store.delete("other"),
        ):
            with refused(NotFound):
                ask()
        if not known:
            grown(store, "log", 1)
    assert [found.id for found in store.conversations()] == ["log"]


@clause
@on_new_store
def ids_that_are_not_plain_names_are_refused_everywhere(store: Store) -> None:
    [event] = grown(store, "log", 1)
    for id in STRANGE_IDS:
        for ask in (
            lambda id=id: store.read(id),
            lambda id=id: store.conversation(id),
            lambda id=id: store.head(id),
            lambda id=id: store.append(id, [event], expect=0),
            lambda id=id: store.append(id, [], expect=0),
            lambda id=id: store.bookmark(id),
            lambda id=id: store.keep_bookmark(id, b"x"),
            lambda id=id: store.fork(id, 1, "new"),
            lambda id=id: store.fork("log", 1, id),
            lambda id=id: store.erase(id, 1),
            lambda id=id: store.delete(id),
        ):
            with refused(Invalid):
                ask()
    assert [found.id for found in store.conversations()] == ["log"]


@clause
@on_new_store
def a_read_is_bounded_by_after_last_and_limit(store: Store) -> None:
    events = grown(store, "log", 12)
    assert store.read("log", after=5) == events[5:]
    assert store.read("log", after=5, last=8) == events[5:8]
    assert store.read("log", limit=3) == events[:3]
    assert store.read("log", after=10, limit=100) == events[10:]
    assert store.read("log", after=-3, last=2**70, limit=4) == events[:4]
    for nothing in (
        {"after": 12},
        {"after": 2**70},
        {"last": 0},
        {"last": -1},
        {"limit": 0},
        {"limit": -1},
    ):
        assert store.read("log", **nothing) == []
    assert store.read("log", after=8, last=5) == []


@clause
@on_new_store
def a_read_without_a_limit_stops_at_a_thousand(store: Store) -> None:
    events = sealed(None, [TEXT] * 1_005)
    store.append("log", events, expect=0)
    assert store.read("log") == events[:1_000]
    assert store.read("log", after=1_000) == events[1_000:]


@clause
@on_new_store
def an_append_on_a_moved_head_is_a_conflict_that_tells_the_head_and_writes_nothing(
    store: Store,
) -> None:
    events = grown(store, "log", 3)
    for before in (None, events[0], events[1]):
        rivals = sealed(before, [b"{}", b"{}"])
        with refused(Conflict) as refusal:
            store.append("log", rivals, expect=rivals[0].seq - 1)
        assert getattr(refusal.error, "head", None) == 3
    ahead = sealed(sealed(events[2], [b"{}"])[0], [b"{}"])
    with refused(Conflict) as refusal:
        store.append("log", ahead, expect=4)
    assert getattr(refusal.error, "head", None) == 3
    assert store.read("log") == events


@clause
@on_new_store
def a_log_begins_at_its_first_event(store: Store) -> None:
    events = sealed(None, [TEXT] * 2)
    with refused(Conflict) as refusal:
        store.append("log", events[1:], expect=1)
    assert getattr(refusal.error, "head", None) == 0
    assert store.conversations() == []


@clause
@on_new_store
def events_with_a_gap_are_invalid_and_none_is_written(store: Store) -> None:
    events = sealed(None, [TEXT] * 4)
    for wrong in (
        [events[0], events[2]],
        [events[1]],
        [events[0], events[0]],
        [events[1], events[0]],
    ):
        with refused(Invalid):
            store.append("log", wrong, expect=0)
    with refused(Invalid):
        store.append("log", [msgspec.structs.replace(events[0], seq=0)], expect=-1)
    assert store.conversations() == []


@clause
@on_new_store
def a_batch_is_written_whole_or_refused_whole(store: Store) -> None:
    events = grown(store, "log", 1)
    rest = sealed(events[0], [TEXT] * 3)
    rest[2] = msgspec.structs.replace(rest[2], by="\ud800")
    try:
        store.append("log", rest, expect=1)
        events += rest
    except Invalid:
        # Text that is not UTF-8 has no place in most stores; then the two good events stay out as
        # well.
        assert store.read("log") == events
        events += rest[:2]
        store.append("log", rest[:2], expect=1)
    assert store.read("log") == events


@clause
@on_new_store
def appending_nothing_creates_nothing(store: Store) -> None:
    store.append("log", [], expect=0)
    assert store.conversations() == []


@clause
@on_new_store
def repeating_an_append_changes_nothing(store: Store) -> None:
    events = sealed(None, [TEXT] * 5)
    store.append("log", events[:3], expect=0)
    store.append("log", events[:3], expect=0)
    store.append("log", events[3:4], expect=3)
    store.append("log", events[3:4], expect=3)
    store.append("log", events[1:3], expect=1)
    with refused(Conflict):
        store.append("log", events[2:5], expect=2)
    store.append("log", events[4:], expect=4)
    store.append("log", events, expect=0)
    assert store.read("log") == events


@clause
@on_new_store
def a_conversation_tells_its_head_chain_and_times(store: Store) -> None:
    events = grown(store, "log", 3)
    found = store.conversation("log")
    assert (found.id, found.head, found.chain) == ("log", 3, events[2].chain)
    assert (found.at_ms, found.updated_ms) == (AT_MS + 1, AT_MS + 3)
    assert (found.title, found.parent, found.parent_seq) == ("", "", 0)
    assert store.conversations() == [found]


@clause
@on_new_store
def a_head_is_none_without_a_conversation_and_moves_with_every_append(store: Store) -> None:
    assert store.head("log") is None
    store.append("log", [], expect=0)
    assert store.head("log") is None
    events = grown(store, "log", 1)
    assert store.head("log") == 1
    grown(store, "log", 2, before=events[-1])
    assert store.head("log") == 3
    assert store.head("other") is None


@clause
def a_head_is_that_of_another_writers_append(make: Make) -> None:
    place = make()
    here, there = place.open(), place.open()
    assert there.head("log") is None
    events = grown(here, "log", 2)
    assert there.head("log") == 2
    grown(there, "log", 1, before=events[-1])
    assert here.head("log") == 3
    here.close()
    there.close()


@clause
@on_new_store
def the_newest_meta_event_with_a_title_names_the_conversation(store: Store) -> None:
    first = titled(None, "one")
    store.append("log", [first], expect=0)
    assert store.conversation("log").title == "one"
    [tags] = sealed(first, [codec.encode(Meta(tags=("x",)))], kind="meta")
    store.append("log", [tags], expect=1)
    assert store.conversation("log").title == "one"
    second = titled(tags, "two \u2028")
    store.append("log", [second, *sealed(second, [TEXT])], expect=2)
    assert store.conversation("log").title == "two \u2028"
    broken = sealed(store.read("log")[-1], [b'{"title":'], kind="meta")
    store.append("log", broken, expect=4)
    assert store.conversation("log").title == "two \u2028"


@clause
@on_new_store
def conversations_are_listed_by_id_in_pages(store: Store) -> None:
    ids = [f"c{n:03d}" for n in range(0, 40, 2)] + ["B", "b.1", "b-1", "b_1"]
    for id in ids:
        grown(store, id, 1)
    ids.sort()
    assert [found.id for found in store.conversations()] == ids
    assert [found.id for found in store.conversations(limit=7)] == ids[:7]
    assert [found.id for found in store.conversations(after=ids[6], limit=7)] == ids[7:14]
    assert [found.id for found in store.conversations(after="c001", limit=2)] == ["c002", "c004"]
    assert (
        store.conversations(after="zz")
        == store.conversations(limit=0)
        == store.conversations(limit=-1)
        == []
    )


@clause
@on_new_store
def conversations_do_not_see_each_other(store: Store) -> None:
    logs = {id: grown(store, id, 4) for id in ("a", "b", "c")}
    for id in ("b", "a", "c", "a"):
        logs[id] += grown(store, id, 3, before=logs[id][-1])
    for id, events in logs.items():
        assert store.read(id) == events


@clause
def what_was_written_is_there_when_the_store_is_opened_again(make: Make) -> None:
    place = make()
    store = place.open()
    events = grown(store, "log", 5)
    digest = store.put([b"kept"])
    store.keep_bookmark("log", b"mark")
    store.flush()
    store.flush()
    store.close()
    if not place.url:
        return
    again = place.open()
    assert again.read("log") == events and again.bookmark("log") == b"mark"
    assert b"".join(again.get(digest)) == b"kept"
    events += grown(again, "log", 2, before=events[-1])
    again.close()
    assert place.open().read("log") == events


@clause
@on_new_store
def a_closed_store_can_be_closed_again(store: Store) -> None:
    grown(store, "log", 1)
    store.close()


CONTENTS, contents_clause = collector()

SAMPLES = [
    b"",
    b"\0",
    "naïve \u2028\r\n".encode(),
    bytes(range(256)) * 4_096,
    b"x" * 262_144,
    b"y" * 262_145,
]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contents_clause
@on_new_store
def contents_come_back_under_their_digest(store: Store) -> None:
    for content in SAMPLES:
        assert store.put([content]) == _digest(content)
        assert b"".join(store.get(_digest(content))) == content
    for content in SAMPLES:
        assert b"".join(store.get(_digest(content))) == content


@contents_clause
@on_new_store
def how_content_is_cut_does_not_matter(store: Store) -> None:
    whole = store.put([b"abcdef"])
    assert store.put([b"a", b"", b"bcd", b"ef"]) == whole
    assert store.put(iter([b"abc", b"def"]), suffix=".txt") == whole
    assert b"".join(store.get(whole)) == b"abcdef"


@contents_clause
@on_new_store
def content_streams_in_bounded_chunks(store: Store) -> None:
    digest = store.put(b"z" * 100_000 for _ in range(50))
    sizes = [len(chunk) for chunk in store.get(digest)]
    assert sum(sizes) == 5_000_000 and max(sizes) <= 1_048_576 and min(sizes) > 0
    next(store.get(digest))  # a reader that stops early leaves nothing open


@contents_clause
@on_new_store
def content_that_was_never_put_is_not_found(store: Store) -> None:
    digest = _digest(b"never")
    for _ in range(2):
        with refused(NotFound):
            list(store.get(digest))
        assert store.location(digest) is None
        store.put([b"other"])


@contents_clause
@on_new_store
def what_is_not_a_digest_is_refused(store: Store) -> None:
    for wrong in ("", "abc", "../../etc/passwd", "A" * 64, "g" * 64, "0" * 63, "0" * 64 + "\n"):
        with refused(Invalid):
            list(store.get(wrong))
        with refused(Invalid):
            store.location(wrong)


@contents_clause
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


@contents_clause
@on_new_store
def a_location_is_a_plain_file_with_the_same_bytes(store: Store) -> None:
    digest = store.put([b"grep me\n"], suffix=".log")
    path = store.location(digest)
    if path is not None:
        assert path.endswith(".log") and os.path.isfile(path)
        with open(path, "rb") as file:
            assert file.read() == b"grep me\n"


@contents_clause
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


@contents_clause
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


@contents_clause
@on_new_store
def dropping_what_is_not_there_changes_nothing(store: Store) -> None:
    digest = _digest(b"never")
    assert store.drop(digest, before_ms=LATER_MS) and store.drop(digest, before_ms=0)
    for wrong in ("", "../../etc/passwd", "A" * 64):
        with refused(Invalid):
            store.drop(wrong, before_ms=LATER_MS)


@contents_clause
@on_new_store
def content_that_was_put_since_is_not_dropped(store: Store) -> None:
    digest = store.put([b"precious"])
    assert not store.drop(digest, before_ms=1)
    before_ms = time.time_ns() // 1_000_000
    time.sleep(0.02)  # file systems keep times by the tick of the kernel's clock
    assert store.put([b"precious"]) == digest
    assert not store.drop(digest, before_ms=before_ms)
    assert b"".join(store.get(digest)) == b"precious"


@contents_clause
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


@contents_clause
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


@contents_clause
def a_derived_file_is_not_shared_with_another_store(make: Make) -> None:
    here, there = make().open(), make().open()
    mine, yours = here.derived_path("index.db"), there.derived_path("index.db")
    assert mine is None or mine != yours
    here.close()
    there.close()


@contents_clause
def asking_for_a_derived_file_makes_nothing(make: Make) -> None:
    store = make().open()
    path = store.derived_path("index.db")
    assert path is None or not os.path.exists(path)
    store.close()


@contents_clause
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
