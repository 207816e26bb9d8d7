"""A sample of the lines of some text, with their numbers. Of very long text, both ends and the
lines about errors between them.

A kind names the most telling lines, best first; `excerpt` takes as many as fit and restores their
order. Lines are shown verbatim, or cut at the end, never in other words. Neighbours: the kinds in
this folder, `registry` chooses among them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from msgspec import Struct

from refold.display import cut
from refold.patterns import regex

ENDS_LINES, GLANCE_LINES, MARKED_CHARS, MARKED_MAX = 800, 120, 4_000_000, 100
WORDS = (
    "error", "fail", "exception", "fatal", "panic", "critical", "traceback", "denied", "refused",
    "timeout", "timed out", "cannot", "undefined", "unresolved", "not found", "no such", "killed",
    "abort", "segmentation", "core dumped", "unreachable", "rejected", "corrupt", "severe", "warn",
    "deprecat", '" 5',
)  # fmt: skip
LINE_CHARS_MAX, LINE_LOOKED_AT, SKIPPED_MAX = 160, 240, 40
PIECE_CHARS, LONG_LINES_MAX = 120, 3
AROUND_LINES, GAP_CHARS = 3, 32
TROUBLE = regex(
    r"\b(?:errors?|err|fail(?:s|ed|ure|ures)?|\w*(?:Error|Exception)|fatal|panic(?:ked)?|critical"
    r"|traceback|denied|refused|time[ds]? ?out|cannot|undefined|unresolved|not found|no such"
    r"|killed|abort(?:ed)?|segmentation fault|core dumped|unreachable|rejected|corrupt(?:ed)?)\b",
    re.IGNORECASE,
)
_NO_TROUBLE = regex(
    r"\b(?:0|no) (?:errors?|fail\w*)|\b(?:errors?|fail\w*)\W{1,4}0\b|\w+_errors?\.|"
    r"\berrors?\.\w+ \.\.\. ok",
    re.IGNORECASE,
)
WARNING = regex(r"\bwarn(?:ing)?s?\b|deprecat", re.IGNORECASE)
_VARYING = regex(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F-]{12,}\b|\d+|\"[^\"]{0,200}\"|'[^']{0,200}'")


Unit = Literal["lines", "items", "pieces"]
RedactLine = Callable[[str, str], str]
"""Given a line and the one before it, the line without secrets."""


class Sample(Struct, frozen=True, kw_only=True):
    """Lines of text and their numbers, counted from 1; `total` is the number of all lines. They are
    lines, items of data, or pieces of a very long line (`unit`); `marked` are the indices of lines
    with a word of trouble."""

    lines: Sequence[str]
    numbers: Sequence[int]
    total: int
    unit: Unit = "lines"
    marked: Sequence[int] = ()
    uncut: Sequence[str] = ()  # the original lines, if the unit is lines
    files: Sequence[str] = ()  # of a JSON list of results, the file of each

    @property
    def troubled(self) -> list[int]:
        """The indices of lines that report trouble."""
        return [at for at in self._marked if is_trouble(self.lines[at])]

    @property
    def warned(self) -> list[int]:
        return [at for at in self._marked if WARNING.search(self.lines[at])]

    @property
    def _marked(self) -> Sequence[int]:
        return self.marked if self.unit == "lines" else range(len(self.lines))

    def line(self, at: int, redact: RedactLine | None) -> str:
        """A line for display, redacted."""
        if redact is None or self.unit != "lines":
            return self.lines[at]
        before = self.uncut[at - 1] if at else ""
        return redact(self.uncut[at], before)

    def glance(self) -> Sample:
        """Fewer lines, enough to recognize the kind of text."""
        if len(self.lines) <= 2 * GLANCE_LINES or self.unit != "lines":
            return self
        count = len(self.lines)
        ends = {*range(GLANCE_LINES), *range(count - GLANCE_LINES, count)}
        indices = sorted(ends.union(self.marked[:GLANCE_LINES]))
        return Sample(
            lines=[self.lines[at] for at in indices],
            numbers=[self.numbers[at] for at in indices],
            total=self.total,
            files=self.files,
        )

    @property
    def is_whole(self) -> bool:
        return len(self.lines) == self.total


def any_of(*patterns: str) -> re.Pattern[str]:
    """One pattern for all of these."""
    return regex("|".join(patterns))


class Telling(NamedTuple):
    """A line by its index in the sample, and the number of similar lines."""

    at: int
    alike: int = 0


def sample_of(text: str) -> Sample:
    """The lines of the text; if it is very long, its ends and the lines about errors between
    them."""
    body = text.removesuffix("\n")
    total = body.count("\n") + 1
    if total <= LONG_LINES_MAX and len(body) > LONG_LINES_MAX * LINE_LOOKED_AT:
        return _pieces_of(body)
    marked = dict(_marked_lines(body))
    if total <= 2 * ENDS_LINES:
        numbered = dict(enumerate(body.split("\n"), 1))
    else:
        head = body.split("\n", ENDS_LINES)[:-1]
        tail = body.rsplit("\n", ENDS_LINES)[1:]
        first = total + 1 - ENDS_LINES
        numbered = {**dict(enumerate(head, 1)), **marked, **dict(enumerate(tail, first))}
    numbers = sorted(numbered)
    uncut = [numbered[number] for number in numbers]
    return Sample(
        lines=[line[:LINE_LOOKED_AT] for line in uncut],
        uncut=uncut,
        numbers=numbers,
        total=total,
        marked=[bisect_left(numbers, number) for number in marked],
    )


def _pieces_of(text: str) -> Sample:
    """Text with a few long lines, in pieces of equal length; if it is very long, both ends."""
    starts = range(0, len(text), PIECE_CHARS)
    numbers: Sequence[int] = range(1, len(starts) + 1)
    if len(starts) > 2 * ENDS_LINES:
        numbers = [*numbers[:ENDS_LINES], *numbers[-ENDS_LINES:]]
    pieces = [text[(number - 1) * PIECE_CHARS : number * PIECE_CHARS] for number in numbers]
    return Sample(lines=pieces, numbers=numbers, total=len(starts), unit="pieces")


def _marked_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with a word of trouble, with their numbers, in order. Searching the whole text for
    the words is far cheaper than checking every line."""
    searched = text[:MARKED_CHARS].lower()
    if len(searched) != min(len(text), MARKED_CHARS):
        searched = text[:MARKED_CHARS]  # some lower-case character has another length
    starts: set[int] = set()
    for word in WORDS:
        at = searched.find(word)
        for _ in range(MARKED_MAX):
            if at < 0:
                break
            starts.add(searched.rfind("\n", 0, at) + 1)
            end = searched.find("\n", at)
            at = searched.find(word, end) if end >= 0 else -1
    number, at = 1, 0
    for start in sorted(starts):
        number += text.count("\n", at, start)
        end = text.find("\n", start)
        yield number, text[start : end if end >= 0 else len(text)]
        at = start


