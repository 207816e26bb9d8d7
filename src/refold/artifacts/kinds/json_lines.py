"""A record of JSON on every line: the first, those that speak of trouble, one of each shape, the
last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.artifacts.kinds.sample import LINE_LOOKED_AT, Sample, Telling, ends

ROWS_MIN, LOOKED_AT = 3, 20
_KEY = re.compile(r'\s*"([^"\\]{1,60})"\s*:')


def fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:LOOKED_AT] if line.strip()]
    return len(lines) >= ROWS_MIN and all(map(_is_record, lines))


def _is_record(line: str) -> bool:
    """Whether a line is an object. Lines are cut where they are long: then its end is not seen."""
    if not line.startswith("{") or (_KEY.match(line, 1) is None and line.rstrip() != "{}"):
        return False
    return len(line) >= LINE_LOOKED_AT or line.rstrip().endswith("}")


def telling(sample: Sample) -> Iterator[Telling]:
    count = len(sample.lines)
    yield Telling(0)
    yield from map(Telling, sample.troubled)
    shapes: dict[tuple[str, ...], int] = {}
    for at, line in enumerate(sample.lines):
        shapes.setdefault(tuple(_KEY.findall(line[:2_000])), at)
    yield from map(Telling, shapes.values())
    yield Telling(count - 1)
    yield from ends(sample)
