"""What was flushed survives power loss; what was not may be gone, but never in the middle."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from refold.stores import open_store
from tests.stores.disks import disk
from tests.stores.places import URLS, url_in
from tests.stores.writer import Writer, check


def cuts(folder: Path, count: int, kind: str, *, flush: bool) -> None:
    """Cuts the power after a writer that was killed at work, again and again."""
    with disk(folder) as power:
        for n in range(count):
            # A new store now and then, so that its very first events are at stake too; the disk is
            # small.
            if n % 10 == 0:
                acked: dict[int, bytes] = {}
                power.clear()
            url = url_in(power.place / "store", kind)
            writer = Writer(url, flush=flush)
            writer.wait_for_first()
            time.sleep(random.uniform(0, 0.03))
            acked |= writer.kill()
            power.cut()
            store = open_store(url)
            head = check(store, acked if flush else {})
            acked = {seq: chain for seq, chain in acked.items() if seq <= head}
            store.close()


@pytest.mark.parametrize("kind", URLS)
def test_every_flushed_event_survives_three_power_cuts(kind: str, tmp_path: Path) -> None:
    cuts(tmp_path, 3, kind, flush=True)


@pytest.mark.parametrize("kind", URLS)
def test_without_a_flush_a_power_cut_leaves_a_whole_beginning(kind: str, tmp_path: Path) -> None:
    cuts(tmp_path, 3, kind, flush=False)


@pytest.mark.soak
@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("kind", URLS)
def test_a_log_survives_two_hundred_power_cuts(kind: str, flush: bool, tmp_path: Path) -> None:
    cuts(tmp_path, 200, kind, flush=flush)
