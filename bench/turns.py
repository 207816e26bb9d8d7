"""What a turn costs at 100 to 100,000 messages, beside the floor in the same run.

Each cell runs in a process of its own (`cells`): a history is written without syncs, then durable
turns are scored on top, and the conversation is opened cold. A turn is append of call and result,
then a request. Turns in which a compaction ran are left out of the turn and given apart, spread
over all turns. Both subjects score the same turns, one after the other, several times; a ratio is
the median of those of the pairs.

    python -m bench.turns [--sizes 100 1000 …] [--turns 300] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from math import log
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.cells import MARK
from bench.subjects import SUBJECTS
from bench.tables import Table

SIZES = (100, 1_000, 10_000, 100_000)
TURNS, REPEATS, OPENS, STARTS = 300, 5, 7, 20
TRACED, TRACED_TURNS = 99, 120
REPOSITORY = Path(__file__).resolve().parents[1]

# With exact counting: the length of the history, and the size of every result.
EXACT_MESSAGES, EXACT_CHARS = 1_000, 5_000

Cell = dict[str, Any]


# --- running ---


def cell(
    phase: str, subject: str, folder: Path, *options: object, before: tuple[str, ...] = ()
) -> Cell:
    """One measurement in a new process."""
    command = [
        *before,
        sys.executable,
        "-m",
        "bench.cells",
        phase,
        subject,
        str(folder),
        *map(str, options),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    found: Cell = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(messages: int, folder: Path, turns: int, repeats: int) -> dict[str, Cell]:
    """All that is known of both subjects at one length. They take turns, on the same turns, so
    that what else the machine does falls on both."""
    marks = [size for size in SIZES if size <= messages]
    found = {
        name: {"seed": cell("seed", name, folder, "--messages", messages, "--marks", *marks)}
        for name in SUBJECTS
    }
    opened = [{name: cell("open", name, folder) for name in SUBJECTS} for _ in range(OPENS)]
    scored = [
        {
            name: cell("score", name, folder, "--turns", turns, "--number", number)
            for name in SUBJECTS
        }
        for number in range(1, repeats + 1)
    ]
    for name, known in found.items():
        known["open_ms"] = median(one[name]["open_ms"] for one in opened)
        known["turn_us"] = median(one[name]["turn_us"] for one in scored)
        known["written"] = mean(one[name]["written"] for one in scored)
        known["ratios"] = sorted(one[name]["turn_us"] / one["floor"]["turn_us"] for one in scored)
        known["syncs"] = syncs_per_turn(name, folder) if messages == 1_000 else None
    return found


def syncs_per_turn(subject: str, folder: Path) -> tuple[float, float] | None:
    """Syncs per turn, by strace; None where it is not installed. The first are the log's own,
    all on one descriptor, the second those of artifacts and of SQLite's checkpoints (the floor's
    are all SQLite's)."""
    tracer = shutil.which("strace")
    if tracer is None:
        return None
    trace = folder / "trace.txt"
    before = (tracer, "-f", "-qq", "-e", "trace=fsync,fdatasync,mkdir,rmdir", "-o", str(trace))
    cell("score", subject, folder, "--turns", TRACED_TURNS, "--number", TRACED, before=before)
    scored = trace.read_text().split(MARK)[1]
    syncs = Counter(re.findall(r"fdatasync\((\d+)|fsync\((\d+)", scored))
    own = max(syncs.values(), default=0)
    return own / TRACED_TURNS, (syncs.total() - own) / TRACED_TURNS


def start_cpu_ms(command: list[str], times: int = STARTS) -> float:
    """The median CPU time of a command."""
    found = []
    for _ in range(times):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        found.append(1e3 * (usage.ru_utime + usage.ru_stime))
    return median(found)


# --- tables ---

Cells = dict[int, dict[str, Cell]]  # by length, by subject


def turn_table(cells: Cells) -> Table:
    head = [
        "messages",
        "refold µs",
        "floor µs",
        "ratio",
        "written",
        "floor's",
        "ratio",
        "open ms",
        "floor's",
    ]
    table = Table(
        "Append + request per turn without compaction (CPU, bytes)",
        [*head, "compactions", "ms per turn"],
    )
    for messages, by_subject in cells.items():
        ours, floor = by_subject["refold"], by_subject["floor"]
        table.add(
            f"{messages:,}",
            ours["turn_us"],
            floor["turn_us"],
            median(ours["ratios"]),
            ours["written"],
            floor["written"],
            ours["written"] / floor["written"],
            ours["open_ms"],
            floor["open_ms"],
            ours["seed"]["compactions"],
            ours["seed"]["amortised_ms"],
        )
    table.note(
        "compactions, ms per turn: while the history was written, spread over all its turns."
    )
    return table


