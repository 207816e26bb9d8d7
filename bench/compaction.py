"""What one compaction costs: CPU time of `compact()` on pages of 50,000 to 400,000 tokens.

Each page is a session in memory, made up or of real sessions where there is data, folded for the
first time in a process of its own, so nothing is remembered from an earlier plan. The goal is 200
ms at 200,000 tokens, and a cost that grows with the page.

    python -m bench.compaction
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path

import refold
from bench import environment
from bench.sessions import Message, data_folder, family_of, session_of, session_paths
from bench.tables import Table, text_of_tables
from bench.workload import RESULT_CHARS_MAX, Workload
from refold.replay.policies import simple

SIZES = (50_000, 100_000, 200_000, 400_000)
GOAL_MS, GOAL_SIZE = 200.0, 200_000
READS = (5_000, 10_000)  # two messages each
READS_GROWTH_MAX = 2.5  # of the time to look for copies, from the first to the second
EXPONENT_MAX = 1.15  # as linear as it can be told apart on a busy machine
SEEDS, TRIES = 3, 2
FAMILY = "claude-code"
REPOSITORY = Path(__file__).resolve().parents[1]

Source = Callable[[int], Iterator[Message]]
Found = tuple[float, int, str]  # CPU ms, tokens after, strategy


def page_of(tokens: int, messages: Iterator[Message]) -> refold.Context:
    """A context whose page has at least this many tokens."""
    config = {"reserve_tokens": 0, "auto": False, "tokens_cap": 10_000_000}
    context = refold.open("page", store="memory:", window=int(tokens / 0.9), config=config)
    for message in messages:
        context.append(simple(message))
        if context._open.log.state.tokens >= tokens and message["role"] == "tool":
            break
    return context


def made_up(seed: int) -> Iterator[Message]:
    work = Workload(seed)
    yield from work.opening()
    while True:
        call, id, result = work.turn()
        yield call
        yield {"role": "tool", "tool_call_id": id, "content": result[:RESULT_CHARS_MAX]}


def recorded(seed: int) -> Iterator[Message]:
    """Real sessions one after the other, another first one for each seed. Only agents whose ids
    are unique."""
    folder = data_folder()
    paths = [path for path in session_paths(folder) if family_of(path) == FAMILY] if folder else []
    for path in [*paths[7 * seed :], *paths[: 7 * seed]]:
        yield from session_of(path)


def once(tokens: int, messages: Iterator[Message]) -> tuple[float, refold.Receipt]:
    """CPU milliseconds of one compaction, and what it did."""
    context = page_of(tokens, messages)
    began = time.process_time()
    receipt = context.compact()
    return (time.process_time() - began) * 1_000, receipt


SOURCES: dict[str, Source] = {"made-up": made_up, "real": recorded}


def alone(source: str, tokens: int, seed: int) -> Found:
    """One compaction in a new process: what an earlier one left in memory would make this one
    cheaper."""
    command = [sys.executable, "-m", "bench.compaction", "--one", source, str(tokens), str(seed)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=True
    )
    cpu_ms, after, strategy = json.loads(done.stdout)
    return cpu_ms, after, strategy


def typical(source: str, tokens: int, seeds: int, tries: int) -> Found:
    """The middle one of several pages, each by its best try."""
    best = [min(alone(source, tokens, seed) for _ in range(tries)) for seed in range(seeds)]
    return sorted(best)[len(best) // 2]


def run(sizes: tuple[int, ...] = SIZES, seeds: int = SEEDS, tries: int = TRIES) -> list[Table]:
    table = Table(
        "One compaction",
        ["page, tokens", "session", "after", "CPU ms", "ms per 1,000 tokens", "strategy"],
    )
    goals = Table("One compaction, goals", ["what", "refold", "goal", "met"])
    for source in SOURCES if data_folder() else ["made-up"]:
        cpu: dict[int, float] = {}
        for size in sizes:
            cpu[size], after, strategy = typical(source, size, seeds, tries)
            table.add(f"{size:,}", source, after, cpu[size], cpu[size] / size * 1_000, strategy)
        _add_goals(goals, source, cpu)
    table.note(
        f"Each in a process of its own; the median of {seeds} pages, each the best of {tries} tries."
    )
    _add_reads(goals, tries)
    return [table, goals]


def page_of_reads(reads: int) -> refold.Context:
    """A page on which every file was read twice."""
    config = {"dialect": "openai_chat", "durability": "none", "tokens_cap": 10**9, "auto": False}
    context = refold.open("reads", store="memory:", window=10**9, config=config)
    context.append({"role": "user", "content": "Read the files."})
    for number in range(reads):
        path = json.dumps({"path": f"src/f{number % (reads // 2)}.py"})
        call = {"id": f"c{number}", "function": {"name": "read_file", "arguments": path}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(f"c{number}", f"line {number}\n" * 20)
    return context


def _add_reads(table: Table, tries: int) -> None:
    """How the search for copies grows; both sizes are timed in turn, so that a busy machine is
    busy for both."""
    pages = [page_of_reads(reads) for reads in READS]
    best = [float("inf")] * len(pages)
    for _ in range(tries):
        for at, page in enumerate(pages):
            began = time.process_time()
            page.plan("dedup", target=0)
            best[at] = min(best[at], time.process_time() - began)
    small, large = (f"{2 * reads:,}" for reads in READS)
    what = f"CPU of looking for copies, {small} → {large} messages"
    table.at_most(what, best[1] / best[0], READS_GROWTH_MAX)


def _add_goals(table: Table, name: str, best: dict[int, float]) -> None:
    if GOAL_SIZE in best:
        table.at_most(f"CPU ms at {GOAL_SIZE:,} tokens, {name} session", best[GOAL_SIZE], GOAL_MS)
    small, large = min(best), max(best)
    if small < large:
        exponent = log(best[large] / best[small]) / log(large / small)
        table.at_most(
            f"growth exponent {small:,} → {large:,}, {name} session", exponent, EXPONENT_MAX
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction")
    parser.add_argument(
        "--one", nargs=3, metavar=("SESSION", "TOKENS", "SEED"), help="one page, as JSON"
    )
    given = parser.parse_args()
    if given.one is None:
        print(text_of_tables(run()))
        return
    source, tokens, seed = given.one
    once(5_000, made_up(99))  # imports are not what is measured
    cpu_ms, receipt = once(int(tokens), SOURCES[source](int(seed)))
    print(json.dumps([cpu_ms, receipt.tokens_after, receipt.strategy]))


if __name__ == "__main__":
    main()
