"""Artifacts as plain files in one folder, so that an agent can grep them with its own tools.

A file is named by the artifact's id and a fitting suffix. The id is 60 bits of the digest: where a
file of that name holds other content, the name carries the whole digest instead, and is looked for
first. A file appears under its name only when it is complete and synced: it never has to wait for
the flush of the event that names it. What is not a regular file is not ours: a link that somebody
put in its place is never followed.

The time of a file is when its content was put last. `put` and `drop` look at it under a lock on the
folder that holds between processes, so content that is put again while somebody cleans up is never
lost. Neighbours: the stores that keep their contents on this disk; `disk` opens and syncs.

Which paths of this disk are a store's own: whoever reads or writes files for a model asks here.

A path is judged by where it really leads, and in any case: some disks make no difference. A folder
is owned with all that is in it; of a database the files that it makes beside itself are owned, by
the names they have. Of a synced store both ends count, and the file with its key. Neighbours:
`stores.own_paths` is the door, `edges.workspace` and the tools of a chat ask.
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

from refold.core import codec
from refold.errors import Corrupt, NotFound
from refold.stores import checks
from refold.stores.hybrid.address import address_of
from refold.stores.protocol import Store
from refold.system import disk

CHUNK_BYTES = 256 * 1024
STALE_S = 24 * 3600
_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}")
_PENDING = ".pending-"


class Artifacts:
    """The folder of artifacts of one store. `durable=False` leaves out every fsync, for tests."""

    def __init__(self, folder: str, *, durable: bool = True, read_only: bool = False) -> None:
        self.folder, self.durable, self.read_only = folder, durable, read_only
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._seen_ns = -1

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Keeps the bytes once and gives their digest. Nothing is visible until all of it is on
        disk."""
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
        """The bytes in chunks; NotFound at once if there are none, Corrupt at once if no file of
        ours stands in their place, and at the end if they changed."""
        path = self.location(digest)
        if path is None:
            self._check_places(digest)
            raise checks.no_artifact(digest)
        return _chunks(path, digest)

    def location(self, digest: str) -> str | None:
        """The path of the file that holds the bytes."""
        codec.digest_checked(digest)
        with self._lock:
            path = self._find(digest)
            if path is None:
                # The folder's time is too coarse to prove that nothing came: before "not found",
                # always look.
                self._scan(always=True)
                path = self._find(digest)
            return path

    def drop(self, digest: str, *, before_ms: int) -> bool:
        """Removes the file, unless its content was put at or after that time. True once there is
        none."""
        path = self.location(digest)
        try:
            # The short name may be that of other content, which is not ours to remove.
            if path is None or _digest_of(path) != digest:
                return True
            return self._remove_older(path, before_ms)
        except FileNotFoundError:
            # Somebody else removed it just now.
            return True
        except OSError as error:
            raise disk.os_failure(error, f"cannot remove an artifact from {self.folder}") from error

    def _remove_older(self, path: str, before_ms: int) -> bool:
        """Removes the file, unless it was put at or after that time: then False."""
        with _folder_locked(self.folder):
            if os.stat(path).st_mtime_ns >= before_ms * 1_000_000:
                return False
            os.unlink(path)
        return True

    def _write(self, pending: str, chunks: Iterable[bytes]) -> str:
        hasher = codec.content_hasher()
        fd = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb", buffering=0) as file:
            # The mode given to open() is cut by the umask, this one is not.
            os.fchmod(fd, 0o600)
            for chunk in chunks:
                _write_all(file, chunk, hasher)
            if self.durable:
                os.fsync(fd)
        return str(hasher.hexdigest())

    def _settle(self, pending: str, digest: str, suffix: str) -> None:
        """Gives the file its name, unless the same content has one already."""
        self._scan()
        known = self._find(digest)
        if known is not None and _digest_of(known) != digest:
            known = None
        with _folder_locked(self.folder):
            if known is not None and _put_again(known):
                return
            stem = self._free_stem(digest)
            os.rename(pending, os.path.join(self.folder, stem + suffix))
        if self.durable:
            disk.sync_folder(self.folder)
        self._names[stem] = stem + suffix
        self._seen_ns = os.stat(self.folder).st_mtime_ns

    def _free_stem(self, digest: str) -> str:
        """The short name, unless other content has it."""
        is_taken = self._find(digest) is not None
        return _long_stem(digest) if is_taken else codec.artifact_id(digest)

    def _find(self, digest: str) -> str | None:
        for stem in _stems(digest):
            name = self._names.get(stem)
            path = os.path.join(self.folder, name) if name else ""
            if path and disk.is_regular(path):
                return path
        return None

    def _check_places(self, digest: str) -> None:
        """Corrupt if something other than a file has the name of this content."""
        for stem in _stems(digest):
            path = os.path.join(self.folder, self._names.get(stem, stem))
            if os.path.lexists(path):
                raise disk.not_ours(path)

    def _scan(self, *, always: bool = False) -> None:
        """Reads the names in the folder again if it changed. Contents are never read here."""
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
        """Removes what a killed process left half written, once it is too old to be anybody's."""
        for name in names:
            if name.startswith(_PENDING):
                path = os.path.join(self.folder, name)
                with contextlib.suppress(OSError):
                    if time.time() - os.stat(path).st_mtime > STALE_S:
                        os.unlink(path)


