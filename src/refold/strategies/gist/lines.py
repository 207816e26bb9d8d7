"""Messages as lines, what a line tells of a name, and lines in pieces.

A line that says fewer than three words besides a name hardly tells it. A long line counts in pieces
around its names. Neighbours: `names` finds names, `choice` chooses among lines, `gist` makes a text
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from refold.core.model import Role
from refold.display import without_colors
from refold.strategies.gist.names import names_of

PIECE_CHARS = 160
LINE_CHARS_READ = 32_000  # as long as a result may be that stays on the page
BARE = 0.1  # worth of a line that says fewer than three words besides the name
GAP_CHARS = 3
WIDEN_CHARS = 12  # how far a piece may grow to end at a whole word
TEXTS_REMEMBERED = 20_000

_WORD = re.compile(r"[A-Za-z]{3,}")

# The parts of a line that are kept: start and end, in order, not touching.
Pieces = list[tuple[int, int]]


class Passage(Struct, gc=False):
    """A message as the gist sees it: its lines without blank ones, the names on each, and the
    numbers of those that a person typed."""

    seq: int
    role: Role
    lines: list[str]
    names: list[tuple[str, ...]]
    typed: Sequence[int] = ()
    source: str = ""  # of a result: the file or command that it is of


def passage(seq: int, role: Role, text: str) -> Passage:
    """A message by its text, without the colours of a terminal: they cost a model tokens, and tell
    it nothing."""
    lines = list(filter(None, map(str.strip, without_colors(text).splitlines())))
    names = [names_of(line[:LINE_CHARS_READ]) for line in lines]
    return Passage(seq, role, lines, names)


def names_on(passages: Iterable[Passage], lines: Mapping[int, Iterable[int]]) -> set[str]:
    """The names on some lines, which are given by the seq of their message and their numbers."""
    names = set[str]()
    for one in passages:
        for at in lines.get(one.seq, ()):
            names.update(one.names[at])
    return names


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


@lru_cache(maxsize=TEXTS_REMEMBERED)  # the same lines are weighed at every fold
def words_in(text: str) -> int:
    """How many words a text has, remembered."""
    return count_words(text)


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
        well = self.well
        for line, names in zip(given.lines, given.names):
            if not well.issuperset(names):
                words = words_in(line[:LINE_CHARS_READ])
                well.update([name for name in names if tells(line, words, name)])

    def told(self) -> dict[str, float]:
        """How well each name is told."""
        return dict.fromkeys(self.names, BARE) | dict.fromkeys(self.well, 1.0)


def joined(parts: Iterable[Shown]) -> Shown:
    """What all of these tell together."""
    together = Shown()
    for one in parts:
        together.lines |= one.lines
        together.names |= one.names
        together.well |= one.well
    return together


# --- pieces ---


def windows(line: str, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """The pieces of a long line: for each name the characters around its first place; names may
    share one."""
    found: dict[tuple[int, int], list[str]] = {}
    last = len(line) - PIECE_CHARS
    for name in names:
        middle = line.find(name) + len(name) // 2
        start = max(0, min(middle - PIECE_CHARS // 2, last))
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
    parts = [_widened(line, start, end) for start, end in pieces if start < len(line)]
    if pieces[-1][1] < len(line):
        parts.append("…")
    return " ".join(parts)


def _widened(line: str, start: int, end: int) -> str:
    """A part of a line, widened to whole words, with … in front if something is left out there."""
    start = _word_start(line, start)
    part = line[start : _word_end(line, end)]
    return f"… {part}" if start else part


def _word_start(line: str, start: int) -> int:
    """The start of the word at this place, or as far before it as a piece may grow."""
    furthest = max(0, start - WIDEN_CHARS)
    return max(line.rfind(" ", furthest, start) + 1, furthest)


def _word_end(line: str, end: int) -> int:
    """The end of the word at this place, unless it is too far away."""
    space = line.find(" ", end, end + WIDEN_CHARS)
    return space if space >= 0 else min(len(line), end)
