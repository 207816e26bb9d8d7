"""Rows and columns: CSV and its relatives, tables of databases, listings such as `ls -l` and `ps`.
The heading, the first rows, rows that are unlike the others, the last.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, ends, in_turn

ROWS_MIN, SHARE_MIN, LOOKED_AT = 5, 0.9, 200
DELIMITERS = ("\t", ",", ";", "|")
_RULE = re.compile(r"[-+|= :]{5,}$")
_LISTED = re.compile(r"[-dlbcps][-rwxsStT]{9}[.+@]? +\d+ |total \d+$")
_HEADING = re.compile(r"(?:[A-Z%][A-Z0-9%_/.+-]*(?: [a-z]+)?(?:\s+|$)){3,}$")
_EMPTY = re.compile(r"(?:,,|\t\t|;;|\bNULL\b|\bNaN\b|\bnan\b|\bnull\b)")


def fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:LOOKED_AT] if line.strip()]
    if len(lines) < ROWS_MIN:
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


def telling(sample: Sample) -> Iterator[Telling]:
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
