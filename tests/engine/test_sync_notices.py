"""A context says how syncs leave its conversation: when that changes, and not after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
from refold import Notice
from refold.stores import open_store, synced_of

KEY = "AKIA" + "Q7RZ4M2KX9WLT5VB"


class Device:
    """A context, what it told, and syncs from elsewhere."""

    def __init__(self, root: Path, options: str = "") -> None:
        self.far = root / "far"
        self.url = f"hybrid:sqlite:{root}/near.db?far=files:{self.far}{options}"
        self.context = refold.open("c", store=self.url, model="gpt-4o")
        self.notices: list[Notice] = []
        self.context.on("*", self.notices.append)

    def say(self, text: str) -> None:
        self.context.append({"role": "user", "content": text})

    def told(self) -> list[str]:
        """What was told since the last time."""
        assert self.context.view
        names = [notice.name for notice in self.notices if notice.name.startswith("sync-")]
        self.notices.clear()
        return names

    def sync(self) -> list[str]:
        """Syncs as another process does; gives what the context tells of it."""
        store = open_store(self.url)
        synced_of(store).sync()
        store.close()
        return self.told()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    one = Device(tmp_path)
    yield one
    one.context.close()


def test_a_state_is_told_when_it_changes_and_only_then(device: Device) -> None:
    device.say("first")
    assert device.told() == []
    assert device.sync() == ["sync-synced"]
    device.say("second")
    assert device.told() == []
    assert device.sync() == []
    # Something else stands in the place of the far folder.
    kept = device.far.rename(device.far.with_name("away"))
    device.far.write_text("no folder")
    device.say("third")
    device.say("fourth")
    assert device.sync() == ["sync-pending"]
    assert device.sync() == []
    device.far.unlink()
    kept.rename(device.far)
    assert device.sync() == ["sync-synced"]
    assert device.sync() == []


def test_what_waits_is_told_with_its_reason_and_again_by_the_next_opening(device: Device) -> None:
    device.far.write_text("no folder")
    device.say("first")
    store = open_store(device.url)
    synced_of(store).sync()
    store.close()
    assert device.context.view
    [notice] = [one for one in device.notices if one.name == "sync-pending"]
    assert notice.details["pending"] == 2
    assert str(device.far) in notice.reason
    with refold.open("c", store=device.url) as again:
        heard: list[Notice] = []
        again.on("sync-pending", heard.append)
        assert again.view
        assert len(heard) == 1


def test_a_conversation_that_is_held_or_blocked_says_why(tmp_path: Path) -> None:
    device = Device(tmp_path, "&redact=hold")
    device.say(f"aws_access_key_id = {KEY}")
    assert device.sync() == ["sync-held"]
    refold.conversations.erase(device.url, "c", [2])
    assert device.sync() == ["sync-synced"]
    [log] = (device.far / "conversations" / "c").rglob("messages.jsonl")
    log.write_bytes(b"{}\n" + log.read_bytes())
    device.say("next")
    assert device.sync() == ["sync-blocked"]
    device.context.close()


def test_a_fork_is_told_to_whoever_reads_the_log_that_stands(tmp_path: Path) -> None:
    device = Device(tmp_path)
    device.say("shared")
    device.sync()
    other = Device(tmp_path / "other")
    other.context.close()
    url = f"hybrid:sqlite:{tmp_path}/other.db?far=files:{device.far}"
    with refold.open("c", store=url) as theirs:
        theirs.append({"role": "user", "content": "theirs"})
    store = open_store(url)
    synced_of(store).sync()
    store.close()
    device.say("mine")
    assert device.sync() == ["sync-forked"]
    assert device.context.id.startswith("c-")
    device.context.close()
