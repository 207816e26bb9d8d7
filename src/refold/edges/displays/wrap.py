"""Lines broken between words for a terminal: whole texts, streams and styled texts; and the display
width of texts.

A word is broken only if it alone is wider than the line. Between Chinese and Japanese characters a
line may break, but no line begins with a closing mark. Further lines are indented like the text of
the first, after its list mark. Only spaces at a break are dropped. In a stream the last word waits
for its end, and code between fences is left to the terminal, so that it can be copied. Wide
characters and emoji take two columns, combining ones none. Neighbours: `edges.cli.screen` breaks
every line, `edges.chat` prints streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refold.display import one_line, visible
from refold.patterns import regex

# On a narrower screen, breaking gains nothing.
COLUMNS_MIN = 8
TAB_COLUMNS = 4
_WORD = regex(r"\S+")
_HANG = regex(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+(?=\S))?")
_CLOSING = frozenset(
    "、。，．：；！？）］｝〉》」』】〕〗’”…‥ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
_OPENING = frozenset("（［｛〈《「『【〔〖‘“")
_IDEOGRAPHS = regex(r"[\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\uff60\U00020000-\U0003ffff]")
_FLAGS = regex(r"[\U0001f1e6-\U0001f1ff]+\Z")


class Cut(NamedTuple):
    """One line of a longer text: its start and end. It `is_inside` a word if it ends there."""

    start: int
    end: int
    is_inside: bool = False


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of the text, none wider than the columns."""
    lines: list[str] = []
    for line in text.expandtabs(TAB_COLUMNS).split("\n"):
        hang = hang_of(line, columns)
        for number, one in enumerate(cuts(line, columns, hang)):
            lines.append(" " * (hang if number else 0) + line[one.start : one.end])
    return lines


def hang_of(line: str, columns: int) -> int:
    """The indent of continuation lines: at most half of the screen."""
    found = _HANG.match(line)
    return min(width(found[0]) if found else 0, columns // 2)


def cuts(line: str, columns: int, hang: int) -> list[Cut]:
    """The breaks of one line, so that no part of it is too wide."""
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
    # Not by its width: only the beginning of an endless word is measured.
    return len(start(text, columns)) == len(text)


def _indent_left_out(line: str, columns: int) -> int:
    """The number of spaces to drop from an indent wider than half of the screen."""
    indent = len(line) - len(line.lstrip())
    return max(0, indent - columns // 2)


def chunks(line: str) -> Iterator[tuple[int, int]]:
    """The pieces of a line that stay together if they fit."""
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
    """The number of characters of a long word that fit into a line, without separating marks or
    flags."""
    size = len(start(text, columns))
    at = size
    while 0 < at < len(text) and width(text[at]) == 0:
        at -= 1
    flags = _FLAGS.search(text[:at])
    if flags and len(flags[0]) % 2 and _FLAGS.match(text[at : at + 1]):
        at -= 1
    return at if at > 0 else max(1, size)


_FENCE = regex(r"\s*(```|~~~)")


class Flow:
    """A text that comes in pieces. `feed` returns the text to print now, `end` the rest."""

    def __init__(self) -> None:
        self._line = ""  # from its beginning on the screen, printed or not
        self._printed = 0  # characters of it on the screen
        self._hang: int | None = None  # the indent of the line that it continues
        self._columns = 0
        self._is_code = False

    def feed(self, text: str, columns: int) -> str:
        """The text that can be printed now, on a screen of this width."""
        if columns != self._columns:
            # The terminal has moved the printed part; the rest starts a new line.
            self._line, self._printed = self._line[self._printed :], 0
            self._columns = columns
        *whole, rest = (self._line + text).expandtabs(TAB_COLUMNS).split("\n")
        printed = [f"{self._ended(line)}\n" for line in whole]
        return "".join(printed) + self._begun(rest)

    def end(self) -> str:
        """The rest of the text."""
        text = self._ended(self._line)
        self._is_code = False
        return text

    def _ended(self, line: str) -> str:
        """The rest of a complete line."""
        text = self._broken(line)
        text += self._line[self._printed :].rstrip()
        if _FENCE.match(line) and self._hang is None:
            self._is_code = not self._is_code
        self._line, self._printed, self._hang = "", 0, None
        return text

    def _begun(self, line: str) -> str:
        """The printable part of a line that is still coming."""
        text = self._broken(line)
        settled = max(self._printed, self._settled())
        text += self._line[self._printed : settled]
        self._printed = settled
        return text

    def _settled(self) -> int:
        """The end of the part that can be printed whatever comes: a fence is complete by its marks,
        a word by its end."""
        line = self._line
        if self._is_code:
            return len(line)
        words = list(chunks(line))
        if line[-1:].isspace() or not words:
            return len(line.rstrip())
        return len(line[: words[-1][0]].rstrip())

    def _broken(self, line: str) -> str:
        """The full lines; the remainder is the current line."""
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
    """The text between two lines. Inside a word it is empty where the terminal wraps automatically,
    so that the word can be copied."""
    return "" if one.is_inside and not hang else "\n" + " " * hang


ELLIPSIS = "..."


def harmless(text: str) -> str:
    """Foreign text as a part of one line, in the form that a screen shows: only that can be
    measured."""
    return visible(one_line(text))


def width(text: str) -> int:
    """The columns of the text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fitted(text: str, columns: int, mark: str = ELLIPSIS) -> str:
    """The text in at most `columns`; a shortened one ends with the mark."""
    if width(text) <= columns:
        return text
    room = columns - width(mark)
    if room <= 0:
        return mark[: max(0, columns)]
    return start(text, room) + mark


def start(text: str, columns: int) -> str:
    """The longest beginning of at most this width."""
    if text.isascii():
        return text[:columns]
    low, high = 0, min(len(text), 2 * columns + 64)
    while low < high:
        middle = (low + high + 1) // 2
        if width(text[:middle]) <= columns:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text with spaces up to this width."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


Styled = tuple[str, str]  # a style, possibly empty, and a text


def lines_of(parts: Sequence[str | Styled]) -> list[list[Styled]]:
    """The lines of these texts; a text may have line ends in it."""
    lines: list[list[Styled]] = [[]]
    for part in parts:
        style, text = part if isinstance(part, tuple) else ("", part)
        first, *others = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    return lines


def broken(line: Sequence[Styled], columns: int, hang: int | None = None) -> Iterator[Styled]:
    """The texts of a line, with the text between two lines of the screen. `hang` is the indent of
    further lines, if not the usual one; a narrow screen ignores it."""
    parts = [(style, text.expandtabs(TAB_COLUMNS)) for style, text in line]
    whole = "".join(text for _, text in parts)
    if hang is None or hang > columns // 2:
        hang = hang_of(whole, columns)
    *full, last = cuts(whole, columns, hang)
    for one in full:
        yield from _between(parts, one.start, one.end)
        yield "", parted(one, hang)
    yield from _between(parts, last.start, last.end)


def _between(parts: Sequence[Styled], start: int, end: int) -> Iterator[Styled]:
    """The texts from one position of a line to another."""
    at = 0
    for style, text in parts:
        shown = text[max(0, start - at) : max(0, end - at)]
        if shown:
            yield style, shown
        at += len(text)
