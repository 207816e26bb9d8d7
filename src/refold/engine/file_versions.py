"""Versions of files on disk: kept before a tool writes, and put back as they were at a point.

`keep` is called before a tool writes to a file: it stores the bytes as an artifact, and appends a
note with its id. A file is also kept before it is put back, so that this can be undone. Paths in a
log are untrusted: only files inside the caller's folder are read or written, even if an imported
log has other paths, none inside `.git` or `.refold`, and none through a link. A file that was kept
in another folder is left alone, unless that folder no longer exists and the caller names the file.
Tools act on hidden files, such as `.mcp.json`, so these have to be named, too. A file keeps its
mode, except that it becomes executable if it was. Neighbours: `log.undo` finds versions in the log,
`system.contained_files` reads and writes the disk.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from refold.artifacts.artifacts import ArtifactReader, Artifacts
from refold.checked import checked, quoted
from refold.compaction.active_model import ActiveModel
from refold.core.model import Origin
from refold.engine.file_refresh import CHARS_MAX, FILES_MAX, Limits, Permitted, refresh
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, RefoldError
from refold.log.notes import NOW, Keys, bytes_redacted, write_note
from refold.log.open_log import OpenLog
from refold.log.restore_points import Restored
from refold.log.undo import (
    FILE_NOTE,
    ChangeOfFile,
    FileChange,
    FileKey,
    FileVersion,
    Undone,
    restoring,
    versions_at,
)
from refold.settings.sources import FILES
from refold.system.contained_files import (
    VERSION_CONTROL,
    FileContent,
    Place,
    place_in,
    read,
    remove,
    write,
)
from refold.system.disk import PROJECT_FOLDER

DIFF_CHARS_MAX = 100_000
SETTINGS = frozenset(FILES) - {"pyproject.toml"}
NEW_MODE, EXECUTABLE = 0o644, 0o111
TOOL = "file-version"
_ABSENT = FileContent(b"", 0)


class FileVersions:
    """The file versions of one conversation."""

    def __init__(
        self,
        log: OpenLog,
        model: ActiveModel,
        artifacts: Artifacts,
        reader: ArtifactReader,
        keys: Keys,
    ) -> None:
        self._log, self._model = log, model
        self._artifacts, self._reader, self._keys = artifacts, reader, keys

    @checked
    def refresh(
        self,
        root: str | Path,
        *,
        files_max: int = FILES_MAX,
        chars_max: int = CHARS_MAX,
        permitted: Permitted | None = None,
    ) -> list[Path]:
        """Puts the current text of the most needed files before the newest summary, and returns
        those files: none if no message has left the page or no file has changed. Reads only files
        inside `root` that `permitted` allows."""
        limits = Limits(files_max=files_max, chars_max=chars_max, permitted=permitted)
        return refresh(self._log, self._model, Path(root), limits)

    @checked
    def keep(self, path: str, *, root: str | Path = ".") -> FileVersion:
        """Keeps the current version of a file, or the fact that there is none. Call this before
        each write. Raises Denied for a path outside `root`, and for a file with a secret if the
        store redacts."""
        return self._keep(place_in(root, path))

    def _keep(self, place: Place) -> FileVersion:
        content = read(place)
        id = ""
        if content is not None:
            if self._log.redacts and bytes_redacted(content.data) != content.data:
                # A redacted copy, if put back, would differ from the original.
                reason = f"{quoted(str(place))} appears to contain a secret, and is not kept"
                raise Denied(reason, hint="this store redacts secrets (redact=append)")
            origin = Origin(tool=TOOL, description=str(place))
            artifact = self._artifacts.put(
                content.data, name=str(place), type="file", origin=origin
            )
            id = artifact.id
        mode = None if content is None else content.mode
        version = FileVersion(path=str(place), artifact=id, mode=mode, root=place.root)
        data = to_builtins(version)
        write_note(self._log, self._keys, FILE_NOTE, data, by="refold", stamp=NOW)
        return version

    @checked
    def diff(
        self, first: int | str, last: int | str | None = None, *, root: str | Path = "."
    ) -> list[FileChange]:
        """The changes to files between two points (each a seq or a checkpoint), in either order;
        without `last`, between `first` and the disk. A file that cannot be read is reported, and
        does not affect the others."""
        old, new = self._versions(first), {} if last is None else self._versions(last)
        return [self._between(key, old.get(key), new.get(key), root) for key in old | new]

    @checked
    def changes(
        self, seq: int | str, *, root: str | Path = ".", only: Sequence[str] = ()
    ) -> list[FileChange]:
        """The changes that `put_back` would make. Nothing is written."""
        return [self._planned(version, root, only) for version in self._chosen(seq, root, only)]

    @checked
    def put_back(
        self,
        seq: int | str,
        *,
        root: str | Path = ".",
        only: Sequence[str] = (),
        expect: int | None = None,
    ) -> list[FileChange]:
        """Puts back the files written after `seq` (or a checkpoint), or only those in `only`. The
        current version of each is kept first. Each file is reported; a failed one does not affect
        the others. Files kept in a folder other than `root` are left alone; if that folder no
        longer exists, those in `only` are put back here. `expect` as in `restore`."""
        with self._log.deciding(expect):
            return self._put_back(seq, root, only, expect)

    def _put_back(
        self, seq: int | str, root: str | Path, only: Sequence[str], head: int | None
    ) -> list[FileChange]:
        """Puts files back; with a `head`, only those written up to there: no others were shown."""
        chosen = self._chosen(seq, root, only, head)
        return [self._restored(version, root, only) for version in chosen]

    def _with_restore(
        self,
        restored: Restored,
        files: bool | Sequence[str],
        root: str | Path,
        *,
        dry_run: bool,
        expect: int | None,
    ) -> Restored:
        """A restore of the page with the changes to its files, which a dry run does not make."""
        only = () if isinstance(files, bool) else files
        if dry_run:
            changes = self.changes(restored.seq, root=root, only=only)
        else:
            changes = self._put_back(restored.seq, root, only, expect)
        return replace(restored, changes=changes)

    def _with_undo(self, undone: Undone, root: str | Path, expect: int | None) -> Undone:
        """An undo or redo of a restore, with the files put back as they were before that step."""
        if not undone.files_at:
            return undone
        return replace(undone, changes=self._put_back(undone.files_at, root, (), expect))

    # --- selection ---

    def _versions(self, point: int | str, last: int | None = None) -> dict[FileKey, FileVersion]:
        with self._log.reading() as state:
            seq = point if isinstance(point, int) else restoring(state, point).seq
            if not 0 <= seq <= state.head:
                hint = f"choose a seq from 0 to {state.head}"
                raise Invalid(f"seq {seq} is outside the log", hint=hint)
            return versions_at(self._log.log.read(seq, state.head if last is None else last))

    def _chosen(
        self, seq: int | str, root: str | Path, only: Sequence[str], last: int | None = None
    ) -> list[FileVersion]:
        versions = [*self._versions(seq, last).values()]
        paths = {version.path for version in versions}
        for path in only:
            if path not in paths:
                hint = f"files written after it: {', '.join(sorted(paths)) or 'none'}"
                raise NotFound(f"no write to {quoted(path)} after that point is known", hint=hint)
        if not only:
            return versions
        # A file stays the same file if its folder is moved: only its first version is put back.
        first_versions: dict[FileKey, FileVersion] = {}
        for version in versions:
            if version.path in only:
                key = (_other_folder(version, root), version.path)
                first_versions.setdefault(key, version)
        return [*first_versions.values()]

    # --- one file ---

    def _planned(self, version: FileVersion, root: str | Path, only: Sequence[str]) -> FileChange:
        try:
            place = _place(version, root, is_named=bool(only))
            if not only and any(
                one.startswith(".") or one in SETTINGS for one in place.plain_names
            ):
                raise Denied(
                    "tools act on such a file, so it has to be named to be put back (--file)"
                )
            current, content = read(place), self._content_of(version)
            planned = _compared(version.path, current, content)
            if content is None:
                return planned
            return replace(
                planned,
                size_bytes=len(content.data),
                mode=_mode_back(version.mode, current),
                mode_before=current.mode if current else 0,
            )
        except RefoldError as error:
            return FileChange(path=version.path, change="impossible", reason=error.message)

    def _restored(self, version: FileVersion, root: str | Path, only: Sequence[str]) -> FileChange:
        planned = self._planned(version, root, only)
        if planned.change in ("same", "impossible"):
            return planned
        is_expected = self._log.log.expect is not None  # nothing is written yet
        try:
            place = _place(version, root, is_named=bool(only))
            content = self._content_of(version)
            self._keep(place)
            if content is None:
                remove(place)
            else:
                write(place, content.data, mode=planned.mode)
        except RefoldError as error:
            if is_expected and isinstance(error, Conflict):
                raise
            return FileChange(path=version.path, change="impossible", reason=error.message)
        return planned

    def _between(
        self, key: FileKey, old: FileVersion | None, new: FileVersion | None, root: str | Path
    ) -> FileChange:
        """The change from one version of a file to another; None stands for the file on disk."""
        folder, path = key
        try:
            version = FileVersion(root=folder, path=path)
            on_disk = read(_place(version, root)) if old is None or new is None else None
            before = on_disk if old is None else self._content_of(old)
            after = on_disk if new is None else self._content_of(new)
        except RefoldError as error:
            return FileChange(path=path, change="impossible", reason=error.message)
        return _compared(path, before, after)

    def _content_of(self, version: FileVersion) -> FileContent | None:
        """The content of the file in this version; None if the file did not exist."""
        if not version.artifact:
            return None
        artifact = self._reader.original(version.artifact).artifact
        if artifact is None:
            raise Corrupt(
                f"{quoted(version.artifact, 80)} is not an artifact", hint="refold verify"
            )
        return FileContent(b"".join(self._reader.content(artifact)), 0)


# --- folders ---


def _place(version: FileVersion, root: str | Path, *, is_named: bool = False) -> Place:
    """The place of a version's file in `root`. Raises Denied if the path leads through a link or to
    the data of refold or of a version control, and if the file was kept in another folder, unless
    that folder no longer exists and the caller named the file."""
    place = place_in(root, version.path)
    if str(place) != version.path:
        raise Denied("its path leads through a link, or is not a plain path")
    if place.has([*VERSION_CONTROL, PROJECT_FOLDER]):
        raise Denied("it belongs to version control or to refold, where nothing is put back")
    other = _other_folder(version, root)
    if other:
        raise Denied(f"the file was kept in {quoted(other)}, which is not this folder")
    if version.root != place.root and not is_named:
        folder = (
            f"{quoted(version.root)}, which no longer exists" if version.root else "another folder"
        )
        reason = f"the file was kept in {folder}; a restore that names the file puts it here"
        raise Denied(reason)
    return place


def _mode_back(kept: int | None, current: FileContent | None) -> int:
    """The mode of a file that is put back: the file's own, executable if the version is. A missing
    file gets the version's mode, without what the umask forbids."""
    if current is None:
        return NEW_MODE if kept is None else kept & 0o777 | 0o600
    if kept is None:
        return current.mode & 0o777
    readable = current.mode & 0o666
    return readable | (readable >> 2 & EXECUTABLE if kept & EXECUTABLE else 0)


