"""The URL of a synced store: `hybrid:NEAR?far=FAR`, with what follows after `&`.

    hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme
    hybrid:.refold/refold.db?far=files:/mnt/team/refold&sync_s=60

    hybrid:.refold/refold.db?far=https://refold.example.com/acme&key=~/.config/refold/acme.key

`key` names the file with the key by which everything is encrypted before it goes to the far store.
A near store that was ever synced with a key is not synced without one, unless the URL says
`plain=yes`: a key that was left out by mistake must not send in plain text what was secret. For the
same reason whatever looks like an option, and is none, is refused and not taken for a path.
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
from refold.errors import Denied, Invalid
from refold.stores.protocol import Redact, Store

HINT = "hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme"
FAR = "?far="
SYNC_S_MAX = 86_400.0
OPTIONS = ("sync_s", "redact", "key", "plain")
OPTIONS_HINT = (
    "sync_s=60, redact=append, redact=hold, key=FILE, plain=yes; each after &, at the end"
)
NO_KEY_HINT = "name its key file; to send plain text on purpose, add &plain=yes"
_OPTION = re.compile(r"(.*)&([a-z_]+)=([^&]*)", re.DOTALL)
# What somebody may have meant as an option: a value after `?` or `&`, which no database reads, or a
# name of an option with a value, or at the end.
_VALUE = re.compile(r"[?&][^/=?&]*=")
_NAMED = re.compile(
    rf"(?<![a-z/])({'|'.join(OPTIONS)})\s*(=|%3d)|[?&]\W*({'|'.join(OPTIONS)})\W*$", re.IGNORECASE
)


class Address(Struct, frozen=True, kw_only=True):
    """What a URL says: both places, how often to sync (0 for never by itself), and the file with
    the key, if the far store may read nothing; or that it may, though it might not before."""

    near: str
    far: str
    sync_s: float = 0.0
    redact: Redact = ""
    key: str = ""
    is_plain: bool = False


def address_of(rest: str) -> Address:
    """What the part of a URL after `hybrid:` says."""
    near, found, given = rest.partition(FAR)
    far, options = _parted(given)
    if not near or not far or not found:
        raise Invalid(f"'hybrid:{rest:.200}' does not name two stores", hint=HINT)
    if near.startswith(("hybrid:", "http:", "https:")) or far.startswith(("hybrid:", "memory:")):
        said = f"'hybrid:{rest:.200}' is not a near store and a far one"
        raise Invalid(said, hint=f"near is on this machine, far is what others share: {HINT}")
    for url in (near, far):
        _check_no_option(url)
    if options.keys() >= {"key", "plain"}:
        raise Invalid("key= and plain= exclude each other", hint="leave one of them out")
    return Address(
        near=near,
        far=_placed(far),
        sync_s=_seconds(options.get("sync_s", "0")),
        redact=_redact(options.get("redact", "off")),
        key=_key_file(options.get("key")),
        is_plain=_is_plain(options.get("plain")),
    )


def _parted(given: str) -> tuple[str, dict[str, str]]:
    """The far store, and the options at the end. Before them an `&` is the far store's own: a
    database has options too, and a folder may be called R&D."""
    options: dict[str, str] = {}
    while match := _OPTION.fullmatch(given):
        given, name, value = match.groups()
        if name in options:
            raise Invalid(
                f"{name}= occurs twice in the URL of a hybrid store", hint="leave one of them out"
            )
        if name in OPTIONS:
            options[name] = value
        elif given.startswith("postgres"):
            return f"{given}&{name}={value}", options
        else:
            raise _no_option(name)
    return given, options


def _check_no_option(url: str) -> None:
    """Invalid if one of the two stores has what may have been meant as an option: as a part of a
    path it would do nothing, and with a key that is left out everything is sent as it is."""
    found = _NAMED.search(url)
    if not found and not url.startswith("postgres"):
        found = _VALUE.search(url)
    if found:
        raise _no_option(found.group().strip("?&= "))


def _no_option(name: str) -> Invalid:
    return Invalid(f"{quoted(name, 80)} is not an option of a hybrid store", hint=OPTIONS_HINT)


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


def _is_plain(text: str | None) -> bool:
    if text not in (None, "yes"):
        raise Invalid(f"plain={text:.40} is not known", hint="plain=yes, or leave it out")
    return text == "yes"


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
    url += "&plain=yes" if address.is_plain else ""
    return url + (f"&key={address.key}" if address.key else "")


def _far(address: Address, near: Store) -> Store:
    """The far store; encrypted, if there is a key, or was one."""
    far = _opened_far(address.far)
    from refold.stores.encrypted import store

    path = near.derived_path(store.NAME)
    if not address.key and (address.is_plain or not store.is_kept(path)):
        return far
    from refold.stores.encrypted import keys
    from refold.stores.encrypted.store import EncryptedStore

    def read() -> keys.Keys:
        if not address.key:
            said = f"{near.url} was synced with a key before, and {address.far} is named without"
            raise Denied(f"{said} (&key=FILE): nothing is sent", hint=NO_KEY_HINT)
        found = keys.read(address.key)
        store.write(
            path, store.KnownChains()
        )  # that there is a key is known before anything is sent
        return found

    return EncryptedStore(far, read, near=near)


def _opened_far(url: str) -> Store:
    """A server is asked once: whoever syncs tries again, and whoever waits for a conversation that
    may be new does not wait long."""
    from refold.stores import open_store

    if url.startswith(("http:", "https:")):
        from refold.stores.remote import RemoteStore

        return RemoteStore(url, deadline_s=0.0)
    return open_store(url)
