"""Encryption with the newest key: far logs in plain text or by an older key are deleted there, and
sent again.

Only a log that is the same on both sides is deleted, forks before their parents, so at every moment
all of it is near. Its old contents go first: a kill in between leaves logs that still name the
outdated contents, and the next run finds them. A survey reads only the far logs, and no cache of a
device. Logs of devices are rewritten at once. Neighbours: `stores.hybrid.store` syncs, `refold sync
--verify` lists far events in plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct, field

from refold.core.model import DEVICE_PREFIX, Conversation, Event
from refold.display import number
from refold.errors import Conflict, NotFound, RefoldError
from refold.stores.encrypted.encrypted_event import is_encrypted, opened
from refold.stores.encrypted.keys import Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid import devices, diverged_logs
from refold.stores.hybrid.conversation_sync import all_conversations
from refold.stores.protocol import Store, SyncReport

Sync = Callable[[], SyncReport]
NOT_DONE = "refold sync says why; --take-plain takes what is there in plain text"


def renew(near: Store, far: EncryptedStore, sync: Sync) -> dict[str, str]:
    """Encrypts outdated logs again; returns what was outdated, by conversation. Raises Conflict and
    deletes nothing while the two sides differ."""
    if not sync().is_done:
        raise Conflict("the two sides are not the same yet", head=0, hint=NOT_DONE)
    listed = {about.id: about for about in all_conversations(far)}
    for about in listed.values():
        if about.id.startswith(DEVICE_PREFIX):
            survey = surveyed(far, about.id)
            if survey.fault or survey.why(set()):
                devices.rewrite_log(far.taking_plain(), about)
    there = devices.without(listed)
    surveys = {id: surveyed(far, id) for id in there}
    # Every place of an outdated content, with its digest if one of the logs has it.
    outdated: dict[str, str] = {}
    for survey in surveys.values():
        if survey.fault is not None:
            raise survey.fault
        for place, digest in survey.outdated.items():
            outdated[place] = digest or outdated.get(place, "")
    why = {id: reason for id in there if (reason := surveys[id].why(set(outdated)))}
    line = _forks_first(there, why)
    for id in line:
        _check_same(near, far, id)
    for digest in outdated.values():
        # Contents that only the far store has are fetched before they are dropped there. One that
        # neither side has, or that only erased events name, is lost already.
        if digest and not diverged_logs.holds(near, digest):
            with suppress(NotFound):
                near.put(far.get(digest))
    for place, digest in outdated.items():
        far.drop_place(place, digest)
    for id in line:
        _check_same(near, far, id)
        far.delete(id)
    if why and not sync().is_done:
        raise Conflict("not everything was sent again", head=0, hint="refold sync sends the rest")
    return why


def _check_same(near: Store, far: EncryptedStore, id: str) -> None:
    """Raises Conflict unless a log is the same on both sides: it will be deleted there."""
    here, now = diverged_logs.about(near, id), far.conversation(id)
    if here is None:
        hint = f"fetch it, and apply the key again: refold sync {id}"
        raise Conflict(f"{id!r} is in the far store and not here", head=now.head, hint=hint)
    if (here.head, here.chain) != (now.head, now.chain):
        raise Conflict(
            f"{id!r} was written to in the meantime", head=now.head, hint="apply it again"
        )


def _forks_first(there: Mapping[str, Conversation], why: Mapping[str, str]) -> list[str]:
    """The outdated conversations and all their forks, each before its parent."""
    line: dict[str, list[str]] = {}
    for id in there:
        at, above = id, [id]
        while there[at].parent in there:
            at = there[at].parent
            above.append(at)
        if any(one in why for one in above):
            line[id] = above
    return sorted(line, key=lambda id: -len(line[id]))


READ_EVENTS = 1_000


class Survey(Struct, kw_only=True):
    """Counts of far events in plain text and by an older key. `outdated` has the contents that such
    events name or that are in plain text, `newest` the others: near digests by far place, empty if
    only erased events name the content. `fault` is the error of the first undecryptable event."""

    plain: int = 0
    older: int = 0
    outdated: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    fault: RefoldError | None = None

    @property
    def plain_text(self) -> str:
        """A remark about the plain text in the log; empty without any."""
        contents = sum(place == digest for place, digest in self.outdated.items())
        counts = [
            number(self.plain, "event") if self.plain else "",
            number(contents, "artifact") if contents else "",
        ]
        text = " and ".join(count for count in counts if count)
        return f"{text} in plain text" if text else ""

    def why(self, outdated: set[str]) -> str:
        """The reason to encrypt the log again, given all outdated places; empty if there is
        none."""
        contents = len(outdated & self.newest.keys())
        reasons = [
            self.plain_text,
            f"{number(self.older, 'event')} by an older key" if self.older else "",
            f"{number(contents, 'artifact')} by an older key" if contents else "",
        ]
        return ", ".join(reason for reason in reasons if reason)


def surveyed(far: EncryptedStore, conversation: str) -> Survey:
    """Surveys a far log."""
    survey, after = Survey(), 0
    while events := far.far.read(conversation, after=after, limit=READ_EVENTS):
        after = events[-1].seq
        for event in events:
            if is_encrypted(event):
                _add_encrypted(survey, event, far.keys, f"{far.url}: {conversation}: {event.seq}")
            else:
                survey.plain += not event.erased
                survey.outdated |= {
                    one.digest: one.digest for one in diverged_logs.contents_of([event])
                }
    return survey


def _add_encrypted(survey: Survey, event: Event, keys: Keys, what: str) -> None:
    try:
        one = opened(event, keys, what)
    except RefoldError as error:
        survey.fault = survey.fault or error
        return
    is_newest = one.key == keys.newest.id
    survey.older += not is_newest
    place = one.envelope.content
    if place:
        digest = next((named.digest for named in diverged_logs.contents_of([one.event])), "")
        # An event may name a content from before there was a key.
        places = survey.newest if is_newest and place != digest else survey.outdated
        places[place] = digest or places.get(place, "")
