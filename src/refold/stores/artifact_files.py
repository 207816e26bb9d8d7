"""Artifacts as plain files in one folder, so that an agent can grep them; and the paths that belong
to stores.

A file's name is the artifact's id and a fitting suffix. The id is 60 bits of the digest: if a file
with that name has other content, the name has the whole digest instead, which is tried first. A
file gets its name only when it is complete and synced, so it never has to wait for the flush of the
event that names it. A link is never followed. The time of a file is the time of the last `put`.
`put` and `drop` check it under a lock on the folder, across processes, so content that is put again
during a cleanup is never lost.

A path belongs to a store by its real location, ignoring case, since some disks do. A store owns its
folder with all its content; a database store also owns the files beside the database, by their
names; a synced store owns both ends and the key file. Neighbours: `disk` opens and syncs;
`edges.workspace` and the tools of a chat ask through `stores.own_paths`.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from refold.core import ids
from refold.errors import Corrupt, NotFound
from refold.patterns import regex
from refold.stores import checks
from refold.stores.hybrid.address import address_of
from refold.stores.protocol import Store
from refold.system import disk, posix

CHUNK_BYTES = 256 * 1024
STALE_S = 24 * 3600
_SUFFIX = regex(r"\.[a-z0-9]{1,10}")
_PENDING = ".pending-"


class Artifacts:
    """The artifact folder of one store. `durable=False` skips every fsync, for tests."""

    def __init__(self, folder: str, *, durable: bool = True, read_only: bool = False) -> None:
        self.folder, self.durable, self.read_only = folder, durable, read_only
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._seen_ns = -1

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Keeps the bytes once and returns their digest. The file becomes visible when it is
        complete and on the disk."""
        pending = os.path.join(self.folder, _PENDING + secrets.token_hex(16))
        disk.refuse_link(self.folder)
        try:
            disk.make_folder(self.folder, durable=self.durable)
            digest = self._write(pending, chunks)
            with self._lock:
                self._settle(pending, digest, _suffix(suffix))
        except OSError as error:
            raise disk.os_failure(error, f"cannot keep an artifact in {self.folder}") from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(pending)
        return digest

    def get(self, digest: str) -> Iterator[bytes]:
        """Yields the bytes in chunks. Raises NotFound at once if they are missing, Corrupt at once
        if the file with their name is something else, and Corrupt at the end if they changed."""
        path = self.location(digest)
        if path is not None:
            return _chunks(path, digest)
        for stem in _stems(digest):
            path = os.path.join(self.folder, self._names.get(stem, stem))
            if os.path.lexists(path):
                raise disk.not_ours(path)
        raise checks.no_artifact(digest)

    def location(self, digest: str) -> str | None:
        """The path of the file with the bytes."""
        ids.digest_checked(digest)
        with self._lock:
            path = self._find(digest)
            if path is None:
                # The folder's time is too coarse to prove that nothing changed: before "not found",
                # always list it.
                self._scan(always=True)
                path = self._find(digest)
            return path

    def drop(self, digest: str, *, before_ms: int) -> bool:
        """Removes the file, unless its content was put at or after that time. True once it is
        gone."""
        path = self.location(digest)
        try:
            # Other content may have the short name; it must stay.
            if path is None or _digest_of(path) != digest:
                return True
            with _folder_locked(self.folder):
                if os.stat(path).st_mtime_ns >= before_ms * 1_000_000:
                    return False
                os.unlink(path)
                return True
        except FileNotFoundError:
            return True  # another process removed it just now
        except OSError as error:
            raise disk.os_failure(error, f"cannot remove an artifact from {self.folder}") from error

    def _write(self, pending: str, chunks: Iterable[bytes]) -> str:
        hasher = ids.content_hasher()
        fd = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL | posix.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb", buffering=0) as file:
            # The mode given to open() is cut by the umask, this one is not.
            posix.set_mode(fd, 0o600)
            for chunk in chunks:
                _write_all(file, chunk, hasher)
            if self.durable:
                os.fsync(fd)
        return str(hasher.hexdigest())

    def _settle(self, pending: str, digest: str, suffix: str) -> None:
        """Renames the file to its final name, unless the content already exists."""
        self._scan()
        known = self._find(digest)
        if known is not None and _digest_of(known) != digest:
            known = None
        with _folder_locked(self.folder):
            if known is not None and _put_again(known):
                return
            # The short name, unless other content has it.
            is_taken = self._find(digest) is not None
            stem = _long_stem(digest) if is_taken else ids.artifact_id(digest)
            os.rename(pending, os.path.join(self.folder, stem + suffix))
        if self.durable:
            disk.sync_folder(self.folder)
        self._names[stem] = stem + suffix
        self._seen_ns = os.stat(self.folder).st_mtime_ns

    def _find(self, digest: str) -> str | None:
        for stem in _stems(digest):
            name = self._names.get(stem)
            path = os.path.join(self.folder, name) if name else ""
            if path and disk.is_regular(path):
                return path
        return None

    def _scan(self, *, always: bool = False) -> None:
        """Lists the folder again if it changed, without reading contents."""
        disk.refuse_link(self.folder)
        try:
            seen_ns = os.stat(self.folder).st_mtime_ns
            if seen_ns == self._seen_ns and not always:
                return
            names = sorted(os.listdir(self.folder), reverse=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise disk.os_failure(error, f"cannot read {self.folder}") from error
        self._names = {name.partition(".")[0]: name for name in names if name.startswith("art-")}
        self._seen_ns = seen_ns
        if not self.read_only:
            self._remove_stale(names)

    def _remove_stale(self, names: list[str]) -> None:
        """Removes half-written files that are too old to have a living writer."""
        for name in names:
            if name.startswith(_PENDING):
                path = os.path.join(self.folder, name)
                with contextlib.suppress(OSError):
                    if time.time() - os.stat(path).st_mtime > STALE_S:
                        os.unlink(path)


@contextlib.contextmanager
def _folder_locked(folder: str) -> Iterator[None]:
    """Locks the folder for one process; the kernel releases the lock of a dead one."""
    with disk.closing(disk.open_folder(folder)) as fd:
        disk.lock(fd, folder)
        yield


def _put_again(path: str) -> bool:
    """Sets the time of the last put to now. False if the file has been removed meanwhile."""
    now_ns = time.time_ns()
    try:
        os.utime(path, ns=(now_ns, now_ns))
    except FileNotFoundError:
        return False
    return True


def _write_all(file: Any, chunk: bytes, hasher: Any) -> None:
    try:
        hasher.update(chunk)
    except TypeError as error:
        raise checks.not_bytes(error) from error
    rest = memoryview(chunk).cast("B")
    while rest:
        rest = rest[file.write(rest) :]


def _chunks(path: str, digest: str) -> Iterator[bytes]:
    """The bytes of a file; raises Corrupt at the end if their digest differs."""
    hasher = ids.content_hasher()
    try:
        for chunk in _pieces(path):
            hasher.update(chunk)
            yield chunk
    except FileNotFoundError as error:
        raise NotFound(f"{path} is gone", hint="refold verify") from error
    except OSError as error:
        raise disk.os_failure(error, f"cannot read {path}") from error
    if hasher.hexdigest() != digest:
        raise Corrupt(f"{path} does not hold what was put there", hint="refold verify")


def _digest_of(path: str) -> str:
    hasher = ids.content_hasher()
    for chunk in _pieces(path):
        hasher.update(chunk)
    return str(hasher.hexdigest())


def _pieces(path: str) -> Iterator[bytes]:
    with disk.open_regular(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _stems(digest: str) -> tuple[str, str]:
    """The possible file names of the content, without the suffix, the long one first."""
    return _long_stem(digest), ids.artifact_id(digest)


def _long_stem(digest: str) -> str:
    return "art-" + base64.b32encode(bytes.fromhex(digest)).decode().lower().rstrip("=")


def _suffix(suffix: str) -> str:
    """The suffix if it is safe, else `.bin`."""
    return suffix if isinstance(suffix, str) and _SUFFIX.fullmatch(suffix) else ".bin"


# --- paths that belong to stores ---

USUAL = "refold"  # files of a database with this name have no prefix
_BESIDE = (
    r"artifacts|imports|(index|fronts|memory)\.db([-.].*)?|memory\.chroma|proxy\.log.*"
    r"|sync\.(json|lock).*|sync-(moves|encrypted)\..*|(.+\.)?damaged-\d.*"
)


class Database(Struct, frozen=True):
    """The folder of a database, and a pattern for the names of its files."""

    folder: str
    names: re.Pattern[str]


class OwnPaths(Struct, frozen=True):
    """The folders, databases and files that belong to stores."""

    trees: tuple[str, ...]
    databases: tuple[Database, ...]
    files: tuple[str, ...]

    def __contains__(self, path: object) -> bool:
        """Whether a path is one of them, or is inside one."""
        if not isinstance(path, str):
            return False
        real = _plain(os.path.realpath(path))
        return (
            any(_is_below(real, tree) for tree in self.trees)
            or any(_is_of(real, one) for one in self.databases)
            or any(_is_same(path, file) for file in self.files)
        )


def owned(store: Store, also: Iterable[str]) -> OwnPaths:
    """The paths of a store on this disk, and further folders."""
    trees, paths = [*also], list[str]()
    for url in _underlying_urls(store.url):
        scheme, _, place = url.partition(":")
        place = os.path.abspath(os.path.expanduser(place))
        if scheme in ("files", "key"):
            trees.append(place)
        elif scheme == "sqlite":
            paths += {place, os.path.realpath(place)}
        elif scheme in ("http", "https") and (derived := store.derived_path("index.db")):
            trees.append(os.path.dirname(derived))
    real = tuple(_plain(os.path.realpath(tree)) for tree in trees)
    return OwnPaths(real, tuple(map(_database, paths)), tuple(paths))


def _underlying_urls(url: str) -> Iterator[str]:
    """The URLs of the stores that a URL combines, and `key:PATH` for a key file."""
    scheme, colon, rest = url.partition(":")
    if scheme == "hybrid":
        address = address_of(rest)
        yield from _underlying_urls(address.near)
        yield from _underlying_urls(address.far)
        yield from [f"key:{address.key}"] if address.key else []
    else:
        yield url if colon else f"sqlite:{url}"


def _database(path: str) -> Database:
    folder, file = os.path.split(path)
    stem = file.removesuffix(".db")
    beside = _BESIDE if stem == USUAL else rf"{re.escape(_plain(stem))}\.({_BESIDE}|memory\..+)"
    names = re.compile(rf"{re.escape(_plain(file))}([-.].*)?|{beside}", re.DOTALL)
    return Database(_plain(os.path.realpath(folder)), names)


def _is_of(path: str, database: Database) -> bool:
    if not _is_below(path, database.folder) or path == database.folder:
        return False
    name = path[len(database.folder.rstrip(os.sep)) + 1 :].partition(os.sep)[0]
    return database.names.fullmatch(name) is not None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_same(path: str, file: str) -> bool:
    """Whether both paths name the same existing file."""
    try:
        return os.path.samefile(path, file)
    except (OSError, ValueError):
        return False


def _plain(path: str) -> str:
    """The path in a form that is equal for names that differ only in case."""
    return unicodedata.normalize("NFC", path).casefold()
