"""A store that syncs by itself, in a thread, where that was asked for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from refold.stores import open_store
from refold.stores.contract.kit import grown


def threads() -> int:
    return sum(thread.name == "refold-sync" for thread in threading.enumerate())


def test_a_store_syncs_by_itself_only_where_that_was_asked_for(tmp_path: Path) -> None:
    quiet = open_store(f"hybrid:{tmp_path}/a.db?far=files:{tmp_path}/far")
    grown(quiet, "quiet", 1)
    assert threads() == 0
    store = open_store(f"hybrid:{tmp_path}/b.db?far=files:{tmp_path}/far&sync_s=60")
    assert threads() == 0
    events = grown(store, "c", 3)
    assert threads() == 1
    # Closing syncs what waits, and a second time does nothing.
    store.close()
    store.close()
    assert threads() == 0
    far = open_store(f"files:{tmp_path}/far")
    assert far.read("c") == events
    assert [about.id for about in far.conversations()] == ["c"]
    far.close()
    quiet.close()


def test_changes_are_sent_soon(tmp_path: Path) -> None:
    store = open_store(f"hybrid:{tmp_path}/b.db?far=files:{tmp_path}/far&sync_s=3600")
    grown(store, "c", 3)
    far = open_store(f"files:{tmp_path}/far")
    deadline = time.monotonic() + 30
    while not far.conversations() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [about.id for about in far.conversations()] == ["c"]
    far.close()
    store.close()
