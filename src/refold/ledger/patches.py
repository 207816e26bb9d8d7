"""The files that a patch changes, read from its headers: `*** Update File:` bodies and unified
diffs.

Neighbours: `actions` asks for the patch of a call, `scripts` and `shell_changes` for those that a
command applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from refold.ledger.kinds import ChangeKind

FILES_MAX = 1_000
PAIR_CHARS = 8_192  # for the two header lines of a file in a unified diff

_MOVE = "*** Move to: "
_HEADERS: dict[str, ChangeKind] = {
    "*** Add File: ": "create",
    "*** Update File: ": "modify",
    "*** Delete File: ": "delete",
    _MOVE: "create",
}


class FileChange(NamedTuple):
    """What happens to one file."""

    kind: ChangeKind
    path: str


def patched(body: str) -> list[FileChange]:
    """What a patch does to every file in it, in order."""
    found: list[FileChange] = []
    starts = islice(_line_starts(body, "*** "), FILES_MAX)
    for start in starts:
        _read_header(_line_at(body, start), found)
    return found or _unified(body)


def _line_starts(body: str, mark: str) -> Iterator[int]:
    """Where the lines begin that start with the mark."""
    if body.startswith(mark):
        yield 0
    at = body.find("\n" + mark) + 1
    while at:
        yield at
        at = body.find("\n" + mark, at) + 1


def _line_at(body: str, start: int) -> str:
    """The line that begins here."""
    end = body.find("\n", start)
    return body[start:] if end < 0 else body[start:end]


def _read_header(line: str, found: list[FileChange]) -> None:
    """Adds what a header line says. A file that is moved was named by the header before."""
    kind = _header_kind(line)
    if kind is None:
        return
    path = line.split(": ", 1)[1].strip()
    if line.startswith(_MOVE) and found and found[-1].kind == "modify":
        found[-1] = FileChange("delete", found[-1].path)
    if path:
        found.append(FileChange(kind, path))


def _header_kind(line: str) -> ChangeKind | None:
    """What a header line says of its file; None if it is not one."""
    for head, kind in _HEADERS.items():
        if line.startswith(head):
            return kind
    return None


def _unified(body: str) -> list[FileChange]:
    found: list[FileChange] = []
    for start in _line_starts(body, "--- "):
        if len(found) >= FILES_MAX:
            break
        lines = body[start : start + PAIR_CHARS].split("\n", 2)
        if len(lines) > 1 and lines[1].startswith("+++ "):
            found.append(_change_between(lines[0], lines[1]))
    return found


def _change_between(old_line: str, new_line: str) -> FileChange:
    old, new = _diff_path(old_line), _diff_path(new_line)
    if old == "/dev/null":
        return FileChange("create", new)
    if new == "/dev/null":
        return FileChange("delete", old)
    return FileChange("modify", new)


def _diff_path(line: str) -> str:
    """The path in a line that begins with `--- ` or `+++ `."""
    path = line[4:].split("\t", 1)[0].strip()
    return path[2:] if path[:2] in ("a/", "b/") else path
