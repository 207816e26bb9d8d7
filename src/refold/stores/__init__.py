"""Stores keep logs and artifacts, and never think. A URL says which one.

`protocol` has the promises of a store, `contract` the suite that checks them. Each store is
imported when its URL is opened, so that a program loads only the stores it uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast

from refold.checked import checked
from refold.display import is_text
from refold.errors import Invalid, install_hint
from refold.stores.checks import Encrypted, TooNew
from refold.stores.event_lines import batch_of, events_in
from refold.stores.protocol import Changing, Hints, Store, SyncedStore, Terms
from refold.stores.read_only import ProgressStore, ReadOnlyStore
from refold.system import disk

if TYPE_CHECKING:
    from refold.core.model import Event
    from refold.stores.remote.client import TokenAbout

__all__ = [
    "Encrypted", "Store", "TooNew", "batch_of", "changing", "erase_events", "events_in", "hints_of",
    "is_current", "is_on_this_disk", "is_read_only", "is_redacting", "is_same_place", "is_there",
    "key_ids", "make_key", "near_url", "open_orgs", "open_store", "own_paths", "passes_walls",
    "reading_store", "refuse_encrypted", "server_place", "synced_of", "terms_of", "together",
    "token_info", "trial_store", "version_of", "with_progress",
]  # fmt: skip


@checked
def open_store(url: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """The store that the URL names, or the path of a database. Opening creates nothing; the first
    write does. With `read_only` it refuses every write, and changes no byte, name or time in its
    folder."""
    url = os.fspath(url)
    scheme, colon, rest = url.partition(":")
    if not colon and url.endswith(".db"):
        scheme, rest = "sqlite", url
    if "\0" in url or not is_text(url) or not (colon or rest):
        raise Invalid(f"{url!r} is not a store", hint=_SCHEMES)
    store = _opened(scheme, rest, read_only)
    return ReadOnlyStore(store, owns=True) if read_only else store


def reading_store(store: Store) -> Store:
    """A read-only store on the same place. One on this disk is opened again, so that reading
    changes nothing there; any other is read through the given store, which stays open. Of a synced
    store it is the near one: reading fetches nothing."""
    if is_read_only(store):
        return ReadOnlyStore(store, owns=False)
    is_on_disk = near_url(store).partition(":")[0] in ("sqlite", "files")
    return open_store(store.url, read_only=True) if is_on_disk else ReadOnlyStore(store, owns=False)


def with_progress(store: Store, listener: Callable[[str, int], None]) -> Store:
    """A read-only view of the store that reports the conversation and the total number of events
    after each read. The store stays open."""
    return ProgressStore(store, listener)


def is_read_only(store: Store) -> bool:
    """Whether the store refuses every write."""
    return isinstance(store, ReadOnlyStore)


def terms_of(store: Store) -> Terms | None:
    """The search index that a store keeps itself; None if the index is a derived file."""
    behind = store.store if isinstance(store, ReadOnlyStore) else store
    behind = getattr(behind, "near", behind)
    terms: Terms | None = getattr(behind, "terms", None)
    return terms


def changing(store: Store) -> Changing | None:
    """The store as one that knows what changed last; None if it does not."""
    behind = store.store if isinstance(store, ReadOnlyStore | ProgressStore) else store
    behind = getattr(behind, "near", behind)
    return cast(Changing, behind) if hasattr(behind, "changes") else None


def version_of(store: Store) -> object:
    """A value that changes with every write to the store, by any process: cheap for one that knows
    what changed last; else the heads of all conversations."""
    known = changing(store)
    if known is not None:
        return known.version()
    version, after = 0, ""
    while page := store.conversations(after=after, limit=1_000):
        version = hash((version, *((about.id, about.head, about.chain) for about in page)))
        after = page[-1].id
    return version


def hints_of(store: Store, direct: str = "") -> Hints | None:
    """Hints between the processes that share the store's place; None if there are none. The
    `direct` address bypasses a connection pooler. Invalid if it does not fit the store."""
    hints: Callable[[str], Hints] | None = getattr(store, "hints", None)
    if hints is None and direct:
        message = "only a store in PostgreSQL has a direct address"
        raise Invalid(message, hint="leave out --direct")
    return None if hints is None else hints(direct)


def passes_walls(store: Store) -> bool:
    """Whether the database user of the store can see the rows of all organizations."""
    passes: Callable[[], bool] | None = getattr(store, "passes_walls", None)
    return passes is not None and passes()


def synced_of(store: Store) -> SyncedStore | None:
    """The store as a synced one; None if it is not synced."""
    behind = store.store if isinstance(store, ReadOnlyStore) else store
    return cast(SyncedStore, behind) if hasattr(behind, "goes_on") else None


def make_key(path: str, *, passphrase: str = "", name: str = "", rotates: bool = False) -> str:
    """Creates a key file for the encryption of a far store, or adds a newer key to one; returns the
    id of the key. The key is random, or derived from a passphrase and a name."""
    from refold.stores.encrypted import keys

    key = keys.key_of(passphrase, name) if passphrase else keys.random_key()
    return (keys.rotate(path, key) if rotates else keys.create(path, key)).newest.id


def key_ids(path: str) -> list[str]:
    """The ids of the keys in a file, the newest first."""
    from refold.stores.encrypted import keys

    return [key.id for key in keys.read(path).keys]


def refuse_encrypted(store: Store, conversation: str, event: Event) -> None:
    """Raises Denied for an encrypted event, which only a device with the key can read."""
    from refold.stores.encrypted.encrypted_event import check_readable

    check_readable(store.url, conversation, event)


def is_redacting(store: Store) -> bool:
    """Whether the store redacts secrets before events are sealed."""
    synced = synced_of(store)
    return synced is not None and synced.redact == "append"


def is_same_place(first: Store, second: Store) -> bool:
    """Whether both keep their data in one place. Every `memory:` store has its own."""
    return first is second or (first.url == second.url and first.url != "memory:")


def near_url(store: Store) -> str:
    """The URL of a store, or of the near part of a synced store."""
    return store.url.removeprefix("hybrid:").partition("?far=")[0]


def open_orgs(url: str, *, processes: int = 1) -> Callable[[str], Store]:
    """Opens the stores of organizations in one place: a file or a folder each on this disk, or rows
    in a database. The connections to a database are divided among the processes."""
    scheme, _, rest = url.partition(":")
    if scheme in ("postgresql", "postgres"):
        with _psycopg_named():
            from refold.stores.postgres import store
        return store.orgs_at(url, processes=processes)
    folder = os.path.expanduser(rest)
    if scheme == "sqlite":
        from refold.stores.sqlite import SqliteStore

        return lambda org: SqliteStore(os.path.join(folder, f"{org}.db"), shared=True)
    if scheme == "files":
        return lambda org: open_store(f"files:{os.path.join(folder, org)}")
    return lambda org: open_store(url)


def server_place(url: str) -> str:
    """The address of an organization on a team's server; Invalid for any other URL."""
    from refold.stores.remote import place_checked

    return place_checked(url)


