"""Secrets by their values: what was found once, by what stood around it, is known wherever it
stands again.

A password is recognized in `postgres://name:PASSWORD@host`, but not alone in a list of names that
was made of that line; and of a line that was cut, only a part of the secret may be left. A value
that is a plain word is not remembered: taking it out everywhere would ruin the text.
Neighbours: `find` finds secrets, `conversations.redacted_copy` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.redaction.find import found
from refold.redaction.judge import is_random, places
from refold.redaction.shapes import SHAPES

VALUE_CHARS_MIN = 8
# So much of a secret tells something of it. Whatever is as long holds one of the samples that are
# taken at every fifth character.
PART_CHARS, SAMPLE_CHARS = 10, 5
# What all secrets of a kind begin with may be said: no such beginning is longer.
BEGINNING_CHARS = 13
# A key block is known by its lines.
_LINE_END = re.compile(r"(?:\s|\\+[nrt])+")


class KnownSecrets:
    """The secrets of all texts that were learned."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._longest_first: list[str] = []

    def learn(self, text: str) -> None:
        """Remembers the secrets of a text that are sure."""
        for kind, start, end, sure in found(text):
            if sure:
                self._remember(kind, text[start:end])

    def _remember(self, kind: str, secret: str) -> None:
        for value in _LINE_END.split(secret):
            if value not in self._kinds and _is_telling(value):
                self._kinds[value] = kind
                self._longest_first = []

    def redacted(self, text: str) -> str:
        """The text with every known value, and every telling part of one, replaced by a note."""
        for value in self._values():
            note = f"[redacted {self._kinds[value]}]"
            if value in text:
                text = text.replace(value, note)
            for part in sorted(_parts(value, text), key=len, reverse=True):
                text = text.replace(part, note)
        return text

    def is_part(self, name: str) -> bool:
        """Whether a name is a secret, or a part of one that tells something."""
        if len(name) < VALUE_CHARS_MIN:
            return False
        return any(name in value or value in name for value in self._kinds)

    def _values(self) -> list[str]:
        if not self._longest_first:
            self._longest_first = sorted(self._kinds, key=len, reverse=True)
        return self._longest_first


def _parts(value: str, text: str) -> set[str]:
    """What the text shows of a value, where that tells something of it."""
    starts = range(0, len(value) - SAMPLE_CHARS + 1, SAMPLE_CHARS)
    return {
        part
        for start in starts
        for at in places(text, value[start : start + SAMPLE_CHARS])
        for part in _part_at(value, start, text, at)
    }


def _part_at(value: str, start: int, text: str, at: int) -> Iterator[str]:
    """The longest part of the value around a place at which both are the same, if it is telling."""
    end, stop = start, at
    while end < len(value) and stop < len(text) and value[end] == text[stop]:
        end, stop = end + 1, stop + 1
    while start and at and value[start - 1] == text[at - 1]:
        start, at = start - 1, at - 1
    begins_alike = start == 0 and any(value.startswith(shape.anchor) for shape in SHAPES)
    if end - start > (BEGINNING_CHARS if begins_alike else PART_CHARS - 1):
        yield value[start:end]


def _is_telling(value: str) -> bool:
    """Whether a value is long enough, and not a word that may stand anywhere."""
    if len(value) < VALUE_CHARS_MIN or "-----" in value:
        return False
    return is_random(value) or any(map(str.isdigit, value))
