"""Against the agents' own compactions: of what an agent went on to use, how much was in the summary
that it made for itself, and how much would refold have kept in the same number of tokens?

A case is a real summary in a session, the messages that it replaced, and the names that the next
sixty messages use before anything brings them back. The agent can only use what its summary held or
what it found again, so the comparison leans to its summary. System prompts are kept in any case and
left out on both sides. After its summary an agent is told to go on; refold is told so before it
compacts, so that the last step counts as past on both sides. What refold keeps whole, the first
request unless it is half of the page, is part of its page and of its tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import refold
from bench.sessions import (
    Message,
    data_folder,
    names_in,
    rows_of,
    schema_words,
    session_paths,
    telling_share,
    text_of,
    tokens_of,
    tokens_of_all,
    tokens_of_text,
)
from bench.tables import Table, verdict
from refold.replay.policies import plain, simple

HORIZON = 60
GOAL = 2.0
REPLACED_MIN = 20
SUMMARY_TOKENS_MIN = 300
READ_CHARS, USED_CHARS = 400_000, 200_000
WINDOW_ALL = 100_000_000
GO_ON: Message = {"role": "user", "content": "Please continue."}
# All of the page may be used: what is asked for is one page of exactly the summary's size.
EXACT = {
    "reserve_tokens": 0, "tokens_cap": WINDOW_ALL, "warn_ratio": 0.9, "compact_ratio": 1.0, "critical_ratio": 1.0,
    "target_ratio": 0.999, "auto": False,
}  # fmt: skip


@dataclass
class Case:
    """One compaction that happened: what was replaced, by what, and what was needed afterwards."""

    replaced: list[Message]
    summary: Message
    needed: set[str]


Shrink = Callable[[list[Message], int], list[Message]]


def cases_of(path: Path) -> Iterator[Case]:
    rows = rows_of(path)
    known_tools = schema_words(rows) | limits_of(rows)
    start = 0
    for at, row in enumerate(rows):
        if row.get("compact_summary"):
            replaced = [one for one in rows[start:at] if not one.get("compact_summary")]
            needed = _needed(replaced, rows[at + 1 : at + 1 + HORIZON], known_tools)
            if len(replaced) > REPLACED_MIN and needed and tokens_of(row) > SUMMARY_TOKENS_MIN:
                yield Case(replaced, row, needed)
            start = at


def limits_of(rows: list[Message]) -> set[str]:
    """The numbers that calls pass as they are, such as a timeout: an agent does not look them up."""
    calls = [call for row in rows for call in row.get("tool_calls") or ()]
    passed = [call.get("arguments") for call in calls]
    values = [one for each in passed if isinstance(each, dict) for one in each.values()]
    return {str(value) for value in values if isinstance(value, int | float)}


def _needed(replaced: list[Message], after: list[Message], tools: set[str]) -> set[str]:
    """The names that the agent used first, before any result or user brought them up again."""
    before = {name for one in replaced for name in names_in(text_of(one)[:READ_CHARS])}
    seen: set[str] = set()
    needed: set[str] = set()
    for message in after:
        if message.get("compact_summary"):
            break
        names = names_in(text_of(message)[:USED_CHARS])
        if message["role"] == "assistant":
            needed |= (names & before) - seen - tools
        seen |= names
    return needed


# --- ways to shrink ---


def newest(messages: list[Message], budget: int) -> list[Message]:
    kept: list[Message] = []
    for message in reversed(messages):
        budget -= tokens_of(message)
        if budget < 0:
            break
        kept.insert(0, message)
    return kept


def by_refold(messages: list[Message], budget: int) -> list[Message]:
    """The page that refold makes of all these messages at once, in a window of that size."""
    context = refold.open(
        "case", store="memory:", window=WINDOW_ALL, counter=tokens_of_text, config=EXACT
    )
    for message in messages:
        if message["role"] != "system":
            context.append(simple(message))
    context.append(GO_ON)
    context.update(window=budget)
    context.compact()
    context.update(
        window=WINDOW_ALL
    )  # a page that could not be made small enough is shown, and its size with it
    return [plain(message) for message in context.request(dialect="openai_chat")["messages"]]


WAYS: dict[str, Shrink] = {"newest messages": newest, "refold": by_refold}


# --- table ---


class Tally:
    """What one way kept over all cases."""

    def __init__(self) -> None:
        self.met = self.tokens = self.over = 0
        self.telling: list[float] = []

    def add(self, messages: list[Message], case: Case) -> None:
        text = "\n".join(map(text_of, messages))
        size = tokens_of_all(messages)
        self.met += sum(name in text for name in case.needed)
        self.tokens += size
        self.over += size > tokens_of(case.summary)
        self.telling.append(telling_share(text))


def agents_table(paths: list[Path]) -> Table:
    cases = [case for path in paths for case in cases_of(path)]
    tallies = {name: Tally() for name in ("agent's own summary", *WAYS)}
    for case in cases:
        tallies["agent's own summary"].add([case.summary], case)
        for name, shrink in WAYS.items():
            tallies[name].add(shrink(case.replaced, tokens_of(case.summary)), case)
    return _table(cases, tallies)


def _table(cases: list[Case], tallies: dict[str, Tally]) -> Table:
    head = ["page", "ref recall", "of the agent's", "mean tokens", "over its size", "telling share"]
    table = Table("At the agents' own compactions, equal tokens", head)
    needed, count = sum(len(case.needed) for case in cases), max(1, len(cases))
    own = tallies["agent's own summary"].met
    for name, tally in tallies.items():
        share = sum(tally.telling) / count
        table.add(
            name,
            tally.met / max(1, needed),
            tally.met / max(1, own),
            tally.tokens / count,
            tally.over,
            share,
        )
    size = median(tokens_of(case.summary) for case in cases) if cases else 0
    table.note(
        f"{len(cases)} compactions, {needed:,} names needed again, median summary {size:,.0f} tokens."
    )
    met = verdict(tallies["refold"].met >= GOAL * own)
    table.note(f"Goal: refold's ref recall at least {GOAL:g} × the agent's; met: {met}.")
    table.note("Telling share: text in lines with three words or more besides a name.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.agents")
    parser.add_argument(
        "data", nargs="?", help="folder of *.jsonl.gz files (default: REFOLD_BENCH_DATA)"
    )
    folder = data_folder(parser.parse_args().data)
    if folder is None:
        raise SystemExit("no data: name a folder, or set REFOLD_BENCH_DATA")
    print(agents_table(session_paths(folder)))


if __name__ == "__main__":
    main()
