"""What a text says to a reader: its escapes become the characters that they stand for, and what no
screen shows is left out.

A key in a file in a tool call is escaped once more on every level, and a terminal may colour the
middle of a token. So the rules are asked about this view as well, and what they find is mapped back
to its place. The cost is bounded: any number of levels is read at once, and only lines that hold an
escape are looked at again. Neighbour: `find` asks the rules.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from refold.display import INVISIBLE
from refold.redaction.secret import Found

# An escaped backslash may make a new escape; who needs more passes than this hides nothing.
PASSES_MAX = 4
# No rule reads over this: lines that are not neighbours are not one text.
_BREAK = "\n\0\n"
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_COLOUR = r"\[[0-9;:?]{0,40}+[ -/]{0,4}+[@-~]"


def _escapes(invisible: str, more: str) -> re.Pattern[str]:
    # One class of characters comes first, so that the search can jump to it; a run of backslashes
    # is looked at once, from its beginning.
    return re.compile(
        rf"[\\\x1b{invisible}]"
        rf"(?:(?<=\x1b){_COLOUR}"
        rf"|(?<=\\)(?<!\\\\)\\*+(?:(?:x1[bB]|0?33|e|u001[bB]){_COLOUR}"
        r"|u(?P<code>[0-9A-Fa-f]{4})|(?P<blank>[nrtbf])|(?P<sign>[\"'`/*\[\]<>&|]))"
        rf"{more})"
    )


_ASCII_ESCAPE = _escapes("", "")
_ESCAPE = _escapes(INVISIBLE, f"|(?<=[{INVISIBLE}])[{INVISIBLE}]*+")


class PlainView:
    """A text without its escapes. `text` is made of the literal parts of the source and of what
    the escapes between them stand for."""

    def __init__(self, source: str, lines: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []  # of the literal parts, in this view
        self._origins: list[int] = []  # of the same, in the source
        self._sizes: list[int] = []
        parts: list[str] = []
        size = 0
        for literal, origin, shown in _read(source, lines):
            self._starts.append(size)
            self._origins.append(origin)
            self._sizes.append(len(literal))
            parts += [literal, shown]
            size += len(literal) + len(shown)
        self.text = "".join(parts)

    def source(self, hit: Found) -> Found:
        """The same secret at its place in the source, with all of the escapes in it."""
        first, last = self._part(hit.start), self._part(hit.end - 1)
        start = self._origins[first] + min(hit.start - self._starts[first], self._sizes[first])
        behind = hit.end - self._starts[last]
        is_literal = behind <= self._sizes[last]
        end = self._origins[last] + behind if is_literal else self._origins[last + 1]
        return Found(hit.kind, start, end, hit.sure)

    def _part(self, place: int) -> int:
        """The literal part in which a place of this view lies, or behind which."""
        return bisect_right(self._starts, place) - 1


def plain_views(text: str) -> list[PlainView]:
    """The views that lead to a text without escapes, each of the one before; none if the text has
    no escapes."""
    views: list[PlainView] = []
    while len(views) < PASSES_MAX:
        lines = list(_lines_with_escapes(text))
        if not lines:
            break
        views.append(PlainView(text, lines))
        text = views[-1].text
    return views


def _lines_with_escapes(text: str) -> Iterator[tuple[int, int]]:
    """Where lines that hold an escape start and end, neighbours as one."""
    if text.isascii() and "\\" not in text and "\x1b" not in text:
        return
    search = _pattern(text).search
    start, end = 0, -1
    match = search(text)
    while match:
        first = text.rfind("\n", 0, match.start()) + 1
        if first > end:
            if end >= 0:
                yield start, end
            start = first
        end = text.find("\n", match.end()) + 1 or len(text)
        match = search(text, end)
    if end >= 0:
        yield start, end


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_ESCAPE if text.isascii() else _ESCAPE


def _read(source: str, lines: list[tuple[int, int]]) -> Iterator[tuple[str, int, str]]:
    """The literal parts of these lines: each with its place, and with what the escape after it
    stands for."""
    pattern = _pattern(source)
    for start, end in lines:
        at = start
        for match in pattern.finditer(source, start, end):
            yield source[at : match.start()], at, _shown(match)
            at = match.end()
        yield source[at:end], at, _BREAK
    yield "", len(source), ""


def _shown(match: re.Match[str]) -> str:
    """What an escape stands for: at most one character."""
    if match["blank"]:
        return _BLANKS[match["blank"]]
    if match["code"]:
        return chr(int(match["code"], 16))
    return match["sign"] or ""
