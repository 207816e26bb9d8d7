"""Tokens of team servers, as `refold login` keeps them: one for each place, in the user's own data
folder, in a file that only the user can read.

A token goes to the place it was given for and to no other. `REFOLD_TOKEN` counts for the server
that `REFOLD_STORE` names, because whoever set the one set the other; where that names none, for the
one that the caller names. It counts before a login: who sets it means this process. Neighbours:
`stores.remote` asks, the command `login` writes.
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

FILE = "logins.json"
SERVERS = ("https://", "http://")


def token_for(place: str, environ: Mapping[str, str]) -> str | None:
    """The token for a place; None if the user has none."""
    given = environ.get("REFOLD_TOKEN", "").strip()
    if given and not is_of_another(place, environ):
        return given
    return _read(environ).get(place)


def is_of_another(place: str, environ: Mapping[str, str]) -> bool:
    """Whether `REFOLD_STORE` names a server, and another than this one: a token beside it is not
    for this place."""
    named = _far_of(environ.get("REFOLD_STORE", "")).rstrip("/")
    return named.startswith(SERVERS) and named != place


def _far_of(url: str) -> str:
    """The far store of a synced one; any other URL as it is."""
    return url.partition("?far=")[2].partition("&")[0] if url.startswith("hybrid:") else url


def keep(place: str, token: str, environ: Mapping[str, str]) -> Path:
    """Remembers the token of a place; gives the file."""
    return _write({**_read(environ), place: token}, environ)


def forget(place: str, environ: Mapping[str, str]) -> bool:
    """Forgets the token of a place; whether there was one."""
    known = _read(environ)
    if known.pop(place, None) is None:
        return False
    _write(known, environ)
    return True


def places(environ: Mapping[str, str]) -> list[str]:
    """The places that the user is logged in to."""
    return sorted(_read(environ))


def _read(environ: Mapping[str, str]) -> dict[str, str]:
    path = data_folder(environ) / "refold" / FILE
    try:
        return decoding.decode(path.read_bytes(), dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error}", hint="check its mode") from error
    except msgspec.DecodeError as error:
        hint = "remove it, and log in again"
        raise Corrupt(f"{path} is not a list of logins: {error}", hint=hint) from error


def _write(known: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    path = data_folder(environ) / "refold" / FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made beside it and moved over it: a reader sees the old list or the new one.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=FILE)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(known))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error}", hint="check its folder") from error
    return path