def token_info(place: str, token: str) -> TokenAbout:
    """The server's description of a token for a place; Denied if it refuses the token."""
    from refold.stores.remote import token_checked

    return token_checked(place, token)


def together(store: Store) -> AbstractContextManager[None]:
    """A block whose appends share one transaction if the store has transactions, which costs less.
    An error at its end means that none of them is written."""
    block: Callable[[], AbstractContextManager[None]] = getattr(store, "together", nullcontext)
    return block()


def is_on_this_disk(url: str) -> bool:
    """Whether the place is on this machine, so that writes of several logs can share one sync."""
    return url.removeprefix("hybrid:").partition(":")[0] in ("memory", "sqlite", "files")


def erase_events(store: Store, conversation: str, seqs: Sequence[int]) -> None:
    """Erases several events of a log; all at once if the store can, for the cost of one."""
    erase_many = getattr(store, "erase_many", None)
    if erase_many is not None and seqs:
        erase_many(conversation, seqs)
        return
    for seq in seqs:
        store.erase(conversation, seq)


def is_current(store: Store) -> bool:
    """Whether several users in this process may share the store: it is at work on the file that its
    path names now. False for stores that are never shared."""
    return getattr(store, "is_current", False) is True


def is_there(store: Store) -> bool:
    """Whether the store's place exists: nothing was ever written otherwise."""
    if isinstance(store, ReadOnlyStore):
        return is_there(store.store)
    path = getattr(store, "path", "") or getattr(store, "root", "")
    try:
        return not path or bool(os.stat(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path
        return False
    except OSError as error:
        raise disk.os_failure(error, f"cannot use {path}") from error


def is_writable(url: str) -> bool:
    """Whether this user may write to the store of that URL, by the permissions on this disk. True
    for a place elsewhere, and for one that does not exist yet."""
    near = url.removeprefix("hybrid:")
    scheme, _, rest = near.partition(":") if ":" in near else ("sqlite", "", near)
    path = os.path.expanduser(rest.partition("?far=")[0])
    if scheme not in ("sqlite", "files") or not os.path.exists(path):
        return True
    places = (path, os.path.dirname(os.path.abspath(path))) if scheme == "sqlite" else (path,)
    return all(disk.is_allowed(place, os.W_OK) for place in places)


def own_paths(store: Store, *, also: Iterable[str] = ()) -> Container[str]:
    """The files and folders on this disk that belong to a store, and further folders: no tool reads
    or writes them for a model."""
    from refold.stores.artifact_files import owned

    return owned(store, also)


def trial_store(store: Store, conversation: str, head: int) -> Store:
    """One conversation of a store, up to a head: what is written to it stays in memory."""
    from refold.stores.in_memory import TrialStore

    return TrialStore(store, conversation, head)


def _opened(scheme: str, rest: str, read_only: bool) -> Store:
    """The store for the parts of a URL. Each kind is imported when it is opened."""
    match scheme:
        case "memory":
            from refold.stores.in_memory import MemoryStore

            if rest:
                hint = "`memory:` alone opens a new one"
                raise Invalid(f"'memory:{rest}' is not a store", hint=hint)
            return MemoryStore()
        case "sqlite":
            from refold.stores.sqlite import SqliteStore

            if not rest:
                raise Invalid("'sqlite:' names no file", hint="sqlite:.refold/refold.db")
            return SqliteStore(os.path.expanduser(rest), read_only=read_only)
        case "files":
            from refold.system import posix

            posix.check("a store of files", "use sqlite:PATH")
            from refold.stores.files import FilesStore

            if not rest:
                raise Invalid("'files:' names no folder", hint="files:.refold/tree")
            return FilesStore(os.path.expanduser(rest), read_only=read_only)
        case "postgresql" | "postgres":
            with _psycopg_named():
                from refold.stores.postgres import store
            return store.opened(f"{scheme}:{rest}", read_only=read_only)
        case "http" | "https":
            from refold.stores.remote import RemoteStore

            return RemoteStore(f"{scheme}:{rest}")
        case "hybrid":
            from refold.stores.hybrid import address

            return address.opened(rest, read_only)
        case _:
            raise Invalid(f"{f'{scheme}:{rest}'!r} is not a store", hint=_SCHEMES)


@contextmanager
def _psycopg_named() -> Iterator[None]:
    """Names the missing package in the error."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        message = "a store in PostgreSQL needs the package psycopg"
        raise Invalid(message, hint=install_hint("postgres")) from error


_SCHEMES = (
    "stores are memory:, sqlite:PATH, files:DIR, postgresql://…, https://HOST/ORG,"
    " hybrid:NEAR?far=URL, or a path that ends in .db"
)
