"""Secrets in text, found by rules, and known secrets, found by their values.

Every rule is applied to the text and to its plain view, in which escapes are resolved and invisible
characters removed: a key in a tool call is escaped once more per level, and a terminal may color
the middle of a token. Only lines with an escape are searched again. A likely fixture or image is
reported as not `sure`: it is redacted too, but `refold scan` does not report it. `KnownSecrets`
finds a password again without its context, or a part of it in a line that was cut; plain words are
not remembered, because redacting them everywhere would ruin the text. Neighbours: `rules` and
`values` have the rules, `redact` removes secrets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from refold.display import INVISIBLE
from refold.patterns import regex
from refold.redaction.rules import (
    SHAPES,
    by_shape,
    emails_in,
    in_addresses,
    in_cookies,
    in_requests,
    key_blocks,
    key_lines,
)
from refold.redaction.values import FoundSecret, after_names, is_random, places

# Each takes the text and its lower-case form. If several find the same secret, the first names it.
RULES: tuple[Callable[[str, str], Iterable[FoundSecret]], ...] = (
    key_blocks,
    by_shape,
    key_lines,
    in_addresses,
    in_requests,
    in_cookies,
    after_names,
)


def secrets_in(text: str, *, emails: bool = False) -> list[FoundSecret]:
    """The secrets in the text, in order and without overlaps; with `emails` also e-mail
    addresses."""
    hits = _hits(text, emails)
    views = plain_views(text)
    if views:
        for hit in _hits(views[-1].text, emails):
            for view in reversed(views):
                hit = view.source(hit)
            hits.append(hit)
    # Sorting is stable: of two hits at the same position, the one by the earlier rule comes first.
    hits.sort(key=attrgetter("start"))
    secrets: list[FoundSecret] = []
    for hit in hits:
        if secrets and hit.start < secrets[-1].end:
            kind, start, end, sure = secrets[-1]
            secrets[-1] = FoundSecret(kind, start, max(end, hit.end), sure or hit.sure)
        else:
            secrets.append(hit)
    return secrets


def _hits(text: str, emails: bool) -> list[FoundSecret]:
    """The hits of all rules in the text."""
    # One Unicode character becomes two in lower case, which would shift all positions after it.
    lowered = text.replace("İ", "i").lower()
    hits = [hit for rule in RULES for hit in rule(text, lowered)]
    if emails:
        hits += emails_in(text)
    return hits


VALUE_CHARS_MIN = 8
# Minimum revealing part of a secret; any such part contains one of the samples, which are taken at
# every fifth character.
PART_CHARS, SAMPLE_CHARS = 10, 5
# Longest common beginning of all secrets of a kind, which may be shown.
BEGINNING_CHARS = 13
# A key block is recognized by its lines.
_LINE_END = regex(r"(?:\s|\\+[nrt])+")


class KnownSecrets:
    """The secrets of all text learned so far."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._longest_first: list[str] = []

    def learn(self, text: str) -> None:
        """Remembers the sure secrets in the text."""
        for kind, start, end, sure in secrets_in(text):
            for value in _LINE_END.split(text[start:end]) if sure else ():
                if value not in self._kinds and _is_revealing(value):
                    self._kinds[value] = kind
                    self._longest_first = []

    def redacted(self, text: str) -> str:
        """The text with every known value, and every revealing part of one, replaced by a note."""
        if not self._longest_first:
            self._longest_first = sorted(self._kinds, key=len, reverse=True)
        for value in self._longest_first:
            note = f"[redacted {self._kinds[value]}]"
            if value in text:
                text = text.replace(value, note)
            for part in sorted(_parts(value, text), key=len, reverse=True):
                text = text.replace(part, note)
        return text

    def is_part(self, name: str) -> bool:
        """Whether a name is a secret, or a revealing part of one."""
        if len(name) < VALUE_CHARS_MIN:
            return False
        return any(name in value or value in name for value in self._kinds)


def _parts(value: str, text: str) -> set[str]:
    """The revealing parts of a value in the text."""
    starts = range(0, len(value) - SAMPLE_CHARS + 1, SAMPLE_CHARS)
    return {
        part
        for start in starts
        for at in places(text, value[start : start + SAMPLE_CHARS])
        for part in _part_at(value, start, text, at)
    }


