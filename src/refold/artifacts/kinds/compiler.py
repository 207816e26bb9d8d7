"""What compilers, linters and type checkers say (gcc, clang, rustc, javac, tsc, eslint, mypy, ruff,
go vet, make): errors first, each kind of them once, with the source that some show below; then
warnings, and the sum at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, any_of, distinct, ends, in_turn

FOUND_MIN = 3
ERROR = any_of(
    r"[^\s:][^:]{0,200}:\d+(?::\d+)?: (?:fatal )?error\b",
    r"\S+\(\d+,\d+\): error ",
    r"\s+\d+:\d+\s+error\s",
    r"error(?:\[\w+\])?: ",
    r"make(?:\[\d+\])?: \*\*\* ",
    r".*undefined reference to ",
    r"\S+: fatal error: ",
    r"[^\s:][^:]{0,200}:\d+:\d+ - error ",
    r"npm ERR! ",
    r"CMake Error",
    r"ld: ",
    r"collect2: error",
    r"ERROR: ",
)
# A finding without a word for how bad it is: `a.py:1:2: E501 Line too long`, `a.go:3:2: …`.
NOTED = re.compile(r"\S+\.\w+:\d+:\d+: [A-Z]{1,4}\d{2,4} |[A-Z]{1,4}\d{2,4} (?:\[\*\] )?\S")
WARNED = any_of(
    r"[^\s:][^:]{0,200}:\d+(?::\d+)?: warning\b",
    r"\s+\d+:\d+\s+warning\s",
    r"warning(?:\[\w+\])?: ",
    r"npm WARN",
)
_SUM = re.compile(
    r".*\b(?:\d+ (?:errors?|warnings?|problems?)|Found \d+|generated|could not compile)"
)
_SOURCE = re.compile(r"\s+-->|\s*\d* ?\||\s+\^|\s{4,}\S")


def fits(sample: Sample) -> bool:
    errors = sum(ERROR.match(line) is not None for line in sample.lines)
    others = sum(_is_other(line) for line in sample.lines)
    return errors > 0 or others >= FOUND_MIN


def _is_other(line: str) -> bool:
    return (NOTED.match(line) or WARNED.match(line)) is not None


def telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    errors = distinct(sample, (at for at in places if ERROR.match(sample.lines[at])))
    others = distinct(sample, (at for at in places if _is_other(sample.lines[at])))
    sums = [Telling(at) for at in places if _SUM.match(sample.lines[at])]
    yield from sums[-2:]
    yield from errors[:8]
    yield from in_turn(*(_below(sample, one.at) for one in errors[:8]))
    yield from errors[8:]
    yield from others
    yield from in_turn(*(_below(sample, one.at) for one in others[:4]))
    yield from ends(sample)


def _below(sample: Sample, at: int) -> list[Telling]:
    """The source and the place that are shown below an error."""
    below = []
    for place in range(at + 1, min(at + 6, len(sample.lines))):
        if not _SOURCE.match(sample.lines[place]):
            break
        below.append(Telling(place))
    return below
