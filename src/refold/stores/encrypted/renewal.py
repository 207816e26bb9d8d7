"""Encrypts again what lies far in plain text, or by an older key: it is deleted there, and sent
once more from here.

Only a log that is the same on both sides is deleted, forks before what they were forked from, so at
every moment all of it is near; a kill in between leaves the rest to the next sync. What was kept
there for the old events goes last, when nothing names it any more. Neighbours: `store` says what is
outdated, `stores.hybrid.store` syncs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refold.core.model import DEVICE_PREFIX, Conversation
from refold.errors import Conflict
from refold.stores import checks
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid import tails
from refold.stores.hybrid.exchange import all_conversations
from refold.stores.protocol import Store, SyncReport

Sync = Callable[[], SyncReport]
NOT_DONE = "refold sync says why; what lies there in plain text is taken in by --take-plain"


def renew(near: Store, far: EncryptedStore, sync: Sync) -> dict[str, str]:
    """Encrypts what is outdated again; by conversation, what was. Conflict, and nothing is
    deleted, while the two sides are not the same."""
    if not sync().is_done:
        raise Conflict("the two sides are not the same yet", head=0, hint=NOT_DONE)
    there = {about.id: about for about in all_conversations(far)}
    why = {id: said for id in there if (said := far.outdated(id))}
    kept = far.places()
    for id in [id for id in why if id.startswith(DEVICE_PREFIX)]:
        far.delete(id)  # each device says it again
        del why[id]
    for id in _forks_first(there, why):
        here = tails.about(near, id)
        now = far.conversation(id)
        if here is None or (here.head, here.chain) != (now.head, now.chain):
            raise Conflict(f"{id!r} was written to meanwhile", head=now.head, hint="apply it again")
        far.delete(id)
    if why and not sync().is_done:
        raise Conflict("not everything was sent again", head=0, hint="refold sync sends the rest")
    for digest, place in far.places().items():
        if kept.get(digest, place) != place:
            far.far.drop(kept[digest], before_ms=checks.now_ms() + 1)
    return why


def _forks_first(there: Mapping[str, Conversation], why: Mapping[str, str]) -> list[str]:
    """What is outdated, and whatever was forked from it, each before its parent."""
    line: dict[str, list[str]] = {}
    for id in there:
        at, above = id, [id]
        while there[at].parent in there:
            at = there[at].parent
            above.append(at)
        if any(one in why for one in above):
            line[id] = above
    return sorted(line, key=lambda id: -len(line[id]))
