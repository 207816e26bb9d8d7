"""The folder that a person works in: its files in the order of their names, the lines that contain
some text, and its limits.

Files that git ignores, links, the store in use and refold's own files are left out. A path from a
person or a model is resolved before it is used. Everything is bounded. Neighbours: the command
`refold add`, the tools of a chat; `stores.own_paths` lists the files of a store, `pathspec` parses
the patterns of `.gitignore`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from refold.checked import quoted
from refold.edges.commands.command import short_line
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.settings.permissions import data_folder
from refold.stores import own_paths
from refold.stores.protocol import Store

PATTERNS_BYTES_MAX = 1_000_000


class Found(NamedTuple):
    """A file or a folder below the top: `path` with slashes. `is_deeper`: a folder whose content is
    too deep to be listed."""

    path: str
    depth: int
    is_folder: bool
    size_bytes: int = 0
    is_deeper: bool = False


def walk(top: str, *, depth_max: int, without: Container[str] = ()) -> Iterator[Found]:
    """The files and folders below a folder, each folder before its content. Unreadable ones and
    those in `without` are left out; the caller stops when it has enough."""
    folder = os.path.realpath(top)
    root = _root(folder)
    names = [] if folder == root else os.path.relpath(folder, root).split(os.sep)
    above: list[Pattern] = []
    for count in range(len(names)):
        above += _patterns(os.path.join(root, *names[:count]), "/".join(names[:count]))
    skipped = len("/".join(names)) + 1 if names else 0
    for found in _walk(folder, "/".join(names), 1, depth_max, above, without):
        yield found._replace(path=found.path[skipped:])


def _root(folder: str) -> str:
    """The top of the patterns that apply to a folder: its repository, else the current folder if it
    is in that, else itself."""
    parent = folder
    while not os.path.exists(os.path.join(parent, ".git")):
        if parent == os.path.dirname(parent):
            here = os.path.realpath(os.getcwd())
            return here if is_below(folder, here) else folder
        parent = os.path.dirname(parent)
    return parent


def _walk(
    folder: str,
    below: str,
    depth: int,
    depth_max: int,
    above: list[Pattern],
    without: Container[str],
) -> Iterator[Found]:
    """Walks with paths from the root."""
    patterns = [*above, *_patterns(folder, below)]
    for entry in _entries(folder):
        path = f"{below}/{entry.name}" if below else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in NEVER or entry.path in without:
            continue
        if is_ignored(path, patterns, is_folder=is_folder):
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
            entries = [
                entry
                for entry in found
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
    return sorted(entries, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _patterns(folder: str, below: str) -> list[Pattern]:
    """The patterns of the folder's own `.gitignore`, if it has a readable one."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8", errors="replace") as file:
            return patterns_of(file.read(PATTERNS_BYTES_MAX), below)
    except OSError:
        return []


def guarded(store: Store) -> Container[str]:
    """The paths of a store and of refold itself: no model sees them, no tool writes there."""
    try:
        return own_paths(store, also=[str(data_folder(os.environ) / "refold")])
    except RefoldError:
        return own_paths(store)  # no home folder, so nothing is stored there


def refuse_guarded(path: str, guards: Container[str]) -> None:
    """Denied for a guarded path."""
    if path in guards:
        hint = "use refold show or refold export to see a conversation"
        raise Denied(f"{quoted(path)} belongs to the store", hint=hint)


FILE = ".gitignore"
# Folders that are always left out, whether a pattern names them or not.
NEVER = frozenset({".git", ".hg", ".svn", ".refold", "__pycache__", "node_modules", ".venv"})
WILDCARDS_MAX = 4  # in one pattern: each one multiplies the time that a match may take


class Pattern(NamedTuple):
    """One line of a `.gitignore`: the paths it matches, below which folder, and its decision."""

    below: str
    paths: re.Pattern[str]
    is_ignored: bool


def patterns_of(text: str, below: str = "") -> list[Pattern]:
    """The patterns of a `.gitignore` in the folder `below` (`a/b`, empty for the top)."""
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    patterns = []
    for line in text.splitlines():
        try:
            paths, is_ignored = GitIgnoreSpecPattern.pattern_to_regex(_bounded(line))
            if paths is not None and is_ignored is not None and line.strip() != "!/":
                # In git, a class such as [!a] never matches a slash.
                regex = re.compile(paths.replace("[^", "[^/"))
                patterns.append(Pattern(below, regex, is_ignored))
        except (GitIgnorePatternError, re.error):
            continue  # git ignores such a line too
    return patterns


