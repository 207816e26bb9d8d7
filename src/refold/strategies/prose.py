"""Prose by a writer: how it is carried on, how it is cut, and how much of a page it may have.

A summary that is covered by the next one hands its prose on, so that what it said stays until
somebody says it again. Neighbours: `core.summary` shows it, `summarize` and `gist` carry it on,
`writer.asker` gets new prose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refold.core.model import Prose, Slot, Span

TOKENS_MAX = 4_096
WINDOW_RATIO = 0.05  # of the window: what a summary may have, its prose included
SHARE_MAX = 0.7  # of what it replaces: what a summary with new prose may have
PROSE_TOKENS_MIN = 48  # less room than this is not worth a call, nor a place on the page
FRAME_TOKENS = 60  # the heading and the marks around prose


def cap_tokens(window: int) -> int:
    """What a summary may have on a page of this window."""
    return min(TOKENS_MAX, int(WINDOW_RATIO * window))


def prose_of(slot: Slot) -> Prose | None:
    """The prose that a stand-in shows."""
    return slot.summary.prose if slot.summary else None


# --- carried on ---


def carried(slots: Sequence[Slot], tokens_max: int, count: Callable[[str], int]) -> Prose | None:
    """The prose of these slots together; each has its share of the room, and the oldest go if it
    is small."""
    found = [prose for slot in slots if (prose := prose_of(slot))]
    fitting = min(len(found), tokens_max // PROSE_TOKENS_MIN)
    if fitting <= 0:
        return None
    kept = found[-fitting:]
    words = "\n\n".join(capped(prose.words, tokens_max // fitting, count) for prose in kept)
    return Prose(words=words, span=Span(kept[0].span.first, kept[-1].span.last))


def capped(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The words cut at a line so that they keep to the cap."""
    text = _fewer_chars(_fewer_lines(words, tokens_max, count), tokens_max, count)
    return text if text == words else text.rstrip() + "\n…"


def _fewer_lines(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The leading lines that keep to the cap, at least one: a tenth less at each try."""
    lines = words.split("\n")
    while len(lines) > 1 and count("\n".join([*lines, "…"])) > tokens_max:
        tenth = -(-len(lines) // 10)  # rounded up
        lines = lines[:-tenth]
    return "\n".join(lines)


def _fewer_chars(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The leading characters that keep to the cap, at least one: a tenth less at each try."""
    while count(words) > tokens_max and len(words) > 1:
        words = words[: len(words) * 9 // 10]
    return words
