"""Which paths of this disk are a store's own: whoever reads or writes files for a model asks here.

A path is judged by where it really leads, and in any case: some disks make no difference. A folder
is owned with all that is in it; of a database the files that it makes beside itself are owned, by
the names they have. Of a synced store both ends count, and the file with its key. Neighbours:
`stores.own_paths` is the door, `edges.workspace` and the tools of a chat ask.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Struct

from refold.stores.hybrid.address import address_of
from refold.stores.protocol import Store

USUAL = "refold"  # what lies beside a database of this name has no name before its own
_BESIDE = (
    r"artifacts|imports|(index|fronts|memory)\.db([-.].*)?|memory\.chroma|proxy\.log.*"
    r"|sync\.(json|lock).*|sync-(moves|encrypted)\..*|(.+\.)?damaged-\d.*"
)


class Database(Struct, frozen=True):
    """The folder of a database, and what the names of its files match there."""

    folder: str
    names: re.Pattern[str]


class OwnPaths(Struct, frozen=True):
    """Folders and files that belong to stores, and databases."""

    trees: tuple[str, ...]
    databases: tuple[Database, ...]
    files: tuple[str, ...]

    def __contains__(self, path: object) -> bool:
        """Whether a path is one of them, or lies in one."""
        if not isinstance(path, str):
            return False
        real = _plain(os.path.realpath(path))
        return (
            any(_is_below(real, tree) for tree in self.trees)
            or any(_is_of(real, one) for one in self.databases)
            or any(_is_same(path, file) for file in self.files)
        )


def owned(store: Store, also: Iterable[str]) -> OwnPaths:
    """The paths of a store, and further folders; of one that is nowhere on this disk there are
    none."""
    trees, paths = [*also], list[str]()
    for url in _places(store.url):
        scheme, _, place = url.partition(":")
        place = os.path.abspath(os.path.expanduser(place))
        if scheme in ("files", "key"):
            trees.append(place)
        elif scheme == "sqlite":
            paths += {place, os.path.realpath(place)}
        elif scheme in ("http", "https") and (derived := store.derived_path("index.db")):
            trees.append(os.path.dirname(derived))
    real = tuple(_plain(os.path.realpath(tree)) for tree in trees)
    return OwnPaths(real, tuple(map(_database, paths)), tuple(paths))


def _places(url: str) -> Iterator[str]:
    """The URLs of the stores behind one; `key:` stands before the file with a key."""
    scheme, colon, rest = url.partition(":")
    if scheme == "hybrid":
        address = address_of(rest)
        yield from _places(address.near)
        yield from _places(address.far)
        yield from [f"key:{address.key}"] if address.key else []
    else:
        yield url if colon else f"sqlite:{url}"


def _database(path: str) -> Database:
    folder, file = os.path.split(path)
    stem = file.removesuffix(".db")
    beside = _BESIDE if stem == USUAL else rf"{re.escape(_plain(stem))}\.({_BESIDE}|memory\..+)"
    names = re.compile(rf"{re.escape(_plain(file))}([-.].*)?|{beside}", re.DOTALL)
    return Database(_plain(os.path.realpath(folder)), names)


def _is_of(path: str, database: Database) -> bool:
    if not _is_below(path, database.folder) or path == database.folder:
        return False
    name = path[len(database.folder.rstrip(os.sep)) + 1 :].partition(os.sep)[0]
    return database.names.fullmatch(name) is not None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_same(path: str, file: str) -> bool:
    """Whether both are names of one file that is there."""
    try:
        return os.path.samefile(path, file)
    except (OSError, ValueError):
        return False


def _plain(path: str) -> str:
    """A path by which two names of one file are the same on a disk that ignores case."""
    return unicodedata.normalize("NFC", path).casefold()
