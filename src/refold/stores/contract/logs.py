"""Clauses about one log: what is appended comes back exactly, in order, once, all or nothing."""

from __future__ import annotations

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
