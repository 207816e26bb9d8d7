"""Forgetting for good: every version of an entry, and every message that showed it.

First it is written that the entries are forgotten, with a keyed hash of their words: from then on
nobody sees them, and no rule brings them back. Then the words go: from conversations, the index,
and last from the log of memories itself. That all is gone is written at the end; where this is
missing, whoever opens the memory next goes on with it. Neighbours: `pages` erases in conversations,
`fold` knows what is unfinished, `semantic` offers `forget`.

Where conversations show what is forgotten: found and erased, message by message.

A message shows an entry if it was put on the page for it (`engine.shown_memories`), if a tool's
answer recalled it, if a call told the memory to keep it, or if it is the source and that is to go
as well. Such a message is erased whole; its shape stays. A summary that may say something of an
erased message goes with it: the page is folded without it, and made again at the next request.
That a message is gone is written to every log that reads it before its bytes go, so no page shows
it from then on, however this ends. What else says the same words is told. Neighbour: `forgetting`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.core.call_arguments import arguments_object, arguments_text
from refold.core.codec import decode
from refold.core.laws import calls_of, results_of
from refold.core.model import (
    MEMORIES,
    Block,
    Body,
    Conversation,
    Edit,
    Erase,
    Event,
    Hide,
    Memory,
    Message,
    Replace,
    Summarize,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import summary_text, text_of
from refold.errors import Corrupt, Invalid, NotFound, RefoldError, sentence
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.trace import conversations, pages_of
from refold.memory.claim import telling_words
from refold.memory.entry import Forgotten, Version
from refold.memory.finder import Finder
from refold.memory.fold import Entries, sealed
from refold.memory.journal import Journal
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
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


BY = "memory"
REMEMBER = "remember"
_WORD = re.compile(r"\w+")


class Sought(Struct, frozen=True, kw_only=True):
    """What is to go: entries by their ids, what they said, and the messages that said it first."""

    ids: frozenset[str]
    contents: tuple[str, ...] = ()
    sources: frozenset[tuple[str, int]] = frozenset()


class Erased(Struct, frozen=True, kw_only=True):
    """How many messages and summaries went, the messages that say the same words and stay, and
    the artifacts that erased messages named."""

    messages: int = 0
    summaries: int = 0
    mentions: tuple[tuple[str, int], ...] = ()
    artifacts: tuple[str, ...] = ()


class _ConversationMatches(Struct):
    """What was found in one conversation."""

    about: Conversation
    erasures: dict[int, Erase]
    summaries: list[int]
    mentions: list[int]
    artifacts: list[str]


def erase_shown(store: Store, sought: Sought) -> Erased:
    """Erases what is sought from all conversations of a store, and from its index."""
    spoken = [words for words in map(_spelt, sought.contents) if words]
    about_all = list(conversations(store))
    places = [place for about in about_all if (place := _place(store, about, sought, spoken))]
    going = [place for place in places if place.erasures]
    for place in going:
        _announce(store, place)
    for place in going:
        _erase_bytes(store, place)
    if going:
        _erase_from_index(store)
    return Erased(
        messages=len({_own(place.about, seq) for place in going for seq in _messages(place)}),
        summaries=len({_own(place.about, seq) for place in going for seq in place.summaries}),
        mentions=tuple((place.about.id, seq) for place in places for seq in place.mentions),
        artifacts=tuple(dict.fromkeys(name for place in going for name in place.artifacts)),
    )


def _messages(place: _ConversationMatches) -> set[int]:
    return place.erasures.keys() - set(place.summaries)


def _own(about: Conversation, seq: int) -> tuple[str, int]:
    """An event by the log that has it: a fork reads those of its parent."""
    return (about.id if seq > about.parent_seq else about.parent or about.id), seq


# --- finding ---


def _place(
    store: Store, about: Conversation, sought: Sought, spoken: Sequence[str]
) -> _ConversationMatches | None:
    """What one conversation has of it; None if it has nothing."""
    place = _ConversationMatches(about, {}, [], [], [])
    edits: list[tuple[int, Edit]] = []
    for event, body in _bodies(store, about):
        if isinstance(body, Message):
            _look_at(place, event, body, sought, spoken)
        elif isinstance(body, Summarize | Replace):
            edits.append((event.seq, body))
    for seq, edit in edits:
        if _tells_of(edit, set(place.erasures), spoken):
            place.erasures[seq] = Erase(seq=seq)
            place.summaries.append(seq)
    return place if place.erasures or place.mentions else None


def _bodies(store: Store, about: Conversation) -> Iterator[tuple[Event, Body]]:
    """The messages and edits of a log, as far as it can be read."""
    with suppress(Corrupt):
        for events in pages_of(store, about.id, last=about.head):
            for event in events:
                body = decode(event) if event.kind in ("message", "edit") else None
                if body is not None:
                    yield event, body


def _look_at(
    place: _ConversationMatches,
    event: Event,
    message: Message,
    sought: Sought,
    spoken: Sequence[str],
) -> None:
    is_source = (place.about.id, event.seq) in sought.sources
    if is_source or _shows(message, sought.ids, spoken):
        place.erasures[event.seq] = Erase(
            seq=event.seq,
            role=message.role,
            calls=tuple(calls_of(message)),
            results=tuple(results_of(message)),
            ids=message.ids,
        )
        place.artifacts += [name for block in message.blocks if (name := _artifact(block))]
    elif _says("\n".join(map(_block_text, message.blocks)), spoken):
        place.mentions.append(event.seq)


def _artifact(block: Block) -> str:
    return block.artifact if isinstance(block, ToolResult) else ""


def _shows(message: Message, ids: frozenset[str], spoken: Sequence[str]) -> bool:
    """Whether a message shows an entry: as memories on the page, as an answer that recalls it, or
    as the call that had it remembered."""
    if not ids.isdisjoint(message.metadata.get(MEMORIES, ())):
        return True
    for block in message.blocks:
        text = _block_text(block)
        recalls = isinstance(block, ToolResult) and any(id in text for id in ids)
        remembers = isinstance(block, ToolCall) and block.name == REMEMBER
        if (recalls or remembers) and _says(text, spoken):
            return True
    return False


def _block_text(block: Block) -> str:
    """The text of a block; of a call, its arguments as they mean it, without the escapes."""
    if not isinstance(block, ToolCall):
        return text_of(block)
    given = arguments_object(block)
    return arguments_text(block) if given is None else "\n".join(map(str, given.values()))


def _tells_of(edit: Edit, erased: set[int], spoken: Sequence[str]) -> bool:
    """Whether an edit may hold words of a message that is erased."""
    match edit:
        case Hide():
            return False
        case Replace():
            return edit.seq in erased
        case Summarize():
            if not any(seq in edit.span for seq in erased):
                return False
            seqs = {one.seq for one in edit.quotes} | {one.seq for one in edit.facts}
            told = "\n".join([summary_text(edit), edit.line, *(one.text for one in edit.facts)])
            return edit.prose is not None or bool(seqs & erased) or _says(told, spoken)


def _says(text: str, spoken: Sequence[str]) -> bool:
    """Whether a text has one of these sentences, however it is spelt and broken."""
    folded = text.casefold()
    # Few texts have the longest word: the others need no further look.
    likely = [words for words in spoken if max(words.split(), key=len) in folded]
    spelt = f" {_spelt(text)} " if likely else ""
    return any(f" {words} " in spelt for words in likely)


def _spelt(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


# --- erasing ---


def _announce(store: Store, place: _ConversationMatches) -> None:
    """Writes to a log what is gone, unless it says so already."""
    log = Log(store, place.about.id)
    new = [one for seq, one in sorted(place.erasures.items()) if seq not in log.state.erased]
    if new:
        log.append([Draft(body=one, by=BY) for one in new])


def _erase_bytes(store: Store, place: _ConversationMatches) -> None:
    """Erases the events, but for those that another log's turn erased: forks share them."""
    id = place.about.id
    events = [store.read(id, after=seq - 1, last=seq, limit=1)[0] for seq in sorted(place.erasures)]
    erase_events(store, id, [event.seq for event in events if not event.erased])


def _erase_from_index(store: Store) -> None:
    """Lets the index of search read that the messages are gone, if there is one."""
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
