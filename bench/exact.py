"""Lines that are given again word for word: the text that an edit replaces, a command run again, a
value passed on. A name on the page does not help an agent that must give the line itself.

A line of an action is wanted if it was last seen more than ten messages before. Line numbers, the
path before a search hit, blanks, quotes and commas do not count, nor do lines that tell nothing:
under twenty characters, fewer than three words, or given in every fifth action. Once a session is
longer than its budget, the wanted lines are looked for in the prompt.

`survival` asks what later compactions do to what an earlier one quoted: of the names that an action
needs (`refold.replay.needs`) and a gist told in a quoted line, how many are still told after 1, 3
and 10 more compactions? Neighbour: `words` looks for typed lines in the same way.

    python -m bench exact survival [--data FOLDER] [--step N] [--from N]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import contenders
from bench.replay import SESSION_NEEDS_MIN, Policies, budget_of
from bench.sessions import Message, schema_words, session_of, text_of, tokens_of
from bench.tables import Table
from refold.replay.needs import History, Prompt
from refold.replay.policies import Policy, Refold

SHARES = (0.3, 0.15)
RIVALS = ("refold", "window, cut to half", "clear results, keep 3")
GOALS = {0.3: (0.78, 0.85), 0.15: (0.60, 0.65)}  # per session, whole actions
RECENT, CHARS, WORDS_MIN = 10, range(20, 400), 3
SURVIVAL_SHARES = (0.15, 0.05)  # at the smaller one sessions have ten compactions and more
SURVIVAL_GOALS = {1: 0.9, 3: 0.8, 10: 0.7}

_NUMBER = re.compile(r"^\s*(?:[^\s:]+:)?\s*\d+\s*[:→\t|-]\s?")
_NOISE = re.compile(r"[\s\"',\\]+")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass
class Found:
    """What was wanted and found: in all, the share of each session, and a figure for each turn."""

    wanted: int = 0
    there: int = 0
    sessions: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)

    def row(self) -> tuple[float, float, float, int, int]:
        per_session = sum(self.sessions) / max(1, len(self.sessions))
        per_turn = sum(self.turns) / max(1, len(self.turns))
        pooled = self.there / max(1, self.wanted)
        return pooled, per_session, per_turn, self.wanted, len(self.sessions)


Weigh = Callable[[Policy, list[Message], int, Found], None]


def measured(
    paths: Iterable[Path], share: float, policies: Policies, weigh: Weigh
) -> dict[str, Found]:
    """Replays every session that is longer than its budget through each policy."""
    scores = {name: Found() for name in policies}
    for path in paths:
        messages = session_of(path)
        if budget := budget_of(messages, share):
            for name, make in policies.items():
                weigh(make(), messages, budget, scores[name])
    return scores


def tables_of(
    title: str, per_turn: str, paths: list[Path], shares: Iterable[float], weigh: Weigh
) -> list[Table]:
    """A table for each budget, with a row for each policy."""
    policies = {name: make for name, make in contenders()[0].items() if name in RIVALS}
    tables = []
    for share in shares:
        head = ["policy", "pooled", "per session", per_turn, "looked for", "sessions"]
        tables.append(Table(f"{title}, budget {share:.0%}", head))
        for name, found in measured(paths, share, policies, weigh).items():
            tables[-1].add(name, *found.row())
    return tables


# --- lines given again ---


def bare(line: str) -> str:
    return _NOISE.sub("", _NUMBER.sub("", line))


def telling_lines(message: Message) -> set[str]:
    lines = text_of(message).splitlines()
    telling = (line for line in lines if len(set(_WORD.findall(line))) >= WORDS_MIN)
    return {flat for line in telling if len(flat := bare(line)) in CHARS}


def weigh_lines(policy: Policy, messages: list[Message], budget: int, found: Found) -> None:
    """Replays one session through a policy, and adds which wanted lines were there."""
    given = [telling_lines(one) if one["role"] == "assistant" else set() for one in messages]
    times = Counter(line for lines in given for line in lines)
    usual = {line for line, count in times.items() if count > max(3, sum(map(bool, given)) / 5)}
    seen: dict[str, int] = {}
    shares: list[float] = []
    size = wanted_here = 0
    policy.start(budget)
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            prompt = policy.prompt()
            wanted = {x for x in given[index] - usual if seen.get(x, index) < index - RECENT}
            if wanted and size > budget:
                page = "\n".join(bare(x) for one in prompt for x in text_of(one).splitlines())
                there = sum(line in page for line in wanted)
                shares.append(there / len(wanted))
                wanted_here += len(wanted)
                found.there += there
        seen |= dict.fromkeys(telling_lines(message), index)
        size += tokens_of(message)
        policy.observe(message)
    found.wanted += wanted_here
    found.turns += [float(share == 1) for share in shares]
    if wanted_here >= SESSION_NEEDS_MIN:
        found.sessions.append(sum(shares) / len(shares))


def run(paths: list[Path], *, shares: Iterable[float] = SHARES) -> list[Table]:
    tables = tables_of("Lines given again", "whole actions", paths, shares, weigh_lines)
    for table, share in zip(tables, shares):
        if share in GOALS:
            per_session, whole = GOALS[share]
            table.note(f"Goal for refold: {per_session} per session, {whole} of whole actions.")
    return tables


# --- quotes after more compactions ---


def weigh_survival(
    policy: Refold, messages: list[Message], budget: int
) -> Counter[tuple[int, bool]]:
    """Replays one session; for each number of further compactions, how many of the needs that a
    gist quoted were told on the page after them, and how many were not."""
    policy.start(budget)
    history = History(schema_words(messages))
    quoted: list[Prompt] = []  # the quotes after each compaction, and the page
    pages: list[Prompt] = []
    batches: set[str] = set()
    fates: Counter[tuple[int, bool]] = Counter()
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            prompt = policy.prompt()
            summaries = [slot.summary for slot in policy.context.view.slots if slot.summary]
            if not batches.issuperset(summary.batch for summary in summaries):
                batches.update(summary.batch for summary in summaries)
                quotes = [quote for summary in summaries for quote in summary.quotes]
                quoted.append(Prompt("\n".join(line for one in quotes for line in one.lines)))
                pages.append(Prompt("\n".join(map(text_of, prompt))))
            for need in history.needs_of(index, message):
                told = (
                    at for at, page in enumerate(quoted) if _is_told(page, need.name, need.telling)
                )
                first = next(told, None) if need.telling else None
                for more in SURVIVAL_GOALS if first is not None else ():
                    if first + more < len(pages):
                        page = pages[first + more]
                        fates[more, _is_told(page, need.name, need.telling)] += 1
        history.add(index, message)
        policy.observe(message)
    return fates


def _is_told(page: Prompt, name: str, pieces: Iterable[str]) -> bool:
    holding = page.holding(name)
    return any(piece in holding for piece in pieces)


def run_survival(paths: list[Path]) -> list[Table]:
    """Of the needs that a gist quoted, the share that is still told after more compactions."""
    tables = []
    for share in SURVIVAL_SHARES:
        table = Table(
            f"Quoted needs after more compactions, budget {share:.0%}",
            ["compactions more", "still told", "goal", "met"],
        )
        fates: Counter[tuple[int, bool]] = Counter()
        for path in paths:
            messages = session_of(path)
            if budget := budget_of(messages, share):
                fates += weigh_survival(Refold(), messages, budget)
        for more, goal in SURVIVAL_GOALS.items():
            all_needs = fates[more, True] + fates[more, False]
            table.at_least(f"{more}", fates[more, True] / max(1, all_needs), goal)
            table.note(f"{more} more: {all_needs:,} needs.")
        tables.append(table)
    return tables
