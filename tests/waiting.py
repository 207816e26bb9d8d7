"""Waiting, for tests of what happens at the same time: for a fact, never for a while. The limit is
there so that a hang ends; a machine that does much else may take its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

LONG_S = 120.0
LOOK_S = 0.01


def until(is_so: Callable[[], object], within_s: float = LONG_S) -> None:
    """Returns as soon as it is so."""
    end = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(LOOK_S)


def is_running(pid: int) -> bool:
    """Whether a process is there, and more than what its parent has not asked about yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
