"""The folder that a person works in: which of its files are looked at, and where it ends.

`place` says whether a path lies inside, `ignored` what git leaves out, `files` walks, and `match`
looks for a text. All of them are bounded, and none follows a link out of the folder.

The files of a folder, in the order of their names: without what git leaves out, without links,
and never more than was asked for.

Neighbours: `ignored` says what is left out; the commands `context add-folder` and
`context add-search` show what is found.

What no model is shown and no tool writes to: the store in use, and what refold keeps for this
user (their own store, their logins, what they allowed, their memories).

Neighbours: `stores.own_paths` knows the files of a store; `refold add` and
the tools of a chat ask here.

What git leaves out: the patterns of `.gitignore` files, read as git reads them.

The last pattern that matches decides; `!` takes a path in again, unless a folder above it is out.
Where a repository begins is of no interest here: every `.gitignore` from the top of the walk down
counts for what lies beside and below it. Neighbour: `files` asks while it walks.

Lines of the files of a folder that contain a text. The text is no pattern: what a person types
is what is looked for, in upper or lower case unless it has capitals itself.

Where the folder ends: a path that a person or a model writes, made certain.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from refold.checked import quoted
from refold.edges.commands.command import short_line
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.settings.sources import data_folder
from refold.stores import own_paths
from refold.stores.protocol import Store

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


def guarded(store: Store) -> Container[str]:
    """The paths that belong to a store, or to refold itself."""
    try:
        return own_paths(store, also=[str(data_folder(os.environ) / "refold")])
    except RefoldError:
        return own_paths(store)  # nobody knows a home, so nothing is kept there


def refuse_guarded(path: str, guards: Container[str]) -> None:
    """Denied for a path that is guarded."""
    if path in guards:
        hint = "what a conversation holds is shown by refold show and refold export"
        raise Denied(f"{quoted(path)} belongs to the store", hint=hint)


FILE = ".gitignore"
# Folders that no person means, whether a pattern names them or not.
NEVER = frozenset({".git", ".hg", ".svn", ".refold", "__pycache__", "node_modules", ".venv"})
ANY_FOLDERS = "**"
_CLASS = re.compile(r"\[(!|\^)?(\]?[^\]]*)\]")

Part = re.Pattern[str] | None  # what one name of a path must match; None for any number of names


class Pattern(NamedTuple):
    """One line of a `.gitignore`: what it matches, below which folder, and what it then says."""

    below: str
    parts: tuple[Part, ...]
    is_folder_only: bool
    is_ignored: bool


def patterns_of(text: str, below: str = "") -> list[Pattern]:
    """The patterns of a `.gitignore` that lies in the folder `below` (`a/b`, empty for the top)."""
    found = (_pattern(line, below) for line in text.splitlines())
    return [pattern for pattern in found if pattern is not None]


def is_ignored(path: str, patterns: Iterable[Pattern], *, is_folder: bool) -> bool:
    """Whether a path (`a/b/c.py`) is left out, given that the folders above it are not."""
    decided = False
    for pattern in patterns:
        inside = _inside(path, pattern.below)
        if inside is None or (pattern.is_folder_only and not is_folder):
            continue
        if _matches(pattern.parts, inside.split("/")):
            decided = pattern.is_ignored
    return decided


def _inside(path: str, below: str) -> str | None:
    """The path as seen from a folder; None if it does not lie there."""
    if not below:
        return path
    return path[len(below) + 1 :] if path.startswith(f"{below}/") else None


def _pattern(line: str, below: str) -> Pattern | None:
    """A line as a pattern; None for an empty one and a comment."""
    text = _without_spaces(line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    is_ignored = not text.startswith("!")
    text = text[1:] if not is_ignored else text
    is_folder_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    is_anchored = "/" in text
    text = text.removeprefix("/")
    names = text.split("/") if is_anchored else [ANY_FOLDERS, text]
    parts = tuple(map(_part, names))
    return Pattern(below, parts, is_folder_only, is_ignored)


def _without_spaces(line: str) -> str:
    """The line without the spaces at its end, but for one that a backslash keeps."""
    end = len(line)
    while end and line[end - 1] == " " and not (end > 1 and line[end - 2] == "\\"):
        end -= 1
    return line[:end]


def _matches(parts: Sequence[Part], names: Sequence[str]) -> bool:
    """Whether the parts match all names, in time that grows with both: a pattern of others must
    not be able to hang us."""
    reached = {0}
    for place, part in enumerate(parts):
        if part is None:
            # At the end of a pattern, `**` is everything inside, and so at least one name.
            least = min(reached, default=len(names)) + (place == len(parts) - 1)
            reached = set(range(least, len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and part.fullmatch(names[at])}
    return len(names) in reached


@lru_cache(maxsize=4_096)
def _part(text: str) -> Part:
    """What one name must match. Of several stars each takes as little as it can, and is never
    tried again: so every star but the last stands in an atomic group."""
    if text == ANY_FOLDERS:
        return None
    runs = [""]
    for piece in _pieces(text):
        if piece == "*":
            runs.append("")
        else:
            runs[-1] += piece
    first, *others = runs
    between = "".join(f"(?>.*?{run})" for run in others[:-1])
    last = f".*{others[-1]}" if others else ""
    try:
        return re.compile(first + between + last, re.DOTALL)
    except re.error:
        return re.compile("(?!)")


def _pieces(text: str) -> Iterator[str]:
    """The expression for each piece of a pattern; a star is a star."""
    at = 0
    while at < len(text):
        character, found = text[at], _CLASS.match(text, at)
        if character == "?":
            yield "."
        elif character == "*":
            yield "*"
        elif character == "\\" and at + 1 < len(text):
            at += 1
            yield re.escape(text[at])
        elif found:
            at = found.end() - 1
            yield _class(found)
        else:
            yield re.escape(character)
        at += 1


def _class(found: re.Match[str]) -> str:
    """`[!a-z]` as a class of a regular expression."""
    negated, inside = found[1], found[2]
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", inside)
    return f"[{'^' if negated else ''}{escaped}]"


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


def inside(path: str, *, top: str | None = None, anywhere: bool = False) -> tuple[Path, str]:
    """The real path, and how it is named from the folder `top` (the current one). Denied if it
    lies outside, unless `anywhere`; NotFound if it is not there."""
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
    """Whether a real path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
