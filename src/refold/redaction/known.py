"""Secrets by their values: what was found once, by what stood around it, is known wherever it
stands again.

A password is recognized in `postgres://name:PASSWORD@host`, but not alone in a list of names that
was made of that line. A value that is a plain word is not remembered: taking it out everywhere
would ruin the text. Neighbours: `find` finds secrets, `conversations.redacted_copy` asks.
"""

from __future__ import annotations

import re

from refold.redaction.find import found
from refold.redaction.judge import is_random

VALUE_CHARS_MIN = 8
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
        """The text with every known value replaced by a note."""
        for value in self._values():
            if value in text:
                text = text.replace(value, f"[redacted {self._kinds[value]}]")
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


def _is_telling(value: str) -> bool:
    """Whether a value is long enough, and not a word that may stand anywhere."""
    if len(value) < VALUE_CHARS_MIN or "-----" in value:
        return False
    return is_random(value) or any(map(str.isdigit, value))