def goal_table(cells: Cells) -> Table:
    table = Table("Turns, goals", ["what", "refold", "goal", "met"])
    for messages, by_subject in cells.items():
        ratios = by_subject["refold"]["ratios"]
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        table.at_most(
            f"turn CPU of the floor's, {messages:,} messages ({spread})", median(ratios), 2.5
        )
    largest = max(cells)
    _add_growth(table, cells)
    _add_syncs(table, cells)
    ours, floor = cells[largest]["refold"], cells[largest]["floor"]
    table.at_most("compaction, amortised, ms CPU per turn", ours["seed"]["amortised_ms"], 2.0)
    count = ours["seed"]["compactions"]
    what = f"cold open, ms CPU, {largest:,} messages, {count} compactions"
    table.at_most(what, ours["open_ms"], 2 * floor["open_ms"] + 5)
    table.at_most("bytes written of the floor's", ours["written"] / floor["written"], 1.3)
    return table


def _add_growth(table: Table, cells: Cells) -> None:
    small, large = 10_000, 100_000
    if not {small, large} <= cells.keys():
        return
    exponent = log(cells[large]["refold"]["turn_us"] / cells[small]["refold"]["turn_us"]) / log(
        large / small
    )
    table.at_most("growth exponent 10,000 → 100,000", exponent, 0.1)
    memory = cells[large]["refold"]["seed"]["memory"]
    table.at_most(
        "memory at 100,000 of that at 10,000", memory[str(large)] / memory[str(small)], 1.2
    )


def _add_syncs(table: Table, cells: Cells) -> None:
    syncs = next((one["refold"]["syncs"] for one in cells.values() if one["refold"]["syncs"]), None)
    if syncs is None:
        table.note(
            "Syncs were not counted: strace is not installed, or 1,000 messages were not measured."
        )
        return
    table.at_most("fdatasyncs of the log per request", syncs[0], 1.0)
    table.note(
        f"Besides these, {syncs[1]:.3f} syncs per turn: artifacts of large results, checkpoints of SQLite."
    )


def exact_ratios(folder: Path, turns: int, repeats: int) -> list[float]:
    """Turns of 5 KB with a model whose own vocabulary counts, beside the floor on the same
    turns."""
    pair = ("exact", "floor")
    for name in pair:
        cell("seed", name, folder, "--messages", EXACT_MESSAGES)
    found = []
    for number in range(1, repeats + 1):
        options = ("--turns", turns, "--number", number, "--result-chars", EXACT_CHARS)
        ours, floor = (cell("score", name, folder, *options)["turn_us"] for name in pair)
        found.append(ours / floor)
    return sorted(found)


def exact_table(ratios: list[float]) -> Table:
    table = Table("Turns of 5 KB, exact counting", ["what", "refold", "goal", "met"])
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    table.at_most(f"turn CPU of the floor's, model gpt-4o ({spread})", median(ratios), 2.5)
    return table


def start_table(times: int = STARTS) -> Table:
    program = Path(sys.executable).with_name("refold")
    ours = start_cpu_ms([str(program), "--version"], times)
    bare = start_cpu_ms([sys.executable, "-c", "pass"], times)
    table = Table("Start (CPU)", ["what", "refold", "goal", "met"])
    table.at_most(
        f"`refold --version` ({ours:.1f} ms) of `python -c pass` ({bare:.1f} ms)", ours / bare, 3.0
    )
    return table


# --- command ---


def run(
    sizes: tuple[int, ...] = SIZES, *, turns: int = TURNS, repeats: int = REPEATS
) -> list[Table]:
    cells: Cells = {}
    for messages in sizes:
        with tempfile.TemporaryDirectory(prefix="refold-bench-") as folder:
            cells[messages] = measured(messages, Path(folder), turns, repeats)
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as folder:
        ratios = exact_ratios(Path(folder), turns, repeats)
    return [turn_table(cells), goal_table(cells), exact_table(ratios), start_table()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    print("\n\n".join(map(str, run(tuple(given.sizes), turns=given.turns, repeats=given.repeats))))


if __name__ == "__main__":
    main()
