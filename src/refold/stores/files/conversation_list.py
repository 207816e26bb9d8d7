"""`index.json`: the list of conversations, so that listing many opens only those that changed.

Derived and disposable. Every entry carries the sizes and times of the files it was made from, and
holds only while they are the same; what is missing, old or damaged is read from the folder.
Neighbour: `store` asks and saves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec

from refold import decoding
from refold.core.model import Conversation
from refold.stores.files.folder import LOG, METADATA, stamp_of
from refold.stores.files.tree import Tree, read_derived, remove_file, replace_file

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
    """The entries, as they were saved and as they became known since."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._entries: dict[str, _Entry] | None = None

    def about(self, id: str, read: Callable[[str], Conversation | None]) -> Conversation | None:
        """The conversation by its entry, if that still holds; else what `read` gives."""
        stamp = self._stamp(id)
        entry = self._loaded().get(id)
        if entry is not None and entry.stamp == stamp:
            return _conversation_of(entry)
        # The stamp was taken before: what is appended while we read makes the entry old, not wrong.
        about = read(id)
        if about is not None and about.head and stamp is not None:
            self._loaded()[id] = _entry_of(about, stamp)
        return about

    def save(self, ids: Iterable[str]) -> None:
        """Writes the entries of these conversations. The caller holds the lock of the tree."""
        known = self._loaded()
        entries = [known[id] for id in ids if id in known]
        plain = msgspec.json.encode(_File(v=VERSION, conversations=entries))
        content = msgspec.json.format(plain, indent=2) + b"\n"
        replace_file(self._tree.index, content, durable=False)

    def remove(self) -> None:
        """Removes the file: it has titles in it, and those are words of a conversation."""
        remove_file(self._tree.index)
        self._entries = {}

    def _loaded(self) -> dict[str, _Entry]:
        if self._entries is None:
            self._entries = {}
            self._entries |= {entry.id: entry for entry in self._saved()}
        return self._entries

    def _saved(self) -> list[_Entry]:
        """The entries of the file; none if it is missing or damaged: it says nothing that the
        folders do not say."""
        content = read_derived(self._tree.index) or b""
        try:
            saved = decoding.decode(content, _File)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return []
        return saved.conversations if saved.v == VERSION else []

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
