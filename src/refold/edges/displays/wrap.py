"""Lines that are too long for a terminal, broken between words.

A word is broken only where it alone is wider than the line. Between Chinese and Japanese characters
a line may be broken, as readers of them expect, but no line begins with a closing mark. Further
lines stand below the text of the first: below its indent, and after the sign of a list. Of the
text, only spaces where it is broken are left out. Neighbours: `width` measures; `flow` breaks
a text while it comes, `edges.cli.screen` every line that a terminal gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from refold.edges.displays.width import start, width

# On a screen narrower than that, nothing is gained.
COLUMNS_MIN = 8
TAB_COLUMNS = 4
_WORD = re.compile(r"\S+")
_HANG = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+(?=\S))?")
_CLOSING = frozenset(
    "、。，．：；！？）］｝〉》」』】〕〗’”…‥ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
_OPENING = frozenset("（［｛〈《「『【〔〖‘“")
_IDEOGRAPHS = re.compile(
    r"[\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\uff60\U00020000-\U0003ffff]"
)
_FLAGS = re.compile(r"[\U0001f1e6-\U0001f1ff]+\Z")


class Cut(NamedTuple):
    """One line of a longer text: where it starts and ends. It `is_inside` a word if it ends
    there."""

    start: int
    end: int
    is_inside: bool = False


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a text, none wider than so many columns."""
    lines: list[str] = []
    for line in text.expandtabs(TAB_COLUMNS).split("\n"):
        hang = hang_of(line, columns)
        for number, one in enumerate(cuts(line, columns, hang)):
            lines.append(" " * (hang if number else 0) + line[one.start : one.end])
    return lines


def hang_of(line: str, columns: int) -> int:
    """How far the further lines of a line are indented: never more than half of the screen."""
    found = _HANG.match(line)
    return min(width(found[0]) if found else 0, columns // 2)


def cuts(line: str, columns: int, hang: int) -> list[Cut]:
    """Where one line is broken, so that no part of it is too wide."""
    if columns < COLUMNS_MIN or width(line) <= columns:
        return [Cut(0, len(line))]
    return list(_cuts(line, columns, hang))


def _cuts(line: str, columns: int, hang: int) -> Iterator[Cut]:
    first = end = _indent_left_out(line, columns)
    room = columns
    for begin, last in chunks(line):
        if _fits(line[first:last], room):
            end = last
            continue
        if line[first:end].strip():
            yield Cut(first, end)
            first, room = begin, columns - hang
        while not _fits(line[first:last], room):
            end = first + _whole_characters(line[first:last], room)
            yield Cut(first, end, is_inside=True)
            first, room = end, columns - hang
        end = last
    yield Cut(first, end)


def _fits(text: str, columns: int) -> bool:
    # Not by its width: of a word without end, only the beginning is looked at.
    return len(start(text, columns)) == len(text)


def _indent_left_out(line: str, columns: int) -> int:
    """How many spaces of an indent are left out that is wider than half of the screen."""
    indent = len(line) - len(line.lstrip())
    return max(0, indent - columns // 2)


def chunks(line: str) -> Iterator[tuple[int, int]]:
    """What is not broken if it fits into a line."""
    for word in _WORD.finditer(line):
        begin = word.start()
        if not word[0].isascii():
            for at in range(begin + 1, word.end()):
                if _may_part(line[at - 1], line[at]):
                    yield begin, at
                    begin = at
        yield begin, word.end()


def _may_part(before: str, after: str) -> bool:
    """Whether a line may end between two characters of a word."""
    if not (_IDEOGRAPHS.match(before) or _IDEOGRAPHS.match(after)):
        return False
    return before not in _OPENING and after not in _CLOSING and width(after) > 0


def _whole_characters(text: str, columns: int) -> int:
    """How many characters of a long word go into a line, none parted from its marks, and no flag
    in two."""
    size = len(start(text, columns))
    at = size
    while 0 < at < len(text) and width(text[at]) == 0:
        at -= 1
    flags = _FLAGS.search(text[:at])
    if flags and len(flags[0]) % 2 and _FLAGS.match(text[at : at + 1]):
        at -= 1
    return at if at > 0 else max(1, size)