def _other_folder(version: FileVersion, root: str | Path) -> str:
    """The folder in which a file was kept; empty if that is `root`, or no longer exists."""
    is_other = version.root != os.path.realpath(root) and os.path.isdir(version.root)
    return version.root if is_other else ""


# --- differences ---


def _compared(path: str, old: FileContent | None, new: FileContent | None) -> FileChange:
    diff = "".join(_difference(path, old, new))
    return FileChange(path=path, change=_kind(old, new), diff=diff)


def _kind(old: FileContent | None, new: FileContent | None) -> ChangeOfFile:
    if old is None:
        return "same" if new is None else "create"
    if new is None:
        return "remove"
    return "same" if old.data == new.data else "change"


def _difference(path: str, old: FileContent | None, new: FileContent | None) -> Iterator[str]:
    """A unified diff of limited length, or a single line if either side is not text."""
    before, after = (old or _ABSENT).data, (new or _ABSENT).data
    if before == after:
        return
    try:
        old_lines = before.decode().splitlines(True)
        new_lines = after.decode().splitlines(True)
    except UnicodeDecodeError:
        yield f"{path}: {len(before):,} bytes become {len(after):,} bytes\n"
        return
    old_name = f"a/{path}" if old else "/dev/null"
    new_name = f"b/{path}" if new else "/dev/null"
    shown = 0
    for line in difflib.unified_diff(old_lines, new_lines, old_name, new_name):
        shown += len(line)
        if shown > DIFF_CHARS_MAX:
            yield "... the rest of the diff is not shown\n"
            return
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
