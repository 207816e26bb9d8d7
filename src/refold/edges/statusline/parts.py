"""How a status line is put together. Content in it (names of models) is made harmless."""

from __future__ import annotations

from refold.display import visible
from refold.edges.displays.phrases import percent_of, short_number, tokens_of

WARN_PERCENT, COMPACT_PERCENT = 80, 90
YELLOW, RED, END = "\x1b[33m", "\x1b[31m", "\x1b[0m"
SEPARATOR = " | "
NAME_CHARS = 60


def context_part(used: int | None, window: int, *, short: bool) -> str:
    """`Context: 45% (58K/128K tokens)`, or `45%` for a short line."""
    if used is None:
        return "?" if short else f"Context: ? (of {short_number(window)} tokens)"
    return f"{percent_of(used, window)}%" if short else f"Context: {tokens_of(used, window)}"


def joined(parts: list[str], percent: int, *, color: bool) -> str:
    """The parts that are there, on one line; with colors, as urgent as the page is full."""
    text = visible(SEPARATOR.join(part for part in parts if part).replace("\n", " "))
    if not color or percent < WARN_PERCENT:
        return text
    return f"{RED if percent >= COMPACT_PERCENT else YELLOW}{text}{END}"


def name_part(name: str) -> str:
    """A name of others, on one line and not too long."""
    return " ".join(name.split())[:NAME_CHARS]


def cost_part(dollars: float | None) -> str:
    """`$0.51`; nothing where it is not known."""
    return "" if dollars is None else f"${dollars:.2f}"


def cache_part(read: int, whole: int) -> str:
    """`cache 92%`; nothing where nothing was read."""
    return f"cache {percent_of(read, whole)}%" if read and whole else ""


def urgent_part(percent: int, command: str) -> str:
    """What to do, once the page is getting full."""
    return f"{command} soon" if percent >= WARN_PERCENT else ""
