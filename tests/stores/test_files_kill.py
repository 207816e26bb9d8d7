"""Killed at every system call of every kind of write, the tree goes on: nothing acknowledged is
lost, nothing is in the way, and doing again what was interrupted leads to the same end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.disks import needs_strace

SCRIPT = """
import json, sys
from refold.core import codec, ids
from refold.core.model import Artifact, Meta
from refold.errors import NotFound
from refold.stores import open_store
from refold.stores.contract.kit import sealed

store = open_store(sys.argv[1])

def about(id):
    try:
        return store.conversation(id)
    except NotFound:
        return None

def append(id, seq, bodies, kind="message"):
    there = about(id)
    if (there.head if there else 0) < seq:
        before = store.read(id, after=seq - 2, last=seq - 1)[0] if seq > 1 else None
        store.append(id, sealed(before, bodies, kind=kind), expect=seq - 1)

def artifact(id, seq):
    digest = store.put([b"content"], suffix=".txt")
    append(id, seq, [codec.encode(Artifact(id=ids.artifact_id(digest), digest=digest))], "artifact")

def title(text):
    return [codec.encode(Meta(title=text))]

STEPS = [
    lambda: append("log", 1, title("one"), "meta"),
    lambda: append("log", 2, [b'"%d"' % n for n in range(3)]),
    lambda: artifact("log", 5),
    lambda: store.keep_bookmark("log", b"mark"),
    lambda: append("log", 6, title("two"), "meta"),
    lambda: about("fork") or store.fork("log", 4, "fork"),
    lambda: append("fork", 5, [b"[]"]),
    lambda: store.erase("fork", 3),
    lambda: store.erase("log", 6),
    lambda: append("gone", 1, [b"{}"]),
    lambda: about("gone") and store.delete("gone"),
    lambda: store.flush(),
    lambda: store.close(),
]

def state():
    fresh = open_store(sys.argv[1])
    found = {}
    for one in fresh.conversations():
        events = fresh.read(one.id)
        assert not list(codec.check(events))
        found[one.id] = [one.head, one.title, one.parent, [event.body.hex()[:8] for event in events]]
        for event in events:
            body = codec.decode(event) if event.kind == "artifact" else None
            assert body is None or b"".join(fresh.get(body.digest)) == b"content"
    return found

if sys.argv[2] == "state":
    print(json.dumps(state()))
else:
    for step in STEPS:
        step()
        print("acked", flush=True)
"""


def run(url: str, what: str, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", SCRIPT, url, what],
        capture_output=True,
        text=True,
        check=False,
    )


def state(url: str) -> dict[str, list[object]]:
    done = run(url, "state")
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def killed_at(call: str, when: int, folder: Path, end: dict[str, list[object]]) -> bool:
    """Kills at that call and goes on afterwards. False if the call was never made so often."""
    url = f"files:{folder / f'{call}{when}'}"
    strace = ("strace", "-f", "-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={when}")
    done = run(url, "write", *strace)
    acked = done.stdout.count("acked")
    left = state(url)
    heads = {id: one[0] for id, one in left.items()}
    assert heads.get("log", 0) >= [0, 1, 4, 5, 5, 6][min(acked, 5)], (call, when, acked, left)
    assert acked < 6 or heads["fork"] >= 4 + (acked >= 7), (call, when, acked, left)
    again = run(url, "write")
    assert again.returncode == 0 and again.stdout.count("acked") == 13, (call, when, again.stderr)
    assert state(url) == end, (call, when)
    return done.returncode != 0


@needs_strace
@pytest.mark.parametrize(("call", "when"), [("rename", 5), ("fdatasync", 3)])
def test_killed_at_some_calls_the_tree_goes_on(call: str, when: int, tmp_path: Path) -> None:
    assert killed_at(call, when, tmp_path, finished(tmp_path))


CALLS = [
    "write",
    "rename",
    "fdatasync",
    "fsync",
    "flock",
    "mkdir",
    "link",
    "unlink",
    "unlinkat",
    "openat",
]


@needs_strace
@pytest.mark.soak
@pytest.mark.parametrize("call", CALLS)
def test_killed_at_every_call_the_tree_goes_on(call: str, tmp_path: Path) -> None:
    end = finished(tmp_path)
    # The interpreter opens files too before it comes to us.
    whens = range(150, 2_000, 9) if call == "openat" else range(1, 2_000)
    kills = 0
    while killed_at(call, whens[kills], tmp_path, end):
        kills += 1
    assert kills, f"{call} is never called"


def finished(folder: Path) -> dict[str, list[object]]:
    """The state that a run without interruption ends in."""
    url = f"files:{folder / 'whole'}"
    done = run(url, "write")
    assert done.returncode == 0, done.stderr
    end = state(url)
    assert {id: one[:3] for id, one in end.items()} == {
        "fork": [5, "one", "log"],
        "log": [6, "one", ""],
    }
    return end
