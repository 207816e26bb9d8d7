"""Tokens of team servers, stored by `refold login`: one per server, in a file in the user's own
data folder that only the user can read.

A token is sent to its own server and to no other. `REFOLD_TOKEN` belongs to the server in
`REFOLD_STORE`, or to the first server that the process opens if that names none, and overrides a
login. Neighbours: `stores.remote` asks, the command `login` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from refold import decoding
from refold.errors import Corrupt, Unavailable
from refold.settings.permissions import data_folder
from refold.system.disk import read_own, write_own

FILE = "logins.json"
SERVERS = ("https://", "http://")


_owners: dict[str, str] = {}  # of tokens in the environment, by token


def token_for(place: str, environ: Mapping[str, str]) -> str | None:
    """The token for a server; None if the user has none."""
    if owner_of_token(place, environ) == place:
        return environ["REFOLD_TOKEN"].strip()
    return _read(environ).get(place)


def owner_of_token(place: str, environ: Mapping[str, str]) -> str:
    """The server that `REFOLD_TOKEN` belongs to; empty without one. A token that belongs to no
    server yet becomes that of `place`."""
    token = environ.get("REFOLD_TOKEN", "").strip()
    url = environ.get("REFOLD_STORE", "")
    if url.startswith("hybrid:"):
        url = url.partition("?far=")[2].partition("&")[0]
    named = url.rstrip("/") if url.startswith(SERVERS) else ""
    return token and (named or _owners.setdefault(token, place))


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
    write_own(str(path), msgspec.json.encode(tokens))
    return path
