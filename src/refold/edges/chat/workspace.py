"""The folder that a chat works in: which paths its tools may touch, and what they find there.

A path that a model writes is data. It is looked up inside the folder or one that the user allowed,
and nowhere else; `.git` and the store are never written to. Lists leave out what a version control
would not keep. Every read, list and search is bounded. Neighbours: `tools` offers this to the
model, `system.inside` reaches the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from refold.artifacts.grep import grepped
from refold.display import number
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.system.disk import PROJECT_FOLDER
from refold.system.inside import Place, place_in, read

READ_BYTES_MAX = 2 * 1024 * 1024
ENTRIES_MAX, DEPTH_MAX = 1_000, 8
SEARCHED_MAX, SEARCHED_BYTES_MAX, GREP_S = 5_000, 1024 * 1024, 10.0
PROBE_BYTES = 8_000
PROTECTED = frozenset({".git", PROJECT_FOLDER})
LEFT_OUT = PROTECTED | {
    "__pycache__", "node_modules", ".venv", "venv", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".tox", ".hg", ".svn", ".idea", "dist", "build", "target",
}  # fmt: skip


class Workspace(Struct, frozen=True):
    """The folder, and further ones that the user allowed."""

    root: Path
    allowed: tuple[Path, ...] = ()

    def place(self, path: str) -> Place:
        """Where a path leads. Denied if that is outside of every folder."""
        try:
            return place_in(self.root, path)
        except Denied:
            for folder in self.allowed:
                try:
                    return place_in(folder, str(self.root / path))
                except Denied:
                    continue
        hint = "the user can allow another folder: refold chat --allow FOLDER"
        raise Denied(f"{path!r:.200} is outside of the folder", hint=hint)

    def writable(self, path: str) -> Place:
        """Where a path leads that is to be written to."""
        place = self.place(path)
        if PROTECTED & {*place.names}:
            reason = f"{path!r:.200} belongs to version control or to the store"
            raise Denied(reason, hint="write to another place")
        return place

    def text(self, path: str, *, exact: bool = False) -> str:
        """The text of a file; if it must be exact, bytes that are no text are refused."""
        found = read(self.place(path), bytes_max=READ_BYTES_MAX)
        if found is None:
            raise NotFound(f"there is no file {path!r:.200}", hint="list_files shows what is there")
        if _is_binary(found.data):
            raise Invalid(f"{path!r:.200} is not text", hint="only text can be read")
        try:
            return found.data.decode("utf-8", "strict" if exact else "replace")
        except UnicodeDecodeError as error:
            raise Invalid(f"{path!r:.200} is not UTF-8", hint="write the whole file") from error

    # --- what is there ---

    def files(self, path: str = ".") -> Iterator[str]:
        """The files below a folder, sorted, by their paths in the workspace."""
        place = self.place(path)
        if not os.path.isdir(place.path):
            raise NotFound(f"there is no folder {path!r:.200}", hint="list_files shows the top")
        return _walked(place.path, "" if str(place) == "." else f"{place}/", 0)

    def listing(self, path: str) -> str:
        """The files below a folder with their sizes, one a line."""
        found = list(islice(self.files(path), ENTRIES_MAX + 1))
        rows = [f"{name}  {_size(self.root / name)}" for name in found[:ENTRIES_MAX]]
        if len(found) > ENTRIES_MAX:
            rows.append(f"[more than {ENTRIES_MAX:,} files: list a folder of them]")
        return "\n".join(rows) or "[no files]"

    def grep(self, pattern: str, path: str, *, regex: bool, ignore_case: bool, limit: int) -> str:
        """The lines of files that match, as `path:line: text`."""
        place = self.place(path)
        names = (
            [str(place)]
            if os.path.isfile(place.path)
            else list(islice(self.files(path), SEARCHED_MAX))
        )
        lines = _JoinedFiles(self.root, names)
        found = grepped(
            lines.chunks(), pattern, regex=regex, ignore_case=ignore_case, most=limit, wait_s=GREP_S
        )
        rows = [f"{lines.where(one.number)}: {one.text}" for one in found.lines]
        head = f"{number(len(rows), 'line')} in {number(len(names), 'file')}"
        ended = f", {found.ended}" if found.ended else ""
        return "\n".join([f"[{head}{ended}]", *rows])


def _walked(folder: str, prefix: str, depth: int) -> Iterator[str]:
    """Every regular file, folders after files; links are left out, so nothing comes twice."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: (entry.is_dir(), entry.name))
    except OSError:
        return  # it went away, or may not be looked into
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            yield prefix + entry.name
        elif (
            entry.is_dir(follow_symlinks=False) and entry.name not in LEFT_OUT and depth < DEPTH_MAX
        ):
            yield from _walked(entry.path, f"{prefix}{entry.name}/", depth + 1)


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:PROBE_BYTES]


def _size(path: Path) -> str:
    try:
        return number(path.stat().st_size, "byte")
    except OSError:
        return "gone"


class _JoinedFiles:
    """Many files as one text to search, and the file that a line of it belongs to."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root, self._names = root, names
        self._starts: list[tuple[int, str]] = []

    def chunks(self) -> Iterator[bytes]:
        line = 1
        for name in self._names:
            try:
                found = read(place_in(self._root, name), bytes_max=SEARCHED_BYTES_MAX)
            except RefoldError:
                continue  # too large to be searched, or not to be read
            if found is None or _is_binary(found.data):
                continue
            data = found.data if found.data.endswith(b"\n") else found.data + b"\n"
            self._starts.append((line, name))
            line += data.count(b"\n")
            yield data

    def where(self, line: int) -> str:
        start, name = max(one for one in self._starts if one[0] <= line)
        return f"{name}:{line - start + 1}"
