"""Forgetting for good: every version of an entry, and every message that showed it.

First it is written that the entries are forgotten, with a keyed hash of their words: from then on
nobody sees them, and no rule brings them back. Then the words go: from conversations, the index,
and last from the log of memories itself. That all is gone is written at the end; where this is
missing, whoever opens the memory next goes on with it. Neighbours: `pages` erases in conversations,
`fold` knows what is unfinished, `semantic` offers `forget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Memory
from refold.errors import Invalid, NotFound, RefoldError, sentence
from refold.memory.claim import telling_words
from refold.memory.entry import Forgotten
from refold.memory.finder import Finder
from refold.memory.fold import Entries
from refold.memory.journal import Journal
from refold.memory.pages import Erased, Sought, erase_shown
from refold.memory.seals import sealed
from refold.memory.version import Version
from refold.stores import erase_events, is_same_place, is_there, open_store
from refold.stores.protocol import Store

STORES = "stores"  # in the metadata of a marker: the other stores that were named
MENTIONS_TOLD = 20
OUT_OF_REACH = ("earlier exports", "backups of the files")
OTHER_STORES = "conversations in stores that were not named"


class Which(Struct, frozen=True, kw_only=True):
    """Which entries: all that fit everything that is given."""

    tag: str | None = None
    before_ms: int | None = None
    said_in: str | None = None

    def is_empty(self) -> bool:
        return self.tag is None and self.before_ms is None and self.said_in is None

    def fits(self, versions: Sequence[Version]) -> bool:
        """Whether an entry with these versions is meant."""
        bodies = [version.body for version in versions]
        sources = [body.source[0] for body in bodies if body.source]
        return (
            (self.tag is None or any(self.tag in body.tags for body in bodies))
            and (self.before_ms is None or versions[-1].at_ms < self.before_ms)
            and (self.said_in is None or self.said_in in sources)
        )


class Forgetter(Struct, frozen=True):
    """What forgetting needs: the journal, its index, and the stores whose conversations may show
    its entries."""

    journal: Journal
    finder: Finder
    stores: tuple[Store, ...]

    def forget(self, ids: Sequence[str], *, source: bool, others: Sequence[str]) -> Forgotten:
        """Forgets these entries, and whatever was merged with them."""
        known = self.journal.entries()
        versions = known.versions_of(ids)
        entries = list(dict.fromkeys(version.body.entry for version in versions))
        ended = _ended_by(known, versions, entries)
        marked = _markers(versions, entries, source=source, others=others)
        self.journal.append([*ended, *marked])
        return self._erase(entries, versions)

    def finish(self, tell: Callable[[str, str], None]) -> None:
        """Goes on with what was interrupted, if anything was."""
        left = dict(self.journal.entries().unfinished)
        if not left:
            return
        try:
            self._erase(list(left), [version for one in left.values() for version in one])
        except RefoldError as error:
            tell("memory-failed", f"what was forgotten is not erased yet: {sentence(error)}")

    def _erase(self, entries: Sequence[str], versions: Sequence[Version]) -> Forgotten:
        """Erases the words of entries that are marked as forgotten, and notes that it is done."""
        sources, others = _asked(self.journal, entries)
        contents = tuple(dict.fromkeys(one.body.content for one in versions if one.body.content))
        sought = Sought(ids=frozenset(entries), contents=contents, sources=sources)
        with _opened(others, self.stores) as more:
            erased = [erase_shown(store, sought) for store in (*self.stores, *more)]
        seqs = [version.seq for version in versions]
        self.finder.erase(self.journal.id, seqs, entries)
        going = seqs or list(_any_erased(self.journal))
        erase_events(self.journal.store, self.journal.id, going)
        done = [Memory(entry=entry, state="forgotten", closed=True) for entry in entries]
        self.journal.append(done)
        for store in {id(store): store for store in (self.journal.store, *self.stores)}.values():
            store.flush()
        return _receipt(entries, len(seqs), erased, is_users=self.journal.scope == "user")


def _ended_by(
    known: Entries, versions: Sequence[Version], entries: Sequence[str]
) -> Iterator[Memory]:
    """Last versions of what the forgotten entries had ended: it does not become true again because
    nobody knows any more what came after it."""
    gone = {version.seq for version in versions}
    for run in known.runs():
        if run.heir in gone and run.entry not in entries:
            body = run.versions[-1].body
            yield replace(
                body, version=body.version + 1, state="", closed=True, valid_from_ms=run.until_ms
            )


def _markers(
    versions: Sequence[Version], entries: Sequence[str], *, source: bool, others: Sequence[str]
) -> list[Memory]:
    """What is written first: that the entries are forgotten, what else is to go, and how their
    words are known again."""
    said = dict.fromkeys(telling_words(one.claim.said) or one.claim.said for one in versions)
    seals = [sealed(words) for words in said]
    sources = dict.fromkeys(one.body.source for one in versions if one.body.source and source)
    metadata: dict[str, Any] = {STORES: list(others)} if others else {}
    first = entries[0]
    return [
        *(Memory(entry=first, state="forgotten", seal=seal) for seal in seals),
        *(Memory(entry=first, state="forgotten", source=one) for one in sources),
        *(Memory(entry=entry, state="forgotten", metadata=metadata) for entry in entries),
    ]


def _asked(
    journal: Journal, entries: Sequence[str]
) -> tuple[frozenset[tuple[str, int]], list[str]]:
    """What else is to go by the markers of entries: sources, and the stores to look in."""
    markers = journal.markers(set(entries))
    sources = frozenset(one.source for one in markers if one.source)
    others = [url for one in markers for url in one.metadata.get(STORES, ())]
    return sources, list(dict.fromkeys(map(str, others)))


def _any_erased(journal: Journal) -> Iterator[int]:
    """An event whose words are gone already: erasing it again cleans the file, which a process
    that was killed may not have done."""
    for event in journal.events():
        if event.erased:
            yield event.seq
            return


@contextmanager
def _opened(urls: Sequence[str], known: Sequence[Store]) -> Iterator[list[Store]]:
    """Other stores, for as long as they are needed; one that is open already is not opened."""
    opened: list[Store] = []
    try:
        for url in urls:
            opened.append(open_store(url))
        yield [one for one in opened if not any(is_same_place(one, other) for other in known)]
    finally:
        for store in opened:
            store.close()


def _receipt(
    entries: Sequence[str], events: int, erased: Sequence[Erased], *, is_users: bool
) -> Forgotten:
    mentions = tuple(place for one in erased for place in one.mentions)
    told = [f"#{seq} of {id}, which says it too" for id, seq in mentions[:MENTIONS_TOLD]]
    told += [f"artifact {name}" for one in erased for name in one.artifacts]
    if is_users:
        told.append(OTHER_STORES)
    return Forgotten(
        entries=tuple(entries),
        events=events,
        messages=sum(one.messages for one in erased),
        summaries=sum(one.summaries for one in erased),
        mentions=mentions,
        out_of_reach=(*told, *OUT_OF_REACH),
    )


def stores_checked(urls: Sequence[str]) -> list[str]:
    """The URLs of stores that are there; NotFound before anything is written if one is not."""
    with _opened(urls, ()) as opened:
        for store in opened:
            if not is_there(store):
                raise NotFound(f"there is no store at {store.url}", hint="check the URL")
        return [store.url for store in opened]


def which_checked(id: str | None, which: Which) -> None:
    """Invalid unless it is said what is to be forgotten, and in one way."""
    if (id is None) == which.is_empty():
        hint = "give an id, or at least one of tag, before, said_in"
        raise Invalid("it is not clear what is to be forgotten", hint=hint)
