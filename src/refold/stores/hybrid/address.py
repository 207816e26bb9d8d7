"""The URL of a synced store: `hybrid:NEAR?far=FAR`, with options after `&`.

    hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme
    hybrid:.refold/refold.db?far=files:/mnt/team/refold&sync_s=60
    hybrid:.refold/refold.db?far=https://refold.example.com/acme&key=~/.config/refold/acme.key

`key` names the key file; everything is encrypted before it goes to the far store. A near store that
was ever synced with a key is not synced without one, unless the URL says `plain=yes`: a forgotten
key must not send secrets in plain text. For the same reason anything that resembles an option is
refused instead of taken for a path. `redact=append` redacts secrets before events are sealed,
`redact=hold` withholds conversations with secrets from the sync. With `sync_s` a thread syncs soon
after each change, and regularly; without it, syncs are manual. Neighbour: `store`.
"""

from __future__ import annotations

import math
import os
import re

from msgspec import Struct

from refold.checked import quoted
from refold.errors import Denied, Invalid
from refold.patterns import regex
from refold.stores.protocol import Redact, Store

HINT = "hybrid:sqlite:.refold/refold.db?far=https://refold.example.com/acme"
FAR = "?far="
SYNC_S_MAX = 86_400.0
OPTIONS = ("sync_s", "redact", "key", "plain")
OPTIONS_HINT = (
    "sync_s=60, redact=append, redact=hold, key=FILE, plain=yes; each after &, at the end"
)
NO_KEY_HINT = "name its key file; to send plain text on purpose, add &plain=yes"
_OPTION = regex(r"(.*)&([a-z_]+)=([^&]*)", re.DOTALL)
# Possibly meant as an option: a value after `?` or `&`, which no database reads, or the name of an
# option with a value or at the end.
_VALUE = regex(r"[?&][^/=?&]*=")
_NAMED = regex(
    rf"(?<![a-z/])({'|'.join(OPTIONS)})\s*(=|%3d)|[?&]\W*({'|'.join(OPTIONS)})\W*$", re.IGNORECASE
)


class Address(Struct, frozen=True, kw_only=True):
    """The parts of a URL: both stores, the seconds between syncs (0 for manual syncs), and the key
    file, if the far store is encrypted; `is_plain` permits plain text after an encrypted sync."""

    near: str
    far: str
    sync_s: float = 0.0
    redact: Redact = ""
    key: str = ""
    is_plain: bool = False


def address_of(rest: str) -> Address:
    """Parses the part of a URL after `hybrid:`."""
    near, separator, far_and_options = rest.partition(FAR)
    far, options = _split_options(far_and_options)
    if not near or not far or not separator:
        raise Invalid(f"'hybrid:{rest:.200}' does not name two stores", hint=HINT)
    if near.startswith(("hybrid:", "http:", "https:")) or far.startswith(("hybrid:", "memory:")):
        message = f"'hybrid:{rest:.200}' is not a near store and a far one"
        raise Invalid(message, hint=f"near is on this machine, far is what others share: {HINT}")
    for url in (near, far):
        _check_no_option(url)
    if options.keys() >= {"key", "plain"}:
        raise Invalid("key= and plain= exclude each other", hint="leave one of them out")
    return Address(
        near=near,
        far=_absolute(far),
        sync_s=_seconds(options.get("sync_s", "0")),
        redact=_redact(options.get("redact", "off")),
        key=_key_file(options.get("key")),
        is_plain=_is_plain(options.get("plain")),
    )


def _split_options(url: str) -> tuple[str, dict[str, str]]:
    """The far store, and the options at the end. An `&` before them belongs to the far store: a
    database has options too, and a folder may be called R&D."""
    options: dict[str, str] = {}
    while match := _OPTION.fullmatch(url):
        url, name, value = match.groups()
        if name in options:
            raise Invalid(
                f"{name}= occurs twice in the URL of a hybrid store", hint="leave one of them out"
            )
        if name in OPTIONS:
            options[name] = value
        elif url.startswith("postgres"):
            return f"{url}&{name}={value}", options
        else:
            raise _no_option(name)
    return url, options


def _check_no_option(url: str) -> None:
    """Raises Invalid for text in a store's URL that may have been meant as an option: as part of a
    path it would have no effect, and without its key everything would be sent in plain text."""
    match = _NAMED.search(url)
    if not match and not url.startswith("postgres"):
        match = _VALUE.search(url)
    if match:
        raise _no_option(match.group().strip("?&= "))


def _no_option(name: str) -> Invalid:
    return Invalid(f"{quoted(name, 80)} is not an option of a hybrid store", hint=OPTIONS_HINT)


def _absolute(url: str) -> str:
    """The URL, with an absolute path if it has one: it is the same from every folder."""
    scheme, _, path = url.partition(":")
    if scheme in ("sqlite", "files") and path:
        return f"{scheme}:{os.path.abspath(os.path.expanduser(path))}"
    return url


def _key_file(path: str | None) -> str:
    """The absolute path of the key file; empty without one."""
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
    """The store that the URL names. With `read_only` it fetches nothing."""
    from refold.stores import open_store
    from refold.stores.hybrid.store import HybridStore

    address = address_of(rest)
    near = open_store(address.near, read_only=read_only)
    return HybridStore(
        near,
        lambda: _open_far(address, near),
        url=_url(address, near),
        far_url=address.far,
        sync_s=0.0 if read_only else address.sync_s,
        listens=address.far.startswith(("http:", "https:")),
        redact=address.redact,
        read_only=read_only,
    )


def _url(address: Address, near: Store) -> str:
    """The URL of the same store, without automatic syncs."""
    url = f"hybrid:{near.url}{FAR}{address.far}"
    url += f"&redact={address.redact}" if address.redact else ""
    url += "&plain=yes" if address.is_plain else ""
    return url + (f"&key={address.key}" if address.key else "")


def _open_far(address: Address, near: Store) -> Store:
    """The far store; encrypted if there is a key, or ever was one."""
    from refold.stores import open_store
    from refold.stores.encrypted import store

    if address.far.startswith(("http:", "https:")):
        from refold.stores.remote import RemoteStore

        # Without retries: a sync retries itself, and a fetch must not wait long.
        far: Store = RemoteStore(address.far, deadline_s=0.0)
    else:
        far = open_store(address.far)
    path = near.derived_path(store.NAME)
    if not address.key and (address.is_plain or not store.is_kept(path)):
        return far
    from refold.stores.encrypted import keys
    from refold.stores.encrypted.store import EncryptedStore

    def read() -> keys.Keys:
        if not address.key:
            message = f"{near.url} was synced with a key before, and {address.far} is named without"
            raise Denied(f"{message} (&key=FILE): nothing is sent", hint=NO_KEY_HINT)
        key_file = keys.read(address.key)
        # Recorded before anything is sent: this near store has a key.
        store.write(path, store.KnownChains())
        return key_file

    return EncryptedStore(far, read, near=near)