@contextlib.contextmanager
def _folder_locked(folder: str) -> Iterator[None]:
    """One process at a time; the lock is gone with whoever holds it."""
    with disk.closing(disk.open_folder(folder)) as fd:
        disk.lock(fd, folder)
        yield


def _put_again(path: str) -> bool:
    """Notes that the content was put just now. False if the file has been removed meanwhile."""
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
    """The bytes of a file; Corrupt at their end if they are not those that were put there."""
    hasher = codec.content_hasher()
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
    hasher = codec.content_hasher()
    for chunk in _pieces(path):
        hasher.update(chunk)
    return str(hasher.hexdigest())


def _pieces(path: str) -> Iterator[bytes]:
    with disk.open_regular(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _stems(digest: str) -> tuple[str, str]:
    """The names that the file of a content may have, without the suffix, the long one first."""
    return _long_stem(digest), codec.artifact_id(digest)


def _long_stem(digest: str) -> str:
    return "art-" + base64.b32encode(bytes.fromhex(digest)).decode().lower().rstrip("=")


def _suffix(suffix: str) -> str:
    """The suffix if it is plain, else `.bin`."""
    return suffix if isinstance(suffix, str) and _SUFFIX.fullmatch(suffix) else ".bin"


USUAL = "refold"  # what lies beside a database of this name has no name before its own
_BESIDE = (
    r"artifacts|imports|(index|fronts|memory)\.db([-.].*)?|memory\.chroma|proxy\.log.*"
    r"|sync\.(json|lock).*|sync-(moves|encrypted)\..*|(.+\.)?damaged-\d.*"
)


class Database(Struct, frozen=True):
    """The folder of a database, and what the names of its files match there."""

    folder: str
    names: re.Pattern[str]


class OwnPaths(Struct, frozen=True):
    """Folders and files that belong to stores, and databases."""

    trees: tuple[str, ...]
    databases: tuple[Database, ...]
    files: tuple[str, ...]

    def __contains__(self, path: object) -> bool:
        """Whether a path is one of them, or lies in one."""
        if not isinstance(path, str):
            return False
        real = _plain(os.path.realpath(path))
        return (
            any(_is_below(real, tree) for tree in self.trees)
            or any(_is_of(real, one) for one in self.databases)
            or any(_is_same(path, file) for file in self.files)
        )


def owned(store: Store, also: Iterable[str]) -> OwnPaths:
    """The paths of a store, and further folders; of one that is nowhere on this disk there are
    none."""
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
    """The URLs of the stores behind one; `key:` stands before the file with a key."""
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
    """Whether both are names of one file that is there."""
    try:
        return os.path.samefile(path, file)
    except (OSError, ValueError):
        return False


def _plain(path: str) -> str:
    """A path by which two names of one file are the same on a disk that ignores case."""
    return unicodedata.normalize("NFC", path).casefold()
