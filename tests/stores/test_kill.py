"""An acknowledged append survives kill -9, whenever it comes."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from refold.stores import open_store
from tests.stores.places import URLS, url_in
from tests.stores.writer import BATCH_MAX, Writer, check

KILLS_PER_STORE = 25


def kills(folder: Path, count: int, kind: str) -> None:
    """Kills a writer again and again on one store after another."""
    acked: dict[int, bytes] = {}
    url, head = "", 0
    for n in range(count):
        if n % KILLS_PER_STORE == 0:
            head, acked, url = 0, {}, url_in(folder / str(n), kind)
        writer = Writer(url, flush=n % 3 == 0)
        if n % 5:
            writer.wait_for_first()
        time.sleep(random.uniform(0, 0.03))
        acked |= writer.kill()
        store = open_store(url)
        before, head = head, check(store, acked)
        # What the writer before had not acknowledged may have come to stay.
        assert head - max([before, *acked]) <= BATCH_MAX, f"seed {writer.seed}"
        if n % 2:
            # Half of the time the next writer must recover by itself what this one left.
            store.close()
        acked = {seq: chain for seq, chain in acked.items() if seq > head - 2_000}


@pytest.mark.parametrize("kind", URLS)
def test_every_acknowledged_event_survives_fifty_kills(kind: str, tmp_path: Path) -> None:
    kills(tmp_path, 50, kind)


@pytest.mark.soak
@pytest.mark.parametrize("kind", URLS)
def test_every_acknowledged_event_survives_a_thousand_kills(kind: str, tmp_path: Path) -> None:
    kills(tmp_path, 1_000, kind)


@pytest.mark.parametrize("kind", URLS)
def test_nothing_that_a_killed_writer_leaves_blocks_the_next(kind: str, tmp_path: Path) -> None:
    url = url_in(tmp_path, kind)
    for _ in range(3):
        writer = Writer(url, flush=False)
        writer.wait_for_first()
        writer.kill()
        started = time.monotonic()
        store = open_store(url)
        store.conversations()
        assert time.monotonic() - started < 30
        store.close()
        left = [name for name in os.listdir(tmp_path) if not name.endswith("artifacts")]
        assert left == [url.rpartition("/")[2]]