# --- similar lines ---


def is_trouble(line: str) -> bool:
    """Whether a line reports trouble."""
    return TROUBLE.search(line[:500]) is not None and _NO_TROUBLE.search(line[:500]) is None


def template(line: str) -> str:
    """A line without its varying parts: numbers, addresses, quoted values."""
    return _VARYING.sub("#", line[:200])


def distinct(sample: Sample, places: Iterable[int]) -> list[Telling]:
    """The first of each group of similar lines, with the number of the others among these."""
    templates = {at: template(sample.lines[at]) for at in places}
    return _firsts(templates, templates, Counter(templates.values()))


class Alike:
    """The similar lines of a sample, counted over all lines: the marked lines of trouble are
    incomplete, so they cannot be counted alone."""

    def __init__(self, sample: Sample) -> None:
        self.templates = list(map(template, sample.lines))
        self.counts = Counter(self.templates)

    def distinct(self, places: Iterable[int]) -> list[Telling]:
        """The first of each group of similar lines at these indices, with the number of the
        others."""
        return _firsts(places, self.templates, self.counts)


def _firsts(
    places: Iterable[int], templates: Mapping[int, str] | Sequence[str], counts: Counter[str]
) -> list[Telling]:
    firsts: dict[str, int] = {}
    for at in places:
        firsts.setdefault(templates[at], at)
    return [Telling(at, counts[key] - 1) for key, at in firsts.items()]


