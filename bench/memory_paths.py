"""The memory tool under attack: hostile paths, and folders that are swapped for links meanwhile.

The attacks are those of `tests/memory/files`, which also run, shorter, in `make test`: a round that
touches what lies outside fails there and here. `make soak` runs 20,000 rounds of the race.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bench.tables import Table

PATHS, ROUNDS, ROUNDS_QUICK = 1_000, 5_000, 200


def run(*, quick: bool = False) -> Table:
    from tests.memory.files.test_links import race

    rounds = ROUNDS_QUICK if quick else ROUNDS
    table = Table("The memory tool under attack", ["what", "refold", "goal", "met"])
    escapes, failures = hostile_paths()
    table.at_most(f"{PATHS:,} hostile paths, escapes", escapes, 0)
    table.at_most(f"{PATHS:,} hostile paths, failures of the tool", failures, 0)
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as name, _without_syncs():
        table.at_most(
            f"{rounds:,} rounds of a swap race, touched outside", _lost(race, name, rounds), 0
        )
    return table


def _lost(race, name: str, rounds: int) -> int:  # type: ignore[no-untyped-def]
    """1 if something outside was read or changed in one of the rounds."""
    try:
        race(Path(name), rounds)
    except AssertionError:
        return 1
    return 0


def hostile_paths() -> tuple[int, int]:
    """How many of the paths reached something outside, and how many made the tool fail."""
    from tests.memory.files.kit import contents, opened, outside, said, tree
    from tests.memory.files.test_paths import hostile_paths as generated

    escapes = failures = 0
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as name:
        place = Path(name)
        away, files = outside(place), opened(place)
        said(files, "create", "/memories/a/notes.md", file_text="kept")
        (tree(place) / "link").symlink_to(away)
        before = contents(away)
        for path in generated(PATHS):
            answers = [
                files.call(one)
                for one in (
                    {"command": "view", "path": path},
                    {"command": "create", "path": path, "file_text": "x"},
                    {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
                    {"command": "rename", "old_path": path, "new_path": "/memories/stolen.md"},
                )
            ]
            failures += any("the tool failed" in answer.text for answer in answers)
            escapes += (
                any("canary:" in answer.text for answer in answers) or contents(away) != before
            )
        files.close()
    return escapes, failures


@contextmanager
def _without_syncs() -> Iterator[None]:
    """The race is about names, not about power cuts."""
    nothing = mock.patch.multiple(os, fsync=lambda fd: None, fdatasync=lambda fd: None)
    with nothing:
        yield
