"""How near the expected size of a request is right after a compaction, and otherwise.

Conversations are led through a `Context` with a small window that compacts automatically. Before
each reply its true size is reported. After a compaction no report covers the new text yet: its size
is our own count, corrected by what earlier reports taught.
"""

from __future__ import annotations

from statistics import mean

import refold
from bench.tables import Table
from bench.token_texts import Conversations
from refold.tokens.counter import Counter, count_message

MODEL, WINDOW, REPORTS_MIN = "gpt-4o", 24_000, 4
ANSWER = {"role": "assistant", "content": "ok"}


def table(kinds: dict[str, Conversations], estimate: Counter, exact: Counter) -> Table:
    found = Table(
        f"Expected size right after a compaction, window of {WINDOW:,}, per cent",
        ["text", "counter", "compactions", "mean", "19 of 20", "requests", "mean ", "19 of 20 "],
    )
    for kind, conversations in kinds.items():
        talk = [text for one in conversations for text in one]
        for counter in (estimate, exact):
            after, other = _led(talk, counter, exact)
            if after and other:
                found.add(kind, counter.name, *_row(after), *_row(other))
    found.note("requests: those without a compaction just before, whose last reply was reported.")
    return found


def _led(talk: list[str], counter: Counter, exact: Counter) -> tuple[list[float], list[float]]:
    """The errors of the requests right after a compaction, and of the others."""
    after: list[float] = []
    other: list[float] = []
    begun: list[refold.Notice] = []
    with refold.open(
        "talk", store="memory:", model=MODEL, window=WINDOW, counter=counter, embedder=False
    ) as context:
        context.on("compaction-complete", begun.append)
        for number, text in enumerate(talk):
            context.append({"role": "user", "content": text})
            seen = len(begun)
            context.request()
            true = sum(count_message(slot.message, exact) for slot in context.view.slots)
            if number >= REPORTS_MIN:
                error = 100 * abs(context.stats().current / true - 1)
                (after if len(begun) > seen else other).append(error)
            context.record(_reply(number, true))
    return after, other


def _reply(number: int, tokens: int) -> dict[str, object]:
    return {
        "id": f"reply-{number}",
        "object": "chat.completion",
        "model": MODEL,
        "usage": {"prompt_tokens": tokens, "completion_tokens": 5},
        "choices": [{"index": 0, "finish_reason": "stop", "message": ANSWER}],
    }


def _row(errors: list[float]) -> tuple[int, float, float]:
    return len(errors), mean(errors), sorted(errors)[len(errors) * 19 // 20]
