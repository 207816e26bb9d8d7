"""What a large output costs: memory and CPU time to keep it, to look into it, to find lines in it.

Each case runs in a process of its own that has the output already. Memory is the highest that the
process held during the step, the output itself included, above what it held before there was one,
as a multiple of the output's bytes. The goal is that 100 MB are kept with twice their size, and
that grep and unfold stay flat whatever the size.

Then a conversation with a million outputs: what is held to know them all, and whether they
are found.

    python -m bench.outputs [--megabytes 100] [--outputs 1000000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import refold
from bench import environment
from bench.tables import Table, text_of_tables
from refold.artifacts.artifacts import ArtifactReader, Artifacts, artifacts_of
from refold.config import Config
from refold.core.codec import SALT_BYTES, ZERO, encode, seal
from refold.core.ids import artifact_id, content_hasher, uuid7
from refold.core.model import Artifact, Event, Origin
from refold.log.log import Log
from refold.log.open_log import OpenLog
from refold.stores import open_store

MEGABYTES = (20, 100)
LINE = "2026-11-16 03:14:15 INFO request {n:07} served in {ms} ms by worker {w}\n"
KEPT_MAX, FLAT_MB_MAX = 2.0, 16.0
WAIT_S = 60.0
REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUTS, QUERIES, TASKS, BATCH, LIST_MB_MAX = 1_000_000, 1_000, 4, 500, 50.0
START_MS = 1_700_000_000_000
KINDS = ("text", "bytes", "data", "message")
MANY_STEPS = (
    "know them all", "those of a query", "those of a task", "one by its id", "the newest five", "select for a query",
)  # fmt: skip
STEPS = ("grep a text", "grep a pattern", "unfold 100 lines")


def text_of(megabytes: int) -> str:
    size, lines = 0, []
    while size < megabytes * 1_000_000:
        lines.append(LINE.format(n=len(lines), ms=len(lines) % 997, w=len(lines) % 16))
        size += len(lines[-1])
    return "".join(lines)


def memory_mb(name: str) -> float:
    """VmRSS is what the process holds now, VmHWM the most it held since the mark was set back."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {name} in /proc/self/status")


