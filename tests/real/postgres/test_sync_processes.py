"""Four devices, two servers, one PostgreSQL, and a wire that cuts: everyone is killed at random, and
afterwards everybody has the same, with everything that was acknowledged, once.

`REFOLD_SYNC_S` is for how long (60 s; half an hour in `make soak`), `REFOLD_SEED` repeats what was
drawn: who is killed when, and which connections fail.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold import conversations
from refold.core import codec
from refold.core.model import Message
from refold.settings import logins
from refold.stores import Store, open_store, synced_of
from tests.real.postgres.cluster import Server, own_folder
from tests.real.postgres.cutter import Cutter
from tests.real.server.process import Team

SECONDS = float(os.environ.get("REFOLD_SYNC_S", "60"))
SEED = int(os.environ.get("REFOLD_SEED") or secrets.randbelow(10**9))
DEVICES, SERVERS, ROUNDS_MAX = 4, 2, 5
ORG = "team"


class Device:
    """A folder, and the process that talks in it; what each of its lives printed is kept."""

    def __init__(self, number: int, root: Path, place: str) -> None:
        self.name, self._root, self._lives = f"d{number}", root / f"d{number}", 0
        near = f"sqlite:{self._root}/refold.db" if number % 2 else f"files:{self._root}/store"
        # Two of them also sync by themselves.
        self.url = f"hybrid:{near}?far={place}"
        self._asked = f"{self.url}&sync_s=1" if number < 2 else self.url
        self._root.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._lives += 1
        life = f"{self.name}.{self._lives}"
        self._told = self._root / f"{life}.told"
        command = [sys.executable, "-m", "tests.stores.hybrid.device", self._asked, life, "3600"]
        with open(self._told, "wb") as told, open(self._errors, "ab") as errors:
            self.process = subprocess.Popen(command, stdout=told, stderr=errors)

    @property
    def has_spoken(self) -> bool:
        """Whether something was acknowledged in this life."""
        return self._told.stat().st_size > 0

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self._errors.read_text()[-3_000:]
        self.process.kill()
        self.process.wait(120)

    @property
    def _errors(self) -> Path:
        return self._root / "errors"

    def acknowledged(self) -> set[str]:
        """What its lives printed. The last line of one may be half of one: nobody was told."""
        lines: set[str] = set()
        for told in self._root.glob("*.told"):
            lines |= {
                line.decode().rstrip("\n")
                for line in told.read_bytes().splitlines(keepends=True)
                if line.endswith(b"\n") and not line.startswith(b"!")
            }
        return lines


class Village:
    """Everyone, and what may happen to them."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.chance = random.Random(SEED)
        self.database = Server.made(folder)
        self.teams = [self._team(root / f"server-{n}") for n in range(SERVERS)]
        self.cutter = Cutter([team.port for team in self.teams], SEED)
        place = f"http://127.0.0.1:{self.cutter.port}/{ORG}"
        _, secret = self.teams[0].token(ORG)
        logins.keep(place, secret, os.environ)
        for team in self.teams:
            team.start()
            team.wait_for(ORG, secret)
        self.devices = [Device(n, root, place) for n in range(DEVICES)]
        self.happened: Counter[str] = Counter()

    def _team(self, root: Path) -> Team:
        root.mkdir()
        return Team(root, store=f"{self.database.url}?wait_s=10", workers=1)

    def live(self, seconds: float) -> None:
        acts = (self.kill_device,) * 6 + (self.kill_server,) * 2 + (self.kill_backend,) * 2
        acts += (self.kill_database, self.cutter.cut)
        for device in self.devices:
            device.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.chance.uniform(0.1, 1.0))
            act = self.chance.choice(acts)
            act()
            self.happened[act.__name__] += 1
            self.raise_servers()
        for device in self.devices:
            device.kill()

    def kill_device(self) -> None:
        """Kills one that has spoken, or now and then one that only begins."""
        spoken = [one for one in self.devices if one.has_spoken or self.chance.random() < 0.1]
        for device in spoken[:1]:
            device.kill()
            device.start()
        self.chance.shuffle(self.devices)

    def kill_server(self) -> None:
        self.chance.choice(self.teams).kill()

    def kill_backend(self) -> None:
        for pid in self.database.backends()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_database(self) -> None:
        self.database.kill()
        self.database.start()

    def raise_servers(self) -> None:
        """Starts what has ended, and waits for nobody."""
        for team in self.teams:
            if team.process is not None and team.process.poll() is not None:
                team.launch()

    def heal(self) -> None:
        """No more faults, and everybody syncs until there is nothing left to do."""
        self.cutter.heal()
        self.database.wait_until("SELECT 1")
        for team in self.teams:
            self.raise_servers()
            team.wait()
        for _ in range(ROUNDS_MAX):
            if all([synced(device.url) for device in self.devices]):
                return
        raise AssertionError(f"I11: seed {SEED}: not the same after {ROUNDS_MAX} rounds")

    def end(self) -> None:
        for device in self.devices:
            if device.process is not None:
                device.process.kill()
                device.process.wait(120)
        for team in self.teams:
            with contextlib.suppress(ProcessLookupError):
                team.kill()
        self.cutter.stop()
        self.database.kill()


