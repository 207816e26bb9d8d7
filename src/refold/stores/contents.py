"""Artifacts as plain files in one folder, so that an agent can grep them with its own tools.

A file is named by the artifact's id and a fitting suffix. The id is 60 bits of the digest: where a
file of that name holds other content, the name carries the whole digest instead, and is looked for
first. A file appears under its name only when it is complete and synced: it never has to wait for
the flush of the event that names it. What is no regular file is none of ours: a link that somebody
put in its place is never followed.

The time of a file is when its content was put last. `put` and `drop` look at it under a lock on the
folder that holds between processes, so content that is put again while somebody cleans up is never
lost.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any

from refold.core import codec
from refold.errors import Corrupt, Invalid, NotFound
from refold.stores import checks as door

CHUNK_BYTES = 256 * 1024
STALE_S = 24 * 3600
_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}")
_PENDING = ".pending-"


def beside(path: str, name: str) -> str:
    """Where something of a database lies: beside it, under the database's own name unless that
    is the usual one. Two databases may lie in one folder, and what one of them removes must not
    be the other's."""
    folder, file = os.path.split(path)
    stem = file.removesuffix(".db")
    return os.path.join(folder, name if stem == "refold" else f"{stem}.{name}")


class Artifacts:
    """The folder of artifacts of one store. `durable=False` leaves out every fsync, for tests."""

    def __init__(self, folder: str, *, durable: bool = True) -> None:
        self.folder, self.durable = folder, durable
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._seen_ns = -1

    def put(self, chunks: Iterable[bytes], *, suffix: str = ".bin") -> str:
        """Keeps the bytes once and gives their digest. Nothing is visible until all of it is on
        disk."""
        pending = os.path.join(self.folder, _PENDING + secrets.token_hex(16))
        try:
            make_folder(self.folder, durable=self.durable)
            digest = self._write(pending, chunks)
            with self._lock:
                self._settle(pending, digest, _suffix(suffix))
        except OSError as error:
            raise door.os_failure(error, f"cannot keep an artifact in {self.folder}") from error
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
            raise NotFound(
                f"there is no artifact {codec.artifact_id(digest)}",
                hint="refold artifacts lists them",
            )
        return _chunks(path, digest)

    def location(self, digest: str) -> str | None:
        """The path of the file that holds the bytes."""
        door.digest_checked(digest)
        with self._lock:
            path = self._find(digest)
            if path is None:
                # The folder's time is too coarse to prove that nothing came: before "not found",
                # always look.
                self._scan(anyway=True)
                path = self._find(digest)
            return path

    def drop(self, digest: str, *, before_ms: int) -> bool:
        """Removes the file, unless its content was put at or after that time. True once there is
        none."""
        path = self.location(digest)
        try:
            # The short name may be that of other content, which is none of ours to remove.
            if path is None or _digest_of(path) != digest:
                return True
            with _folder_locked(self.folder):
                if os.stat(path).st_mtime_ns >= before_ms * 1_000_000:
                    return False
                os.unlink(path)
        except FileNotFoundError:
            # Somebody else removed it just now.
            return True
        except OSError as error:
            raise door.os_failure(error, f"cannot remove an artifact from {self.folder}") from error
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
        same = known is not None and _digest_of(known) == digest
        with _folder_locked(self.folder):
            if known and same and _put_again(known):
                return
            taken = self._find(digest) is not None
            name = (_long(digest) if taken else codec.artifact_id(digest)) + suffix
            os.rename(pending, os.path.join(self.folder, name))
        if self.durable:
            sync_folder(self.folder)
        self._names[name.partition(".")[0]] = name
        self._seen_ns = os.stat(self.folder).st_mtime_ns

    def _find(self, digest: str) -> str | None:
        for stem in (_long(digest), codec.artifact_id(digest)):
            if name := self._names.get(stem):
                path = os.path.join(self.folder, name)
                if _is_regular(path):
                    return path
        return None

    def _check_places(self, digest: str) -> None:
        """Corrupt if something else than a file has the name of this content."""
        for stem in (_long(digest), codec.artifact_id(digest)):
            path = os.path.join(self.folder, self._names.get(stem, stem))
            if os.path.lexists(path):
                raise _not_ours(path)

    def _scan(self, *, anyway: bool = False) -> None:
        """Reads the names in the folder again if it changed. Contents are never read here."""
        try:
            seen_ns = os.stat(self.folder).st_mtime_ns
            if seen_ns == self._seen_ns and not anyway:
                return
            names = sorted(os.listdir(self.folder), reverse=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise door.os_failure(error, f"cannot read {self.folder}") from error
        self._names = {name.partition(".")[0]: name for name in names if name.startswith("art-")}
        self._seen_ns = seen_ns
        self._sweep(names)

    def _sweep(self, names: list[str]) -> None:
        """Removes what a killed process left half written, once it is too old to be anybody's."""
        for name in names:
            path = os.path.join(self.folder, name)
            with contextlib.suppress(OSError):
                if name.startswith(_PENDING) and time.time() - os.stat(path).st_mtime > STALE_S:
                    os.unlink(path)


def make_folder(folder: str, *, durable: bool = True) -> None:
    """Makes the folder and the missing ones above it, for the owner alone whatever the umask."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder) or "."
    make_folder(parent, durable=durable)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    os.chmod(folder, 0o700)
    if durable:
        sync_folder(parent)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable: a synced file without a synced name is lost all the
    same."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _folder_locked(folder: str) -> Iterator[None]:
    """One process at a time; the lock is gone with whoever holds it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


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
        raise Invalid(f"an artifact is made of bytes: {error}", hint="encode text first") from error
    rest = memoryview(chunk).cast("B")
    while rest:
        rest = rest[file.write(rest) :]


def _chunks(path: str, digest: str) -> Iterator[bytes]:
    hasher = codec.content_hasher()
    try:
        with opened(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                hasher.update(chunk)
                yield chunk
    except FileNotFoundError as error:
        raise NotFound(f"{path} is gone", hint="refold verify") from error
    except OSError as error:
        raise door.os_failure(error, f"cannot read {path}") from error
    if hasher.hexdigest() != digest:
        raise Corrupt(f"{path} does not hold what was put there", hint="refold verify")


def opened(path: str, size_bytes: int | None = None) -> IO[bytes]:
    """The file of an artifact, for reading. Corrupt if it is no regular file, or not of the size
    that is known."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for its writer for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(path) from error
        raise
    file = os.fdopen(fd, "rb", buffering=0)
    try:
        _check(os.fstat(fd), path, size_bytes)
    except Corrupt:
        file.close()
        raise
    return file


def check_size(path: str, size_bytes: int) -> None:
    """The same without opening it. A file that is gone is for the reader to miss."""
    with contextlib.suppress(FileNotFoundError):
        _check(os.lstat(path), path, size_bytes)


def _check(found: os.stat_result, path: str, size_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _not_ours(path)
    if size_bytes is not None and found.st_size != size_bytes:
        size = f"{path} has {found.st_size:,} bytes, {size_bytes:,} were put there"
        raise Corrupt(size, hint="refold verify")


def _not_ours(path: str) -> Corrupt:
    return Corrupt(
        f"{path} is not the file that was put there",
        hint="remove it; refold verify says what is missing",
    )


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _digest_of(path: str) -> str:
    hasher = codec.content_hasher()
    with opened(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
    return str(hasher.hexdigest())


def _long(digest: str) -> str:
    return "art-" + base64.b32encode(bytes.fromhex(digest)).decode().lower().rstrip("=")


def _suffix(suffix: str) -> str:
    return suffix if isinstance(suffix, str) and _SUFFIX.fullmatch(suffix) else ".bin"
