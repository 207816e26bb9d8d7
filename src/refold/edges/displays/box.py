"""A box in plain characters, 50 columns wide: how much of a conversation is on the page, and what a
compaction saved.

Every row has the width of the border, whatever its text: it is padded by display width, and cut if
it is too long. Percentages in a box are rounded.
"""

from __future__ import annotations

from collections.abc import Iterable

from refold.edges.displays.width import fitted, padded

COLUMNS = 50
USAGE_CELLS, COMPACTION_CELLS = 20, 15
NAME_COLUMNS = 21


def boxed(title: str, rows: Iterable[str], columns: int = COLUMNS) -> list[str]:
    """A title and rows between borders."""
    border = f"+{'-' * (columns - 2)}+"
    inside = [_row(row, columns) for row in rows]
    return [border, _row(title, columns), border, *inside, border]


def _row(text: str, columns: int) -> str:
    # Two borders and the space after the first: what is left is for the text.
    room = columns - 3
    return f"| {padded(fitted(text, room), room)}|"


def bar(share: float, cells: int) -> str:
    """`[#####...............]`."""
    filled = round(min(1.0, max(0.0, share)) * cells)
    return f"[{'#' * filled}{'.' * (cells - filled)}]"


def rounded(share: float) -> int:
    """A share in whole percent, the nearest; a half goes up."""
    return int(share * 100 + 0.5)


def usage_box(active: int, total: int, summaries: int, columns: int = COLUMNS) -> list[str]:
    """How many of the messages are on the page; narrower only where the screen is."""
    # Two borders with a space, the name, the ends of the bar, the percentage.
    cells = max(1, min(USAGE_CELLS, columns - 3 - 7 - 2 - 5))
    share = active / total if total else 1.0
    status = "Compressed" if active < total else "Uncompressed"
    rows = (
        _number("Active Messages", active),
        _number("Total Messages", total),
        _number("Summaries", summaries),
        "",
        f"Usage  {bar(share, cells)} {rounded(share):>3}%",
        "",
        f"Status: {status}",
    )
    return boxed("Context Usage Statistics", rows, min(COLUMNS, columns))


def compaction_box(active: int, total: int, summaries: int, columns: int = COLUMNS) -> list[str]:
    """What compactions made of all messages."""
    # Two borders with a space, a name with its number, two spaces and the ends of the bar.
    cells = max(1, min(COMPACTION_CELLS, columns - 3 - (NAME_COLUMNS + 2) - 4))
    share = active / total if total else 1.0
    rows = (
        f"{_number('Active', active)}  {bar(share, cells)}",
        f"{_number('Total', total)}  {bar(1.0 if total else 0.0, cells)}",
        _number("Summaries", summaries),
        "",
        # Not rounded on its own: what is saved and what is left are 100 %.
        f"Saved: {100 - rounded(share)}%",
    )
    return boxed("Compaction Complete", rows, min(COLUMNS, columns))


def _number(name: str, count: int) -> str:
    return f"{name:<{NAME_COLUMNS - 1}}{count:>3}"
