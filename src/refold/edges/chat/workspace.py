"""The folder that a chat works in: which paths its tools may touch, and what they find there.

A path that a model writes is data. It is looked up inside the folder or one that the user allowed,
and nowhere else. What belongs to the store is neither read, listed, found nor written, `.git` is
never written to. Lists leave out what a version control would not keep. Every read, list and search
is bounded. Neighbours: `tools` offers this to the model, `system.inside` reaches the disk,
`edges.workspace.guarded` knows what is the store's.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from refold.artifacts.grep import grepped
from refold.checked import quoted
from refold.display import number
from refold.edges.workspace.files import Found, walk
from refold.edges.workspace.guarded import refuse_guarded
from refold.errors import Denied, Invalid, NotFound, RefoldError
from refold.system.disk import PROJECT_FOLDER
from refold.system.inside import Place, place_in, read

READ_BYTES_MAX = 2 * 1024 * 1024
ENTRIES_MAX, DEPTH_MAX = 1_000, 8
SEARCHED_MAX, SEARCHED_BYTES_MAX, GREP_S = 5_000, 1024 * 1024, 10.0
PROBE_BYTES = 8_000
HISTORY = ".git"


class Workspace(Struct, frozen=True):
    """The folder, further ones that the user allowed, and paths that are the store's own."""

    root: Path
    allowed: tuple[Path, ...] = ()
    guards: Container[str] = ()

    def place(self, path: str) -> Place:
        """Where a path leads. Denied if that is outside of every folder, or in the store."""
        place = self._inside(path)
        refuse_guarded(place.path, self.guards)
        if _has(place, PROJECT_FOLDER):
            raise Denied(f"{quoted(path)} belongs to the store", hint="name another file")
        return place

    def _inside(self, path: str) -> Place:
        try:
            return place_in(self.root, path)
        except Denied:
            for folder in self.allowed:
                try:
                    return place_in(folder, str(self.root / path))
                except Denied:
                    continue
        hint = "the user can allow another folder: refold chat --allow FOLDER"
        raise Denied(f"{quoted(path)} is outside the folder", hint=hint)

    def writable(self, path: str) -> Place:
        """Where a path leads that is to be written to."""
        place = self.place(path)
        if _has(place, HISTORY):
            reason = f"{quoted(path)} belongs to version control"
            raise Denied(reason, hint="write to another place")
        return place

    def text(self, path: str, *, exact: bool = False) -> str:
        """The text of a file; if it must be exact, bytes that are no text are refused."""
        found = read(self.place(path), bytes_max=READ_BYTES_MAX)
        if found is None:
            raise NotFound(
                f"there is no file {quoted(path)}", hint="list_files shows what is there"
            )
        if _is_binary(found.data):
            raise Invalid(f"{quoted(path)} is not text", hint="only text can be read")
        try:
            return found.data.decode("utf-8", "strict" if exact else "replace")
        except UnicodeDecodeError as error:
            raise Invalid(f"{quoted(path)} is not UTF-8", hint="write the whole file") from error

    # --- what is there ---

    def files(self, path: str = ".") -> Iterator[Found]:
        """The files below a folder, without what git leaves out, by their paths as a tool takes
        them."""
        place = self.place(path)
        if not os.path.isdir(place.path):
            raise NotFound(f"there is no folder {quoted(path)}", hint="list_files shows the top")
        above = _above(place, self.root)
        for found in walk(place.path, depth_max=DEPTH_MAX, without=self.guards):
            if not found.is_folder:
                yield found._replace(path=f"{above}{found.path}")

    def listing(self, path: str) -> str:
        """The files below a folder with their sizes, one a line."""
        found = list(islice(self.files(path), ENTRIES_MAX + 1))
        rows = [f"{one.path}  {number(one.size_bytes, 'byte')}" for one in found[:ENTRIES_MAX]]
        if len(found) > ENTRIES_MAX:
            rows.append(f"[more than {ENTRIES_MAX:,} files: list a folder of them]")
        return "\n".join(rows) or "[no files]"

    def grep(self, pattern: str, path: str, *, regex: bool, ignore_case: bool, limit: int) -> str:
        """The lines of files that match, as `path:line: text`."""
        place = self.place(path)
        if os.path.isfile(place.path):
            names = [path]
        else:
            names = [one.path for one in islice(self.files(path), SEARCHED_MAX)]
        lines = _JoinedFiles(self, names)
        found = grepped(
            lines.chunks(), pattern, regex=regex, ignore_case=ignore_case, most=limit, wait_s=GREP_S
        )
        rows = [f"{lines.where(one.number)}: {one.text}" for one in found.lines]
        head = f"{number(len(rows), 'line')} in {number(len(names), 'file')}"
        ended = f", {found.ended}" if found.ended else ""
        return "\n".join([f"[{head}{ended}]", *rows])


def _has(place: Place, name: str) -> bool:
    """Whether a folder of that name, in any case, is on the way to a place."""
    return name in {one.casefold() for one in place.names}


def _above(place: Place, root: Path) -> str:
    """What stands before the paths below a folder: nothing at the top, its whole path where it
    is another folder than the workspace's own."""
    if place.root != os.path.realpath(root):
        return f"{place.path}/"
    return f"{place}/" if place.names else ""


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:PROBE_BYTES]


class _JoinedFiles:
    """Many files as one text to search, and the file that a line of it belongs to."""

    def __init__(self, workspace: Workspace, names: Sequence[str]) -> None:
        self._workspace, self._names = workspace, names
        self._starts: list[tuple[int, str]] = []

    def chunks(self) -> Iterator[bytes]:
        line = 1
        for name in self._names:
            try:
                found = read(self._workspace.place(name), bytes_max=SEARCHED_BYTES_MAX)
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
