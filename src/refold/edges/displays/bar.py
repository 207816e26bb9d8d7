"""The window as one bar: a cell for every share of it, each part in its color; without colors, each
with a letter of its own.

Cells are dealt out by largest remainder, so they always fill the bar. The page ends where its size
says, unless it has fewer cells than parts; a part that has anything has at least one cell while
there are enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from refold.edges.displays.parts import WindowPart
from refold.edges.displays.styled import Styled


class Look(Struct, frozen=True):
    """How a part is drawn: its style, its cell in that color, and its cell without colors."""

    style: str
    cell: str
    letter: str

    def sign(self, *, colors: bool) -> Styled:
        """One cell of it."""
        return self.style, self.cell if colors else self.letter


# Free and reserve look different also where colors do not.
LOOKS = {
    "system": Look("magenta", "█", "S"),
    "tools": Look("blue", "█", "T"),
    "memory": Look("bright_cyan", "█", "M"),
    "summaries": Look("yellow", "█", "Z"),
    "user": Look("green", "█", "U"),
    "assistant": Look("cyan", "█", "A"),
    "outputs": Look("red", "█", "O"),
    "free": Look("dim", "░", "░"),
    "reserve": Look("dim", "▒", "▒"),
}


LEFT = ("free", "reserve")


def bar(parts: Sequence[WindowPart], cells: int, *, colors: bool = True) -> list[Styled]:
    """The bar, part by part."""
    drawn: list[Styled] = []
    for part, count in zip(parts, _counts(parts, cells), strict=True):
        style, cell = LOOKS[part.name].sign(colors=colors)
        drawn.append((style, cell * count))
    return [one for one in drawn if one[1]]


def _counts(parts: Sequence[WindowPart], cells: int) -> list[int]:
    """The cells of each part. First how far the page reaches, which is held against marks below
    the bar; then what fills it, however small, within that."""
    taken = [part.tokens for part in parts if part.name not in LEFT]
    rest = [part.tokens for part in parts if part.name in LEFT]
    reach = shares([sum(taken), *rest], cells)[0]
    # Only a page of fewer cells than parts reaches further than its size.
    reach = min(cells, max(reach, sum(size > 0 for size in taken)))
    inside, outside = iter(dealt(taken, reach)), iter(dealt(rest, cells - reach))
    return [next(outside if part.name in LEFT else inside) for part in parts]


def dealt(sizes: Sequence[int], cells: int) -> list[int]:
    """So many cells, dealt out by size. One that would have none takes its cell from the
    largest."""
    counts = shares(sizes, cells)
    if sum(size > 0 for size in sizes) <= cells:
        counts = [max(count, 1) if size else 0 for count, size in zip(counts, sizes, strict=True)]
    while sum(counts) > max(0, cells):
        counts[counts.index(max(counts))] -= 1
    return counts


def shares(sizes: Sequence[int], whole: int) -> list[int]:
    """A whole number, divided by size, so that the parts sum to it: what is left goes to those
    that lost most by cutting."""
    total = sum(sizes)
    if not total or whole <= 0:
        return [0] * len(sizes)
    counts = [size * whole // total for size in sizes]
    order = sorted(range(len(sizes)), key=lambda at: -(sizes[at] * whole % total))
    for at in order[: whole - sum(counts)]:
        counts[at] += 1
    return counts
