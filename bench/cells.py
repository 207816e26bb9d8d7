"""One measurement in a process of its own, so that memory and caches are clean. Prints one JSON
object.

    python -m bench.cells seed  refold FOLDER --messages 10000     writes a history, turn by turn, without syncs
    python -m bench.cells score refold FOLDER --turns 300          opens it and scores durable turns on top
    python -m bench.cells open  refold FOLDER                      opens it cold and makes the first request

`seed` also says what the compactions on the way cost, and how memory grew. `score` leaves what it
appended.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.subjects import CHOICES, WINDOW, Subject
from bench.workload import Workload

WARM_TURNS = 30
MARK = (
    "scored-from-here"  # a folder made between warming up and scoring, for who traces system calls
)


def written_bytes() -> int:
    """What the process has handed to write calls so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def memory_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def timed_turn(subject: Subject, work: Workload) -> tuple[float, bool]:
    """CPU seconds of one turn, and whether a compaction ran in it."""
    turn, before = work.turn(), subject.compactions
    began = time.process_time()
    subject.append(turn)
    subject.request()
    return time.process_time() - began, subject.compactions > before


# --- the three measurements ---


def seed(subject: Subject, folder: Path, messages: int, marks: list[int]) -> dict[str, Any]:
    """A history of that many messages; memory is noted at each mark."""
    work, base = Workload(), memory_bytes()
    subject.open(folder, durable=False)
    subject.append_opening(work.opening())
    usual: list[float] = []
    compacting: list[float] = []
    memory: dict[int, int] = {}
    for turn in range((messages - 2) // 2):
        cpu, compacted = timed_turn(subject, work)
        (compacting if compacted else usual).append(cpu)
        if 2 * turn + 4 in marks:
            memory[2 * turn + 4] = memory_bytes() - base
    subject.close()
    return {**_compaction_cost(usual, compacting), "memory": memory}


def _compaction_cost(usual: list[float], compacting: list[float]) -> dict[str, Any]:
    """What compactions added, spread over all turns."""
    ordinary = median(usual)
    extra = [cpu - ordinary for cpu in compacting]
    return {
        "turns": len(usual) + len(compacting),
        "seed_cpu_s": sum(usual) + sum(compacting),
        "usual_us": ordinary * 1e6,
        "compactions": len(compacting),
        "compaction_ms": 1e3 * median(extra) if extra else 0.0,
        "compaction_ms_max": 1e3 * max(extra, default=0.0),
        "amortised_ms": 1e3 * sum(extra) / max(1, len(usual) + len(compacting)),
    }


def score(
    subject: Subject, folder: Path, turns: int, number: int = 1, result_chars: int | None = None
) -> dict[str, Any]:
    """Durable turns on top of what is there. Every subject gets the same ones for the same
    number."""
    work, base = Workload(seed=1_000 + number, result_chars=result_chars), memory_bytes()
    work.turns = number * 1_000_000  # ids must not come twice in one conversation
    subject.open(folder)
    for _ in range(WARM_TURNS):
        timed_turn(subject, work)
    os.mkdir(folder / MARK)
    written = written_bytes()
    found = [timed_turn(subject, work) for _ in range(turns)]
    written = written_bytes() - written
    os.rmdir(folder / MARK)
    memory = memory_bytes() - base
    subject.close()
    usual = [cpu for cpu, compacted in found if not compacted]
    return {
        "turn_us": 1e6 * median(usual),
        "turn_mean_us": 1e6 * mean(usual),
        "turns": len(usual),
        "compacting": len(found) - len(usual),
        "written": written / turns,
        "memory": memory,
    }


def cold_open(subject: Subject, folder: Path) -> dict[str, Any]:
    """From nothing but imports to the first request."""
    _import_all()
    base, began = memory_bytes(), time.process_time()
    subject.open(folder)
    count = subject.request()
    cpu = time.process_time() - began
    found = {"open_ms": 1e3 * cpu, "messages": count, "memory": memory_bytes() - base}
    subject.close()
    return found


def _import_all() -> None:
    """Uses everything once in memory, so that only the opening is timed."""
    import refold
    from refold.stores import sqlite

    assert sqlite.SqliteStore
    with refold.open("warm", store="memory:", window=WINDOW) as context:
        context.append({"role": "user", "content": "warm"})
        context.request(dialect="openai_chat")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cells")
    parser.add_argument("phase", choices=("seed", "score", "open"))
    parser.add_argument("subject", choices=tuple(CHOICES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--marks", type=int, nargs="*", default=[])
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument(
        "--number", type=int, default=1, help="which turns to score; each once per folder"
    )
    parser.add_argument("--result-chars", type=int, help="the size of every result")
    given = parser.parse_args()
    subject = CHOICES[given.subject]()
    match given.phase:
        case "seed":
            found = seed(subject, given.folder, given.messages, given.marks)
        case "score":
            found = score(subject, given.folder, given.turns, given.number, given.result_chars)
        case _:
            found = cold_open(subject, given.folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
