"""How near the estimate comes to exact counts, how fast both are, and the packages that count
exactly.

Conversations of one kind of text each are led through a real `Context` that counts by the estimate.
There is a request every second message, and its true size is reported. From the sixth on, the size
that was expected is compared with the report: that is what thresholds see. Once more without any
report after the fifth: what was learnt, alone. Sizes right after a compaction stand in a table of
their own (`token_compactions`). Packages are measured if they can be imported, each
in a process of its own (`token_packages`).

    python -m bench tokens [--data FOLDER]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import refold
from bench import token_compactions, token_packages
from bench.tables import Table, verdict
from bench.token_texts import Conversations, texts
from refold.tokens.counter import MESSAGE_TOKENS, Counter, counter_for

MODEL, WINDOW = "gpt-4o", 100_000_000
CONFIG = {"auto": False, "offload_tokens": WINDOW}
REPORTS, UNREPORTED = 5, 30
ERROR_MAX = 5.0
ANSWER_TOKENS = MESSAGE_TOKENS + 1  # "ok"
REPEATS = 3


def run(folder: Path | None = None, *, quick: bool = False) -> list[Table] | str:
    exact = counter_for("exact", MODEL)
    if exact.note:
        return f"Skipped: {exact.note}"
    kinds, estimate = texts(folder, quick), counter_for("estimate", MODEL)
    after = token_compactions.table(kinds, estimate, exact)
    tables = [errors(kinds, estimate, exact), after, speed(kinds, estimate, exact)]
    return [
        *tables,
        token_packages.table(
            [text for talk in kinds["code"] for text in talk][: 40 if quick else 400]
        ),
    ]


# --- errors ---


def errors(kinds: dict[str, Conversations], estimate: Counter, exact: Counter) -> Table:
    table = Table(
        "Estimate against exact counts (o200k), per cent",
        [
            "text",
            "messages",
            "sum",
            "a message",
            "19 of 20",
            "request",
            "19 of 20 ",
            "worst",
            "no report",
            "goal",
            "met",
        ],
    )
    for kind, conversations in kinds.items():
        counted = [(estimate(text), exact(text)) for talk in conversations for text in talk]
        single = sorted(_error(guess, true) for guess, true in counted)
        long = [talk for talk in conversations if len(talk) >= UNREPORTED]
        request = sorted(error for talk in long for error in _led(talk, estimate, exact))
        silent = mean(
            _led(talk[:UNREPORTED], estimate, exact, reports_max=REPORTS)[-1] for talk in long
        )
        table.add(
            kind,
            len(counted),
            100 * (sum(guess for guess, _ in counted) / sum(true for _, true in counted) - 1),
            median(single),
            _most(single),
            mean(request),
            _most(request),
            request[-1],
            silent,
            f"≤ {ERROR_MAX:g}",
            verdict(max(_most(request), silent) <= ERROR_MAX),
        )
    table.note(
        "sum, a message: before calibration. request: the expected size of the sixth and later requests. no report: "
        f"the page after {UNREPORTED} messages, of which the first {2 * REPORTS} are covered by reports; the mean. "
        "The goal is for 19 of 20 requests and for the page without reports."
    )
    return table


def _led(
    talk: list[str], estimate: Counter, exact: Counter, reports_max: int = 1_000_000
) -> list[float]:
    """The error of every expected request after the fifth report."""
    found: list[float] = []
    true = reports = 0
    with refold.open(
        "talk", store="memory:", model=MODEL, window=WINDOW, counter=estimate, config=CONFIG
    ) as context:
        for number, text in enumerate(talk, 1):
            context.append({"role": "user", "content": text})
            true += exact(text) + MESSAGE_TOKENS
            if number % 2:
                continue
            if reports >= REPORTS:
                found.append(_error(context.stats().current, true))
            if reports < reports_max:
                reports += 1
                context.request()
                context.record(_reply(reports, true))
                true += ANSWER_TOKENS
    return found


def _reply(number: int, tokens: int) -> dict[str, object]:
    usage = {"prompt_tokens": tokens, "completion_tokens": ANSWER_TOKENS}
    message = {"role": "assistant", "content": "ok"}
    return {
        "id": f"reply-{number}",
        "object": "chat.completion",
        "model": MODEL,
        "usage": usage,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }


def _error(guess: float, true: float) -> float:
    return 100 * abs(guess / true - 1)


def _most(ordered: list[float]) -> float:
    return ordered[len(ordered) * 19 // 20]


# --- speed ---


def speed(kinds: dict[str, Conversations], estimate: Counter, exact: Counter) -> Table:
    table = Table(
        "Speed (CPU)",
        [
            "text",
            "bytes a message",
            "estimate MB/s",
            "µs a message",
            "exact MB/s",
            "µs a message ",
            "exact of estimate",
        ],
    )
    for kind, conversations in kinds.items():
        messages = [text for talk in conversations for text in talk]
        size = sum(len(text.encode("utf-8", "replace")) for text in messages)
        quick, slow = _seconds(estimate, messages), _seconds(exact, messages)
        table.add(
            kind,
            size // len(messages),
            size / quick / 1e6,
            quick / len(messages) * 1e6,
            size / slow / 1e6,
            slow / len(messages) * 1e6,
            slow / quick,
        )
    table.note(
        "Best of three passes over all messages; the exact counter remembers words that it has seen."
    )
    return table


def _seconds(count: Callable[[str], int], messages: list[str]) -> float:
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        for text in messages:
            count(text)
        taken.append(time.process_time() - started)
    return min(taken)