def synced(url: str) -> bool:
    """Syncs; whether there was nothing to do. What is blocked or waits fails the test."""
    store = open_store(url)
    try:
        report = synced_of(store).sync()
        assert report.is_done, f"I11: seed {SEED}: {report}"
        return not report.synced
    finally:
        store.close()


def exported(store: Store, folder: Path) -> dict[str, bytes]:
    """Every conversation of a store as the file that an export writes."""
    folder.mkdir()
    files = {}
    for about in conversations.list(store):
        path = folder / f"{about.id}.json"
        conversations.export(store, about.id, path)
        files[about.id] = path.read_bytes()
    return files


def messages(store: Store) -> list[str]:
    """Everything that was said, once for each log that says it itself and not its parent."""
    said = []
    for about in conversations.list(store):
        for event in store.read(about.id, after=about.parent_seq, limit=10**6):
            body = codec.decode(event)
            if isinstance(body, Message):
                said.append(body.blocks[0].text)
    return said


@pytest.fixture
def village(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Village]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with own_folder() as folder:
        one = Village(tmp_path, folder)
        try:
            yield one
        finally:
            one.end()


def test_i1_to_i5_and_i11_hold_for_processes_that_are_killed(
    village: Village, tmp_path: Path
) -> None:
    print(f"REFOLD_SEED={SEED} REFOLD_SYNC_S={SECONDS:g}")
    village.live(SECONDS)
    village.heal()
    stores = [open_store(device.url, read_only=True) for device in village.devices]
    stores.append(open_store(f"{village.database.url}?org={ORG}", read_only=True))
    exports = [exported(store, tmp_path / f"export-{n}") for n, store in enumerate(stores)]
    for other in exports[1:]:
        differ = {id for id in {*exports[0], *other} if exports[0].get(id) != other.get(id)}
        assert not differ, f"I5: seed {SEED}: {sorted(differ)}"
    said = Counter(messages(stores[-1]))
    acknowledged = set().union(*(device.acknowledged() for device in village.devices))
    assert not acknowledged - set(said), f"I1: seed {SEED}"
    assert not [text for text, times in said.items() if times > 1], f"I2: seed {SEED}"
    for store in stores:
        assert not conversations.verify(store).problems, f"I3, I4, I7: seed {SEED}"
        store.close()
    forks = sum(id.startswith("talk-") for id in exports[0])
    print(f"{len(acknowledged):,} acknowledged, {forks} forks, {dict(village.happened)}")
    print(f"{village.cutter.connections} connections, {village.cutter.faults} with a fault")
    # A life in which nothing happened would show nothing.
    assert acknowledged and forks > 0 and village.cutter.faults > 0