def measured(step: Callable[[], Any]) -> tuple[float, float]:
    """The most memory held during the step, in MB, and its CPU time in ms."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    start = time.process_time()
    step()
    return memory_mb("VmHWM"), (time.process_time() - start) * 1000


# --- one case, in a process of its own ---


def keep(url: str, kind: str, megabytes: int) -> dict[str, float]:
    context = refold.open("work", store=url, window=128_000)
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    before = memory_mb("VmRSS")
    text = text_of(megabytes)
    output: Any = text.encode() if kind == "bytes" else [text] if kind == "data" else text
    size = len(text)
    message = {"role": "tool", "tool_call_id": "c", "content": output}
    del text
    most, cpu = measured(
        lambda: context.append(message) if kind == "message" else context.append_result("c", output)
    )
    assert len(context.artifacts.list()) == 1
    context.close()
    return {"most_mb": most - before, "times": (most - before) * 1_048_576 / size, "cpu_ms": cpu}


def look(url: str, step: str, megabytes: int) -> dict[str, float]:
    """Steps on an output that another process kept."""
    outputs = artifacts_of(open_store(url), "work")
    [output] = outputs.list()
    last = output.artifact.lines
    before = memory_mb("VmRSS")
    steps: dict[str, Callable[[], Any]] = {
        "grep a text": lambda: outputs.grep(f"request {last - 1:07} ", output.id, wait_s=WAIT_S),
        "grep a pattern": lambda: outputs.grep(
            rf"request 0*{last - 1} \w+", output.id, regex=True, wait_s=WAIT_S
        ),
        "unfold 100 lines": lambda: outputs.lines(output.id, last - 200, last - 101),
    }
    start = time.monotonic()
    most, cpu = measured(steps[step])
    return {"most_mb": most - before, "cpu_ms": cpu, "wall_ms": (time.monotonic() - start) * 1000}


# --- very many ---


def written(url: str, count: int) -> None:
    """A conversation that names so many outputs. Their contents are not there: no question needs
    them."""
    store = open_store(url)
    chain, batch = ZERO, list[Event]()
    for seq in range(1, count + 1):
        at_ms = START_MS + seq
        batch.append(
            seal(
                chain,
                seq,
                id=uuid7(at_ms, bytes(10)),
                at_ms=at_ms,
                by="tool:run",
                kind="artifact",
                body=encode(artifact(seq)),
                salt=bytes([1]) * SALT_BYTES,
            )
        )
        chain = batch[-1].chain
        if len(batch) == BATCH or seq == count:
            store.append("work", batch, expect=seq - len(batch))
            batch = []
    Log(store, "work").keep_bookmark()
    store.close()


def artifact(number: int) -> Artifact:
    """The output of one run: one of the tasks, one of the queries."""
    digest = content_hasher(str(number).encode()).hexdigest()
    origin = Origin(
        tool="run",
        arguments=f'{{"part": {number}}}',
        description=f"run: part {number} of the build",
        task=f"task-{number % TASKS}",
        query=f"question {number % QUERIES}",
    )
    return Artifact(
        id=artifact_id(digest),
        digest=digest,
        name=f"run: part {number}",
        size_bytes=9,
        size_chars=9,
        lines=1,
        origin=origin,
    )


def many(url: str, step: str, count: int) -> dict[str, float]:
    """One question to a conversation with so many outputs: what was held at most and is held
    after it, and whether the answer is right."""
    store = open_store(url)
    start = memory_mb("VmRSS")
    log = OpenLog(store, "work", Config())
    reader = ArtifactReader(log)
    outputs = Artifacts(log, reader)
    before = memory_mb("VmRSS")
    answers: dict[str, Callable[[], bool]] = {
        "know them all": lambda: len(outputs.list()) == count,
        "those of a query": lambda: (
            [one.seq for one in outputs.list(query="Question 7")]
            == list(range(7, count + 1, QUERIES))
        ),
        "those of a task": lambda: (
            len(outputs.list(task="task-3")) == len(range(3, count + 1, TASKS))
        ),
        "one by its id": lambda: reader.named(artifact(count // 2).id)[0] == artifact(count // 2),
        "the newest five": lambda: (
            [one.seq for one in outputs.list()[-5:]] == list(range(count - 4, count + 1))
        ),
        "select for a query": lambda: (
            outputs.select(f"part {count // 2}", limit=1)[0].artifact.seq == count // 2
        ),
    }
    right: list[bool] = []
    most, cpu = measured(lambda: right.append(answers[step]()))
    held = memory_mb("VmRSS") - before
    return {
        "opened_mb": before - start,
        "most_mb": most - before,
        "held_mb": held,
        "cpu_ms": cpu,
        "right": right[0],
    }


def many_table(count: int, goals: Table) -> Table:
    table = Table(
        f"{count:,} outputs in one conversation",
        ["question", "memory, MB", "held, MB", "CPU ms", "right"],
    )
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/refold.db"
        written(url, count)
        found = {step: in_child("many", url, step, count) for step in MANY_STEPS}
    for step, one in found.items():
        table.add(
            step, one["most_mb"], one["held_mb"], one["cpu_ms"], "yes" if one["right"] else "NO"
        )
    first = found[MANY_STEPS[0]]
    opened = first["opened_mb"]
    table.note(
        f"Opening the conversation takes {opened:.1f} MB before: the fold has the seq of every output."
    )
    goals.at_most(
        f"memory to open and know {count:,} outputs, MB", opened + first["held_mb"], LIST_MB_MAX
    )
    return table


def in_child(work: str, url: str, what: str, megabytes: int) -> dict[str, float]:
    code = f"import json; from bench import outputs; print(json.dumps(outputs.{work}({url!r}, {what!r}, {megabytes})))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=REPOSITORY, env=environment(), check=True
    )
    return dict(json.loads(done.stdout))


# --- the tables ---


def run(sizes: tuple[int, ...] = MEGABYTES, count: int | None = None) -> list[Table]:
    """The tables; the sizes say how long it may take, if the count does not."""
    count = count or OUTPUTS * max(sizes) // max(MEGABYTES)
    kept = Table(
        "Keeping an output", ["output", "MB", "store", "most memory, MB", "× its size", "CPU ms"]
    )
    looked = Table("Looking into it (sqlite)", ["step", "MB", "memory, MB", "CPU ms", "wall ms"])
    worst = {"text": 0.0, "data": 0.0}
    flat = 0.0
    for megabytes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for kind in KINDS:
                for store in ("sqlite", "memory"):
                    url = "memory:" if store == "memory" else f"sqlite:{folder}/{kind}/refold.db"
                    found = in_child("keep", url, kind, megabytes)
                    kept.add(
                        kind, megabytes, store, found["most_mb"], found["times"], found["cpu_ms"]
                    )
                    if store == "sqlite" and megabytes == max(sizes):
                        shape = "data" if kind == "data" else "text"
                        worst[shape] = max(worst[shape], found["times"])
            for step in STEPS:
                found = in_child("look", f"sqlite:{folder}/text/refold.db", step, megabytes)
                looked.add(step, megabytes, found["most_mb"], found["cpu_ms"], found["wall_ms"])
                flat = max(flat, found["most_mb"])
    goals = Table("Goals", ["what", "value", "goal", "met"])
    goals.at_most(
        "memory to keep text, × its size, the output included (sqlite)", worst["text"], KEPT_MAX
    )
    goals.at_most("the same for plain data", worst["data"], KEPT_MAX)
    goals.at_most("memory to look into an output, MB, worst", flat, FLAT_MB_MAX)
    kept.note(
        "1.0 is the output itself, which the caller holds. `data` is a list with one text, kept as JSON."
    )
    looked.note(
        "A pattern runs in a child process, whose memory and CPU time are not in these figures; it may have 512 MB."
    )
    return [kept, looked, many_table(count, goals), goals]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.outputs")
    parser.add_argument("--megabytes", type=int, nargs="*", default=list(MEGABYTES))
    parser.add_argument("--outputs", type=int, default=None)
    given = parser.parse_args()
    print(text_of_tables(run(tuple(given.megabytes), given.outputs)))
