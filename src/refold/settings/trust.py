"""What a user allowed the files of a project to name: an address, and the variable of a key.

Whoever wrote a project's files is not the user. So what they say about where a conversation goes,
and with which key, is asked for once and remembered by content: in the user's own data folder, one
file for each answer, named by a digest of the folder and of what was allowed there. A changed
setting has another digest, and is asked for again. Neighbour: `writer` says what is asked for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from refold.errors import Unavailable


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a folder ask for: to send texts to `url`, with the key in the variable
    `key_env`."""

    folder: str
    url: str = ""
    key_env: str = ""


def is_allowed(request: Request, environ: Mapping[str, str]) -> bool:
    """Whether the user allowed just this."""
    try:
        return _place(request, environ).read_bytes() == _content(request)
    except OSError:
        return False


def allow(request: Request, environ: Mapping[str, str]) -> None:
    """Remembers that the user allowed this."""
    place = _place(request, environ)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        _write(place, _content(request))
    except OSError as error:
        raise _unkept(place, error) from error


def _write(place: Path, content: bytes) -> None:
    """Makes a file that only its owner can read."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(place, flags, 0o600), "wb") as file:
        file.write(content)


def revoke(request: Request, environ: Mapping[str, str]) -> None:
    """Forgets that it was allowed."""
    place = _place(request, environ)
    try:
        place.unlink(missing_ok=True)
    except OSError as error:
        raise _unkept(place, error) from error


def _unkept(place: Path, error: OSError) -> Unavailable:
    hint = "XDG_DATA_HOME names another folder for such answers"
    return Unavailable(f"{place.parent} cannot be written: {error.strerror}", hint=hint)


def _content(request: Request) -> bytes:
    return msgspec.json.encode(request) + b"\n"


def _place(request: Request, environ: Mapping[str, str]) -> Path:
    """The file that remembers this request."""
    digest = hashlib.sha256(_content(request)).hexdigest()
    return data_folder(environ) / "refold" / "allowed" / digest


def data_folder(environ: Mapping[str, str]) -> Path:
    """The user's own data folder. A relative one would lie in the project, and does not count."""
    named = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    home = environ.get("HOME", "")
    return (Path(home) if os.path.isabs(home) else _home_of_user()) / ".local" / "share"


def _home_of_user() -> Path:
    """The home folder that the system knows for this user, whatever HOME says."""
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        hint = "XDG_DATA_HOME names a folder for it"
        raise Unavailable("this user has no home folder", hint=hint) from error
