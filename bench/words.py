"""A user's own words: of every line that a person typed, how much stands verbatim on the page?

A decision, a rule or a correction is often one sentence of a user that no later action names, so
`fidelity` does not see it go. Every fifth turn of a session that is longer than its budget, the
lines typed so far are looked for in the prompt, white space aside. Messages above 5 % of the budget
are documents, and messages with marks of the agent's own machinery were not typed: neither counts.
`fill` is how much of the budget the prompts take.

The second table is a session made for this: a user gives a specification of twenty points, then
works on with the agent for 250 turns of reading, running and reporting in a window of 24,000 tokens.

    python -m bench.words DATA [--share 0.3 0.15] [--step N] [--from N] [--only NAME…]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import contenders
from bench.replay import Policies, budget_of
from bench.sessions import (
    Message,
    data_folder,
    session_of,
    session_paths,
    text_of,
    tokens_of,
    tokens_of_all,
)
from bench.tables import Table, text_of_tables
from refold.replay.policies import Policy, Refold

SHARES = (0.3, 0.15)
EVERY = 5  # turns
LINE_CHARS_MIN = 12
MESSAGE_SHARE_MAX = 0.05
GOALS = {0.3: 0.995, 0.15: 0.97}
RIVALS = ("refold", "sliding window", "window, cut to half", "clear results, keep 3")
SPECIFICATION_WINDOW, SPECIFICATION_TURNS, POINTS = 24_000, 250, 20

_MACHINE = re.compile(
    r"<(?:system-reminder|command-(?:name|message|args)|local-command|environment_context|skill"
    r"|user_instructions|INSTRUCTIONS|task-notification|bash-(?:input|stdout|stderr)|ide_"
    r"|user-prompt-submit-hook)"
    r"|^Caveat:|^\[Request interrupted|^# AGENTS|tool_use_id|^This session is being continued"
    r"|^Base directory for this skill|Please always provide EXACTLY|^Stop hook feedback|^\[Image: ",
    re.MULTILINE,
)


@dataclass
class Words:
    """Characters of typed lines: looked for, found; per session, and how full the prompts were."""

    seen: int = 0
    kept: int = 0
    parts: list[float] = field(default_factory=list)
    fills: list[float] = field(default_factory=list)

    def row(self) -> tuple[float, float, float, int]:
        fill = sum(self.fills) / max(1, len(self.fills))
        per_session = sum(self.parts) / max(1, len(self.parts))
        return self.kept / max(1, self.seen), per_session, fill, len(self.parts)


def typed_lines(message: Message, budget: int) -> list[str]:
    """The lines of a message that a person typed, each with single spaces."""
    text = message.get("content") or ""
    if message["role"] != "user" or _MACHINE.search(text):
        return []
    if tokens_of(message) > MESSAGE_SHARE_MAX * budget:
        return []
    lines = [line.strip() for line in text.splitlines()]
    return [_spaced(line) for line in lines if len(line) >= LINE_CHARS_MIN]


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def weigh_session(policy: Policy, messages: list[Message], budget: int, words: Words) -> None:
    """Replays one session through a policy, and adds what became of the typed lines."""
    policy.start(budget)
    lines: dict[str, None] = {}
    size = turn = seen = kept = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            prompt = policy.prompt()
            turn += 1
            if size > budget and turn % EVERY == 0:
                page = _spaced("\n".join(map(text_of, prompt)))
                words.fills.append(tokens_of_all(prompt) / budget)
                seen += sum(map(len, lines))
                kept += sum(len(line) for line in lines if line in page)
        lines |= dict.fromkeys(typed_lines(message, budget))
        size += tokens_of(message)
        policy.observe(message)
    if seen:
        words.parts.append(kept / seen)
    words.seen += seen
    words.kept += kept


def measured(paths: Iterable[Path], share: float, policies: Policies) -> dict[str, Words]:
    scores = {name: Words() for name in policies}
    for path in paths:
        messages = session_of(path)
        budget = budget_of(messages, share)
        if budget:
            for name, make in policies.items():
                weigh_session(make(), messages, budget, scores[name])
    return scores


# --- a typed specification ---


def specification() -> list[str]:
    """Twenty points as a user types them."""
    return [
        f"{n}. The {_WORDS[n % 7]} of module {_WORDS[(n * 3) % 7]} answers within {n * 7 + 3} ms,"
        f" keeps at most {n * 11 + 2} entries, and says so in its log line."
        for n in range(1, POINTS + 1)
    ]


_WORDS = ("cache", "queue", "parser", "router", "ledger", "worker", "monitor")


def specified_work(turns: int) -> Iterator[Message]:
    """A user's specification, and an agent that reads, runs and reports for so many turns."""
    yield {"role": "user", "content": "Hello. Have a look at the project first, please."}
    yield {"role": "assistant", "content": "I looked at the project; tell me what to build."}
    asked = "\n".join(["Build the service. The specification:", *specification()])
    yield {"role": "user", "content": asked}
    for turn in range(turns):
        yield from _step(turn)
        if turn % 25 == 24:
            yield {"role": "user", "content": f"Good. Go on with part {turn // 25 + 2}."}


