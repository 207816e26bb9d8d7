"""Whatever a far store does to what it keeps is noticed, named, and costs nothing near."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from refold.conversations.eraser import erase
from refold.conversations.verifier import verify
from refold.core import codec, ids
from refold.core.model import Artifact, Event, Message, Meta, Text
from refold.errors import Corrupt, Denied
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore

KEY, OTHER = Key(b"k" * 32), Key(b"o" * 32)
KEYS = Keys(path="acme.key", keys=(KEY,))
Log_ = list[Event]


def device(far: MemoryStore, held: Keys | None = KEYS) -> HybridStore:
    near = MemoryStore()
    opened = EncryptedStore(far, lambda: held, near=near) if held else far
    return HybridStore(near, lambda: opened, url="hybrid:test", far_url="far")


def say(store: HybridStore, id: str, *texts: str) -> None:
    Log(store, id).append(
        [Draft(body=Message(role="user", blocks=(Text(text),)), by="user") for text in texts]
    )


def resealed(events: list[Event]) -> list[Event]:
    """What a server would have to do so that its own log is whole again."""
    before, found = codec.ZERO, []
    for seq, event in enumerate(events, 1):
        digest = codec.digest_of(event.salt, event.body) if event.salt else event.digest
        found.append(codec.resealed(replace(event, digest=digest), before, seq))
        before = found[-1].chain
    return found


def flipped(event: Event) -> Event:
    at = event.body.index(b'"data":"') + 20
    other = b"A" if event.body[at : at + 1] != b"A" else b"B"
    return replace(event, body=event.body[:at] + other + event.body[at + 1 :])


WAYS: dict[str, Callable[[Log_, Log_], Log_]] = {
    "a body is changed": lambda log, other: [log[0], flipped(log[1]), *log[2:]],
    "two bodies change places": lambda log, other: [
        replace(log[0], body=log[1].body),
        replace(log[1], body=log[0].body),
        *log[2:],
    ],
    "two events change places": lambda log, other: [log[1], log[0], *log[2:]],
    "an event is left out": lambda log, other: [log[0], *log[2:]],
    "an event stands there twice": lambda log, other: [log[0], log[0], *log[1:]],
    "an event of another log": lambda log, other: [log[0], other[1], *log[2:]],
    "the log of another conversation": lambda log, other: other,
    "an event in plain text": lambda log, other: [
        *log,
        replace(log[0], seq=4, by="user", kind="message", body=b'{"role":"user"}', counter=""),
    ],
    "another time": lambda log, other: [log[0], replace(log[1], at_ms=1), *log[2:]],
    "another id": lambda log, other: [log[0], replace(log[1], id=log[2].id), *log[2:]],
    "an envelope that is cut": lambda log, other: [
        log[0],
        replace(log[1], counter=log[1].counter[:-20]),
        *log[2:],
    ],
    "an envelope without an end": lambda log, other: [
        log[0],
        replace(log[1], counter=""),
        *log[2:],
    ],
    "a body that is cut": lambda log, other: [
        log[0],
        replace(log[1], body=b'{"kind":"refold.encrypted","data":"AAAA"}'),
        *log[2:],
    ],
    "a body that is another note": lambda log, other: [
        log[0],
        replace(log[1], body=b'{"kind":"refold.encrypted","data":{"a":1}}'),
        *log[2:],
    ],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("has_log", [False, True], ids=["a new device", "one that has some of it"])
def test_what_a_server_changes_is_noticed_and_named(
    way: Callable[[Log_, Log_], Log_], has_log: bool
) -> None:
    far = MemoryStore()
    one, two = device(far), device(far)
    say(one, "c", "first")
    say(one, "d", "other first", "other second", "other third")
    assert one.sync().is_done
    if has_log:
        assert two.sync().is_done
    say(one, "c", "second", "third")
    assert one.sync().is_done
    before = two.near.read("c") if has_log else []
    changed = resealed(way(far.read("c"), far.read("d")))
    far.logs["c"].events = changed
    assert not list(codec.check(far.read("c")))  # the server's own log is whole
    report = two.sync()
    [found] = [one for one in report.synced if one.conversation == "c"]
    assert found.state == "blocked"
    assert "event " in found.reason and "c" in found.reason
    assert (two.near.read("c") if has_log else []) == before
    # Nothing else is delayed by it, and whoever has the log keeps it.
    assert two.near.read("d") == one.near.read("d")
    assert [event.seq for event in one.near.read("c")] == [1, 2, 3]


def test_a_log_that_is_cut_at_its_end_is_sent_again() -> None:
    far = MemoryStore()
    one = device(far)
    say(one, "c", "first", "second", "third")
    assert one.sync().is_done
    del far.logs["c"].events[1:]
    assert one.sync().is_done
    two = device(far)
    assert two.sync().is_done
    assert two.near.read("c") == one.near.read("c")


def test_a_fork_that_a_server_makes_up_over_other_events_is_noticed() -> None:
    far = MemoryStore()
    one = device(far)
    say(one, "c", "first", "second")
    say(one, "d", "other")
    assert one.sync().is_done
    far.logs["d"].parent, far.logs["d"].parent_seq = "c", 1
    far.logs["d"].events = resealed([*far.read("c")[:1], *far.logs["d"].events])[1:]
    two = device(far)
    [found] = [one for one in two.sync().synced if one.conversation == "d"]
    assert found.state == "blocked"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["", "a plan", "another"]), min_size=1, max_size=4), st.data())
def test_a_log_whose_title_the_far_store_does_not_know_is_whole(
    titles: list[str], data: st.DataObject
) -> None:
    far = MemoryStore()
    one = device(far)
    Log(one, "c").append([Draft(body=Meta(title=title), by="user") for title in titles])
    one.fork("c", data.draw(st.integers(1, len(titles))), "f")
    say(one, "f", "in the fork")
    assert one.sync().is_done
    assert not verify(one.far).problems
    far.logs["c"].title = "a title that the server made up"
    assert not verify(one.far).problems
    assert {about.title for about in one.far.conversations()} == {""}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_body_that_a_server_erases_by_itself_is_named(data: st.DataObject) -> None:
    far = MemoryStore()
    one, two = device(far), device(far)
    say(one, "c", "first", "second", "third", "fourth")
    one.fork("c", 3, "before")
    assert one.sync().is_done and two.sync().is_done
    asked = data.draw(st.sets(st.integers(1, 4)))
    if asked:
        erase(one, "c", sorted(asked))
    one.fork("c", data.draw(st.integers(1, 4)), "after")
    assert one.sync().is_done
    assert not verify(one.far, erasures=True).problems
    assert not verify(two.far, erasures=True).problems  # which has not synced yet
    blanked = data.draw(st.sets(st.integers(1, 4))) - asked
    for seq in blanked:
        far.erase("c", seq)
    for judge in (one, two, device(far)):
        problems = verify(judge.far, "c", erasures=True).problems
        assert {problem.seq for problem in problems} == blanked
        assert judge.sync().is_done


# --- contents ---


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_content_that_is_changed_anywhere_is_noticed(data: st.DataObject) -> None:
    far = MemoryStore()
    store = EncryptedStore(far, lambda: KEYS, near=MemoryStore())
    size = data.draw(st.sampled_from([0, 1, 65_535, 65_536, 65_537, 131_072, 200_000]))
    digest = store.put([b"x" * size])
    [kept] = far.contents.values()
    there = b"".join(kept.chunks)
    at = data.draw(st.integers(0, len(there) - 1))
    way = data.draw(st.sampled_from(["flip", "cut", "more", "records"]))
    body = there[30:]
    changed = {
        "flip": there[:at] + bytes([there[at] ^ 1]) + there[at + 1 :],
        "cut": there[:at],
        "more": there + b"x",
        "records": there[:30] + body[65_552:131_104] + body[:65_552] + body[131_104:],
    }[way]
    if changed == there:
        return
    kept.chunks = (changed,)
    with pytest.raises((Corrupt, Denied), match="art-"):
        b"".join(store.get(digest))


def test_a_content_in_the_place_of_another_is_noticed() -> None:
    far = MemoryStore()
    store = EncryptedStore(far, lambda: KEYS, near=MemoryStore())
    one, two = store.put([b"one"]), store.put([b"two"])
    first, second = far.contents.values()
    first.chunks, second.chunks = second.chunks, first.chunks
    for digest in (one, two):
        with pytest.raises(Corrupt, match="was changed"):
            b"".join(store.get(digest))


def test_a_sync_takes_in_no_event_whose_content_was_changed() -> None:
    far = MemoryStore()
    one, two = device(far), device(far)
    digest = one.put([b"an output"])
    named = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=9)
    Log(one, "c").append([Draft(body=named, by="user")])
    assert one.sync().is_done
    [kept] = far.contents.values()
    kept.chunks = (b"".join(kept.chunks)[:-1] + b"x",)
    [found] = two.sync().synced
    assert found.state == "blocked" and ids.artifact_id(digest) in found.reason
    assert not two.near.conversations()


# --- other keys, and none ---


def test_a_device_with_another_key_is_told_which_one_is_missing() -> None:
    far = MemoryStore()
    one, two = device(far), device(far, Keys(path="other.key", keys=(OTHER,)))
    say(one, "c", "first")
    assert one.sync().is_done
    say(two, "d", "mine")
    report = two.sync()
    assert {one.conversation: one.state for one in report.synced} == {"c": "blocked", "d": "synced"}
    [found] = [one for one in report.synced if one.conversation == "c"]
    assert KEY.id in found.reason and "other.key" in found.reason
    assert len(two.near.conversations()) == 1


def test_a_device_without_a_key_is_told_that_it_needs_one_and_takes_nothing_in() -> None:
    far = MemoryStore()
    one, two = device(far), device(far, None)
    say(one, "c", "first")
    assert one.sync().is_done
    say(two, "c", "mine, of the same name")
    say(two, "d", "mine")
    report = two.sync()
    assert {one.conversation: one.state for one in report.synced} == {"c": "blocked", "d": "synced"}
    [found] = [one for one in report.synced if one.conversation == "c"]
    assert KEY.id in found.reason and "key=FILE" in found.reason
    assert [event.seq for event in two.near.read("c")] == [1]
    assert far.read("c")[0].by == "refold.encrypted"


def test_a_device_with_a_newer_key_reads_what_the_older_one_wrote() -> None:
    far = MemoryStore()
    one = device(far)
    say(one, "c", "first")
    assert one.sync().is_done
    two = device(far, Keys(path="acme.key", keys=(OTHER, KEY)))
    assert two.sync().is_done
    say(two, "c", "second")
    assert two.sync().is_done
    assert [event.counter.split(".")[1] for event in far.read("c")] == [KEY.id, OTHER.id]
    # The device that has the older key only is told of the newer one, and loses nothing.
    [found] = one.sync().synced
    assert found.state == "blocked" and OTHER.id in found.reason
    assert [event.seq for event in one.near.read("c")] == [1]


def test_what_lay_there_before_goes_on_encrypted_for_whoever_has_it() -> None:
    far = MemoryStore()
    plain = device(far, None)
    say(plain, "c", "first")
    assert plain.sync().is_done
    one = HybridStore(
        plain.near,
        lambda: EncryptedStore(far, lambda: KEYS, near=plain.near),
        url="hybrid:test",
        far_url="far",
    )
    say(one, "c", "second")
    assert one.sync().is_done
    assert [event.by for event in far.read("c")] == ["user", "refold.encrypted"]
    # A new device does not believe what anybody could have written there, unless it is told to.
    two = device(far)
    [found] = two.sync().synced
    assert found.state == "blocked" and "plain text" in found.reason
    assert not two.near.conversations()
    assert two.sync(takes_plain=True).is_done
    assert two.near.read("c") == one.near.read("c")
