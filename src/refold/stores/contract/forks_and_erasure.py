"""Clauses about what belongs to a conversation: forks that share its log, erased events,
bookmarks, and being deleted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from refold.core import codec
from refold.errors import Conflict, Denied, Invalid, NotFound
from refold.stores.contract.kit import (
    AT_MS,
    TEXT,
    collector,
    grown,
    on_new_store,
    refused,
    sealed,
    titled,
)
from refold.stores.protocol import Store
from refold.stores.read_only import ReadOnlyStore

CLAUSES, clause = collector()


@clause
@on_new_store
def a_fork_reads_its_parent_below_and_itself_above(store: Store) -> None:
    trunk = grown(store, "trunk", 6)
    store.fork("trunk", 4, "fork")
    assert store.read("fork") == trunk[:4]
    own = grown(store, "fork", 3, before=trunk[3])
    assert store.read("fork") == trunk[:4] + own
    assert store.read("fork", after=2, last=5) == trunk[2:4] + own[:1]
    assert store.read("fork", after=1, limit=4) == trunk[1:4] + own[:1]
    assert store.read("fork", after=4) == own
    assert store.read("trunk") == trunk
    assert list(codec.check(store.read("fork"))) == []


@clause
@on_new_store
def a_fork_tells_where_it_comes_from(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    found = store.conversation("fork")
    assert (found.parent, found.parent_seq, found.head, found.chain) == (
        "trunk",
        2,
        2,
        trunk[1].chain,
    )
    assert (found.at_ms, found.updated_ms) == (trunk[1].at_ms, trunk[1].at_ms)
    own = grown(store, "fork", 2, before=trunk[1])
    found = store.conversation("fork")
    assert (found.head, found.chain, found.updated_ms) == (4, own[-1].chain, own[-1].at_ms)
    assert [listed.id for listed in store.conversations()] == ["fork", "trunk"]


@clause
@on_new_store
def the_head_of_a_fork_is_its_own(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    assert (store.head("fork"), store.head("trunk")) == (2, 3)
    grown(store, "fork", 2, before=trunk[1])
    assert (store.head("fork"), store.head("trunk")) == (4, 3)
    store.fork("fork", 1, "older")
    assert store.head("older") == 1


@clause
@on_new_store
def a_deleted_conversation_has_no_head(store: Store) -> None:
    grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    store.delete("fork")
    assert (store.head("fork"), store.head("trunk")) == (None, 3)
    store.erase("trunk", 3)
    assert store.head("trunk") == 3
    store.delete("trunk")
    assert store.head("trunk") is None
    grown(store, "fork", 1)
    assert store.head("fork") == 1


@clause
@on_new_store
def a_store_that_is_only_read_knows_heads(store: Store) -> None:
    reader = ReadOnlyStore(store, owns=False)
    assert reader.head("log") is None
    events = grown(store, "log", 2)
    assert reader.head("log") == 2
    with refused(Denied):
        reader.append("log", sealed(events[-1], [TEXT]), expect=2)
    assert reader.head("log") == 2


@clause
@on_new_store
def events_that_come_to_the_parent_later_do_not_show_in_the_fork(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 3, "fork")
    more = grown(store, "trunk", 3, before=trunk[-1])
    assert store.read("fork") == trunk
    assert store.conversation("fork").head == 3
    with refused(Conflict):
        store.append("fork", sealed(more[0], [TEXT]), expect=4)
    own = grown(store, "fork", 1, before=trunk[-1])
    assert store.read("fork") == trunk + own and store.read("trunk") == trunk + more


@clause
@on_new_store
def forks_of_forks_read_through_all_their_ancestors(store: Store) -> None:
    logs = {"f0": grown(store, "f0", 5)}
    for n, (at, own) in enumerate([(4, 3), (6, 2), (5, 0), (2, 1), (3, 4), (1, 2)], 1):
        store.fork(f"f{n - 1}", at, f"f{n}")
        shared = logs[f"f{n - 1}"][:at]
        logs[f"f{n}"] = shared + grown(store, f"f{n}", own, before=shared[-1])
    for id, events in logs.items():
        assert store.read(id) == events, id
        assert store.conversation(id).head == len(events)
        for after in range(len(events)):
            assert store.read(id, after=after, limit=3) == events[after : after + 3]


@clause
@on_new_store
def a_long_line_of_forks_reads_like_one_log(store: Store) -> None:
    log = grown(store, "f0", 1)
    for n in range(1, 1_200):
        store.fork(f"f{n - 1}", n, f"f{n}")
        log += grown(store, f"f{n}", 1, before=log[-1])
    assert store.read("f1199", limit=2_000) == log
    assert store.conversation("f1199").head == 1_200
    store.erase("f1199", 1)
    assert store.read("f1199", limit=1)[0].erased


@clause
@on_new_store
def a_fork_needs_a_new_id_and_an_event_to_leave_at(store: Store) -> None:
    grown(store, "trunk", 3)
    grown(store, "other", 1)
    for at in (0, -1, 4, 2**70):
        with refused(Invalid):
            store.fork("trunk", at, "fork")
    for taken in ("other", "trunk"):
        with refused(Conflict):
            store.fork("trunk", 2, taken)
    assert [found.id for found in store.conversations()] == ["other", "trunk"]


@clause
@on_new_store
def repeating_an_append_to_a_fork_changes_nothing(store: Store) -> None:
    trunk = grown(store, "trunk", 4)
    store.fork("trunk", 3, "fork")
    own = grown(store, "fork", 2, before=trunk[2])
    store.append("fork", trunk[1:3] + own, expect=1)
    store.append("fork", own, expect=3)
    with refused(Conflict):
        store.append("fork", trunk[3:], expect=3)
    assert store.read("fork") == trunk[:3] + own


@clause
@on_new_store
def a_fork_has_the_title_its_log_had(store: Store) -> None:
    first = titled(None, "early")
    late = titled(first, "late")
    store.append("trunk", [first, late], expect=0)
    store.fork("trunk", 1, "one")
    store.fork("trunk", 2, "two")
    assert [found.title for found in store.conversations()] == ["early", "late", "late"]
    store.append("one", [titled(first, "own")], expect=1)
    assert [found.title for found in store.conversations()] == ["own", "late", "late"]
    store.append("trunk", [titled(late, "")], expect=2)
    store.fork("trunk", 2, "three")
    store.fork("three", 1, "four")
    assert {found.id: found.title for found in store.conversations()} == {
        "four": "early",
        "one": "own",
        "three": "late",
        "trunk": "",
        "two": "late",
    }


@clause
@on_new_store
def an_erased_event_keeps_only_its_envelope(store: Store) -> None:
    events = sealed(None, [TEXT, b'{"secret":1}' * 5_000, TEXT])
    store.append("log", events, expect=0)
    store.erase("log", 2)
    store.erase("log", 2)
    emptied = msgspec.structs.replace(events[1], body=b"", salt=b"")
    expected = [events[0], emptied, events[2]]
    assert store.read("log") == expected and store.read("log")[1].erased
    assert list(codec.check(store.read("log"))) == []
    events += grown(store, "log", 1, before=events[-1])
    assert store.conversation("log").chain == events[-1].chain
    store.append("log", events[:3], expect=0)
    assert store.read("log")[1].erased


@clause
@on_new_store
def erasing_what_is_not_there_is_not_found(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    for id, seq in (("trunk", 0), ("trunk", -1), ("trunk", 4), ("fork", 3), ("trunk", 2**70)):
        with refused(NotFound):
            store.erase(id, seq)
    assert store.read("trunk") == trunk


@clause
@on_new_store
def an_event_is_erased_for_everyone_who_shares_it(store: Store) -> None:
    trunk = grown(store, "trunk", 4)
    store.fork("trunk", 3, "fork")
    own = grown(store, "fork", 2, before=trunk[2])
    store.fork("fork", 4, "twig")
    store.erase("twig", 2)
    store.erase("twig", 4)
    for id, seq in (("trunk", 2), ("fork", 2), ("twig", 2), ("fork", 4), ("twig", 4)):
        assert store.read(id, after=seq - 1, limit=1)[0].erased, id
    assert store.read("trunk", after=2) == trunk[2:] and store.read("fork", after=4) == own[1:]


@clause
@on_new_store
def a_title_and_bookmarks_go_with_the_event_they_were_taken_from(store: Store) -> None:
    first = titled(None, "early")
    secret = titled(first, "secret")
    store.append("trunk", [first, secret], expect=0)
    store.fork("trunk", 2, "fork")
    for id in ("trunk", "fork"):
        store.keep_bookmark(id, b"secret")
    grown(store, "other", 1)
    store.keep_bookmark("other", b"stays")
    store.erase("fork", 2)
    assert [found.title for found in store.conversations()] == ["early", "", "early"]
    assert [store.bookmark(id) for id in ("trunk", "fork", "other")] == [None, None, b"stays"]


@clause
@on_new_store
def a_deleted_conversation_is_gone_with_its_bookmark(store: Store) -> None:
    grown(store, "log", 3)
    other = grown(store, "other", 3)
    store.keep_bookmark("log", b"mark")
    store.delete("log")
    with refused(NotFound):
        store.read("log")
    with refused(NotFound):
        store.delete("log")
    assert store.bookmark("log") is None
    assert [found.id for found in store.conversations()] == ["other"] and store.read(
        "other"
    ) == other


@clause
@on_new_store
def an_id_is_free_again_after_a_delete(store: Store) -> None:
    old = grown(store, "log", 5)
    store.keep_bookmark("log", b"old")
    store.delete("log")
    with refused(Conflict):
        store.append("log", sealed(old[-1], [TEXT]), expect=5)
    new = grown(store, "log", 2)
    assert store.read("log") == new and store.bookmark("log") is None


@clause
@on_new_store
def a_conversation_with_forks_is_not_deleted(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    with refused(Conflict) as refusal:
        store.delete("trunk")
    assert "fork" in f"{refusal.error} {refusal.error.hint}"
    assert store.read("trunk") == trunk and store.read("fork") == trunk[:2]
    store.delete("fork")
    store.delete("trunk")
    assert store.conversations() == []


@clause
@on_new_store
def a_bookmark_belongs_to_its_conversation_and_is_overwritten(store: Store) -> None:
    trunk = grown(store, "trunk", 2)
    assert store.bookmark("trunk") is None
    for mark in (b"one", b"", bytes(range(256)) * 1_000, b"two"):
        store.keep_bookmark("trunk", mark)
        assert store.bookmark("trunk") == mark
    store.fork("trunk", 1, "fork")
    assert store.bookmark("fork") is None
    store.keep_bookmark("fork", b"mine")
    assert (store.bookmark("trunk"), store.bookmark("fork")) == (b"two", b"mine")
    assert store.read("trunk") == trunk


@clause
@on_new_store
def a_bookmark_for_a_place_goes_with_the_events_before_it(store: Store) -> None:
    grown(store, "trunk", 6)
    store.fork("trunk", 4, "fork")
    store.keep_bookmark("trunk", b"latest")
    for at in (2, 4, 5):
        store.keep_bookmark("trunk", b"%d" % at, at=at)
    # A store need not keep them, but must not give one for a later place.
    assert store.bookmark("trunk", at=1) is None
    for id, at, kept in (("trunk", 3, b"2"), ("trunk", 6, b"5"), ("fork", 4, b"4")):
        assert store.bookmark(id, at=at) in (kept, None)
    assert store.bookmark("trunk") == b"latest" and store.bookmark("fork") is None
    store.erase("fork", 1)
    assert [store.bookmark(id, at=6) for id in ("trunk", "fork")] == [None, None]
    store.keep_bookmark("fork", b"again", at=2)
    store.delete("fork")
    store.delete("trunk")
    grown(store, "trunk", 6)
    assert store.bookmark("trunk", at=6) is None


@clause
@on_new_store
def what_can_be_salvaged_of_a_sound_log_is_the_log(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    own = grown(store, "fork", 1, before=trunk[1])
    assert store.salvage("trunk").pieces == tuple(trunk)
    found = store.salvage("fork")
    assert (found.pieces, found.parent, found.parent_seq) == ((*trunk[:2], *own), "trunk", 2)
    with refused(NotFound):
        store.salvage("nobody")


@clause
@on_new_store
def a_log_is_rewritten_whole_or_not_at_all(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    trunk.append(titled(trunk[-1], "Mine"))
    store.append("trunk", trunk[-1:], expect=3)
    store.keep_bookmark("trunk", b"old")
    seen = store.salvage("trunk")
    more = grown(store, "trunk", 1, before=trunk[-1])
    with refused(Conflict):
        store.rewrite("trunk", trunk[:2], after=0, seen=seen)
    assert store.read("trunk") == trunk + more
    store.rewrite("trunk", trunk[:2], after=0, seen=store.salvage("trunk"))
    about = store.conversation("trunk")
    assert (store.read("trunk"), about.head, about.title) == (trunk[:2], 2, "")
    assert store.bookmark("trunk") is None
    again = grown(store, "trunk", 1, before=trunk[1])
    assert store.read("trunk") == trunk[:2] + again


@clause
@on_new_store
def a_rewritten_log_is_as_old_as_its_first_event(store: Store) -> None:
    grown(store, "log", 3)
    [first] = sealed(None, [TEXT], at_ms=AT_MS + 500)
    store.rewrite("log", [first], after=0, seen=store.salvage("log"))
    about = store.conversation("log")
    assert (about.at_ms, about.updated_ms) == (first.at_ms, first.at_ms)


@clause
@on_new_store
def a_rewritten_fork_keeps_its_parent_or_goes_without(store: Store) -> None:
    trunk = grown(store, "trunk", 3)
    store.fork("trunk", 2, "fork")
    own = grown(store, "fork", 2, before=trunk[1])
    store.rewrite("fork", own[:1], after=2, seen=store.salvage("fork"))
    assert store.read("fork") == [*trunk[:2], *own[:1]]
    assert store.conversation("fork").parent == "trunk"
    store.rewrite("fork", trunk[:1], after=0, seen=store.salvage("fork"))
    about = store.conversation("fork")
    assert (store.read("fork"), about.parent, about.head) == (trunk[:1], "", 1)
    store.rewrite("fork", [], after=0, seen=store.salvage("fork"))
    with refused(NotFound):
        store.conversation("fork")
    store.delete("trunk")


@clause
@on_new_store
def arguments_of_a_wrong_type_are_invalid(store: Store) -> None:
    grown(store, "log", 2)
    text, number, wrong = "log", 1, [None, True, 5, 2.5, "x", b"x", [], {"x": 1}, object()]
    seen = store.salvage(text)
    calls: list[tuple[Callable[..., Any], tuple[object, ...], dict[str, object]]] = [
        (store.conversations, (), {"after": text, "limit": number}),
        (store.head, (text,), {}),
        (store.conversation, (text,), {}),
        (store.read, (text,), {"after": number, "last": number, "limit": number}),
        (store.append, (text, ()), {"expect": number}),
        (store.bookmark, (text,), {}),
        (store.keep_bookmark, (text, b"x"), {}),
        (store.put, ([b"x"],), {"suffix": text}),
        (store.get, (text,), {}),
        (store.location, (text,), {}),
        (store.drop, (text,), {"before_ms": number}),
        (store.derived_path, (text,), {}),
        (store.fork, (text, number, text), {}),
        (store.erase, (text, number), {}),
        (store.delete, (text,), {}),
        (store.salvage, (text,), {}),
        (store.rewrite, (text, ()), {"after": number, "seen": seen}),
    ]
    for method, given, named in calls:
        places = [*range(len(given)), *named]
        for place, value in itertools.product(places, wrong):
            usual = given[place] if isinstance(place, int) else named[place]
            may_be_none = place == "last" and value is None
            if type(value) is type(usual) or (value == [] and usual == ()) or may_be_none:
                continue
            args, kwargs = list(given), dict(named)
            if isinstance(place, int):
                args[place] = value
            else:
                kwargs[place] = value
            with refused(Invalid):
                method(*args, **kwargs)
    assert [event.seq for event in store.read(text)] == [1, 2]
