"""A log: lines with a time or a level. Errors first, then warnings, then what is rare; of lines
that are alike the first, with how many follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.artifacts.kinds.sample import (
    Alike,
    Sample,
    Telling,
    any_of,
    ends,
)

LINES_MIN, SHARE_MIN, RARE_MAX = 5, 0.5, 2
ENTRY = any_of(
    r"[\[(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d",
    r"\[?\d\d:\d\d:\d\d\b",
    r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d ",
    r"\[ *\d+\.\d+\] ",
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b",
    r"\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}",
    r"[EWID]\d{4} \d\d:\d\d",
    r"(?:time|ts|level)=\S",
    r"\d{10,13}[ .]",
)
LEVEL = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|level=(?:error|fatal))\b|\" 5\d\d "
)


def fits(sample: Sample) -> bool:
    entries = sum(ENTRY.match(line) is not None for line in sample.lines)
    written = sum(bool(line.strip()) for line in sample.lines)
    return entries >= LINES_MIN and entries > SHARE_MIN * written


def telling(sample: Sample) -> Iterator[Telling]:
    alike = Alike(sample)
    grave = [at for at in sample.marked if LEVEL.search(sample.lines[at])]
    yield from alike.distinct(grave)
    yield from (one for at in grave[:5] for one in _said_below(sample, at))
    yield from alike.distinct(sample.troubled)
    yield from alike.distinct(sample.warned)
    yield from ends(sample, first=2, last=2)
    kinds = alike.distinct(range(len(sample.lines)))
    yield from sorted(kinds, key=lambda one: (one.alike > RARE_MAX, one.at))
    yield from ends(sample)


def _said_below(sample: Sample, at: int) -> Iterator[Telling]:
    """What belongs to an entry but is not one: the last line of a traceback says what it was."""
    last = at
    while last + 1 < len(sample.lines) and not ENTRY.match(sample.lines[last + 1]):
        last += 1
    if last > at:
        yield Telling(last)
        yield Telling(at + 1)
