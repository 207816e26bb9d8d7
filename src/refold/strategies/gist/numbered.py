"""The lines of a span, numbered through all of its messages, and which line stood beside which.

Neighbour: `choice` speaks of lines by these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.strategies.gist.lines import Passage


class NumberedLines:
    """All lines of a span: their text, the names on them, and the message each belongs to."""

    def __init__(self, span: Sequence[Passage]) -> None:
        self.span = span
        self.lines: list[str] = []
        self.names: list[tuple[str, ...]] = []
        self.home: list[int] = []  # the message that a line belongs to
        self.first: list[int] = []  # the first line of a message
        # The line that stood beside a line: the next of its message, or the one before the last;
        # -1 if none.
        self.neighbour: list[int] = []
        for index, given in enumerate(span):
            self.first.append(len(self.lines))
            self.lines += given.lines
            self.names += given.names
            self.home += [index] * len(given.lines)
            last = len(self.lines) - 1
            self.neighbour += range(self.first[-1] + 1, last + 1)
            if given.lines:
                self.neighbour.append(last - 1 if len(given.lines) > 1 else -1)
        self.first.append(len(self.lines))

    def beside(self, at: int) -> list[int]:
        """The lines whose neighbour this line is: the one before it, and the last of the message
        if that is the next."""
        home = self.home[at]
        found = [at - 1] if at > self.first[home] else []
        if at + 2 == self.first[home + 1]:
            found.append(at + 1)
        return found

    def place(self, at: int) -> tuple[int, int]:
        """The seq of a line's message, and the number of the line in it."""
        home = self.home[at]
        return self.span[home].seq, at - self.first[home]
