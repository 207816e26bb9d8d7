"""One JSON value: its shape, sample rows, and what in it speaks of trouble.

A value on one line is parted where its items are, so that rows can be shown as they stand; one that
is laid out over many lines is shown by its lines. Keys that are new come first: they are the shape.

A record of JSON on every line: the first, those that speak of trouble, one of each shape, the
last.

Rows and columns: CSV and its relatives, tables of databases, listings such as `ls -l` and `ps`.
The heading, the first rows, rows that are unlike the others, the last.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator
from typing import Any

import msgspec

from refold.artifacts.kinds.sample import (
    LINE_LOOKED_AT,
    PIECE_CHARS,
    Sample,
    Telling,
    ends,
    in_turn,
)

PARTED_CHARS, ITEM_CHARS, LINES_MIN = 200_000, 150, 20
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},]')
_KEY = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:')


def fits(sample: Sample) -> bool:
    start = sample.lines[0].lstrip()[:1] if sample.lines else ""
    last = (sample.uncut or sample.lines or ("",))[-1]
    end = last.rstrip()[-1:]
    if (start, end) not in (("{", "}"), ("[", "]")):
        return False
    text = "\n".join(sample.lines[:LINES_MIN])[:2_000]
    return _KEY.search(text) is not None or '",' in text or re.search(r"\d,", text) is not None


def parted(sample: Sample) -> Sample:
    """The items of a value that stands on one line, each as a line."""
    is_short = sample.unit == "lines" and sample.total == 1
    if sample.unit != "pieces" and not is_short:
        return sample
    text = "".join(sample.uncut or sample.lines)
    items = [text[start:end] for start, end in _items(text[:PARTED_CHARS])]
    total = len(items)
    if not sample.is_whole or len(text) > PARTED_CHARS:
        items.append(text[-ITEM_CHARS:])
        # How many there are is not known; about as many as in the first part for its length.
        total = max(total + 2, total * sample.total // -(-PARTED_CHARS // PIECE_CHARS))
    numbers = [*range(1, len(items)), total]
    return Sample(lines=items, numbers=numbers, total=total, unit="items")


def _items(text: str) -> list[tuple[int, int]]:
    """Where the parts of a value begin and end: a list or object that is short stays whole."""
    items: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []  # where a container begins, and how many items were before
    start = 0
    for mark in _MARK.finditer(text):
        at, sign = mark.start(), text[mark.start()]
        if sign in "[{":
            opened.append((start, len(items)))
            items.append((start, at + 1))
            start = at + 1
        elif sign in "]}" and opened:
            began, before = opened.pop()
            if start < at:
                items.append((start, at))
            if at + 1 - began <= ITEM_CHARS:
                items[before:] = [(began, at + 1)]
            else:
                items.append((at, at + 1))
            start = at + 1
        elif sign == ",":
            if start < at:
                items.append((start, at + 1))
            elif items:
                items[-1] = (items[-1][0], at + 1)
            start = at + 1
    if start < len(text):
        items.append((start, len(text)))
    return items


def value_of(text: str) -> Any:
    """The value that a text is; None where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def about(sample: Sample) -> str:
    """`JSON, a list of 2,000`, where all of it was looked at."""
    value = value_of("".join(sample.uncut or sample.lines)) if sample.is_whole else None
    if not isinstance(value, list | dict):
        return "JSON"
    kind = "a list" if isinstance(value, list) else "an object"
    return f"JSON, {kind} of {len(value):,}"


