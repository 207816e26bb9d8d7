"""A diff, alone or behind the words of commits: its files, its hunks, the first changes of each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.artifacts.kinds.sample import Sample, Telling, in_turn

SHARE_MIN, FILES_MAX, HUNKS_MAX, COMMITS_MAX = 0.6, 12, 40, 4
HUNK = re.compile(r"@@+ -\d+(?:,\d+)? ")
_FILE = re.compile(
    r"diff --git |Index: |\*\*\* (?:Update|Add|Delete) File: |(?:rename|new file|deleted)"
)
_OLD_NEW = re.compile(r"(?:---|\+\+\+) \S")
_COMMIT = re.compile(r"commit [0-9a-f]{7,}|Author: |    \S")


def fits(sample: Sample) -> bool:
    hunks = sum(HUNK.match(line) is not None for line in sample.lines)
    of_diff = sum(line[:1] in ("+", "-", " ", "@") or not line for line in sample.lines)
    return hunks > 0 and of_diff > SHARE_MIN * len(sample.lines)


def telling(sample: Sample) -> Iterator[Telling]:
    places = range(len(sample.lines))
    files = [at for at in places if _FILE.match(sample.lines[at])]
    if not files:
        files = [at for at in places if sample.lines[at].startswith("+++ ")]
    commits = [at for at in places[: files[0] if files else 0] if _COMMIT.match(sample.lines[at])]
    yield from map(Telling, files[:FILES_MAX])
    yield from map(Telling, commits[:COMMITS_MAX])
    yield from in_turn(*list(_hunks(sample))[:HUNKS_MAX])
    yield from map(Telling, files[FILES_MAX:])


def _hunks(sample: Sample) -> Iterator[list[Telling]]:
    """Each hunk: its heading, and what it changes that no hunk before changed likewise."""
    hunk: list[Telling] = []
    known: set[str] = set()
    for at, line in enumerate(sample.lines):
        if HUNK.match(line):
            if hunk:
                yield hunk
            hunk = [Telling(at)]
        elif hunk and line not in known and _is_change(line):
            known.add(line)
            hunk.append(Telling(at))
    if hunk:
        yield hunk


def _is_change(line: str) -> bool:
    return line[:1] in ("+", "-") and bool(line[1:].strip()) and not _OLD_NEW.match(line)
