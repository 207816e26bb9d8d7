"""Lines made of styled texts, broken between words like plain ones.

Neighbours: `wrap` says where, `edges.cli.screen` turns styles into colors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refold.edges.displays.flow import parted
from refold.edges.displays.wrap import TAB_COLUMNS, cuts, hang_of

Styled = tuple[str, str]  # a style, which may be empty, and a text


def lines_of(parts: Sequence[str | Styled]) -> list[list[Styled]]:
    """The lines that the texts make together: a text may have line ends in it."""
    lines: list[list[Styled]] = [[]]
    for part in parts:
        style, text = part if isinstance(part, tuple) else ("", part)
        first, *others = text.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    return lines


def broken(line: Sequence[Styled], columns: int, hang: int | None = None) -> Iterator[Styled]:
    """The texts of a line, with what is printed between two lines of the screen. `hang` is where
    further lines begin, if not below the first; a narrow screen has no room for it."""
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
    """The texts from one place of a line to another."""
    at = 0
    for style, text in parts:
        shown = text[max(0, start - at) : max(0, end - at)]
        if shown:
            yield style, shown
        at += len(text)
