"""How syncs leave an open log, told when it changes.

A sync happens in another thread, process or command; it leaves a record, whose mark is looked at
whenever the log is read. What is told is a change of state, never each sync: a log that is synced
again and again is so once. An opening tells only of what waits. Neighbours: `open_log` asks, the
record is that of a synced store.
"""

from __future__ import annotations

from refold.log.notices import Notice, NoticeName
from refold.stores.protocol import WAITING, Synced, SyncedStore, SyncState

_NAMES: dict[SyncState, NoticeName] = {
    "pending": "sync-pending",
    "synced": "sync-synced",
    "forked": "sync-forked",
    "blocked": "sync-blocked",
    "held": "sync-held",
}


class SyncNews:
    """What syncs did to one log."""

    def __init__(self, synced: SyncedStore) -> None:
        self._synced = synced
        self._seen: tuple[object, str] | None = None
        self._told: SyncState | None = None

    def notice(self, conversation: str) -> Notice | None:
        """What is to be said of the newest sync; None if nothing is."""
        seen = self._synced.sync_mark(), conversation
        if seen == self._seen:
            return None
        is_first, self._seen = self._seen is None, seen
        stood = self._synced.stood(conversation)
        if stood is None or stood.state == self._told:
            return None
        self._told = stood.state
        return None if is_first and stood.state not in WAITING else _said(stood)


def _said(stood: Synced) -> Notice:
    details = {"conversation": stood.conversation, "pending": stood.pending, "fork": stood.fork}
    return Notice(
        name=_NAMES[stood.state],
        reason=_reason(stood),
        details={name: value for name, value in details.items() if value},
    )


def _reason(stood: Synced) -> str:
    id, reason = repr(stood.conversation), stood.reason
    match stood.state:
        case "pending":
            return f"{stood.pending:,} events of {id} wait to be sent: {reason}"
        case "synced":
            return f"{id} is the same here and in the far store"
        case "forked":
            return f"{id} grew elsewhere too: what was said here is {stood.fork!r}"
        case "blocked" | "held":
            return f"{id} is not sent: {reason}"
