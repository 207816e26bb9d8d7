"""What refold is worth, measured: speed against a hand-written floor, fidelity against what people
use today.

`python -m bench` prints the tables and writes them to `bench/RESULTS.md`. Every figure is a ratio
or a share within one run; absolute times are CPU times of the process. Folders come from the
command line, `REFOLD_BENCH_DATA` (recorded sessions) and `REFOLD_BENCH_PEERS` (the harness of other
libraries).
"""

from __future__ import annotations

import os

# refold takes every REFOLD_* variable for a setting and refuses names that it does not know. So
# ours are taken out of the environment before it looks, and handed on to processes that we start by
# `environment`.
GIVEN = {
    name: os.environ.pop(name)
    for name in ("REFOLD_BENCH_DATA", "REFOLD_BENCH_PEERS")
    if name in os.environ
}


def environment() -> dict[str, str]:
    """The environment for a process that imports this package in turn."""
    return {**os.environ, **GIVEN}