def telling(sample: Sample) -> Iterator[Telling]:
    count, bad = len(sample.lines), sample.troubled
    yield from in_turn(_new_keys(sample), map(Telling, bad[:8]))
    yield from map(Telling, bad)
    yield from ends(sample, first=8, last=3)
    yield from (Telling(at) for at in range(0, count, max(1, count // 20)))


def _new_keys(sample: Sample) -> Iterator[Telling]:
    """Lines with a key that was not there before."""
    known: set[str] = set()
    for at, line in enumerate(sample.lines):
        keys = {match[1] for match in _KEY.finditer(line)}
        if keys - known or at == 0:
            known |= keys
            yield Telling(at)


ROWS_MIN, LOOKED_AT = 3, 20
_JSON_LINES_KEY = re.compile(r'\s*"([^"\\]{1,60})"\s*:')


def json_lines_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:LOOKED_AT] if line.strip()]
    return len(lines) >= ROWS_MIN and all(map(_is_record, lines))


def _is_record(line: str) -> bool:
    """Whether a line is an object. Lines are cut where they are long: then its end is not seen."""
    if not line.startswith("{") or (
        _JSON_LINES_KEY.match(line, 1) is None and line.rstrip() != "{}"
    ):
        return False
    return len(line) >= LINE_LOOKED_AT or line.rstrip().endswith("}")


def json_lines_telling(sample: Sample) -> Iterator[Telling]:
    count = len(sample.lines)
    yield Telling(0)
    yield from map(Telling, sample.troubled)
    shapes: dict[tuple[str, ...], int] = {}
    for at, line in enumerate(sample.lines):
        shapes.setdefault(tuple(_JSON_LINES_KEY.findall(line[:2_000])), at)
    yield from map(Telling, shapes.values())
    yield Telling(count - 1)
    yield from ends(sample)


TABLE_ROWS_MIN, SHARE_MIN, TABLE_LOOKED_AT = 5, 0.9, 200
DELIMITERS = ("\t", ",", ";", "|")
_RULE = re.compile(r"[-+|= :]{5,}$")
_LISTED = re.compile(r"[-dlbcps][-rwxsStT]{9}[.+@]? +\d+ |total \d+$")
_HEADING = re.compile(r"(?:[A-Z%][A-Z0-9%_/.+-]*(?: [a-z]+)?(?:\s+|$)){3,}$")
_EMPTY = re.compile(r"(?:,,|\t\t|;;|\bNULL\b|\bNaN\b|\bnan\b|\bnull\b)")


def table_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:TABLE_LOOKED_AT] if line.strip()]
    if len(lines) < TABLE_ROWS_MIN:
        return False
    listed = sum(_LISTED.match(line) is not None for line in lines)
    is_listing = listed > SHARE_MIN * len(lines) or _HEADING.match(lines[0]) is not None
    return is_listing or bool(_delimiter(lines))


def _delimiter(lines: list[str]) -> str:
    """What parts the columns: nearly every line has it equally often. Empty if nothing does."""
    for delimiter in DELIMITERS:
        counts = Tally(line.count(delimiter) for line in lines)
        [(number, times)] = counts.most_common(1)
        if number and times >= SHARE_MIN * len(lines) and _is_tabular(delimiter, number, lines):
            return delimiter
    return ""


def _is_tabular(delimiter: str, number: int, lines: list[str]) -> bool:
    """Prose has a comma here and there, with a space after it."""
    if delimiter == ",":
        return number > 1 or sum(", " in line for line in lines) < len(lines) // 2
    return True


def table_telling(sample: Sample) -> Iterator[Telling]:
    count = len(sample.lines)
    rules = [at for at in range(min(5, count)) if _RULE.match(sample.lines[at])]
    firsts = [Telling(0), *(Telling(at) for at in rules), Telling(1), Telling(2)]
    places = range(1, count)
    bad = [Telling(at) for at in sample.troubled if at]
    gaps = [Telling(at) for at in places if _EMPTY.search(sample.lines[at])]
    widths = Tally(sum(map(sample.lines[at].count, DELIMITERS)) for at in places)
    usual = widths.most_common(1)[0][0] if widths else 0
    odd = [
        Telling(at)
        for at in places
        if sample.lines[at].strip() and sum(map(sample.lines[at].count, DELIMITERS)) != usual
    ]
    yield from (one for one in firsts if one.at < count)
    yield Telling(count - 1)
    yield from in_turn(bad[:8], odd[:6], gaps[:4])
    yield from ends(sample, first=5, last=2)
    yield from (Telling(at) for at in range(0, count, max(1, count // 20)))
