"""Why a hit is a hit: the part of its text in which most of the query stands, and where exactly.

Terms are compared as the index compares them, by the tokenizer's own stems; names are also looked
at part by part, and Chinese, Japanese and Korean sign by sign. Texts are bounded before they are
looked at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from msgspec import Struct

from refold.search.forms import forms_of
from refold.search.words import Query, parts_of

SNIPPET_CHARS, LEAD_CHARS = 240, 60
TEXT_CHARS_MAX, MARKS_MAX = 200_000, 64
_SPACES = re.compile(r"\s{2,}|[^\S ]")  # all but a single space

Tokens = Callable[[str], list[tuple[int, int, str]]]
Place = tuple[int, int, str]


class Wanted(Struct, frozen=True):
    """What a query looks for, as it is compared: stems, and signs that are written without
    spaces."""

    stems: frozenset[str]
    signs: tuple[str, ...]


def wanted_of(query: Query, tokens: Tokens) -> Wanted:
    terms = [form for term in (*query.terms, *query.required) for form in forms_of(term.text)]
    stems = frozenset(stem for text in terms for _, _, stem in tokens(text))
    return Wanted(stems, tuple(text for text in terms if not text.isascii()))


def snippet_of(
    text: str, wanted: Wanted, tokens: Tokens
) -> tuple[str, tuple[tuple[int, int], ...], int]:
    """The snippet, the places in it that match, and where in the text it begins."""
    text = text[:TEXT_CHARS_MAX]
    places = _places(text, wanted, tokens)
    start, end = _widened(text, _best_start(places))
    marks = [
        (max(first, start) - start, last - start)
        for first, last, _ in places
        if start < last <= end
    ]
    return (*_flattened(text[start:end], marks[:MARKS_MAX], start > 0, end < len(text)), start)


def _places(text: str, wanted: Wanted, tokens: Tokens) -> list[Place]:
    """Where the text says what was asked for: start, end and the term, in characters and in
    order."""
    at = _characters(text)
    there = tokens(text)
    found = [(at(start), at(end), stem) for start, end, stem in there if stem in wanted.stems]
    if not found:
        # Only names remain that hold a word as one of their parts.
        names = ((start, end, parts_of(text[at(start) : at(end)])) for start, end, _ in there)
        found = [
            (at(start), at(end), part)
            for start, end, parts in names
            for _, _, part in (tokens(parts) if parts else ())
            if part in wanted.stems
        ]
    for sign in wanted.signs:
        found += _occurrences(text, sign)
    return _apart(sorted(found))


def _characters(text: str) -> Callable[[int], int]:
    """From places in the UTF-8 of a text to places in the text."""
    if text.isascii():
        return lambda place: place
    encoded = text.encode("utf-8", "replace")
    reached = (0, 0)

    def at(place: int) -> int:
        nonlocal reached
        # Tokens come in order, so only what lies between two of them is counted.
        byte, sign = reached if reached[0] <= place else (0, 0)
        reached = place, sign + len(encoded[byte:place].decode("utf-8", "ignore"))
        return reached[1]

    return at


def _occurrences(text: str, sign: str) -> list[Place]:
    found: list[Place] = []
    at = text.find(sign)
    while at >= 0 and len(found) < MARKS_MAX:
        found.append((at, at + len(sign), sign))
        at = text.find(sign, at + len(sign))
    return found


def _apart(places: list[Place]) -> list[Place]:
    """The places without those that lie in another."""
    out: list[Place] = []
    for place in places:
        if not out or place[0] >= out[-1][1]:
            out.append(place)
    return out


def _best_start(places: list[Place]) -> int:
    """Where a window begins that holds most different terms; the first of equal ones."""
    best, best_start = 0, 0
    if places and places[-1][0] < places[0][0] + SNIPPET_CHARS:
        return places[0][0]
    for index, (start, _, _) in enumerate(places):
        inside = [
            term
            for first, _, term in places[index : index + MARKS_MAX]
            if first < start + SNIPPET_CHARS
        ]
        if (worth := 8 * len(set(inside)) + len(inside)) > best:
            best, best_start = worth, start
    return best_start


def _widened(text: str, start: int) -> tuple[int, int]:
    """The window around the first match, from the beginning of its line or a word a little
    before it."""
    low = max(0, start - LEAD_CHARS)
    if low:
        line = text.rfind("\n", low, start)
        word = text.find(" ", low, start)
        low = line + 1 if line >= 0 else word + 1 if word >= 0 else low
    while low < len(text) and text[low].isspace():
        low += 1
    return low, min(len(text), low + SNIPPET_CHARS)


def _flattened(
    part: str, marks: list[tuple[int, int]], cut_before: bool, cut_after: bool
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """One line: every run of white space becomes one space, marks move along."""
    ends, gone, removed = [0], [0], 0
    # Most texts have nothing to flatten, and this is the fastest way to know.
    for run in _SPACES.finditer(part) if " ".join(part.split()) != part else ():
        removed += run.end() - run.start() - 1
        ends.append(run.end())
        gone.append(removed)

    def moved(place: int) -> int:
        return place - gone[bisect_right(ends, place) - 1] + cut_before

    flat = _SPACES.sub(" ", part) if len(ends) > 1 else part
    line = f"{'…' if cut_before else ''}{flat}{'…' if cut_after else ''}"
    return line, tuple((moved(first), moved(last)) for first, last in marks)
