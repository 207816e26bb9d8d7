"""What the terminal costs: a status line against the interpreter it needs, and a glance at a long
conversation.

Status lines are whole processes; the medians of their CPU times are compared with those of `python
-c pass` and of importing what a conversation cannot be read without, taken in turn. A glance is
`/context` in a program that holds its conversation of ten thousand messages open.

    python -m bench terminal
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tempfile
from statistics import median
from time import process_time

import refold
from bench.tables import Table
from refold.edges.cli.options import parse
from refold.edges.cli.screen import Screen
from refold.edges.commands.session import Session
from refold.stores import Store, open_store

MESSAGES, RUNS, TRIES = 10_000, 15, 5
TIMES_MAX, GLANCE_MS_MAX = 3.0, 100.0
PROGRAM = [sys.executable, "-c", "from refold.edges.cli import main; main()", "statusline"]
CLAUDE = {
    "version": "2.0.14",
    "model": {"display_name": "Opus 4.5"},
    "cost": {"total_cost_usd": 0.51},
    "context_window": {
        "context_window_size": 200_000,
        "current_usage": {"input_tokens": 1_200, "cache_read_input_tokens": 88_000},
    },
}


def run(messages: int = MESSAGES, *, runs: int = RUNS) -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/refold.db"
        write(url, messages)
        return [status_lines(url, runs), glance(url, messages)]


def write(url: str, messages: int) -> None:
    """A conversation of an agent with small results, compacted where it is due."""
    with refold.open("long", store=url, model="claude-sonnet-4-5", system="Be brief") as context:
        for turn in range(messages // 4):
            context.append({"role": "user", "content": f"Look at file{turn}.py, please."})
            use = {"type": "tool_use", "id": f"t{turn}", "name": "read", "input": {"n": turn}}
            context.append({"role": "assistant", "content": [use]})
            context.append_result(f"t{turn}", f"def view{turn}():\n    pass\n" * 8)
            context.append({"role": "assistant", "content": f"file{turn}.py is as it should be."})
            if turn % 50 == 0:
                context.request()


def status_lines(url: str, runs: int) -> Table:
    given = json.dumps(CLAUDE).encode()
    short = url.replace("refold.db", "short.db")
    write(short, 200)
    pairs = {
        "Claude Code's JSON": ([*PROGRAM], given, "pass"),
        "a conversation": ([*PROGRAM, "long", "--store", short], b"", "import msgspec, apsw"),
    }
    table = Table("Status line", ["of", "CPU, times the floor", "goal", ""])
    for what, (command, text, floor) in pairs.items():
        found = [(cpu_s(command, text), cpu_s([sys.executable, "-c", floor])) for _ in range(runs)]
        ours, theirs = (median(times) for times in zip(*found, strict=True))
        table.at_most(what, ours / theirs, TIMES_MAX)
        table.note(f"{what}: {1000 * ours:.0f} ms of CPU, the floor {1000 * theirs:.0f} ms.")
    return table


def cpu_s(command: list[str], text: bytes = b"") -> float:
    """The CPU time of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=text, capture_output=True, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def glance(url: str, messages: int) -> Table:
    table = Table(f"A glance at {messages:,} messages", ["line", "CPU ms", "goal", ""])
    store = open_store(url)
    context = refold.Context(store, "long")
    for line in ("/context", "/context status", "/context stats"):
        took = median(shown_s(line, context, store) for _ in range(TRIES))
        table.at_most(line, 1000 * took, GLANCE_MS_MAX)
    store.close()
    return table


def shown_s(line: str, context: refold.Context, store: Store) -> float:
    """The CPU time of one line of a chat, until it is shown."""
    screen = Screen(out=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), is_shell=False)
    started = process_time()
    command, arguments, _ = parse(line)
    with Session.holding(context, store, screen=screen) as session:
        command.show(command.run(session, arguments), screen)
    return process_time() - started
