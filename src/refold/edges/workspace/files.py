"""The files of a folder, in the order of their names: without what git leaves out, without links,
and never more than was asked for.

Neighbours: `ignored` says what is left out; the commands `context add-folder` and
`context add-search` show what is found.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import NamedTuple

from refold.edges.workspace.ignored import FILE, NEVER, Pattern, is_ignored, patterns_of
from refold.edges.workspace.place import is_below

PATTERNS_BYTES_MAX = 1_000_000


class Found(NamedTuple):
    """A file or a folder below the top: `path` with slashes. `is_deeper` says that a folder has
    more below, which lies too deep to be looked at."""

    path: str
    depth: int
    is_folder: bool
    size_bytes: int = 0
    is_deeper: bool = False


def walk(top: str, *, depth_max: int, without: Container[str] = ()) -> Iterator[Found]:
    """What lies below a folder, each folder before what is in it. The caller stops when it has
    enough; what cannot be read is left out, and so are paths that are in `without`."""
    folder = os.path.realpath(top)
    root = _root(folder)
    names = [] if folder == root else os.path.relpath(folder, root).split(os.sep)
    above: list[Pattern] = []
    for count in range(len(names)):
        above += _patterns(os.path.join(root, *names[:count]), "/".join(names[:count]))
    skipped = len("/".join(names)) + 1 if names else 0
    for one in _walk(folder, "/".join(names), 1, depth_max, above, without):
        yield one._replace(path=one.path[skipped:])


def _root(folder: str) -> str:
    """Where the patterns begin that hold for a folder: its repository, else the current folder
    if it lies in that, else itself."""
    place = folder
    while not os.path.exists(os.path.join(place, ".git")):
        if place == os.path.dirname(place):
            here = os.path.realpath(os.getcwd())
            return here if is_below(folder, here) else folder
        place = os.path.dirname(place)
    return place


def _walk(
    folder: str,
    below: str,
    depth: int,
    depth_max: int,
    above: list[Pattern],
    without: Container[str],
) -> Iterator[Found]:
    """The same, with paths from the root."""
    patterns = [*above, *_patterns(folder, below)]
    for entry in _entries(folder):
        path = f"{below}/{entry.name}" if below else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or is_ignored(path, patterns, is_folder=is_folder):
            continue
        if entry.path in without:
            continue
        if not is_folder:
            yield Found(path, depth, False, _size(entry))
        elif depth >= depth_max:
            yield Found(path, depth, True, is_deeper=True)
        else:
            yield Found(path, depth, True)
            yield from _walk(entry.path, path, depth + 1, depth_max, patterns, without)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Regular files and folders, folders first, each in the order of their names."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if _is_plain(entry)]
    except OSError:
        return []
    return sorted(entries, key=lambda one: (not one.is_dir(follow_symlinks=False), one.name))


def _is_plain(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _patterns(folder: str, below: str) -> list[Pattern]:
    """Those of the folder's own `.gitignore`; none if there is none that can be read."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8", errors="replace") as file:
            return patterns_of(file.read(PATTERNS_BYTES_MAX), below)
    except OSError:
        return []
