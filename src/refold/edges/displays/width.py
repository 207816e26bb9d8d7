"""How many columns a text takes on a terminal: two for wide characters and emoji, none for
combining ones. A row that is measured so has its border in the right place."""

from __future__ import annotations

from refold.display import one_line, visible

ELLIPSIS = "..."


def harmless(text: str) -> str:
    """A text of others as a part of one line, as a screen shows it: only so can it be measured."""
    return visible(one_line(text))


def width(text: str) -> int:
    """The columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fitted(text: str, columns: int, mark: str = ELLIPSIS) -> str:
    """The text in at most so many columns; a shortened one ends with the mark."""
    if width(text) <= columns:
        return text
    room = columns - width(mark)
    if room <= 0:
        return mark[: max(0, columns)]
    return start(text, room) + mark


def start(text: str, columns: int) -> str:
    """The longest beginning that takes at most so many columns."""
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
    """The text with spaces up to so many columns."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space
