"""A writer under a disk that fails: run below strace, it appends and flushes, and says what was
acknowledged."""

from __future__ import annotations

import subprocess
import sys

from refold.core import codec
from refold.stores import open_store

APPENDER = """
import sys
from refold.errors import RefoldError
from refold.stores import open_store
from refold.stores.contract.kit import sealed
store = open_store(sys.argv[1])
before = None
for n in range(6):
    [event] = sealed(before, [b"x" * 2000])
    try:
        store.append("log", [event], expect=event.seq - 1)
        store.flush()
        store.flush()
        print("acked", event.seq, flush=True)
        before = event
    except RefoldError as error:
        print(error.code, "hinted" if error.hint else "bare", "cannot sync" in str(error), flush=True)
"""


def injected(url: str, *faults: str) -> list[str]:
    """What the writer printed while these system calls failed; every error was one of the
    family, with a hint."""
    options = [part for fault in faults for part in ("-e", f"inject={fault}")]
    command = ["strace", "-f", "-o", "/dev/null", *options, sys.executable, "-c", APPENDER, url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def check_kept(url: str, lines: list[str]) -> list[str]:
    """That nothing was acknowledged behind a failed sync, and all that was is there; gives the
    errors."""
    acked = [int(line.split()[1]) for line in lines if line.startswith("acked")]
    if (failed := "unavailable hinted True") in lines:
        assert not any(line.startswith("acked") for line in lines[lines.index(failed) :]), lines
    store = open_store(url)
    read = store.read("log") if store.conversations() else []
    assert [event.seq for event in read][: len(acked)] == acked and list(codec.check(read)) == []
    store.close()
    return [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("acked")]
