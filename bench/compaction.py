"""What one compaction costs: CPU time of `compact()` on pages of 50,000 to 400,000 tokens.

Each page is a session of the workload in memory, folded for the first time, so nothing is remembered from an earlier
plan; the best of a few is taken. The goal is 150 ms at 200,000 tokens, and a cost that grows with the page.

    python -m bench.compaction
"""

from __future__ import annotations

import time
from math import log

import refold
from bench.tables import Table
from bench.workload import Workload

SIZES = (50_000, 100_000, 200_000, 400_000)
GOAL_MS, GOAL_SIZE = 150.0, 200_000
EXPONENT_MAX = 1.15  # as linear as it can be told apart on a busy machine
TRIES = 3


def page_of(tokens: int, seed: int) -> refold.Context:
    """A context whose page has at least this many tokens."""
    config = {"reserve_tokens": 0, "auto": False, "tokens_cap": 10_000_000}
    context = refold.open("page", store="memory:", window=int(tokens / 0.9), config=config)
    work = Workload(seed)
    for message in work.opening():
        context.append(message)
    while context._log.state.tokens < tokens:
        call, id, result = work.turn()
        context.append(call)
        context.append_result(id, result)
    return context


def once(tokens: int, seed: int) -> tuple[float, refold.Receipt]:
    """CPU milliseconds of one compaction, and what it did."""
    context = page_of(tokens, seed)
    began = time.process_time()
    receipt = context.compact()
    return (time.process_time() - began) * 1_000, receipt


def run(sizes: tuple[int, ...] = SIZES, tries: int = TRIES) -> list[Table]:
    once(min(sizes) // 5, 1)  # imports and caches of the interpreter are not what is measured
    table = Table("One compaction", ["page, tokens", "after", "CPU ms", "ms per 1,000 tokens", "strategy"])
    best: dict[int, float] = {}
    for size in sizes:
        found = [once(size, seed) for seed in range(tries)]
        best[size], receipt = min(found, key=lambda one: one[0])
        table.add(size, receipt.tokens_after, best[size], best[size] / size * 1_000, receipt.strategy)
    return [table, _goals(best)]


def _goals(best: dict[int, float]) -> Table:
    table = Table("One compaction, goals", ["what", "refold", "goal", "met"])
    if GOAL_SIZE in best:
        table.at_most(f"CPU ms at {GOAL_SIZE:,} tokens", best[GOAL_SIZE], GOAL_MS)
    small, large = min(best), max(best)
    if small < large:
        exponent = log(best[large] / best[small]) / log(large / small)
        table.at_most(f"growth exponent {small:,} → {large:,}", exponent, EXPONENT_MAX)
    return table


if __name__ == "__main__":
    print("\n\n".join(map(str, run())))
