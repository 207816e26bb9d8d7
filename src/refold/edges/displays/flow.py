"""A text that comes in pieces, such as a reply, broken between words while it is printed.

The last word waits until its end is known. Code between fences is left to the terminal, so that it
can be copied as it is. Neighbours: `wrap` says where a line is broken, `edges.chat.shown` prints.
"""

from __future__ import annotations

import re

from refold.edges.displays.wrap import TAB_COLUMNS, Cut, chunks, cuts, hang_of

_FENCE = re.compile(r"\s*(```|~~~)")


class Flow:
    """One text. `feed` gives what is to be printed now, `end` what still waits."""

    def __init__(self) -> None:
        self._line = ""  # from its beginning on the screen
        self._printed = 0  # so much of it stands there
        self._hang: int | None = None  # that of the line which it continues
        self._columns = 0
        self._is_code = False

    def feed(self, text: str, columns: int) -> str:
        """What can be printed now that so much has come, on a screen of so many columns."""
        if columns != self._columns:
            # The terminal has moved what stands there; what waits goes on from a new beginning.
            self._line, self._printed = self._line[self._printed :], 0
            self._columns = columns
        *whole, rest = (self._line + text).expandtabs(TAB_COLUMNS).split("\n")
        printed = [f"{self._ended(line)}\n" for line in whole]
        return "".join(printed) + self._begun(rest)

    def end(self) -> str:
        """What still waits."""
        text = self._ended(self._line)
        self._is_code = False
        return text

    def _ended(self, line: str) -> str:
        """The rest of a line that is whole; the next one begins."""
        text = self._broken(line)
        text += self._line[self._printed :].rstrip()
        if _FENCE.match(line) and self._hang is None:
            self._is_code = not self._is_code
        self._line, self._printed, self._hang = "", 0, None
        return text

    def _begun(self, line: str) -> str:
        """What is settled of a line that is still coming."""
        text = self._broken(line)
        settled = max(self._printed, self._settled())
        text += self._line[self._printed : settled]
        self._printed = settled
        return text

    def _settled(self) -> int:
        """Up to where the line can be printed, whatever comes: a fence is known by its signs,
        and a word by its end."""
        line = self._line
        if self._is_code:
            return len(line)
        words = list(chunks(line))
        if line[-1:].isspace() or not words:
            return len(line.rstrip())
        return len(line[: words[-1][0]].rstrip())

    def _broken(self, line: str) -> str:
        """The lines that are full; what is left of them is the line that is being written."""
        hang = hang_of(line, self._columns) if self._hang is None else self._hang
        found = [Cut(0, len(line))] if self._is_code else cuts(line, self._columns, hang)
        text = ""
        for one in found[:-1]:
            text += line[max(one.start, self._printed) : one.end] + parted(one, hang)
            self._printed, self._hang = 0, hang
        last = found[-1]
        if len(found) == 1:
            self._line = line
        else:
            # The hanging indent is printed already.
            self._line, self._printed = " " * hang + line[last.start :], hang
        return text


def parted(one: Cut, hang: int) -> str:
    """What is printed between two lines. Inside of a word it is nothing where the terminal itself
    goes to the next line: then the word can be copied as it is."""
    return "" if one.is_inside and not hang else "\n" + " " * hang
