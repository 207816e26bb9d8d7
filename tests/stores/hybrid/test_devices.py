"""Which devices sync with a far store is known to all of them, and a twin is told apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from refold.errors import Denied, NotFound
from refold.stores import make_key, open_store, synced_of
from refold.stores.contract.kit import grown
from refold.stores.hybrid import devices, sync_record
from refold.stores.hybrid.full_sync import Timing
from refold.stores.hybrid.store import HybridStore
from refold.stores.in_memory import MemoryStore

HOUR_MS = devices.EVERY_MS


class Clock:
    now_ms = 1_700_000_000_000


def device(root: Path, name: str, far: MemoryStore, clock: Clock | None = None) -> HybridStore:
    clock = clock or Clock()
    return HybridStore(
        open_store(f"sqlite:{root}/{name}/refold.db"),
        lambda: far,
        url="hybrid:test",
        far_url="far",
        timing=Timing(now_ms=lambda: clock.now_ms, wait=lambda _: None),
    )


def names(store: HybridStore) -> set[str]:
    return {one.name for one in store.devices()}


def test_every_device_knows_which_others_sync_and_when(tmp_path: Path) -> None:
    far, clock = MemoryStore(), Clock()
    one, two = (device(tmp_path, name, far, clock) for name in ("one", "two"))
    grown(one, "c", 2)
    assert one.sync().is_done and two.sync().is_done and one.sync().is_done
    assert names(one) == {one.sync_status().device, two.sync_status().device}
    assert [other.is_here for other in one.devices()].count(True) == 1
    clock.now_ms += 5 * HOUR_MS
    assert two.sync().is_done and one.sync().is_done
    times = {other.name: other.at_ms for other in one.devices()}
    assert times[two.sync_status().device] == clock.now_ms
    # The logs of devices lie far only, and are no conversations.
    assert [about.id for about in one.near.conversations()] == ["c"]
    assert one.sync().same == 1


def test_a_device_says_it_once_an_hour(tmp_path: Path) -> None:
    far, clock = MemoryStore(), Clock()
    one = device(tmp_path, "one", far, clock)
    grown(one, "c", 1)
    for _ in range(10):
        assert one.sync().is_done
        clock.now_ms += HOUR_MS // 5
    [id] = [about.id for about in far.conversations() if about.id != "c"]
    assert far.conversation(id).head == 2
    assert one.sync_status().device not in id  # the name of the machine is not in it


def test_a_twin_with_the_same_record_goes_on_under_another_name(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(sync_record, "_place", lambda path: "the same everywhere")
    far, clock = MemoryStore(), Clock()
    one = device(tmp_path, "one", far, clock)
    grown(one, "c", 1)
    assert one.sync().is_done
    one.close()
    shutil.copytree(tmp_path / "one", tmp_path / "twin")
    one, twin = (device(tmp_path, name, far, clock) for name in ("one", "twin"))
    name = one.sync_status().device
    assert twin.sync_status().device == name
    clock.now_ms += 2 * HOUR_MS
    assert one.sync().is_done and twin.sync().is_done and one.sync().is_done
    assert one.sync_status().device == name
    assert twin.sync_status().device != name
    assert names(one) == {name, twin.sync_status().device}
    # From then on each goes its own way.
    for _ in range(3):
        clock.now_ms += 2 * HOUR_MS
        assert twin.sync().is_done and one.sync().is_done
    assert len(names(one)) == 2


def test_a_kill_after_it_was_said_or_before_makes_no_twin(tmp_path: Path, monkeypatch) -> None:
    far, clock = MemoryStore(), Clock()
    one = device(tmp_path, "one", far, clock)
    grown(one, "c", 1)
    assert one.sync().is_done
    name = one.sync_status().device
    real = far.append
    for is_said in (True, False):
        clock.now_ms += 2 * HOUR_MS

        def killed(conversation, events, *, expect, is_said=is_said):
            if is_said:
                real(conversation, events, expect=expect)
            raise KeyboardInterrupt

        monkeypatch.setattr(far, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            one.sync()
        monkeypatch.setattr(far, "append", real)
        one.close()
        one = device(tmp_path, "one", far, clock)
        assert one.sync().is_done
        assert one.sync_status().device == name
    assert names(one) == {name}


def test_a_far_store_that_was_restored_makes_no_twin(tmp_path: Path) -> None:
    far, clock = MemoryStore(), Clock()
    one = device(tmp_path, "one", far, clock)
    grown(one, "c", 1)
    assert one.sync().is_done
    name = one.sync_status().device
    [id] = [about.id for about in far.conversations() if about.id != "c"]
    for _ in range(3):
        clock.now_ms += 2 * HOUR_MS
        assert one.sync().is_done
    del far.logs[id].events[2:]
    clock.now_ms += 2 * HOUR_MS
    assert one.sync().is_done
    assert one.sync_status().device == name


def test_a_device_that_is_forgotten_is_listed_again_once_it_syncs(tmp_path: Path) -> None:
    far, clock = MemoryStore(), Clock()
    one, two = (device(tmp_path, name, far, clock) for name in ("one", "two"))
    grown(one, "c", 1)
    assert one.sync().is_done and two.sync().is_done and one.sync().is_done
    gone = two.sync_status().device
    one.forget_device(gone)
    assert gone not in names(one)
    with pytest.raises(NotFound, match=gone):
        one.forget_device(gone)
    three = device(tmp_path, "three", far, clock)
    assert three.sync().is_done
    assert gone not in names(three)
    assert two.sync().is_done and three.sync().is_done
    assert gone in names(three) and two.sync_status().device == gone


def test_a_device_that_may_only_read_syncs_and_is_not_listed(tmp_path: Path, monkeypatch) -> None:
    far = MemoryStore()
    one, two = (device(tmp_path, name, far) for name in ("one", "two"))
    grown(one, "c", 1)
    assert one.sync().is_done

    def refused(*_, **__):
        raise Denied("the token may read")

    monkeypatch.setattr(far, "append", refused)
    assert two.sync().is_done
    assert names(two) == {one.sync_status().device}


@pytest.mark.parametrize(
    "damage", [b"{}", b'{"kind":"other"}', b'{"kind":"refold.device","data":1}', b"x"]
)
def test_a_log_that_says_nothing_of_a_device_stops_no_sync(tmp_path: Path, damage: bytes) -> None:
    from refold.stores.contract.kit import sealed

    far = MemoryStore()
    far.append("refold.device.00000000", sealed(None, [damage], kind="note"), expect=0)
    one = device(tmp_path, "one", far)
    grown(one, "c", 1)
    assert one.sync().is_done
    assert names(one) <= {one.sync_status().device}


def test_devices_with_a_key_tell_nobody_their_names(tmp_path: Path) -> None:
    make_key(f"{tmp_path}/a.key")
    urls = [
        f"hybrid:sqlite:{tmp_path}/{n}/r.db?far=files:{tmp_path}/far&key={tmp_path}/a.key"
        for n in (1, 2)
    ]
    for url in (*urls, *urls):
        store = open_store(url)
        grown(store, "c", 1) if not store.conversations() and url == urls[0] else None
        assert synced_of(store).sync().is_done
        known = {one.name for one in synced_of(store).devices()}
        store.close()
    assert len(known) == 2
    kept = b"".join(path.read_bytes() for path in (tmp_path / "far").rglob("*") if path.is_file())
    assert not [name for name in known if name.encode() in kept]
