"""Tokens of team servers, stored by `refold login`: one per server, in a file in the user's own
data folder that only the user can read.

A token is sent to its own server and to no other. `REFOLD_TOKEN` belongs to the server in
`REFOLD_STORE`, or to the caller's server if that names none, and overrides a login.
Neighbours: `stores.remote` asks, the command `login` writes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from refold import decoding
from refold.errors import Corrupt, Unavailable
from refold.settings.sources import data_folder
from refold.system.disk import read_own

FILE = "logins.json"
SERVERS = ("https://", "http://")


def token_for(place: str, environ: Mapping[str, str]) -> str | None:
    """The token for a server; None if the user has none."""
    token = environ.get("REFOLD_TOKEN", "").strip()
    if token and not is_of_another(place, environ):
        return token
    return _read(environ).get(place)


def is_of_another(place: str, environ: Mapping[str, str]) -> bool:
    """Whether `REFOLD_STORE` names another server, so that `REFOLD_TOKEN` is not for this
    server."""
    url = environ.get("REFOLD_STORE", "")
    if url.startswith("hybrid:"):
        url = url.partition("?far=")[2].partition("&")[0]
    url = url.rstrip("/")
    return url.startswith(SERVERS) and url != place


def keep(place: str, token: str, environ: Mapping[str, str]) -> Path:
    """Stores the token of a server; returns the file."""
    return _write({**_read(environ), place: token}, environ)


def forget(place: str, environ: Mapping[str, str]) -> bool:
    """Deletes the token of a server; returns whether there was one."""
    tokens = _read(environ)
    if tokens.pop(place, None) is None:
        return False
    _write(tokens, environ)
    return True


def places(environ: Mapping[str, str]) -> list[str]:
    """The servers that the user is logged in to."""
    return sorted(_read(environ))


def _read(environ: Mapping[str, str]) -> dict[str, str]:
    path = data_folder(environ) / "refold" / FILE
    try:
        return decoding.decode(read_own(str(path)), dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error}", hint="check its mode") from error
    except msgspec.DecodeError as error:
        hint = "remove it, and log in again"
        raise Corrupt(f"{path} is not a list of logins: {error}", hint=hint) from error


def _write(tokens: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    path = data_folder(environ) / "refold" / FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Written beside the file and moved over it: a reader sees the old list or the new one.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=FILE)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(tokens))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error}", hint="check its folder") from error
    return path
