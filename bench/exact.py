"""Lines that are given again word for word: the text that an edit replaces, a command run again, a
value passed on. A name on the page does not help an agent that must give the line itself.

A line of an action is wanted if it was last seen more than ten messages before. Line numbers, the
path before a search hit, blanks, quotes and commas do not count, nor do lines that tell nothing:
under twenty characters, fewer than three words, or given in every fifth action. Once a session is
longer than its budget, the wanted lines are looked for in the prompt.

    python -m bench.exact DATA [--share 0.3 0.15] [--step N] [--from N]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import contenders
from bench.replay import Policies, budget_of
from bench.sessions import Message, data_folder, session_of, session_paths, text_of, tokens_of
from bench.tables import Table, text_of_tables
from refold.replay.policies import Policy

SHARES = (0.3, 0.15)
RIVALS = ("refold", "window, cut to half", "clear results, keep 3")
GOALS = {0.3: (0.78, 0.85), 0.15: (0.60, 0.65)}  # per session, whole actions
RECENT, CHARS, WORDS_MIN, SESSION_MIN = 10, range(20, 400), 3, 5

_NUMBER = re.compile(r"^\s*(?:[^\s:]+:)?\s*\d+\s*[:→\t|-]\s?")
_NOISE = re.compile(r"[\s\"',\\]+")
_WORD = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass
class Lines:
    """The wanted lines and those in the prompt; the share of each action, and of each session."""

    wanted: int = 0
    there: int = 0
    actions: list[float] = field(default_factory=list)
    sessions: list[float] = field(default_factory=list)

    def row(self) -> tuple[float, float, float, int]:
        whole = sum(share == 1 for share in self.actions) / max(1, len(self.actions))
        per_session = sum(self.sessions) / max(1, len(self.sessions))
        return self.there / max(1, self.wanted), per_session, whole, self.wanted


def bare(line: str) -> str:
    return _NOISE.sub("", _NUMBER.sub("", line))


def telling_lines(message: Message) -> set[str]:
    lines = text_of(message).splitlines()
    telling = (line for line in lines if len(set(_WORD.findall(line))) >= WORDS_MIN)
    return {flat for line in telling if len(flat := bare(line)) in CHARS}


def weigh_session(policy: Policy, messages: list[Message], budget: int, lines: Lines) -> None:
    """Replays one session through a policy, and adds which wanted lines were there."""
    given = [telling_lines(one) if one["role"] == "assistant" else set() for one in messages]
    times = Counter(line for found in given for line in found)
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
                lines.there += there
        seen |= dict.fromkeys(telling_lines(message), index)
        size += tokens_of(message)
        policy.observe(message)
    lines.wanted += wanted_here
    lines.actions += shares
    if wanted_here >= SESSION_MIN:
        lines.sessions.append(sum(shares) / len(shares))


def measured(paths: Iterable[Path], share: float, policies: Policies) -> dict[str, Lines]:
    scores = {name: Lines() for name in policies}
    for path in paths:
        messages = session_of(path)
        if budget := budget_of(messages, share):
            for name, make in policies.items():
                weigh_session(make(), messages, budget, scores[name])
    return scores


def exact_table(scores: dict[str, Lines], share: float) -> Table:
    head = ["policy", "pooled", "per session", "whole actions", "lines"]
    table = Table(f"Lines given again, budget {share:.0%}", head)
    for name, lines in scores.items():
        table.add(name, *lines.row())
    if share in GOALS:
        per_session, whole = GOALS[share]
        table.note(f"Goal for refold: {per_session} per session, {whole} of whole actions.")
    return table


def run(paths: list[Path], *, shares: Iterable[float] = SHARES) -> list[Table]:
    policies = {name: make for name, make in contenders()[0].items() if name in RIVALS}
    return [exact_table(measured(paths, share, policies), share) for share in shares]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.exact")
    parser.add_argument("data", nargs="?", help="folder of *.jsonl.gz files")
    parser.add_argument("--share", type=float, nargs="+", default=list(SHARES))
    parser.add_argument("--step", type=int, default=1, help="every Nth file")
    parser.add_argument("--from", type=int, default=0, dest="first", help="beginning with this one")
    given = parser.parse_args(arguments)
    folder = data_folder(given.data)
    paths = session_paths(folder, given.step, given.first) if folder else []
    print(text_of_tables(run(paths, shares=given.share)))


if __name__ == "__main__":
    main()
