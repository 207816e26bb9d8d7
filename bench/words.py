"""A user's own words: of every line that a person typed, how much stands verbatim on the page?

A decision, a rule or a correction is often one sentence of a user that no later action names, so
`fidelity` does not see it go. Every fifth turn of a session that is longer than its budget, the
lines typed so far are looked for in the prompt, white space aside. Messages above 5 % of the budget
are documents, and messages with marks of the agent's own machinery were not typed: neither counts.
`fill` is how much of the budget the prompts take.

The second table is a session made for this: a user gives a specification of twenty points, then
works on with the agent for 250 turns of reading, running and reporting in a window of 24,000 tokens.

    python -m bench words [--data FOLDER] [--step N] [--from N]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.exact import SHARES, Found, tables_of
from bench.sessions import Message, text_of, tokens_of, tokens_of_all
from bench.tables import Table
from refold.replay.policies import Policy, Refold

EVERY = 5  # turns
LINE_CHARS_MIN = 12
MESSAGE_SHARE_MAX = 0.05
GOALS = {0.3: 0.995, 0.15: 0.97}
SPECIFICATION_WINDOW, SPECIFICATION_TURNS, POINTS = 24_000, 250, 20

_MACHINE = re.compile(
    r"<(?:system-reminder|command-(?:name|message|args)|local-command|environment_context|skill"
    r"|user_instructions|INSTRUCTIONS|task-notification|bash-(?:input|stdout|stderr)|ide_"
    r"|user-prompt-submit-hook)"
    r"|^Caveat:|^\[Request interrupted|^# AGENTS|tool_use_id|^This session is being continued"
    r"|^Base directory for this skill|Please always provide EXACTLY|^Stop hook feedback|^\[Image: ",
    re.MULTILINE,
)


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


def weigh_words(policy: Policy, messages: list[Message], budget: int, found: Found) -> None:
    """Replays one session through a policy, and adds what became of the typed lines, in
    characters; the figure for a turn is how full the prompt was."""
    policy.start(budget)
    lines: dict[str, None] = {}
    size = turn = seen = kept = 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            prompt = policy.prompt()
            turn += 1
            if size > budget and turn % EVERY == 0:
                page = _spaced("\n".join(map(text_of, prompt)))
                found.turns.append(tokens_of_all(prompt) / budget)
                seen += sum(map(len, lines))
                kept += sum(len(line) for line in lines if line in page)
        lines |= dict.fromkeys(typed_lines(message, budget))
        size += tokens_of(message)
        policy.observe(message)
    if seen:
        found.sessions.append(kept / seen)
    found.wanted += seen
    found.there += kept


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


def specification_table() -> Table:
    title = f"A typed specification, {SPECIFICATION_TURNS} turns in {SPECIFICATION_WINDOW:,} tokens"
    table = Table(title, ["what", "refold", "goal", "met"])
    kept = points_kept(Refold(), SPECIFICATION_WINDOW, SPECIFICATION_TURNS)
    table.at_least("points on the page, at least", kept, POINTS)
    return table


def run(paths: list[Path], *, shares: Iterable[float] = SHARES) -> list[Table]:
    """All tables of the measure; without sessions, that of the specification alone."""
    tables = tables_of("User's words", "fill", paths, shares, weigh_words) if paths else []
    for table, share in zip(tables, shares):
        if share in GOALS:
            table.note(f"Goal for refold: {GOALS[share]} pooled and per session.")
    return [*tables, specification_table()]
