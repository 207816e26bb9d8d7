"""One JSON value: its shape, sample rows, and what in it speaks of trouble.

A value on one line is parted where its items are, so that rows can be shown as they stand; one that
is laid out over many lines is shown by its lines. Keys that are new come first: they are the shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from refold.artifacts.kinds.sample import (
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
