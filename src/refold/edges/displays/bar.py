"""The window as one bar: a cell for every share of it, each part in its color.

Cells are dealt out by largest remainder, so they always fill the bar, and a part that has anything
has at least one cell while there are enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.edges.displays.parts import WindowPart

Styled = tuple[str, str]

# By part: its style and its cell. Free and reserve look different also where colors do not.
LOOKS: dict[str, Styled] = {
    "system": ("magenta", "█"),
    "tools": ("blue", "█"),
    "memory": ("bright_cyan", "█"),
    "summaries": ("yellow", "█"),
    "user": ("green", "█"),
    "assistant": ("cyan", "█"),
    "outputs": ("red", "█"),
    "free": ("dim", "░"),
    "reserve": ("dim", "▒"),
}


def bar(parts: Sequence[WindowPart], cells: int) -> list[Styled]:
    """The bar, part by part."""
    shares = dealt([part.tokens for part in parts], cells)
    return [
        (LOOKS[part.name][0], LOOKS[part.name][1] * count)
        for part, count in zip(parts, shares, strict=True)
        if count
    ]


def dealt(sizes: Sequence[int], cells: int) -> list[int]:
    """So many cells, dealt out by size."""
    total = sum(sizes)
    if not total or cells <= 0:
        return [0] * len(sizes)
    exact = [size * cells / total for size in sizes]
    counts = [int(share) for share in exact]
    if sum(size > 0 for size in sizes) <= cells:
        counts = [max(count, 1) if size else 0 for count, size in zip(counts, sizes, strict=True)]
    return _filled(counts, exact, cells)


def _filled(counts: list[int], exact: list[float], cells: int) -> list[int]:
    """Cells that are left go to those that were rounded down most; one that was rounded up to be
    seen takes its cell from the largest."""
    order = sorted(range(len(counts)), key=lambda at: counts[at] - exact[at])
    for at in order[: max(0, cells - sum(counts))]:
        counts[at] += 1
    while sum(counts) > cells:
        counts[counts.index(max(counts))] -= 1
    return counts
