"""What a person types, line by line: on a plain terminal, or from a pipe.

A line that ends with a backslash goes on in the next one; text between two lines of three quotes
is one request. Neighbours: `prompt` is the same with history and completion, `loop` reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TextIO

QUOTES = '"""'
PROMPT, MORE = "> ", ". "
LINES_MAX = 10_000


class Lines(Protocol):
    """Where requests come from. `can_ask` says whether somebody sits there, `shows_status`
    whether the numbers stand beside the line."""

    can_ask: bool
    shows_status: bool

    def read(self, status: str) -> str | None:
        """The next request, which may have several lines; None at the end of the input."""
        ...

    def ask(self, question: str) -> str:
        """The answer to a question; empty where there is none."""
        ...


class PlainLines:
    """Lines of standard input."""

    shows_status = False

    def __init__(self, stdin: TextIO, *, is_terminal: bool) -> None:
        self._stdin, self.can_ask = stdin, is_terminal
        if is_terminal:
            import readline  # noqa: F401 - gives `input` its history and its keys

    def read(self, status: str) -> str | None:
        return joined(lambda is_first: self._line(PROMPT if is_first else MORE))

    def ask(self, question: str) -> str:
        answer = self._line(f"{question} ") if self.can_ask else None
        return (answer or "").strip()

    def _line(self, prompt: str) -> str | None:
        if self.can_ask:
            try:
                return input(prompt)
            except EOFError:
                return None
        line = self._stdin.readline()
        return line.rstrip("\n") if line else None


def joined(next_line: Callable[[bool], str | None]) -> str | None:
    """One request of as many lines as it has."""
    line = next_line(True)
    if line is None:
        return None
    if line.strip() == QUOTES:
        return _until_quotes(next_line)
    lines = [line]
    while lines[-1].endswith("\\") and len(lines) < LINES_MAX:
        lines[-1] = lines[-1][:-1]
        lines.append(next_line(False) or "")
    return "\n".join(lines)


def _until_quotes(next_line: Callable[[bool], str | None]) -> str:
    lines: list[str] = []
    while len(lines) < LINES_MAX:
        line = next_line(False)
        if line is None or line.strip() == QUOTES:
            break
        lines.append(line)
    return "\n".join(lines)
