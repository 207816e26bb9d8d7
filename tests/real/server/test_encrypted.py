"""Devices with a key talk by a real server, and are killed: nothing is lost, and no file of the
server has a word of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import refold
from refold.stores import make_key, open_store, synced_of
from tests.stores.hybrid.device import LARGE
from tests.waiting import until

LIVES, WORDS = 3, 50
DEVICE = (sys.executable, "-m", "tests.stores.hybrid.device")


def lived(url: str, name: str) -> list[str]:
    """What a device said that was acknowledged, through lives that end by a kill."""
    said: list[str] = []
    for life in range(LIVES):
        command = (*DEVICE, url, f"{name}.{life}", "600")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as device:
            assert device.stdout is not None
            # It is killed in the middle of its work, once it has synced some times.
            lines = [device.stdout.readline() for _ in range(WORDS)]
            device.send_signal(signal.SIGKILL)
            lines += device.stdout.read().splitlines(keepends=True)
        said += [line.rstrip("\n") for line in lines if line.endswith("\n") and line[0] != "!"]
    return said


def synced(url: str) -> dict[str, list]:
    store = open_store(url)
    report = synced_of(store).sync()
    assert report.is_done, report
    found = {one.id: store.read(one.id, limit=100_000) for one in store.conversations()}
    store.close()
    return found


def files_of(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_killed_devices_with_a_key_lose_nothing_and_the_server_has_no_word(team, tmp_path: Path):
    place, key = team.place(), tmp_path / "acme.key"
    make_key(str(key))
    urls = [f"hybrid:sqlite:{tmp_path}/{name}/refold.db?far={place}&key={key}" for name in "ab"]
    said = [text for url, name in zip(urls, "ab") for text in lived(url, f"device{name}")]
    assert len(said) > 20
    for url in urls:
        synced(url)
    first, second = synced(urls[0]), synced(urls[1])
    assert first == second
    bodies = b"".join(event.body for log in first.values() for event in log)
    assert not [text for text in said if f'"text":"{text}"'.encode() not in bodies]
    kept = files_of(team.root)
    for words in ("devicea.", "deviceb.", LARGE[:40], "progress-note"):
        assert words.encode() not in kept
    # What is heard over the feed is encrypted as well, and arrives.
    word = b"one more word of mine"
    listening = open_store(f"{urls[1]}&sync_s=3600")
    listening.bookmark("talk")
    with refold.open("talk", store=urls[0], model="gpt-4o", window=10**6) as talking:
        talking.append({"role": "user", "content": word.decode()})
    synced(urls[0])
    until(lambda: word in b"".join(event.body for event in listening.read("talk", limit=100_000)))
    listening.close()
    assert word not in files_of(team.root)
