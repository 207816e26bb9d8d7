"""What one compaction costs: CPU time of `compact()` on pages of 50,000 to 400,000 tokens.

Each page is a session in memory, made up or of real sessions where there is data, folded for the first time, so nothing
is remembered from an earlier plan; the best of a few is taken. The goal is 150 ms at 200,000 tokens, and a cost that
grows with the page.

    python -m bench.compaction
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import log

import refold
from bench.contenders import simple
from bench.sessions import Message, data_folder, family_of, session_of, session_paths
from bench.tables import Table
from bench.workload import RESULT_CHARS_MAX, Workload

SIZES = (50_000, 100_000, 200_000, 400_000)
GOAL_MS, GOAL_SIZE = 150.0, 200_000
EXPONENT_MAX = 1.15  # as linear as it can be told apart on a busy machine
TRIES = 3
FAMILY = "claude-code"

Source = Callable[[int], Iterator[Message]]


def page_of(tokens: int, messages: Iterator[Message]) -> refold.Context:
    """A context whose page has at least this many tokens."""
    config = {"reserve_tokens": 0, "auto": False, "tokens_cap": 10_000_000}
    context = refold.open("page", store="memory:", window=int(tokens / 0.9), config=config)
    for message in messages:
        context.append(simple(message))
        if context._log.state.tokens >= tokens and message["role"] == "tool":
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
    """Real sessions one after the other, another first one for each seed. Only agents whose ids are unique."""
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


def run(sizes: tuple[int, ...] = SIZES, tries: int = TRIES) -> list[Table]:
    once(min(sizes) // 5, made_up(1))  # imports and caches of the interpreter are not what is measured
    sources: dict[str, Source] = {"made-up session": made_up}
    sources |= {"real sessions": recorded} if data_folder() else {}
    table = Table("One compaction", ["page, tokens", "of", "after", "CPU ms", "ms per 1,000 tokens", "strategy"])
    goals = Table("One compaction, goals", ["what", "refold", "goal", "met"])
    for name, source in sources.items():
        best: dict[int, float] = {}
        for size in sizes:
            found = [once(size, source(seed)) for seed in range(tries)]
            best[size], receipt = min(found, key=lambda one: one[0])
            rate = best[size] / size * 1_000
            table.add(f"{size:,}", name, receipt.tokens_after, best[size], rate, receipt.strategy)
        _add_goals(goals, name, best)
    return [table, goals]


def _add_goals(table: Table, name: str, best: dict[int, float]) -> None:
    if GOAL_SIZE in best:
        table.at_most(f"CPU ms at {GOAL_SIZE:,} tokens, {name}", best[GOAL_SIZE], GOAL_MS)
    small, large = min(best), max(best)
    if small < large:
        exponent = log(best[large] / best[small]) / log(large / small)
        table.at_most(f"growth exponent {small:,} → {large:,}, {name}", exponent, EXPONENT_MAX)


if __name__ == "__main__":
    print("\n\n".join(map(str, run())))
