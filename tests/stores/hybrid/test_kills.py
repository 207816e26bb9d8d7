"""Real processes that share a folder, killed at random: nothing that was acknowledged is lost."""

from __future__ import annotations

import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refold import conversations
from refold.core import codec
from refold.core.model import Message
from refold.log.stored_logs import conversations as conversations_in
from refold.stores import open_store, synced_of

LIFE_S = 60.0


def devices(root: Path) -> list[str]:
    nears = (f"sqlite:{root}/one/x.db", f"files:{root}/two", f"sqlite:{root}/three/x.db")
    return [f"hybrid:{near}?far=files:{root}/team" for near in nears]


def messages(url: str) -> dict[str, list[str]]:
    """What was said in each conversation."""
    store = open_store(url, read_only=True)
    told: dict[str, list[str]] = {}
    for about in conversations_in(store):
        events = store.read(about.id, limit=100_000)
        bodies = [codec.decode(event) for event in events if event.kind == "message"]
        told[about.id] = [one.blocks[0].text for one in bodies if isinstance(one, Message)]
    store.close()
    return told


def run(root: Path, seconds: float) -> list[str]:
    """Lets devices live and die, until they have said something; gives what was acknowledged."""
    chance = random.Random(5)
    urls = devices(root)
    module = "tests.stores.hybrid.device"
    living: dict[str, subprocess.Popen[str]] = {}
    printed: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or (not printed and time.monotonic() < end + LIFE_S):
        for url in urls:
            # Two processes on the first device.
            for place in (0, 1) if url == urls[0] else (0,):
                key = f"{place} {url}"
                if key not in living:
                    command = [sys.executable, "-m", module, url, secrets.token_hex(4), str(LIFE_S)]
                    living[key] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(chance.uniform(0.3, 0.9))
        victim = living.pop(chance.choice([*living]))
        victim.send_signal(signal.SIGKILL)
        printed += _lines(victim)
    for process in living.values():
        process.send_signal(signal.SIGKILL)
        printed += _lines(process)
    return [line for line in printed if not line.startswith("!")]


def _lines(process: subprocess.Popen[str]) -> list[str]:
    out = process.communicate(timeout=30)[0]
    # The last line may be half of one: then nobody was told.
    return out.splitlines() if out.endswith("\n") else out.splitlines()[:-1]


def check(root: Path, acknowledged: list[str]) -> None:
    urls = devices(root)
    for url in (*urls, *urls):
        store = open_store(url)
        report = synced_of(store).sync()
        assert report.is_done, report
        store.close()
    told = [messages(url) for url in (*urls, f"files:{root}/team")]
    assert all(one == told[0] for one in told)
    said = {text for texts in told[0].values() for text in texts}
    assert not set(acknowledged) - said
    for texts in told[0].values():
        assert len(set(texts)) == len(texts)
    for url in urls:
        assert not conversations.verify(url).problems


def test_i1_devices_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    acknowledged = run(tmp_path, 3.0)
    assert acknowledged
    check(tmp_path, acknowledged)


@pytest.mark.soak
def test_devices_that_are_killed_for_a_while_lose_nothing(tmp_path: Path) -> None:
    check(tmp_path, run(tmp_path, 60.0))
