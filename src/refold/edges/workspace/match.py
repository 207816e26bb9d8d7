"""Lines of the files of a folder that contain a text. The text is no pattern: what a person types
is what is looked for, in upper or lower case unless it has capitals itself."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

from refold.edges.workspace.files import walk

DEPTH_MAX, FILES_MAX, FILE_BYTES_MAX = 20, 20_000, 2_000_000
WAIT_S = 10.0


class Match(NamedTuple):
    """One line, counted from 1."""

    path: str
    number: int
    line: str


class Matches(NamedTuple):
    """What was found, in how many files; `stopped` says why not everything was looked at."""

    lines: list[Match]
    files: int
    stopped: str


def matches(top: str, text: str, *, limit: int, without: Container[str] = ()) -> Matches:
    """The first lines that contain the text; files that are in `without` are not looked at."""
    found: list[Match] = []
    looked_at, deadline = 0, time.monotonic() + WAIT_S
    for one in walk(top, depth_max=DEPTH_MAX, without=without):
        if one.is_folder or one.size_bytes > FILE_BYTES_MAX:
            continue
        if looked_at >= FILES_MAX or time.monotonic() > deadline:
            return Matches(found, looked_at, f"only {looked_at:,} files were looked at")
        looked_at += 1
        for match in _in_file(Path(top) / one.path, one.path, text):
            if len(found) == limit:
                return Matches(found, looked_at, f"only the first {limit:,} lines are shown")
            found.append(match)
    return Matches(found, looked_at, "")


def _in_file(file: Path, path: str, text: str) -> Iterator[Match]:
    """The lines of one file; none of a file that cannot be read, or is not text."""
    try:
        content = file.read_bytes()
    except OSError:
        return
    if b"\0" in content:
        return
    ignores_case = text == text.lower()
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        if text in (line.lower() if ignores_case else line):
            yield Match(path, number, line)
