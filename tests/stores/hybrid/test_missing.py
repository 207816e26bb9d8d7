"""An artifact that the far store has lost is named, asked for again, and taken in once it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.core import ids
from refold.core.model import CLEANER, Artifact, Message, Text
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import open_store
from refold.stores.encrypted.keys import Key, Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore

OLD, NEW = Key(b"o" * 32), Key(b"n" * 32)
KEYS = Keys(path="acme.key", keys=(OLD,))
NEWER = Keys(path="acme.key", keys=(NEW, OLD))


def device(root: Path, name: str, far: MemoryStore, held: Keys | None) -> HybridStore:
    near = open_store(f"sqlite:{root}/{name}/refold.db")
    opened = EncryptedStore(far, lambda: held, near=near) if held else far
    return HybridStore(near, lambda: opened, url="hybrid:test", far_url="far")


def say(store: HybridStore, id: str, output: bytes) -> str:
    digest = store.put([output])
    named = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=len(output))
    words = Message(role="user", blocks=(Text("word"),))
    Log(store, id).append([Draft(body=named, by="user"), Draft(body=words, by="user")])
    return digest


@pytest.mark.parametrize("held", [KEYS, None], ids=["with a key", "without"])
@pytest.mark.parametrize("is_opened", [True, False], ids=["opened first", "synced"])
def test_an_artifact_that_is_lost_is_told_of_and_comes_once_it_is_there(
    tmp_path: Path, held: Keys | None, is_opened: bool
) -> None:
    far = MemoryStore()
    one, two = (device(tmp_path, name, far, held) for name in ("one", "two"))
    digest = say(one, "c", b"an output")
    say(one, "d", b"another")
    assert one.sync().is_done
    place = one.far.known.contents[digest] if held else digest
    lost = far.contents.pop(place)
    if is_opened:
        assert len(two.read("c")) == 2
    for _ in range(2):
        report = two.sync()
        assert not report.is_done
        [found] = [done for done in report.synced if done.conversation == "c"]
        assert found.state == "pending" and ids.artifact_id(digest) in found.reason
        [status] = two.sync_status(["c"]).conversations
        assert status.state == "pending" and ids.artifact_id(digest) in status.reason
    assert len(two.near.read("c")) == 2  # what there is of it can be read
    far.contents[place] = lost
    assert two.sync().is_done and two.sync().same == 2
    assert b"".join(two.near.get(digest)) == b"an output"


def test_an_artifact_that_is_lost_comes_with_a_newer_key(tmp_path: Path) -> None:
    far = MemoryStore()
    one, two = (device(tmp_path, name, far, NEWER) for name in ("one", "two"))
    older = HybridStore(
        one.near, lambda: EncryptedStore(far, lambda: KEYS, near=one.near), url="hybrid:old"
    )
    digest = say(older, "c", b"an output")
    assert older.sync().is_done
    far.contents.clear()
    assert not two.sync().is_done
    one.encrypt_again()
    assert two.sync().is_done
    assert b"".join(two.near.get(digest)) == b"an output"


@pytest.mark.parametrize("held", [KEYS, None], ids=["with a key", "without"])
def test_an_artifact_that_was_cleaned_up_is_not_missed(tmp_path: Path, held: Keys | None) -> None:
    far = MemoryStore()
    one, two = (device(tmp_path, name, far, held) for name in ("one", "two"))
    digest = say(one, "c", b"an output")
    named = Artifact(id=ids.artifact_id(digest), digest=digest, size_bytes=9)
    Log(one, "c").append([Draft(body=named, by=CLEANER)])
    assert one.near.drop(digest, before_ms=2**52)
    assert one.sync().is_done
    assert two.sync().is_done and two.sync().same == 1
