"""Encrypts again what lies far in plain text, or by an older key: it is deleted there, and sent
once more from here.

Only a log that is the same on both sides is deleted, forks before what they were forked from, so at
every moment all of it is near. Its old contents go before it does: a kill in between leaves logs
that still say what is outdated, and the next run finds them. What devices said of themselves is
said again at once. Neighbours: `survey` says what is outdated, `stores.hybrid.store` syncs.

What of a far log is not encrypted by the newest key, and where the contents lie that it names.

All of it is told by what lies there, and nothing by what a device remembers: whoever encrypts it
again can be killed at any moment, and finds the rest. Neighbours: `renewal` encrypts it again,
`refold sync --verify` names what lies there in plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from refold.core.model import DEVICE_PREFIX, Conversation, Event
from refold.display import number
from refold.errors import Conflict, NotFound, RefoldError
from refold.stores.encrypted.event import is_encrypted, opened
from refold.stores.encrypted.keys import Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid import devices
from refold.stores.hybrid import tails as erasure
from refold.stores.hybrid.exchange import all_conversations
from refold.stores.protocol import Store, SyncReport

Sync = Callable[[], SyncReport]
NOT_DONE = "refold sync says why; --take-plain takes what is there in plain text"


def renew(near: Store, far: EncryptedStore, sync: Sync) -> dict[str, str]:
    """Encrypts what is outdated again; by conversation, what was. Conflict, and nothing is
    deleted, while the two sides are not the same."""
    if not sync().is_done:
        raise Conflict("the two sides are not the same yet", head=0, hint=NOT_DONE)
    listed = {about.id: about for about in all_conversations(far)}
    for about in listed.values():
        if about.id.startswith(DEVICE_PREFIX):
            _renew_device(far, about)
    there = devices.without(listed)
    surveys = {id: _whole(surveyed(far, id)) for id in there}
    outdated = _outdated(surveys.values())
    why = {id: said for id in there if (said := surveys[id].why(set(outdated)))}
    line = _forks_first(there, why)
    for id in line:
        _check_same(near, far, id)
    for digest in outdated.values():
        _keep_near(near, far, digest)
    for place, digest in outdated.items():
        far.drop_place(place, digest)
    for id in line:
        _check_same(near, far, id)
        far.delete(id)
    if why and not sync().is_done:
        raise Conflict("not everything was sent again", head=0, hint="refold sync sends the rest")
    return why


def _renew_device(far: EncryptedStore, about: Conversation) -> None:
    """What a device said of itself last, encrypted by the newest key."""
    found = surveyed(far, about.id)
    if found.fault or found.why(set()):
        devices.say_again(far.taking_plain(), about)


def _whole(found: Survey) -> Survey:
    if found.fault is not None:
        raise found.fault
    return found


def _outdated(surveys: Iterable[Survey]) -> dict[str, str]:
    """Every place of an outdated content, with its digest where one of the logs tells it."""
    found: dict[str, str] = {}
    for survey in surveys:
        for place, digest in survey.outdated.items():
            found[place] = digest or found.get(place, "")
    return found


def _check_same(near: Store, far: EncryptedStore, id: str) -> None:
    """Conflict unless a log is here as it is there: what is deleted there is sent from here."""
    here, now = erasure.about(near, id), far.conversation(id)
    if here is None:
        hint = f"fetch it, and apply the key again: refold sync {id}"
        raise Conflict(f"{id!r} is in the far store and not here", head=now.head, hint=hint)
    if (here.head, here.chain) != (now.head, now.chain):
        raise Conflict(
            f"{id!r} was written to in the meantime", head=now.head, hint="apply it again"
        )


def _keep_near(near: Store, far: EncryptedStore, digest: str) -> None:
    """Fetches a content that is only there, before it goes there. Nothing can be done for one that
    is on neither side, or that only erased events name."""
    if digest and not erasure.holds(near, digest):
        try:
            near.put(far.get(digest))
        except NotFound:
            return


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


READ_EVENTS = 1_000


class Survey(Struct, kw_only=True):
    """How many events lie there in plain text, and by an older key. `outdated` are the places of
    contents that such events name, or that are in plain text, and `newest` those of the others:
    by place the digest, empty where only erased events name it. `fault` is the first event that
    cannot be decrypted."""

    plain: int = 0
    older: int = 0
    outdated: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    fault: RefoldError | None = None

    @property
    def plain_text(self) -> str:
        """What lies there in plain text, in words; empty if nothing does."""
        contents = sum(place == digest for place, digest in self.outdated.items())
        said = [
            number(self.plain, "event") if self.plain else "",
            number(contents, "artifact") if contents else "",
        ]
        words = " and ".join(part for part in said if part)
        return f"{words} in plain text" if words else ""

    def why(self, outdated: set[str]) -> str:
        """Why the log should be encrypted again, in words, where these places are outdated; empty
        if it need not be."""
        contents = len(outdated & self.newest.keys())
        said = [
            self.plain_text,
            f"{number(self.older, 'event')} by an older key" if self.older else "",
            f"{number(contents, 'artifact')} by an older key" if contents else "",
        ]
        return ", ".join(part for part in said if part)


def surveyed(far: EncryptedStore, conversation: str) -> Survey:
    """Reads a far log as it lies there."""
    found, after = Survey(), 0
    while events := far.far.read(conversation, after=after, limit=READ_EVENTS):
        after = events[-1].seq
        for event in events:
            if is_encrypted(event):
                _add_encrypted(found, event, far.keys, f"{far.url}: {conversation}: {event.seq}")
            else:
                found.plain += not event.erased
                found.outdated |= {one.digest: one.digest for one in erasure.contents_of([event])}
    return found


def _add_encrypted(found: Survey, event: Event, keys: Keys, what: str) -> None:
    try:
        one = opened(event, keys, what)
    except RefoldError as error:
        found.fault = found.fault or error
        return
    is_newest = one.key == keys.newest.id
    found.older += not is_newest
    place = one.envelope.content
    if place:
        digest = next((named.digest for named in erasure.contents_of([one.event])), "")
        # An event may name what lay there before there was a key.
        places = found.newest if is_newest and place != digest else found.outdated
        places[place] = digest or places.get(place, "")
