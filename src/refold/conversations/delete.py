"""Conversations go for good: their logs, the contents that only they named, and what the index
knows of them.

First it is looked up what they name, then they are deleted, then the contents go that nobody else
names. What another conversation names cannot be known where its log is damaged: then such contents
stay, and that is said. Neighbours: `sessions` sweeps, `refold delete` asks, `cleaning` removes
outputs of conversations that stay.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from refold.artifacts.listing import listed
from refold.conversations.listing import Swept
from refold.core.model import Conversation
from refold.errors import Conflict, Corrupt, NotFound
from refold.log.log import Log, now_ms
from refold.log.reading import conversations, named_by
from refold.stores.protocol import Store


def purged(store: Store, ids: Sequence[str]) -> Swept:
    """Removes these conversations. One that others were forked from goes after them, or stays if
    they do."""
    # What is put from now on, perhaps again, is not ours to drop.
    before_ms = now_ms() + 1
    named = {id: _named(store, store.conversation(id)) for id in dict.fromkeys(ids)}
    removed: list[str] = []
    left = _deleted(store, list(named), removed)
    # What was kept by a fork may go once the fork is away.
    while left and len(again := _deleted(store, list(left), removed)) < len(left):
        left = again
    orphans, notes = _orphans(store, set().union(*(named[id] for id in removed)))
    dropped = sum(store.drop(digest, before_ms=before_ms) for digest in sorted(orphans))
    notes += list(_forgotten(store, removed))
    return Swept(removed=tuple(removed), left=left, contents=dropped, notes=tuple(notes))


def _deleted(store: Store, ids: Iterable[str], removed: list[str]) -> dict[str, str]:
    """Deletes what can be deleted; gives the rest, with the reason."""
    left: dict[str, str] = {}
    for id in ids:
        try:
            store.delete(id)
            removed.append(id)
        except (Conflict, NotFound, Corrupt) as error:
            left[id] = str(error)
    return left


# --- contents ---


def _named(store: Store, about: Conversation) -> set[str]:
    """The digests that the conversation's own events name, as far as they can be read."""
    found, _ = named_by(store, about, about.parent_seq if about.parent else 0)
    return {artifact.digest for artifact in found}


def _orphans(store: Store, digests: set[str]) -> tuple[set[str], list[str]]:
    """Those of these contents that no conversation names any more; none if that cannot be known."""
    for about in conversations(store) if digests else ():
        held = _held(store, about)
        if held is None:
            return set(), [
                f"{len(digests)} contents stay: {about.id} is damaged, and may name them"
            ]
        digests = digests - held
    return digests, []


def _held(store: Store, about: Conversation) -> set[str] | None:
    """The digests of the contents that a conversation has; None if that cannot be known."""
    try:
        return {one.artifact.digest for one in listed(Log(store, about.id)) if not one.cleaned_ms}
    except Corrupt:
        found, is_all = named_by(store, about)
        return {artifact.digest for artifact in found} if is_all else None


# --- the index ---


def _forgotten(store: Store, ids: Sequence[str]) -> Iterator[str]:
    """Takes conversations out of the index, if it has a file; gives what somebody should know."""
    from refold.search.upkeep import (
        Keeper,
        index_path,
    )  # it brings a database, which a store may do without

    path = index_path(store.url)
    if not ids or not os.path.isfile(path):
        return
    notes: list[str] = []
    keeper = Keeper(store, path, embedder=None, tell=lambda _, reason: notes.append(reason))
    try:
        keeper.sound(lambda: keeper.written(lambda index: index.forget(ids)))
    finally:
        keeper.let_go()
    yield from (f"the index still knows them until it can be written: {note}" for note in notes)
