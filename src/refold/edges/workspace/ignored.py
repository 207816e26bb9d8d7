"""What git leaves out: the patterns of `.gitignore` files, read as git reads them.

The last pattern that matches decides; `!` takes a path in again, unless a folder above it is out.
Where a repository begins is of no interest here: every `.gitignore` from the top of the walk down
counts for what lies beside and below it. Neighbour: `files` asks while it walks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

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
