"""Conversations go for good: their logs, the contents that only they name, and what the index knows
of them.

First it is looked up what they name, then they are deleted, then the contents go that nobody else
names. What another conversation names cannot be known where its log is damaged: then such contents
stay, and that is reported. A content that was put again after the last event that names it may be
about to be named by somebody else: it stays for a grace time. A sweep chooses by age and number; a
conversation that others were forked from stays for as long as they are there. Neighbours: `listing`
has the order, the command line asks, `artifacts.cleanup` removes outputs of conversations that
stay.
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
from refold.log.trace import artifact_of, conversations, named_by, readable
from refold.stores.protocol import Store

DAY_MS = 24 * 60 * 60 * 1_000

Named = dict[str, int]  # digests of contents, and when an event named each for the last time


class Deleted(Struct, frozen=True, kw_only=True):
    """What was removed, or would be, and what had to stay, with the reason; how many contents
    went with it, and notes for the user."""

    removed: tuple[str, ...] = ()
    left: dict[str, str] = {}
    contents: int = 0
    notes: tuple[str, ...] = ()


def delete(store: Store, ids: Sequence[str]) -> Deleted:
    """Removes these conversations. One that others were forked from goes after them, or stays if
    they do."""
    return _delete(store, [store.conversation(id) for id in dict.fromkeys(ids)])


def _delete(store: Store, chosen: Iterable[Conversation]) -> Deleted:
    """The same for conversations that were there just now; another process may be faster."""
    # What is put from now on, perhaps again, is not ours to drop.
    at_ms = now_ms()
    named = {about.id: _own_contents(store, about) for about in chosen}
    removed, left = _delete_in_order(store, named)
    orphans, notes = unnamed(store, _newest(named[id] for id in removed))
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
    """Deletes what can be deleted, forks before their parents. Gives the ids that are gone, and
    the others with the reason."""
    removed: list[str] = []
    left = dict.fromkeys(ids, "")
    while left:
        # What was kept by a fork may go once the fork is away.
        before = len(left)
        left = _delete_each(store, left, removed)
        if len(left) == before:
            break
    return removed, left


def _delete_each(store: Store, ids: Iterable[str], removed: list[str]) -> dict[str, str]:
    left: dict[str, str] = {}
    for id in ids:
        try:
            store.delete(id)
            removed.append(id)
        except (Conflict, NotFound, Corrupt) as error:
            left[id] = error.message
    return left


# --- sweeping ---


def sweep(
    store: Store,
    *,
    now_ms: int,
    older_than_days: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> Deleted:
    """Removes conversations that were not written to for so many days. The newest `keep` stay,
    however old they are; without a number of days, all others go."""
    _check_limits(older_than_days, keep)
    oldest_ms = now_ms - (older_than_days or 0) * DAY_MS
    others = newest(store)[keep or 0 :]
    stale = [one for one in others if older_than_days is None or one.updated_ms < oldest_ms]
    if dry_run:
        return Deleted(removed=tuple(about.id for about in stale))
    return _delete(store, stale)


def _check_limits(older_than_days: float | None, keep: int | None) -> None:
    limits = [limit for limit in (older_than_days, keep) if limit is not None]
    if not limits:
        hint = "say how old a conversation may be, or how many may stay"
        raise Invalid("a sweep needs a limit", hint=hint)
    if min(limits) < 0:
        hint = "give a number of days, or of conversations"
        raise Invalid("a limit of a sweep is negative", hint=hint)


# --- contents ---


def _own_contents(store: Store, about: Conversation) -> Named:
    """What the conversation's own events name, as far as they can be read."""
    named: Named = {}
    # Another process may delete the conversation while it is read.
    with suppress(NotFound):
        for event in readable(store, about, about.parent_seq):
            if isinstance(event, Event):
                named |= _named_in(event)
    return named


def _named_in(event: Event) -> Named:
    try:
        artifact = artifact_of(event)
    except Corrupt:
        return {}
    return {artifact.digest: event.at_ms} if artifact else {}


def _newest(named: Iterable[Named]) -> Named:
    """Every content with the newest time that it has anywhere."""
    newest: Named = {}
    for one in named:
        for digest, at_ms in one.items():
            newest[digest] = max(at_ms, newest.get(digest, 0))
    return newest


def unnamed(store: Store, named: Named) -> tuple[Named, list[str]]:
    """Those of these contents that no conversation names any more; none if that cannot be known."""
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
    """The digests of the contents that a conversation has; None if that cannot be known."""
    try:
        return _listed_contents(store, about)
    except NotFound:
        # Another process has deleted it just now.
        return set()


def _listed_contents(store: Store, about: Conversation) -> set[str] | None:
    try:
        outputs = listed(Log(store, about.id))
        return {one.artifact.digest for one in outputs if not one.cleaned_ms}
    except (Corrupt, Denied):  # a log that is encrypted there names nothing that anybody can read
        named, is_all = named_by(store, about)
        return {artifact.digest for artifact in named} if is_all else None


# --- the index ---


def _forget(store: Store, ids: Sequence[str]) -> list[str]:
    """Takes conversations out of the derived files there are; gives notes for the user."""
    # It brings a database, which a store may do without.
    from refold.search import fronts
    from refold.search.upkeep import Upkeep, index_path

    if not ids:
        return []
    reasons: list[str] = []
    try:
        fronts.forget(store, ids)
    except Unavailable as error:
        reasons.append(error.message)
    path = index_path(store)
    if not os.path.isfile(path):
        return _behind(reasons)
    upkeep = Upkeep(store, path, tell=lambda _, reason: reasons.append(reason))
    try:
        upkeep.forget(ids)
    finally:
        upkeep.close()
    return _behind(reasons)


def _behind(reasons: Iterable[str]) -> list[str]:
    return [f"the index lists them until it can be written: {reason}" for reason in reasons]
