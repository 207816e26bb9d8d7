"""A coding session made up by a seed: the same messages on every machine, as long as you like.

A turn is an assistant's words with one tool call, then its result. Results are lognormal around 4
KB, one in a hundred has 200 KB. The text is of the kinds that agents read (listings, logs, source,
test output), with a stock of files and identifiers that come up again, so that a compaction has
something to choose from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import log
from typing import Any

SEED = 11
RESULT_CHARS, RESULT_SPREAD = 4_096, 0.9
RESULT_CHARS_MIN, RESULT_CHARS_MAX = 80, 60_000
LARGE_CHARS, LARGE_SHARE = 200_000, 0.01
LINES = 30_000

_NOUNS = [
    "invoice", "ledger", "session", "parser", "cursor", "window", "socket", "worker", "buffer", "schema", "tenant",
    "quota", "index", "cache", "route",
]  # fmt: skip
_VERBS = [
    "load", "store", "merge", "split", "check", "build", "parse", "close", "retry", "flush", "scan", "bind", "encode",
    "verify", "rotate",
]  # fmt: skip
_PLAIN = (
    "the value that comes back here is not what callers expect because an older release kept it in seconds and "
    "nobody changed the default when the second pool was added so tests pass alone but fail together"
)
_TOOLS = ("bash", "read_file", "grep", "edit_file")

Call = dict[str, Any]
Turn = tuple[Call, str, str]  # the assistant's message, the id of its call, the result's text


class Workload:
    """An endless session. Turn i is the same whatever is asked for before."""

    def __init__(self, seed: int = SEED, result_chars: int | None = None) -> None:
        self.random, self.result_chars = random.Random(seed), result_chars
        self.files = [f"src/{noun}/{verb}_{noun}.py" for noun in _NOUNS for verb in _VERBS]
        self.words = _PLAIN.split()
        self.lines = [self._line() for _ in range(LINES)]
        self.turns = 0

    def opening(self) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": "You are a careful engineer.\n" + self.text(6_000)},
            {
                "role": "user",
                "content": "Make the failing suite pass and say what was wrong.\n" + self.text(600),
            },
        ]

    def turn(self) -> Turn:
        self.turns += 1
        id, pick = f"call_{self.turns:07d}", self.random
        arguments = {"path": pick.choice(self.files), "command": self.text(pick.randint(20, 160))}
        call = {"id": id, "name": pick.choice(_TOOLS), "arguments": arguments}
        words = self.text(pick.randint(60, 400))
        return (
            {"role": "assistant", "content": words, "tool_calls": [call]},
            id,
            self.text(self._size()),
        )

    def take(self, turns: int) -> Iterator[Turn]:
        for _ in range(turns):
            yield self.turn()

    def text(self, characters: int) -> str:
        """Neighbouring lines from anywhere, cut to this length."""
        parts: list[str] = []
        size = 0
        while size < characters:
            start = self.random.randrange(LINES - 12)
            part = "\n".join(self.lines[start : start + self.random.randint(3, 12)])
            parts.append(part)
            size += len(part) + 1
        return "\n".join(parts)[:characters]

    def _size(self) -> int:
        if self.result_chars is not None:
            return self.result_chars
        if self.random.random() < LARGE_SHARE:
            return LARGE_CHARS
        size = int(self.random.lognormvariate(log(RESULT_CHARS), RESULT_SPREAD))
        return max(RESULT_CHARS_MIN, min(RESULT_CHARS_MAX, size))

    def _line(self) -> str:
        pick = self.random
        noun, verb, path = pick.choice(_NOUNS), pick.choice(_VERBS), pick.choice(self.files)
        words, number = " ".join(pick.sample(self.words, pick.randint(4, 9))), pick.randint(1, 900)
        match pick.randrange(5):
            case 0:
                return f"{path}:{number}: {words}"
            case 1:
                return f"    {noun} = {verb}_{noun}_{number}({pick.choice(_NOUNS)}, limit={number * 7})  # {words}"
            case 2:
                level, hour = pick.choice(("INFO", "WARN", "ERROR")), pick.randint(0, 23)
                return f"2025-03-{number % 28 + 1:02d} {hour:02d}:{number % 60:02d} {level} {noun}-{number} {words}"
            case 3:
                outcome = pick.choice(("PASSED", "FAILED"))
                return f"tests/test_{noun}.py::test_{verb}_{noun}_{number} {outcome} {words[:30]}"
            case _:
                return words.capitalize() + "."
