"""Permanent deletion of conversations: their logs, the contents that only they name, and index
entries.

Their references are collected, then they are deleted, then the contents without another reference
go. If another log is damaged, its references are unknown, so such contents stay, and this is
reported. Content that was stored again after its last reference may be about to get a new one: it
stays for a grace period. A sweep chooses by age and number; the parent of a fork stays as long as
the fork. Neighbours: `listing` has the order, the command line asks, `artifacts.cleanup` removes
outputs of remaining conversations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from refold.artifacts.cleanup import drop_before_ms
from refold.artifacts.listing import listed
from refold.conversations.listing import newest
from refold.core.model import Conversation, Event
from refold.display import number
from refold.errors import Conflict, Corrupt, Denied, Invalid, NotFound, Unavailable
from refold.log.log import Log, now_ms
from refold.log.stored_logs import artifact_of, conversations, named_by, readable
from refold.stores.protocol import Store

DAY_MS = 24 * 60 * 60 * 1_000

Named = dict[str, int]  # digests of contents, and the time of their last reference


class Deleted(Struct, frozen=True, kw_only=True):
    """The removed conversations, or those that would be; the remaining ones with the reason; the
    number of removed contents, and notes for the user."""

    removed: tuple[str, ...] = ()
    left: dict[str, str] = {}
    contents: int = 0
    notes: tuple[str, ...] = ()


def delete(store: Store, ids: Sequence[str]) -> Deleted:
    """Removes these conversations. A parent is removed after its forks, or kept with them."""
    chosen = [store.conversation(id) for id in dict.fromkeys(ids)]
    # Contents stored from now on, even again, are not ours to drop.
    at_ms = now_ms()
    named = {about.id: _own_contents(store, about) for about in chosen}
    removed, left = _delete_in_order(store, named)
    last_named: Named = {}
    for id in removed:
        for digest, named_ms in named[id].items():
            last_named[digest] = max(named_ms, last_named.get(digest, 0))
    orphans, notes = unnamed(store, last_named)
    kept = [
        digest
        for digest, named_ms in sorted(orphans.items())
        if not store.drop(digest, before_ms=drop_before_ms(at_ms, named_ms))
    ]
    if kept:
        notes.append(f"{number(len(kept), 'content')} kept: put again just now")
    notes += _forget(store, removed)
    return Deleted(
        removed=tuple(removed), left=left, contents=len(orphans) - len(kept), notes=tuple(notes)
    )


def _delete_in_order(store: Store, ids: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Deletes forks before their parents. Returns the deleted ids, and the others with the
    reason."""
    removed: list[str] = []
    left = dict.fromkeys(ids, "")
    while left:
        # A parent can be deleted once its forks are gone.
        again: dict[str, str] = {}
        for id in left:
            try:
                store.delete(id)
                removed.append(id)
            except (Conflict, NotFound, Corrupt) as error:
                again[id] = error.message
        is_stuck = len(again) == len(left)
        left = again
        if is_stuck:
            break
    return removed, left


# --- sweeping ---


def stale(
    store: Store, *, now_ms: int, older_than_days: float | None = None, keep: int | None = None
) -> list[str]:
    """The conversations without a write for this number of days. The newest `keep` stay whatever
    their age; without a number of days, all others are included."""
    limits = [limit for limit in (older_than_days, keep) if limit is not None]
    if not limits:
        hint = "set how old a conversation may be, or how many may stay"
        raise Invalid("a sweep needs a limit", hint=hint)
    if min(limits) < 0:
        hint = "pass a number of days, or of conversations"
        raise Invalid("a limit of a sweep is negative", hint=hint)
    oldest_ms = now_ms - (older_than_days or 0) * DAY_MS
    others = newest(store)[keep or 0 :]
    return [one.id for one in others if older_than_days is None or one.updated_ms < oldest_ms]


# --- contents ---


def _own_contents(store: Store, about: Conversation) -> Named:
    """The contents named by the conversation's own readable events."""
    named: Named = {}
    # Another process may delete the conversation while it is read.
    with suppress(NotFound):
        for event in readable(store, about, about.parent_seq):
            with suppress(Corrupt):
                artifact = artifact_of(event) if isinstance(event, Event) else None
                if isinstance(event, Event) and artifact is not None:
                    named[artifact.digest] = event.at_ms
    return named


def unnamed(store: Store, named: Named) -> tuple[Named, list[str]]:
    """The contents without any reference; none if that cannot be determined."""
    if not named:
        return named, []
    for about in conversations(store):
        held = _held_contents(store, about)
        if held is None:
            reason = f"{about.id} is damaged, and may name them"
            return {}, [f"{number(len(named), 'content')} kept: {reason}"]
        named = {digest: at_ms for digest, at_ms in named.items() if digest not in held}
    return named, []


def _held_contents(store: Store, about: Conversation) -> set[str] | None:
    """The digests of a conversation's contents; None if that cannot be determined."""
    try:
        try:
            outputs = listed(Log(store, about.id))
            return {one.artifact.digest for one in outputs if not one.cleaned_ms}
        except (Corrupt, Denied):  # damaged, or encrypted there and unreadable
            named, is_all = named_by(store, about)
            return {artifact.digest for artifact in named} if is_all else None
    except NotFound:
        return set()  # another process has just deleted it


# --- the index ---


def _forget(store: Store, ids: Sequence[str]) -> list[str]:
    """Removes conversations from the existing derived files; returns notes for the user."""
    # Imported late: it loads a database, which not every store needs.
    from refold.search import fingerprints
    from refold.search.upkeep import Upkeep, index_path

    if not ids:
        return []
    reasons: list[str] = []
    try:
        fingerprints.forget(store, ids)
    except Unavailable as error:
        reasons.append(error.message)
    path = index_path(store)
    if os.path.isfile(path):
        upkeep = Upkeep(store, path, tell=lambda _, reason: reasons.append(reason))
        try:
            upkeep.forget(ids)
        finally:
            upkeep.close()
    return [f"the index lists them until it can be written: {reason}" for reason in reasons]
