"""One folder of memories on disk, with its limits and its history.

A change takes the lock of the place, reads, checks, is written to the history, and is then made by
one system call. So of two edits to one file, the second starts from the result of the first, and
nothing that the tool overwrites or deletes is lost. If the process is killed in between, the files
are still as before. Reading needs no lock, because a file is replaced atomically. The history is a
log of notes, with the contents by digest. Neighbours: `descriptors` touches the disk, `files` has
the commands, `versions` goes back in the history.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core.codec import decode
from refold.core.model import Event, Note
from refold.errors import Conflict, Denied, Invalid, NotFound, RefoldError, Unavailable
from refold.log.draft import Draft
from refold.log.log import Log, now_ms
from refold.memory.files import descriptors
from refold.memory.files.commands import ROOT, FileChange, FileLimits, FileVersion, MemoryPath
from refold.memory.files.descriptors import Content, Entry, Kind, Place
from refold.stores import open_store

READ_BYTES_MAX = 1 << 26
LOG = "memory.files"
KIND = "memory-file"
DROP_EVERY = 100  # changes


class Tree:
    """The visible folder of a place, its lock and its history."""

    def __init__(self, place: Place, limits: FileLimits, *, by: str, read_only: bool) -> None:
        self._place, self._limits, self._by = place, limits, by
        self.read_only = read_only
        self._guard = threading.RLock()
        self._history: History | None = None

    # --- reading ---

    def entries(self, path: MemoryPath, absent: str) -> list[Entry]:
        """The files and folders below a folder, up to a maximum. A root without any change is
        empty."""
        try:
            with self._folder(path, absent) as fd:
                return list(islice(descriptors.entries(fd), descriptors.ENTRIES_MAX))
        except NotFound:
            if path.inner:
                raise
            return []

    def _all_entries(self, path: MemoryPath, absent: str) -> list[Entry]:
        """All files and folders below a folder; Invalid if there are too many for this tool."""
        found = self.entries(path, absent)
        levels = max((len(one.names) for one in found), default=0)
        if len(found) >= descriptors.ENTRIES_MAX or levels >= descriptors.LEVELS_MAX:
            raise Invalid(f"Error: {path} has too many files or levels for this tool")
        return found

    def kind(self, path: MemoryPath, absent: str) -> Kind:
        """The kind of the entry at a path; the root is always a folder."""
        if not path.inner:
            return "folder"
        with self._folder(path.parent, absent) as fd:
            return descriptors.kind_at(fd, path.names[-1])

    def read(self, path: MemoryPath, absent: str) -> bytes:
        """The bytes of a file."""
        if not path.inner:
            raise Invalid(f"Error: The path {path} is not a file.")
        with self._folder(path.parent, absent) as fd:
            return self._content(fd, path, absent).data

    def _folder(
        self, path: MemoryPath, absent: str, *, make: bool = False
    ) -> AbstractContextManager[int]:
        self._place.check()
        return descriptors.opened_folder(self._place.tree, path, absent=absent, make=make)

    def _content(self, fd: int, path: MemoryPath, absent: str) -> Content:
        name = path.names[-1]
        return descriptors.read_file(fd, name, path, absent=absent, bytes_max=READ_BYTES_MAX)

    # --- changing ---

    def create(self, path: MemoryPath, data: bytes) -> None:
        """Writes a new file; never overwrites one."""
        taken = f"Error: File {path} already exists"
        with self.changing() as staging:
            if not path.inner or self.kind_or_absent(path) != "absent":
                raise Conflict(taken)
            self._check_depth(path, len(path.inner))
            self._check_room(path, added=1, data=data, before=b"")
            with self._folder(path.parent, taken, make=True) as fd:
                version = FileVersion(path=_inner(path), after=self.history.keep(data))
                self.record("create", path, version)
                try:
                    descriptors.put_new(staging, data, fd, path.names[-1])
                except FileExistsError as error:
                    raise Conflict(taken) from error

    def edit(
        self, command: str, path: MemoryPath, change: Callable[[bytes], bytes], *, absent: str
    ) -> None:
        """Replaces a file by the result of `change`, unless that is the same."""
        with self.changing() as staging:
            if not path.inner:
                raise Invalid(f"Error: The path {path} is not a file.")
            with self._folder(path.parent, absent) as fd:
                seen = self._content(fd, path, absent)
                data = change(seen.data)
                if data == seen.data:
                    return
                self._check_room(path, added=0, data=data, before=seen.data)
                keep = self.history.keep
                version = FileVersion(path=_inner(path), before=keep(seen.data), after=keep(data))
                self.record(command, path, version)
                descriptors.replace(staging, data, fd, path.names[-1], seen=seen)

    def delete(self, path: MemoryPath, absent: str) -> None:
        """Removes a file, or a folder with everything in it."""
        with self.changing() as staging, self._folder(path.parent, absent) as fd:
            kind = descriptors.kind_at(fd, path.names[-1])
            if kind == "absent":
                raise NotFound(absent)
            if kind not in ("file", "folder"):
                raise descriptors.not_followed(kind, path)
            files, folders = self._deleted(path, kind, absent)
            self.record("delete", path, *files, folders=folders)
            descriptors.remove(staging, fd, path.names[-1])

    def rename(self, old: MemoryPath, new: MemoryPath, *, absent: str, taken: str) -> None:
        """Renames a file or folder; never overwrites anything."""
        with self.changing():
            kind = self.kind_or_absent(old)
            if kind == "absent":
                raise NotFound(absent)
            if kind not in ("file", "folder"):
                raise descriptors.not_followed(kind, old)
            found = self._all_entries(old, absent) if kind == "folder" else []
            levels = max((len(one.names) for one in found), default=0)
            self._check_depth(new, len(new.inner) + levels)
            if self.kind_or_absent(new) != "absent":
                raise Conflict(taken)
            self.record("rename", old, new=new)
            self.move(old, new)

    @contextmanager
    def changing(self) -> Iterator[int]:
        """A descriptor of the staging folder, under the lock of the place."""
        if self.read_only:
            raise Denied(f"Error: This part of {ROOT} is read-only")
        with self._guard, self._place.locked() as staging:
            yield staging

    def kind_or_absent(self, path: MemoryPath) -> Kind:
        """The kind of the entry at a path; also absent if a parent folder is."""
        try:
            return self.kind(path, "")
        except NotFound:
            return "absent"

    def write_file(self, staging: int, path: MemoryPath, data: bytes | None) -> None:
        """Writes these bytes to a file, or deletes it for None, whatever it was before."""
        name, absent = path.names[-1], f"The path {path} does not exist"
        with self._folder(path.parent, absent, make=data is not None) as fd:
            if data is None:
                descriptors.remove(staging, fd, name)
            elif descriptors.kind_at(fd, name) == "absent":
                descriptors.put_new(staging, data, fd, name)
            else:
                seen = self._content(fd, path, absent)
                descriptors.replace(staging, data, fd, name, seen=seen)

    def make_folder(self, path: MemoryPath) -> None:
        """Creates a folder and its missing parents."""
        with self._folder(path, f"The path {path} does not exist", make=True):
            return

    def move(self, old: MemoryPath, new: MemoryPath) -> None:
        """Moves a file or folder to another path."""
        with (
            self._folder(old.parent, f"The path {old} does not exist") as source,
            self._folder(new.parent, f"The path {new} does not exist", make=True) as target,
        ):
            descriptors.move(source, old.names[-1], target, new.names[-1])

    # --- history ---

    @property
    def history(self) -> History:
        """The history of this folder, opened at first use."""
        self._place.check()
        with self._guard:
            if self._history is None:
                most = self._limits.versions
                self._history = History(
                    self._place.history, versions_max=most, read_only=self.read_only
                )
            return self._history

    def record(
        self,
        command: str,
        path: MemoryPath,
        *files: FileVersion,
        new: MemoryPath | None = None,
        folders: tuple[str, ...] = (),
        undoes: int = 0,
    ) -> FileChange:
        """Writes a change to the history."""
        record = Record(
            command=command,
            path=_inner(path),
            new_path=_inner(new) if new else "",
            files=files,
            folders=folders,
            undoes=undoes,
        )
        return self.history.append(record, self._by)

    def _deleted(
        self, path: MemoryPath, kind: Kind, absent: str
    ) -> tuple[list[FileVersion], tuple[str, ...]]:
        """The files and the empty folders of a deletion, for the history."""
        if kind == "file":
            return [self._removed(path, absent)], ()
        found = self._all_entries(path, absent)
        files = [path.below(*one.names) for one in found if not one.is_folder]
        above = {one.names[:-1] for one in found}
        folders = {(), *(one.names for one in found if one.is_folder)} - above
        removed = [self._removed(file, absent) for file in files]
        return removed, tuple(sorted(_inner(path.below(*names)) for names in folders))

    def _removed(self, file: MemoryPath, absent: str) -> FileVersion:
        before = self.history.keep(self.read(file, absent))
        return FileVersion(path=_inner(file), before=before)

    # --- limits ---

    def _check_depth(self, path: MemoryPath, depth: int) -> None:
        if depth > self._limits.depth:
            raise Invalid(f"Error: {path} is more than {self._limits.depth} levels deep")

    def _check_room(self, path: MemoryPath, *, added: int, data: bytes, before: bytes) -> None:
        """Invalid if a change exceeds the limits for a file or for the folder."""
        limits = self._limits
        if len(data) > max(limits.file_bytes, len(before) - 1):
            raise Invalid(
                f"Error: {path} would have {len(data):,} bytes; a file may have "
                f"{limits.file_bytes:,}"
            )
        root = MemoryPath(path.names[: path.mounted], path.mounted)
        sizes = [one.size_bytes for one in self.entries(root, "") if not one.is_folder]
        total = sum(sizes) + len(data) - len(before)
        if added and len(sizes) + added > limits.files:
            raise Invalid(f"Error: {ROOT} has {len(sizes):,} files; it may have {limits.files:,}")
        if len(data) > len(before) and total > limits.total_bytes:
            raise Invalid(
                f"Error: {ROOT} would have {total:,} bytes; it may have {limits.total_bytes:,}"
            )

    def close(self) -> None:
        if self._history is not None:
            self._history.close()
            self._history = None


def _inner(path: MemoryPath) -> str:
    """The path in the history of its own folder, without mounts."""
    return str(MemoryPath(path.inner))


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change in stored form."""

    command: str
    path: str
    new_path: str = ""
    files: tuple[FileVersion, ...] = ()
    folders: tuple[str, ...] = ()
    undoes: int = 0


