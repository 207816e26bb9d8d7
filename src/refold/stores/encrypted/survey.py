"""What of a far log is not encrypted by the newest key, and where the contents lie that it names.

All of it is told by what lies there, and nothing by what a device remembers: whoever encrypts it
again can be killed at any moment, and finds the rest. Neighbours: `renewal` encrypts it again,
`refold sync verify` names what lies there in plain text.
"""

from __future__ import annotations

from msgspec import Struct, field

from refold.core.model import Event
from refold.display import number
from refold.errors import RefoldError
from refold.stores.encrypted.event import is_encrypted, opened
from refold.stores.encrypted.keys import Keys
from refold.stores.encrypted.store import EncryptedStore
from refold.stores.hybrid import tails

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
                found.outdated |= {one.digest: one.digest for one in tails.contents_of([event])}
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
        digest = next((named.digest for named in tails.contents_of([one.event])), "")
        # An event may name what lay there before there was a key.
        places = found.newest if is_newest and place != digest else found.outdated
        places[place] = digest or places.get(place, "")
