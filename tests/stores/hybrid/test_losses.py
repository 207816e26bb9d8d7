"""What a far store had and has no more is told, event by event, and sent again by a sync."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Erase, Message, Text
from refold.errors import Denied
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import open_store
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore
from refold.stores.protocol import Losses

KEYS = Keys(path="acme.key", keys=(Key(b"o" * 32),))
EVENTS = {"c": 5, "d": 3, "e": 1}


def device(root: Path | str, far: MemoryStore, held: Keys | None = None) -> HybridStore:
    near = open_store(f"sqlite:{root}/refold.db")
    opened = EncryptedStore(far, lambda: held, near=near) if held else far
    return HybridStore(near, lambda: opened, url="hybrid:test", far_url="far")


def say(store: HybridStore, id: str, count: int) -> None:
    words = [Message(role="user", blocks=(Text(f"word {at}"),)) for at in range(count)]
    Log(store, id).append([Draft(body=word, by="user") for word in words])


def keep_first(far: MemoryStore, id: str, count: int) -> None:
    """Leaves a far store only the beginning of a log, each event as it was sent."""
    events = far.read(id)[:count]
    far.delete(id)
    if events:
        far.append(id, events, expect=0)


@pytest.mark.parametrize("held", [None, KEYS], ids=["plain", "encrypted"])
@given(left=st.fixed_dictionaries({id: st.integers(0, count) for id, count in EVENTS.items()}))
@settings(max_examples=25)
def test_every_event_that_is_gone_there_is_counted_and_sent_again(
    held: Keys | None, left: dict[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        far = MemoryStore()
        one = device(root, far, held)
        for id, count in EVENTS.items():
            say(one, id, count)
        assert one.sync().is_done and one.losses() == Losses(events={})
        for id, count in left.items():
            keep_first(far, id, count)
        gone = {id: EVENTS[id] - count for id, count in left.items() if count < EVENTS[id]}
        found = one.losses()
        assert found == Losses(events=gone, is_all=not any(left.values()))
        for stands in one.sync_status().conversations:
            count = gone.get(stands.conversation, 0)
            assert stands.pending == count
            assert stands.state == ("pending" if count else "synced")
            assert ("has lost" in stands.reason) == bool(count)
        assert one.sync().is_done != found.is_all  # a store with nothing may not be mounted
        assert one.sync(new_far=True).is_done
        assert one.losses() == Losses(events={})
        assert {stands.state for stands in one.sync_status().conversations} == {"synced"}
        one.close()


def test_what_is_there_again_is_lost_no_more(tmp_path: Path) -> None:
    far = MemoryStore()
    one = device(tmp_path, far)
    say(one, "c", 3)
    assert one.sync().is_done
    events = far.read("c")
    far.delete("c")
    assert one.losses() == Losses(events={"c": 3}, is_all=True)
    far.append("c", events, expect=0)
    assert one.losses() == Losses(events={})
    [stands] = one.sync_status().conversations
    assert (stands.state, stands.pending, stands.reason) == ("synced", 0, "")


def test_a_sync_that_finds_nothing_there_says_so_until_one_finds_it_again(tmp_path: Path) -> None:
    far = MemoryStore()
    one = device(tmp_path, far)
    say(one, "c", 3)
    assert one.sync().is_done
    events = far.read("c")
    far.delete("c")
    for _ in range(2):
        assert not one.sync().is_done
        [stands] = one.sync_status().conversations
        assert (stands.state, stands.pending) == ("pending", 3)
    far.append("c", events, expect=0)
    assert one.sync().is_done
    [stands] = one.sync_status().conversations
    assert (stands.state, stands.pending, stands.reason) == ("synced", 0, "")


def test_only_what_is_asked_for_and_is_here_is_missed(tmp_path: Path) -> None:
    far = MemoryStore()
    one = device(tmp_path, far)
    for id in EVENTS:
        say(one, id, 2)
    assert one.sync().is_done
    one.delete("e")
    say(one, "new", 2)  # was never there
    say(one, "d", 1)  # its new event as well
    for id in ("c", "d", "e"):
        far.delete(id)
    far.append("x", [*one.near.read("new")], expect=0)
    assert one.losses(["d"]).events == {"d": 2}
    assert one.losses(besides={"d"}).events == {"c": 2}
    assert one.losses(["new"]).events == {}
    [stands] = one.sync_status(["d"]).conversations
    assert stands.pending == 3


def test_what_a_device_may_not_say_of_its_erasing_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = MemoryStore()
    one, two = device(tmp_path / "one", far), device(tmp_path / "two", far)
    say(one, "c", 3)
    assert one.sync().is_done and two.sync().is_done
    one.erase("c", 2)
    Log(one, "c").append([Draft(body=Erase(seq=2), by="user")])
    assert one.sync().is_done

    def refused(*_: object, **__: object) -> None:
        raise Denied("read only")

    with monkeypatch.context() as reading_only:
        reading_only.setattr(far, "append", refused)
        assert two.sync().is_done
    assert two.near.conversation("c").head == far.conversation("c").head + 1
    assert two.losses() == Losses(events={})