def _step(turn: int) -> list[Message]:
    module = f"{_WORDS[turn % 7]}_{turn % 31}"
    path = f"src/{module}.py"
    body = "\n".join(
        f"def {module}_{line}(value): return value * {turn + line}  # step {turn}"
        for line in range(24)
    )
    call = {"id": f"c{turn}", "name": "read_file", "arguments": {"path": path}}
    said = {"role": "assistant", "content": f"Now I look at {module}.py.", "tool_calls": [call]}
    return [said, {"role": "tool", "tool_call_id": f"c{turn}", "content": body}]


def points_kept(policy: Policy, window: int, turns: int) -> int:
    """How many points stand whole on the page, at the turn where it is fewest."""
    policy.start(window)
    fewest, asked = POINTS, False
    for message in specified_work(turns):
        if message["role"] == "assistant" and asked:
            page = "\n".join(map(text_of, policy.prompt()))
            fewest = min(fewest, sum(point in page for point in specification()))
        policy.observe(message)
        asked = asked or "specification" in (message.get("content") or "")
    return fewest


# --- tables ---


def words_table(scores: dict[str, Words], share: float) -> Table:
    head = ["policy", "pooled", "per session", "fill", "sessions"]
    table = Table(f"User's words, budget {share:.0%}", head)
    for name, words in scores.items():
        table.add(name, *words.row())
    if "refold" in scores and share in GOALS:
        table.note(f"Goal for refold: {GOALS[share]} pooled and per session.")
    return table


def specification_table() -> Table:
    title = f"A typed specification, {SPECIFICATION_TURNS} turns in {SPECIFICATION_WINDOW:,} tokens"
    table = Table(title, ["what", "refold", "goal", "met"])
    kept = points_kept(Refold(), SPECIFICATION_WINDOW, SPECIFICATION_TURNS)
    table.at_least("points on the page, at least", kept, POINTS)
    return table


def run(
    paths: list[Path], *, shares: Iterable[float] = SHARES, only: Iterable[str] = RIVALS
) -> list[Table]:
    """All tables of the measure; without sessions, that of the specification alone."""
    wanted = tuple(only)
    policies = {name: make for name, make in contenders()[0].items() if name in wanted}
    tables = [words_table(measured(paths, share, policies), share) for share in shares if paths]
    return [*tables, specification_table()]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.words")
    parser.add_argument("data", nargs="?", help="folder of *.jsonl.gz files")
    parser.add_argument("--share", type=float, nargs="+", default=list(SHARES))
    parser.add_argument("--step", type=int, default=1, help="every Nth file")
    parser.add_argument("--from", type=int, default=0, dest="first", help="beginning with this one")
    parser.add_argument("--only", nargs="+", default=list(RIVALS), help="names of policies")
    given = parser.parse_args(arguments)
    folder = data_folder(given.data)
    paths = session_paths(folder, given.step, given.first) if folder else []
    print(text_of_tables(run(paths, shares=given.share, only=given.only)))


if __name__ == "__main__":
    main()