def _bounded(line: str) -> str:
    """The line with few wildcards, so that a hostile pattern cannot hang us: it then ignores more,
    and an exception (`!`) is dropped."""
    wildcards = list(re.finditer(r"\*+", line))
    if len(wildcards) <= WILDCARDS_MAX:
        return line
    if line.startswith("!"):
        return ""
    first, end = wildcards[0].start(), wildcards[-1].end()
    if "/" not in line[first:end]:
        return f"{line[:first]}*{line[end:]}"
    return f"{line[: line.rfind('/', 0, first) + 1]}**/*{line[end:]}"


def is_ignored(path: str, patterns: Iterable[Pattern], *, is_folder: bool) -> bool:
    """Whether git ignores a path (`a/b/c.py`), given that it ignores no folder above it: the last
    pattern that matches decides."""
    decision = False
    for pattern in patterns:
        if pattern.below and not path.startswith(f"{pattern.below}/"):
            continue
        name = path[len(pattern.below) + 1 :] if pattern.below else path
        if _matches(pattern.paths, name) or (is_folder and _matches_folder(pattern.paths, name)):
            decision = pattern.is_ignored
    return decision


_FOLDER_MARK = "ps_d"  # the group by which pathspec marks the slash after a matched folder


def _matches(paths: re.Pattern[str], name: str) -> bool:
    """Whether a pattern matches the path itself, and not only a folder above it."""
    found = paths.search(name)
    return found is not None and not found.groupdict().get(_FOLDER_MARK)


def _matches_folder(paths: re.Pattern[str], name: str) -> bool:
    marked = (found for found in paths.finditer(f"{name}/") if found.groupdict().get(_FOLDER_MARK))
    return any(found.end() == len(name) + 1 for found in marked)


DEPTH_MAX, FILES_MAX, FILE_BYTES_MAX = 20, 20_000, 2_000_000
WAIT_S = 10.0


class Match(NamedTuple):
    """A matching line; `number` counts from 1."""

    path: str
    number: int
    line: str


class Matches(NamedTuple):
    """Matching lines, and how many files were searched; `stopped` says why not all were."""

    lines: list[Match]
    files: int
    stopped: str


def matches(top: str, text: str, *, limit: int, without: Container[str] = ()) -> Matches:
    """The first lines that contain the text, in any case if it has no capitals. Files in `without`
    are not searched."""
    lines: list[Match] = []
    searched, deadline = 0, time.monotonic() + WAIT_S
    for found in walk(top, depth_max=DEPTH_MAX, without=without):
        if found.is_folder or found.size_bytes > FILE_BYTES_MAX:
            continue
        if searched >= FILES_MAX or time.monotonic() > deadline:
            return Matches(lines, searched, f"only {searched:,} files were searched")
        searched += 1
        for match in _matches_in_file(Path(top) / found.path, found.path, text):
            if len(lines) == limit:
                return Matches(lines, searched, f"only the first {limit:,} lines are shown")
            lines.append(match)
    return Matches(lines, searched, "")


def _matches_in_file(file: Path, path: str, text: str) -> Iterator[Match]:
    """The matching lines of one file; none of an unreadable or binary file."""
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


def inside(path: str, *, top: str | None = None, anywhere: bool = False) -> tuple[Path, str]:
    """The real path, and its name from the folder `top` (default: the current one). Denied if it is
    outside, unless `anywhere`; NotFound if it does not exist."""
    shown = short_line(path, 200)
    if not path or "\0" in path:
        raise Invalid(f"{shown!r} is not a path", hint="name a file or a folder")
    folder = os.path.realpath(top or os.getcwd())
    real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    if not os.path.lexists(real):
        raise NotFound(f"there is no {shown}", hint=f"paths are read from {folder}")
    if is_below(real, folder):
        return Path(real), os.path.relpath(real, folder)
    if not anywhere:
        raise Denied(f"{shown} is outside {folder}", hint="--anywhere allows it")
    return Path(real), real


def is_below(path: str, folder: str) -> bool:
    """Whether a real path is the folder or inside it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
