"""A line of small bars: how the size of the page went, with a mark under every compaction.

Positions are by `seq`, so a stretch in which nothing is known repeats what was known before.
"""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = "▁▂▃▄▅▆▇█"
MARK = "▲"


def sparkline(history: Sequence[tuple[int, int]], whole: int, columns: int) -> str:
    """The largest size in every column, against a whole (the window). Empty where fewer than two
    sizes are known."""
    if len(history) < 2 or columns < 2:
        return ""
    largest = _columns(history, columns)
    steps = (min(len(LEVELS) - 1, size * len(LEVELS) // max(1, whole)) for size in largest)
    return "".join(LEVELS[step] for step in steps)


def _columns(history: Sequence[tuple[int, int]], columns: int) -> list[int]:
    first, last = history[0][0], history[-1][0]
    found: dict[int, int] = {}
    for seq, tokens in history:
        column = column_of(seq, first, last, columns)
        found[column] = max(tokens, found.get(column, 0))
    sizes, latest = [], history[0][1]
    for column in range(columns):
        latest = found.get(column, latest)
        sizes.append(latest)
    return sizes


def column_of(seq: int, first: int, last: int, columns: int) -> int:
    """The column in which a seq lies."""
    return min(columns - 1, max(0, (seq - first) * columns // max(1, last - first + 1)))


def marks(seqs: Sequence[int], first: int, last: int, columns: int) -> str:
    """A mark in every column in which one of the seqs lies."""
    marked = {column_of(seq, first, last, columns) for seq in seqs}
    return "".join(MARK if column in marked else " " for column in range(columns)).rstrip()
