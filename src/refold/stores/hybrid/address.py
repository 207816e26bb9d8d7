"""The URL of a synced store: `hybrid:NEAR?far=FAR`, with what follows after `&`.

    hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme
    hybrid:.refold/refold.db?far=files:/mnt/team/refold&sync_s=60

    hybrid:.refold/refold.db?far=https://refold.example.com/acme&key=~/.config/refold/acme.key

`key` names the file with the key by which everything is encrypted before it goes to the far store.
`redact=append` has secrets taken out before they are written, `redact=hold` keeps conversations
that hold any near. `sync_s` has a thread sync soon after each change, and every so many seconds;
without it a sync happens when somebody asks for it. Neighbours: `store` is what is opened.
"""

from __future__ import annotations

import math
import os
import re

from msgspec import Struct

from refold.checked import quoted
from refold.errors import Invalid
from refold.stores.protocol import Redact, Store

HINT = "hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme"
FAR = "?far="
SYNC_S_MAX = 86_400.0
OPTIONS = ("sync_s", "redact", "key")
_OPTION = re.compile(r"(.*)&([a-z_]+)=([^&]*)", re.DOTALL)


class Address(Struct, frozen=True, kw_only=True):
    """What a URL says: both places, how often to sync (0 for never by itself), and the file with
    the key, if the far store may read nothing."""

    near: str
    far: str
    sync_s: float = 0.0
    redact: Redact = ""
    key: str = ""


def address_of(rest: str) -> Address:
    """What the part of a URL after `hybrid:` says."""
    near, found, given = rest.partition(FAR)
    far, options = _parted(given)
    if not near or not far or not found:
        raise Invalid(f"'hybrid:{rest:.200}' does not name two stores", hint=HINT)
    if near.startswith(("hybrid:", "http:", "https:")) or far.startswith(("hybrid:", "memory:")):
        said = f"'hybrid:{rest:.200}' is not a near store and a far one"
        raise Invalid(said, hint=f"near is on this machine, far is where others are: {HINT}")
    return Address(
        near=near,
        far=_placed(far),
        sync_s=_seconds(options.get("sync_s", "0")),
        redact=_redact(options.get("redact", "off")),
        key=_key_file(options.get("key")),
    )


def _parted(given: str) -> tuple[str, dict[str, str]]:
    """The far store, and the options at the end. Before them an `&` is the far store's own: a
    database has options too, and a folder may be called R&D."""
    options: dict[str, str] = {}
    while match := _OPTION.fullmatch(given):
        given, name, value = match.groups()
        if name in OPTIONS:
            options[name] = value
        elif given.startswith("postgres"):
            return f"{given}&{name}={value}", options
        else:
            said = f"{quoted(name, 80)} is not an option of a hybrid store"
            raise Invalid(said, hint="sync_s=60, redact=append, redact=hold, key=FILE")
    return given, options


def _placed(url: str) -> str:
    """The URL, with the whole path where it is one: it is the same from everywhere."""
    scheme, _, path = url.partition(":")
    if scheme in ("sqlite", "files") and path:
        return f"{scheme}:{os.path.abspath(os.path.expanduser(path))}"
    return url


def _key_file(path: str | None) -> str:
    """The whole path of the key file; empty where none is named."""
    if path == "":
        raise Invalid("key= names no file", hint="refold sync key new FILE makes one")
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def _redact(text: str) -> Redact:
    known: dict[str, Redact] = {"off": "", "append": "append", "hold": "hold"}
    if text not in known:
        hint = "append (taken out before it is written), hold (kept near), or off"
        raise Invalid(f"redact={text:.40} is not known", hint=hint)
    return known[text]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= SYNC_S_MAX:
        hint = f"seconds from 0 (only when asked) to {SYNC_S_MAX:,.0f}"
        raise Invalid(f"sync_s={text:.40} is not a number of seconds", hint=hint)
    return seconds


def opened(rest: str, read_only: bool) -> Store:
    """The store that such a URL names. One that is only read fetches nothing."""
    from refold.stores import open_store
    from refold.stores.hybrid.store import HybridStore

    address = address_of(rest)
    near = open_store(address.near, read_only=read_only)
    return HybridStore(
        near,
        lambda: _far(address, near),
        url=_url(address, near),
        far_url=address.far,
        sync_s=0.0 if read_only else address.sync_s,
        listens=address.far.startswith(("http:", "https:")),
        redact=address.redact,
        read_only=read_only,
    )


def _url(address: Address, near: Store) -> str:
    """The URL by which the same store is opened again; it does not sync by itself then."""
    url = f"hybrid:{near.url}{FAR}{address.far}"
    url += f"&redact={address.redact}" if address.redact else ""
    return url + (f"&key={address.key}" if address.key else "")


def _far(address: Address, near: Store) -> Store:
    """The far store; encrypted, if there is a key."""
    far = _opened_far(address.far)
    if not address.key:
        return far
    from refold.stores.encrypted import keys
    from refold.stores.encrypted.store import EncryptedStore

    return EncryptedStore(far, lambda: keys.read(address.key), near=near)


def _opened_far(url: str) -> Store:
    """A server is asked once: whoever syncs tries again, and whoever waits for a conversation that
    may be new does not wait long."""
    from refold.stores import open_store

    if url.startswith(("http:", "https:")):
        from refold.stores.remote import RemoteStore

        return RemoteStore(url, deadline_s=0.0)
    return open_store(url)