def in_turn(*groups: Iterable[Telling]) -> Iterator[Telling]:
    """The best of each group, then the second best of each, and so on."""
    for row in zip_longest(*groups):
        yield from (one for one in row if one is not None)


def ends(sample: Sample, first: int = 12, last: int = 6) -> Iterator[Telling]:
    """Lines of both ends, from outside to inside, repeated ones only once."""
    count = len(sample.lines)
    heads = _unrepeated(sample, range(count), first)
    tails = _unrepeated(sample, range(count - 1, -1, -1), last)
    return in_turn(heads, tails)


def _unrepeated(sample: Sample, places: Iterable[int], most: int) -> list[Telling]:
    firsts: dict[str, int] = {}
    for at in places:
        if len(firsts) >= most:
            break
        firsts.setdefault(sample.lines[at], at)
    return list(map(Telling, firsts.values()))


def around(sample: Sample, telling: Iterable[Telling]) -> Iterator[Telling]:
    """The lines before and after the telling ones, the nearest first."""
    chosen = list(telling)
    for distance in range(1, AROUND_LINES + 1):
        for one in chosen:
            yield from (
                Telling(at)
                for at in (one.at + distance, one.at - distance)
                if 0 <= at < len(sample.lines)
            )


# --- an excerpt ---


def excerpt(
    sample: Sample, telling: Iterable[Telling], room: int, redact: RedactLine | None = None
) -> list[str]:
    """As many of the telling lines as fit, in text order, with marks for the gaps."""
    chosen = _Chosen(sample, room - GAP_CHARS, redact)  # for the gap at the end
    skipped = 0
    for one in telling:
        skipped += not chosen.take(one)
        if skipped > SKIPPED_MAX:
            break
    return list(_joined(sample, chosen.lines))


class _Chosen:
    """The lines of an excerpt so far, by their indices, and the room that is left."""

    def __init__(self, sample: Sample, room: int, redact: RedactLine | None) -> None:
        self.sample, self.room, self.redact = sample, room, redact
        self.lines: dict[int, str] = {}
        self.counted: set[int] = set()  # lines with the number of similar ones

    def take(self, one: Telling) -> bool:
        """Takes a line; False if it has no room. A line that was taken before only gets the number
        of similar ones."""
        before = self.lines.get(one.at)
        if before is not None and (not one.alike or one.at in self.counted):
            return True
        line = cut(self.sample.line(one.at, self.redact), LINE_CHARS_MAX).rstrip("\r")
        if one.alike:  # of an incomplete sample, there may be more
            is_all = self.sample.is_whole
            line += f" [+{one.alike:,} alike]" if is_all else f" [+{one.alike:,} or more alike]"
        if before is None:
            beside = (one.at - 1 in self.lines) + (one.at + 1 in self.lines)
            cost = len(line) + 1 + GAP_CHARS * (1 - beside)  # neighbours need no gap
        else:
            cost = len(line) - len(before)
        if cost > self.room:
            return False
        self.lines[one.at] = line
        self.room -= cost
        self.counted |= {one.at} if one.alike else set()
        return True


def _joined(sample: Sample, chosen: dict[int, str]) -> Iterator[str]:
    """The chosen lines in order, with marks for the gaps; consecutive pieces become one line again,
    and a gap of one short line shows the line itself."""
    shown, row = 0, ""
    for at in sorted(chosen):
        number = sample.numbers[at]
        is_next = number == shown + 1
        if row and not (is_next and sample.unit == "pieces"):
            yield row
            row = ""
        if not is_next:
            before = sample.lines[at - 1]
            is_short = number == shown + 2 and len(before) < GAP_CHARS // 2
            is_shown = is_short and sample.unit == "lines"
            yield before if is_shown else _gap(shown + 1, number - 1, sample.unit)
        row, shown = row + chosen[at], number
    yield row
    if shown < sample.total:
        yield _gap(shown + 1, sample.total, sample.unit)


def _gap(first: int, last: int, unit: Unit) -> str:
    """The mark for a gap, with the line numbers if there are any."""
    count = last + 1 - first
    match unit:
        case "pieces":
            return f"… {count * PIECE_CHARS:,} characters …"
        case "items":
            return f"… {count:,} more …"
        case "lines":
            return f"… line {first:,} …" if count == 1 else f"… lines {first:,}-{last:,} …"
