"""What a hook of Claude Code costs: whole processes against the interpreter they need.

The medians of their CPU times are compared with those of `python -c pass`, taken in turn. A process
that writes the session to the log is started by some of them and not waited for; it is not in these
figures, because Claude Code does not wait for it either.

    python -m bench hooks
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any
from unittest.mock import patch

from bench.tables import Table
from refold.edges.hooks import state

RUNS = 15
BEYOND_MS_MAX = 100.0
SESSION = "00000000-0000-0000-0000-000000000000"
START = [sys.executable, "-c", "pass"]
HOOK = [
    sys.executable,
    "-c",
    "from refold.edges.cli import main; main()",
    "hook",
    "claude-code",
    "event",
]


def run(runs: int = RUNS) -> list[Table]:
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"XDG_STATE_HOME": folder}),
    ):
        state.write(state.folder_of(SESSION), "offer", b"- #1 Mend the login test\n" * 300)
        given = {name: json.dumps(event).encode() for name, event in events().items()}
        taken: dict[str, list[float]] = {name: [] for name in ("start", *given)}
        for _ in range(runs):
            taken["start"].append(cpu_ms(START, b""))
            for name, event in given.items():
                taken[name].append(cpu_ms(HOOK, event))
    return [table_of({name: median(times) for name, times in taken.items()})]


def events() -> dict[str, dict[str, Any]]:
    """The events that are measured. Without a transcript, no process is started."""
    common = {"session_id": SESSION, "cwd": "/"}
    tool = {**common, "hook_event_name": "PostToolUse", "tool_name": "Bash"}
    tool["tool_input"] = {"command": "pytest -q"}
    line = "tests/test_login.py::test_expiry PASSED\n"
    outputs = {"a small output": 10, "an output of 60 KB": 1_500, "an output of 1 MB": 25_000}
    found = {
        name: {**tool, "tool_response": {"stdout": line * lines, "stderr": ""}}
        for name, lines in outputs.items()
    }
    found["after a compaction"] = {
        **common,
        "hook_event_name": "SessionStart",
        "source": "compact",
    }
    return found


def cpu_ms(command: list[str], given: bytes) -> float:
    """The CPU time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1_000


def table_of(medians: dict[str, float]) -> Table:
    table = Table("Hooks of Claude Code, beyond the start of Python", ["event", "ms", "goal", ""])
    start = medians.pop("start")
    for name, spent in medians.items():
        table.at_most(name, spent - start, BEYOND_MS_MAX)
    table.note(f"`python -c pass`: {start:.0f} ms of CPU, which is taken off.")
    return table