class History:
    """The history of one folder. A writer holds the lock of the folder."""

    def __init__(self, url: str, *, versions_max: int, read_only: bool) -> None:
        self._store = open_store(url, read_only=read_only)
        self._versions_max = versions_max
        self._log: Log | None = None
        self._guard = threading.RLock()  # a log is not thread-safe

    def keep(self, data: bytes) -> str:
        """Stores these bytes, and returns their digest."""
        try:
            return self._store.put([data], suffix=".txt")
        except RefoldError as error:
            raise _unwritable(error) from error

    def append(self, record: Record, by: str) -> FileChange:
        """Writes a change, durably."""
        note = Note(kind=KIND, data=msgspec.to_builtins(record))
        try:
            with self._guard:
                [event] = self._read_log().append([Draft(body=note, by=by)])
            self._store.flush()
            if event.seq % DROP_EVERY == 0:
                self._drop_old()
        except RefoldError as error:
            raise _unwritable(error) from error
        return _change(event, record)

    def changes(self) -> list[FileChange]:
        """All changes, oldest first."""
        with self._guard:
            log = self._read_log()
            events = list(log.read()) if log.state.head else []
        notes = [(event, decode(event)) for event in events if event.kind == "note"]
        return [
            _change(event, decoding.convert(note.data, Record))
            for event, note in notes
            if isinstance(note, Note) and note.kind == KIND
        ]

    def content(self, digest: str) -> bytes:
        """The bytes of a version; NotFound if they are no longer kept."""
        return b"".join(self._store.get(digest)) if digest else b""

    def drop(self, digests: Iterable[str]) -> None:
        """Removes contents for good."""
        for digest in digests:
            self._store.drop(digest, before_ms=now_ms() + 1)

    def _drop_old(self) -> None:
        """Removes the contents of old changes that no newer change has, so that an agent cannot
        fill the disk by writing endlessly."""
        changes = self.changes()
        newer = [file for change in changes[-self._versions_max :] for file in change.files]
        older = [file for change in changes[: -self._versions_max] for file in change.files]
        self.drop(digests_of(older) - digests_of(newer))

    def _read_log(self) -> Log:
        """The log, including events of other processes."""
        if self._log is None:
            self._log = Log(self._store, LOG)
        else:
            self._log.catch_up()
        return self._log

    def close(self) -> None:
        self._store.close()


def digests_of(files: Iterable[FileVersion]) -> set[str]:
    """The digests of contents before and after changes of files."""
    return {digest for file in files for digest in (file.before, file.after) if digest}


def _change(event: Event, record: Record) -> FileChange:
    about = msgspec.structs.asdict(record)
    return FileChange(seq=event.seq, at_ms=event.at_ms, by=event.by, **about)


def _unwritable(error: RefoldError) -> Unavailable:
    """The error without the path of the history: a model knows only virtual paths."""
    problem = f"Error: The history of {ROOT} cannot be written ({error.code}); nothing was changed"
    return Unavailable(problem)
