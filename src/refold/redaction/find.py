"""Where the secrets of a text are: one rule after the other is asked.

A known shape (`shapes`), a private key (`private_keys`), credentials in an address or a request
(`credentials`), a value after a telling name (`values`). Each is asked about the text and about
what the text says without its escapes (`plain_view`). What may be a secret but is more likely a
fixture or a picture is found as not `sure`: it is taken out as well, because that costs little, but
`refold scan` does not warn of it. Neighbour: `redact` takes out what is found here.

Secrets by their values: what was found once, by what stood around it, is known wherever it
stands again.

A password is recognized in `postgres://name:PASSWORD@host`, but not alone in a list of names that
was made of that line; and of a line that was cut, only a part of the secret may be left. A value
that is a plain word is not remembered: taking it out everywhere would ruin the text.
Neighbours: `find` finds secrets, `conversations.redacted_copy` asks.

What a text says to a reader: its escapes become the characters that they stand for, and what no
screen shows is left out.

A key in a file in a tool call is escaped once more on every level, and a terminal may colour the
middle of a token. So the rules are asked about this view as well, and what they find is mapped back
to its place. The cost is bounded: any number of levels is read at once, and only lines that hold an
escape are looked at again. Neighbour: `find` asks the rules.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from refold.display import INVISIBLE
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
from refold.redaction.values import Found, after_names, is_random, places

# Each is given the text and the same in lower case. Of rules that find the same, the first names
# it.
RULES: tuple[Callable[[str, str], Iterable[Found]], ...] = (
    key_blocks,
    by_shape,
    key_lines,
    in_addresses,
    in_requests,
    in_cookies,
    after_names,
)


def found(text: str, *, emails: bool = False) -> list[Found]:
    """The secrets of a text, in order, none over another; with `emails` also e-mail
    addresses."""
    hits = _hits(text, emails)
    views = plain_views(text)
    if views:
        hits += (_placed(hit, views) for hit in _hits(views[-1].text, emails))
    # Sorting is stable: where two rules found the same place, that of the earlier rule comes first.
    hits.sort(key=attrgetter("start"))
    return _joined(hits)


def _hits(text: str, emails: bool) -> list[Found]:
    """What the rules find in a text as it stands."""
    # One character of Unicode becomes two in lower case, which would move all after it.
    lowered = text.replace("İ", "i").lower()
    hits = [hit for rule in RULES for hit in rule(text, lowered)]
    if emails:
        hits += emails_in(text)
    return hits


def _placed(hit: Found, views: list[PlainView]) -> Found:
    """What was found in the last view, at its place in the text that it was made of."""
    for view in reversed(views):
        hit = view.source(hit)
    return hit


def _joined(hits: list[Found]) -> list[Found]:
    """The hits, in order, with those that overlap made one."""
    out: list[Found] = []
    for hit in hits:
        if out and hit.start < out[-1].end:
            kind, start, end, sure = out[-1]
            out[-1] = Found(kind, start, max(end, hit.end), sure or hit.sure)
        else:
            out.append(hit)
    return out


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


# An escaped backslash may make a new escape; who needs more passes than this hides nothing.
PASSES_MAX = 4
# No rule reads over this: lines that are not neighbours are not one text.
_BREAK = "\n\0\n"
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_COLOUR = r"\[[0-9;:?]{0,40}+[ -/]{0,4}+[@-~]"


def _escapes(invisible: str, more: str) -> re.Pattern[str]:
    # One class of characters comes first, so that the search can jump to it; a run of backslashes
    # is looked at once, from its beginning.
    return re.compile(
        rf"[\\\x1b{invisible}]"
        rf"(?:(?<=\x1b){_COLOUR}"
        rf"|(?<=\\)(?<!\\\\)\\*+(?:(?:x1[bB]|0?33|e|u001[bB]){_COLOUR}"
        r"|u(?P<code>[0-9A-Fa-f]{4})|(?P<blank>[nrtbf])|(?P<sign>[\"'`/*\[\]<>&|]))"
        rf"{more})"
    )


_ASCII_ESCAPE = _escapes("", "")
_ESCAPE = _escapes(INVISIBLE, f"|(?<=[{INVISIBLE}])[{INVISIBLE}]*+")


class PlainView:
    """A text without its escapes. `text` is made of the literal parts of the source and of what
    the escapes between them stand for."""

    def __init__(self, source: str, lines: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []  # of the literal parts, in this view
        self._origins: list[int] = []  # of the same, in the source
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

    def source(self, hit: Found) -> Found:
        """The same secret at its place in the source, with all of the escapes in it."""
        first, last = self._part(hit.start), self._part(hit.end - 1)
        start = self._origins[first] + min(hit.start - self._starts[first], self._sizes[first])
        behind = hit.end - self._starts[last]
        is_literal = behind <= self._sizes[last]
        end = self._origins[last] + behind if is_literal else self._origins[last + 1]
        return Found(hit.kind, start, end, hit.sure)

    def _part(self, place: int) -> int:
        """The literal part in which a place of this view lies, or behind which."""
        return bisect_right(self._starts, place) - 1


def plain_views(text: str) -> list[PlainView]:
    """The views that lead to a text without escapes, each of the one before; none if the text has
    no escapes."""
    views: list[PlainView] = []
    while len(views) < PASSES_MAX:
        lines = list(_lines_with_escapes(text))
        if not lines:
            break
        views.append(PlainView(text, lines))
        text = views[-1].text
    return views


def _lines_with_escapes(text: str) -> Iterator[tuple[int, int]]:
    """Where lines that hold an escape start and end, neighbours as one."""
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
    """The literal parts of these lines: each with its place, and with what the escape after it
    stands for."""
    pattern = _pattern(source)
    for start, end in lines:
        at = start
        for match in pattern.finditer(source, start, end):
            yield source[at : match.start()], at, _shown(match)
            at = match.end()
        yield source[at:end], at, _BREAK
    yield "", len(source), ""


def _shown(match: re.Match[str]) -> str:
    """What an escape stands for: at most one character."""
    if match["blank"]:
        return _BLANKS[match["blank"]]
    if match["code"]:
        return chr(int(match["code"], 16))
    return match["sign"] or ""
