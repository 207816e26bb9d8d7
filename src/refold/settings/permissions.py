"""A user's permissions for a folder's files, and for files that other users can write.

Each answer is one file in the user's own data folder. Only the user can read it, and its name is a
digest of the exact request, so a changed request needs a new answer. Neighbours: `sources` asks,
`refold allow` answers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from refold.errors import Unavailable
from refold.system import disk, posix


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """A user or group whose files may be used in a folder and its subfolders."""

    folder: str
    writer: str


def trust(folder: Path, writer: str) -> Trust:
    """Permission to use files in a folder that this user or group can write."""
    return Trust(folder=os.fsencode(folder).decode("utf-8", "backslashreplace"), writer=writer)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request by a folder's files: send text to `url` with the key in the variable `key_env`."""

    folder: str
    url: str = ""
    key_env: str = ""


class WeakenedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings in a folder's files that reduce safety, each with its full path."""

    folder: str
    settings: tuple[tuple[str, Any], ...]

    def lines(self) -> list[str]:
        """The settings as a person reads them."""
        return [f"{path} = {value!r}" for path, value in self.settings]


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """A project's data folder; this user knows that its memories are in use."""

    memories_of: str


Permission = Request | Trust | WeakenedSettings | MemoryUse


def is_allowed(request: Permission, environ: Mapping[str, str]) -> bool:
    """Whether the user allowed exactly this request. False if the answer cannot be read."""
    try:
        path, content = _answer_file(request, environ)
        return disk.read_own(str(path)) == content
    except (OSError, Unavailable):
        return False


def allow(request: Permission, environ: Mapping[str, str]) -> None:
    """Stores the user's permission in a file that only the user can read."""
    path, content = _answer_file(request, environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def revoke(request: Permission, environ: Mapping[str, str]) -> None:
    """Deletes the user's permission."""
    path, _ = _answer_file(request, environ)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> Unavailable:
    hint = "set XDG_DATA_HOME to a folder that you can write to"
    return Unavailable(f"{path.parent} cannot be written: {error.strerror}", hint=hint)


def _answer_file(request: Permission, environ: Mapping[str, str]) -> tuple[Path, bytes]:
    """The path of the file with the user's answer, and the file's expected content."""
    content = msgspec.json.encode(request) + b"\n"
    digest = hashlib.sha256(content).hexdigest()
    return data_folder(environ) / "refold" / "allowed" / digest, content


def data_folder(environ: Mapping[str, str]) -> Path:
    """The user's own data folder. Relative paths are ignored: they would resolve inside the
    project. If HOME is not usable, the system's own record of the home folder is used."""
    data_home = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data_home):
        return Path(data_home)
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        home = str(posix.home())
    return Path(home) / ".local" / "share"
