"""Messages as lines, what a line tells of a name, and lines in pieces.

A line that says fewer than three words besides a name hardly tells it. A long line counts in pieces
around its names. Neighbours: `names` finds names, `choice` chooses among lines, `gist` makes a text
of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from refold.strategies.gist.memo import Memo
from refold.strategies.gist.names import names_of

PIECE_CHARS = 160
LINE_CHARS_READ = 4_000
BARE = 0.1  # worth of a line that says fewer than three words besides the name
GAP_CHARS = 3

_WORD = re.compile(r"[A-Za-z]{3,}")

Pieces = list[
    tuple[int, int]
]  # parts of a line that are kept: start and end, in order, not touching


class Passage(Struct, gc=False):
    """A message as the gist sees it: its lines without blank ones, and the names on each."""

    seq: int
    role: str
    lines: list[str]
    names: list[tuple[str, ...]]


def passage(seq: int, role: str, text: str) -> Passage:
    lines = list(filter(None, map(str.strip, text.splitlines())))
    return Passage(seq, role, lines, [names_of(line[:LINE_CHARS_READ]) for line in lines])


# --- what a text tells ---


def tells(text: str, words: int, name: str) -> bool:
    """Whether a text says at least three words besides the name; `words` is how many it has in
    all."""
    own = words_in(name)
    if words - own < 3:
        return False
    times = text.count(name)
    if times == 1 or (times < 3 and words - 2 * own >= 3):
        return True
    return count_words(text.replace(name, " ")) >= 3


def count_words(text: str) -> int:
    return len(_WORD.findall(text))


# The same lines are weighed at every fold, so each is counted once.
words_in = Memo(count_words).__getitem__


class Shown(Struct):
    """What the rest of the page tells already: lines verbatim, the names on them, and those that
    a line tells well."""

    lines: set[str] = set()
    names: set[str] = set()
    well: set[str] = set()

    def add(self, given: Passage) -> None:
        """All of this message is on the page."""
        self.lines.update(given.lines)
        self.names.update(*given.names)
        for line, names in zip(given.lines, given.names):
            if not self.well.issuperset(names):
                words = words_in(line[:LINE_CHARS_READ])
                self.well.update([name for name in names if tells(line, words, name)])

    def join(self, other: Shown) -> None:
        """All that the other tells is on the page too."""
        self.lines |= other.lines
        self.names |= other.names
        self.well |= other.well

    def told(self) -> dict[str, float]:
        """How well each name is told."""
        return dict.fromkeys(self.names, BARE) | dict.fromkeys(self.well, 1.0)


# --- pieces ---


def windows(line: str, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """The pieces of a long line: for each name the characters around its first place; names may
    share one."""
    found: dict[tuple[int, int], list[str]] = {}
    last = len(line) - PIECE_CHARS
    for name in names:
        start = max(0, min(line.find(name) + len(name) // 2 - PIECE_CHARS // 2, last))
        found.setdefault((start, start + PIECE_CHARS), []).append(name)
    return found


def merged(pieces: Pieces, start: int, end: int) -> Pieces:
    """The pieces with one more; those that touch become one."""
    out: Pieces = []
    for a, b in sorted([*pieces, (start, end)]):
        if out and a <= out[-1][1] + GAP_CHARS:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


def cut(line: str, pieces: Pieces) -> str:
    """The kept parts of a line, widened to whole words, with … where something is left out."""
    if pieces[0][0] == 0 and pieces[0][1] >= len(line):
        return line
    parts = []
    for start, end in pieces:
        start = (
            max(line.rfind(" ", max(0, start - 12), start) + 1, start - 12 if start > 12 else 0)
            if start
            else 0
        )
        stop = line.find(" ", end, end + 12)
        end = stop if stop >= 0 else min(len(line), end)
        parts.append(("… " if start else "") + line[start:end])
    return " ".join(parts) + (" …" if pieces[-1][1] < len(line) else "")
