"""The text of a tool result: without the envelope that some agents put around it, whether it was
cut, and which lines of a file it shows where they are numbered.

Neighbours: `outcomes` says how the call ended; `dedup` of the strategies compares results by this.
"""

from __future__ import annotations

import re

HEAD = 400  # characters in which an envelope begins
NOTES_MAX = 40  # lines that may stand before or after the numbered ones

_ENVELOPES = (("Output:\n", ""), ("<output>\n", "</output>"), ("<output>", "</output>"))
_CUT = (
    "output of your last command was too long", "tokens truncated", "chars truncated",
    "characters truncated", "lines truncated", "[truncated", "(truncated", "<truncated",
    "...truncated", "… truncated", "output truncated", "response clipped", "characters elided",
    "lines omitted", "content truncated", "file is truncated", "has been truncated",
    "elided_chars", "was truncated",
)  # fmt: skip
_CUT_HINTS = ("runcat", "too long", "clipped", "elided", "omitted")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,7})(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)")


def payload(text: str) -> str:
    """The output itself: without `Key: value` lines up to `Output:`, or the tags around it."""
    for opening, closing in _ENVELOPES:
        at = text.find(opening, 0, HEAD)
        if _opens_envelope(text, at, opening):
            end = text.rfind(closing) if closing else -1
            return text[at + len(opening) : end if end > at else len(text)]
    return text


def _opens_envelope(text: str, at: int, opening: str) -> bool:
    """Whether it was found, and stands where an envelope begins: a tag anywhere, else a line."""
    if at < 0:
        return False
    return at == 0 or text[at - 1] == "\n" or opening.startswith("<")


def is_cut(text: str) -> bool:
    """Whether the agent shortened the result before it came here."""
    if not any(hint in text for hint in _CUT_HINTS):
        return False
    lowered = text.lower()
    return any(sign in lowered for sign in _CUT)


def shown_lines(text: str) -> tuple[int, int] | None:
    """The first and last line number of a numbered text; None if it is not numbered."""
    first = _line_number(text, 0)
    if first is None:
        return None
    last = _last_number(text, first)
    if last is None:
        return None
    lines = text.count("\n")
    return (first, last) if lines - NOTES_MAX <= last - first <= lines else None


def _last_number(text: str, first: int) -> int | None:
    """The number of the last line that has one; notes may follow it."""
    end = len(text)
    for _ in range(NOTES_MAX):
        start = text.rfind("\n", 0, end) + 1
        last = _line_number(text, start)
        if last is not None and last >= first:
            return last
        if start == 0:
            break
        end = start - 1
    return None


def _line_number(text: str, at: int) -> int | None:
    match = _NUMBERED.match(text, at)
    return int(match[1]) if match else None