def _part_at(value: str, start: int, text: str, at: int) -> Iterator[str]:
    """The longest common part of value and text around a common position, if it is revealing."""
    end, stop = start, at
    while end < len(value) and stop < len(text) and value[end] == text[stop]:
        end, stop = end + 1, stop + 1
    while start and at and value[start - 1] == text[at - 1]:
        start, at = start - 1, at - 1
    is_beginning = start == 0 and any(value.startswith(shape.anchor) for shape in SHAPES)
    if end - start > (BEGINNING_CHARS if is_beginning else PART_CHARS - 1):
        yield value[start:end]


def _is_revealing(value: str) -> bool:
    """Whether a value is long enough, and not a common word."""
    if len(value) < VALUE_CHARS_MIN or "-----" in value:
        return False
    return is_random(value) or any(map(str.isdigit, value))


# An escaped backslash may form a new escape; more passes than this are not needed in practice.
PASSES_MAX = 4
# No rule matches across this separator of lines that are not adjacent.
_BREAK = "\n\0\n"
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_COLOUR = r"\[[0-9;:?]{0,40}+[ -/]{0,4}+[@-~]"


def _escapes(invisible: str, more: str) -> re.Pattern[str]:
    # One character class comes first, so that the search can jump to it; a run of backslashes is
    # matched once, from its beginning.
    return regex(
        rf"[\\\x1b{invisible}]"
        rf"(?:(?<=\x1b){_COLOUR}"
        rf"|(?<=\\)(?<!\\\\)\\*+(?:(?:x1[bB]|0?33|e|u001[bB]){_COLOUR}"
        r"|u(?P<code>[0-9A-Fa-f]{4})|(?P<blank>[nrtbf])|(?P<sign>[\"'`/*\[\]<>&|]))"
        rf"{more})"
    )


_ASCII_ESCAPE = _escapes("", "")
_ESCAPE = _escapes(INVISIBLE, f"|(?<=[{INVISIBLE}])[{INVISIBLE}]*+")


class PlainView:
    """Text with its escapes resolved: `text` has the literal parts of the source, and the
    characters of the escapes between them."""

    def __init__(self, source: str, lines: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []  # of the literal parts in this view
        self._origins: list[int] = []  # of the literal parts in the source
        self._sizes: list[int] = []
        parts: list[str] = []
        size = 0
        for literal, origin, shown in _read(source, lines):
            self._starts.append(size)
            self._origins.append(origin)
            self._sizes.append(len(literal))
            parts += [literal, shown]
            size += len(literal) + len(shown)
        self.text = "".join(parts)

    def source(self, hit: FoundSecret) -> FoundSecret:
        """The same secret at its position in the source, with all its escapes."""
        first = bisect_right(self._starts, hit.start) - 1  # the literal part at or before it
        last = bisect_right(self._starts, hit.end - 1) - 1
        start = self._origins[first] + min(hit.start - self._starts[first], self._sizes[first])
        offset = hit.end - self._starts[last]
        is_literal = offset <= self._sizes[last]
        end = self._origins[last] + offset if is_literal else self._origins[last + 1]
        return FoundSecret(hit.kind, start, end, hit.sure)


def plain_views(text: str) -> list[PlainView]:
    """Successive views of the text, each with the escapes of the previous one resolved, until none
    is left; empty if the text has no escapes."""
    views: list[PlainView] = []
    while len(views) < PASSES_MAX:
        lines = list(_lines_with_escapes(text))
        if not lines:
            break
        views.append(PlainView(text, lines))
        text = views[-1].text
    return views


def _lines_with_escapes(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of lines with an escape; adjacent lines are joined."""
    if text.isascii() and "\\" not in text and "\x1b" not in text:
        return
    search = _pattern(text).search
    start, end = 0, -1
    match = search(text)
    while match:
        first = text.rfind("\n", 0, match.start()) + 1
        if first > end:
            if end >= 0:
                yield start, end
            start = first
        end = text.find("\n", match.end()) + 1 or len(text)
        match = search(text, end)
    if end >= 0:
        yield start, end


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_ESCAPE if text.isascii() else _ESCAPE


def _read(source: str, lines: list[tuple[int, int]]) -> Iterator[tuple[str, int, str]]:
    """The literal parts of these lines, each with its position and the character of the escape
    after it."""
    pattern = _pattern(source)
    for start, end in lines:
        at = start
        for match in pattern.finditer(source, start, end):
            if match["blank"]:
                shown = _BLANKS[match["blank"]]
            elif match["code"]:
                shown = chr(int(match["code"], 16))
            else:
                shown = match["sign"] or ""
            yield source[at : match.start()], at, shown
            at = match.end()
        yield source[at:end], at, _BREAK
    yield "", len(source), ""
