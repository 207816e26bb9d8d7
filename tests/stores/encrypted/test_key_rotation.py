"""What lay far in plain text or by an older key is gone from there once the key is applied, also
after kills, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.ids import (
    artifact_id,
)
from refold.core.model import Artifact, Message, Text
from refold.errors import Conflict
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import open_store, synced_of
from refold.stores.encrypted import keys
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.conversation_sync import all_conversations
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore

OLD, NEW = Key(b"o" * 32), Key(b"n" * 32)
ONLY_OLD, BOTH = (Keys(path="acme.key", keys=held) for held in ((OLD,), (NEW, OLD)))
ONLY_NEW = Keys(path="acme.key", keys=(NEW,))
WORD = b"giraffe"


class Killed(BaseException):
    """The process ends here."""


class Dying:
    """A far store in whose n-th call the process ends, before or after the work."""

    def __init__(self, far: MemoryStore, calls: int, is_done: bool) -> None:
        self.far, self.calls, self.is_done = far, calls, is_done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.far, name)
        if not callable(found):
            return found

        def called(*args: Any, **given: Any) -> Any:
            self.calls -= 1
            if self.calls == 0 and not self.is_done:
                raise Killed
            answer = found(*args, **given)
            if self.calls == 0:
                raise Killed
            return answer

        return called


def device(far: Any, held: Keys | None, near: MemoryStore | None = None) -> HybridStore:
    near = near or MemoryStore()
    opened = EncryptedStore(far, lambda: held, near=near) if held else far
    return HybridStore(near, lambda: opened, url="hybrid:test", far_url="far")


def say(store: HybridStore, id: str, *outputs: int) -> None:
    """Words, and an artifact for each output; the same number is the same artifact."""
    drafts = [Draft(body=Message(role="user", blocks=(Text(WORD.decode()),)), by="user")]
    for output in outputs:
        digest = store.put([WORD + b" %d" % output])
        named = Artifact(id=artifact_id(digest), digest=digest, size_bytes=9)
        drafts.append(Draft(body=named, by="user"))
    Log(store, id).append(drafts)


def contents(store: MemoryStore) -> list[bytes]:
    return [b"".join(one.chunks) for one in store.contents.values()]


def check_new(far: MemoryStore, near: MemoryStore) -> None:
    """Everything there is by the newest key, and whoever has it alone has all of it."""
    lying = contents(far)
    assert all(one.split(b"\n")[1] == NEW.id.encode() for one in lying)
    logs = [event for about in all_conversations(far) for event in far.read(about.id)]
    assert {event.counter.split(".")[1] for event in logs} == {NEW.id}
    late = device(far, ONLY_NEW)
    assert late.sync().is_done
    for about in all_conversations(near):
        assert late.near.read(about.id) == near.read(about.id)
    assert sorted(contents(late.near)) == sorted(contents(near))


def written(far: MemoryStore, data: st.DataObject) -> MemoryStore:
    """A near store whose logs went there without a key, by an older one, or by the newest."""
    near = MemoryStore()
    ids = ["c", "d", "e"]
    ways = (None, ONLY_OLD, BOTH)
    for way in sorted(data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))):
        one = device(far, ways[way], near)
        outputs = data.draw(st.lists(st.integers(0, 3), max_size=3))
        id = data.draw(st.sampled_from(ids))
        say(one, id, *outputs)
        if data.draw(st.booleans()) and f"{id}f" not in near.logs:
            one.fork(id, near.conversation(id).head, f"{id}f")
        assert one.sync().is_done
    return near


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_nothing_old_is_left_once_a_key_is_applied(data: st.DataObject) -> None:
    far = MemoryStore()
    near = written(far, data)
    device(far, BOTH, near).encrypt_again()
    check_new(far, near)
    assert device(far, BOTH, near).encrypt_again() == {}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=3))
def test_a_key_that_is_applied_again_after_kills_leaves_nothing_old(
    data: st.DataObject, kills: list[tuple[int, bool]]
) -> None:
    far = MemoryStore()
    near = written(far, data)
    for calls, is_done in kills:
        try:
            device(Dying(far, calls, is_done), BOTH, near).encrypt_again()
        except Killed:
            continue
    device(far, BOTH, near).encrypt_again()
    check_new(far, near)


def test_a_content_that_is_only_there_is_fetched_before_it_goes() -> None:
    far = MemoryStore()
    one = device(far, ONLY_OLD)
    say(one, "c", 1)
    assert one.sync().is_done
    again = device(far, BOTH, one.near)
    assert again.sync().is_done
    again.far.read("c")  # learns where it lies
    one.near.contents.clear()
    again.encrypt_again()
    check_new(far, one.near)
    assert contents(one.near) == [WORD + b" 1"]


def test_a_log_that_was_deleted_here_is_not_deleted_there() -> None:
    far = MemoryStore()
    one, two = device(far, ONLY_OLD), device(far, ONLY_OLD)
    say(one, "c", 1)
    assert one.sync().is_done and two.sync().is_done
    again = device(far, BOTH, two.near)
    again.sync = lambda *ids, **given: HybridStore.sync(again, ["d"], new_far=True)  # type: ignore
    say(again, "d")
    two.near.delete("c")
    with pytest.raises(Conflict, match="is in the far store and not here"):
        again.encrypt_again()
    assert len(far.read("c")) == 2 and len(contents(far)) == 1


@pytest.mark.parametrize("is_plain", [True, False], ids=["in plain text", "by an older key"])
def test_devices_are_listed_as_before_once_a_key_is_applied(tmp_path: Path, is_plain: bool) -> None:
    file = str(tmp_path / "acme.key")
    keys.create(file, OLD)
    far = f"files:{tmp_path}/far"
    urls = [f"hybrid:sqlite:{tmp_path}/{name}/refold.db?far={far}" for name in "ab"]
    for url in urls:
        store = open_store(url if is_plain else f"{url}&key={file}")
        Log(store, os.path.basename(os.path.dirname(store.path))).append(
            [Draft(body=Message(role="user", blocks=(Text("word"),)), by="user")]
        )
        assert synced_of(store).sync().is_done
        store.close()
    keys.rotate(file, NEW)
    store = open_store(f"{urls[1]}&key={file}")
    synced = synced_of(store)
    before = {one.name for one in synced.devices()}
    synced.encrypt_again()
    assert synced.sync().is_done
    found = {one.name for one in synced.devices()}
    assert len(found) == 2 and before <= found
    store.close()
