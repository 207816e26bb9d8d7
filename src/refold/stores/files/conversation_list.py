"""`index.json`: the list of the conversations in a tree, so that listing many opens only those that
changed.

It is derived and disposable: an entry is valid only while the sizes and times of its files are the
same. Neighbours: `store` lists and rebuilds, `tree` has the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from refold import decoding
from refold.core.model import Conversation
from refold.stores.files import tree
from refold.stores.files.conversation_folder import LOG, METADATA, stamp_of
from refold.stores.files.tree import Tree

VERSION = 1

Stamp = tuple[int, ...]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    head: int
    chain: str
    parent: str
    parent_seq: int
    at_ms: int
    updated_ms: int
    stamp: Stamp


class _File(msgspec.Struct, kw_only=True):
    v: int
    conversations: list[_Entry]


class ConversationList:
    """The entries of `index.json`, and those read from folders since."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._entries: dict[str, _Entry] | None = None

    def about(self, id: str, read: Callable[[str], Conversation | None]) -> Conversation | None:
        """The conversation from its entry if that is still valid, else from `read`."""
        stamp = self._stamp(id)
        entry = self._loaded().get(id)
        if entry is not None and entry.stamp == stamp:
            return _conversation_of(entry)
        # The stamp is older than the read: an append in between makes the entry outdated, not
        # wrong.
        about = read(id)
        if about is not None and about.head and stamp is not None:
            self._loaded()[id] = _entry_of(about, stamp)
        return about

    def save(self, ids: Iterable[str]) -> None:
        """Writes the entries of these conversations. The caller holds the lock of the tree."""
        loaded = self._loaded()
        entries = [loaded[id] for id in ids if id in loaded]
        plain = msgspec.json.encode(_File(v=VERSION, conversations=entries))
        content = msgspec.json.format(plain, indent=2) + b"\n"
        tree.replace_file(self._tree.index, content, durable=False)

    def remove(self) -> None:
        """Removes the file, because its titles are text from conversations."""
        tree.remove_file(self._tree.index)
        self._entries = {}

    def _loaded(self) -> dict[str, _Entry]:
        if self._entries is None:
            self._entries = {}
            content = tree.read_derived(self._tree.index) or b""
            # A missing or damaged file costs nothing: the folders contain the same.
            with suppress(msgspec.DecodeError, ValueError, RecursionError):
                saved = decoding.decode(content, _File)
                if saved.v == VERSION:
                    self._entries = {entry.id: entry for entry in saved.conversations}
        return self._entries

    def _stamp(self, id: str) -> Stamp | None:
        folder = self._tree.folder(id)
        stamp: Stamp = ()
        for name in (LOG, METADATA):
            found = stamp_of(os.path.join(folder, name))
            if found is None:
                return None
            stamp += found
        return stamp


def _entry_of(about: Conversation, stamp: Stamp) -> _Entry:
    return _Entry(
        id=about.id,
        title=about.title,
        head=about.head,
        chain=about.chain.hex(),
        parent=about.parent,
        parent_seq=about.parent_seq,
        at_ms=about.at_ms,
        updated_ms=about.updated_ms,
        stamp=stamp,
    )


def _conversation_of(entry: _Entry) -> Conversation:
    return Conversation(
        id=entry.id,
        title=entry.title,
        head=entry.head,
        chain=bytes.fromhex(entry.chain),
        parent=entry.parent,
        parent_seq=entry.parent_seq,
        at_ms=entry.at_ms,
        updated_ms=entry.updated_ms,
    )
