"""Forgetting for good: every version of an entry, and every message that showed it.

First the user's order is written to the user's own data folder, then a marker with a keyed hash of
the words to the log of memories: from then on nobody sees the entries, and no rule brings them
back. Then every log that shows them gets an `erase` event, so no page shows them any more; then the
words are erased from conversations, the index and the log of memories. Completion is recorded last;
without that record, the next process of this user that opens the memory finishes the work.

A log may come with a clone or from a team mate, so what it says destroys nothing and names no store
to open: only the user's own order does. Without one, an unfinished erasure is reported.

A message shows an entry if it was put on the page for it (`engine.conversation_memory`), is the
call that stored it or a tool's result that has its row of `recall` or its id with its words, or is
its source and `source` is set; then a result with the source's handle and the words shows it, too.
The whole message is erased, with the summaries that may quote it. Other messages with the same
words are reported. A dry run walks the same way. Neighbours:
`fold` knows what is unfinished, `semantic` offers `forget`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
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
from refold.errors import Corrupt, NotFound, RefoldError, sentence
from refold.log.draft import Draft
from refold.log.log import Log, now_ms
from refold.log.stored_logs import conversations, pages_of
from refold.memory.claim import telling_words
from refold.memory.entry import Forgotten, Version
from refold.memory.fold import Entries, is_sealed, sealed
from refold.memory.journal import Journal
from refold.memory.ranking import Finder
from refold.patterns import regex
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
from refold.settings.permissions import data_folder
from refold.stores import erase_events, is_same_place, is_there, near_url, open_store
from refold.stores.protocol import Store
from refold.system import disk

MENTIONS_TOLD = 20
BY = "memory"
REMEMBER = "remember"
_WORD = regex(r"\w+")
# A row of `recall`, and one on the page.
_ROW = regex(
    r"^[ \t]*(?:(mem-[\w-]+) \([^\n]*?\): ([^\n]*)|- ([^\n]*) \([^()\n]*\))$", re.MULTILINE
)
_NAME = regex(r"#\d+|[\w-]+")
OTHER_STORES = "conversations in stores that were not named"


Place = tuple[str, str, int]  # an event: a store, a conversation, a seq


class Which(Struct, frozen=True, kw_only=True):
    """A selection of entries: those that match all given conditions."""

    tag: str | None = None
    before_ms: int | None = None
    said_in: str | None = None

    def fits(self, versions: Sequence[Version]) -> bool:
        """Whether an entry with these versions matches."""
        bodies = [version.body for version in versions]
        sources = [body.source[0] for body in bodies if body.source]
        return (
            (self.tag is None or any(self.tag in body.tags for body in bodies))
            and (self.before_ms is None or versions[-1].at_ms < self.before_ms)
            and (self.said_in is None or self.said_in in sources)
        )


class Order(Struct, frozen=True, kw_only=True):
    """A user's order to forget entries: `ids` are theirs and the handles of the messages that said
    them (a hand-over shows these), `seals` those of their words, `sources` the messages and
    `stores` the other stores that the user named."""

    entries: tuple[str, ...]
    ids: frozenset[str]
    seals: tuple[str, ...]
    sources: frozenset[tuple[str, int]]
    stores: tuple[str, ...]


class Forgetter(Struct, frozen=True):
    """Forgets entries of a journal, in its index and in the stores whose conversations may show
    them, the journal's own among them. `going` are the events erased so far; a dry run only counts
    them."""

    journal: Journal
    finder: Finder
    stores: tuple[Store, ...]
    going: set[Place] = msgspec.field(default_factory=set)
    dry_run: bool = False

    def forget(self, ids: Sequence[str], *, source: bool, others: Sequence[str]) -> Forgotten:
        """Forgets these entries, and all entries merged with them."""
        known = self.journal.entries()
        versions = known.versions_of(ids)
        entries = dict.fromkeys([*ids, *(version.body.entry for version in versions)])
        said_in = {one.body.source for one in versions if one.body.source}
        order = Order(
            entries=tuple(entries),
            ids=frozenset([*entries, *(f"{conversation}#{seq}" for conversation, seq in said_in)]),
            seals=tuple(sealed(words) for words in dict.fromkeys(map(_words, versions))),
            sources=frozenset(said_in if source else ()),
            stores=tuple(others),
        )
        if self.dry_run:
            return self._receipt(order, versions, self._erase_shown(order, versions))
        disk.write_own(str(self._order_file(order.entries[0])), msgspec.json.encode(order))
        marked = [
            Memory(entry=order.entries[0], state="forgotten", seal=one) for one in order.seals
        ]
        marked += [Memory(entry=entry, state="forgotten") for entry in entries]
        gone = {version.seq for version in versions}
        self.journal.append([*_ended_by(known, gone, entries), *marked])
        return self._erase(order, versions)

    def finish(self, tell: Callable[[str, str], None]) -> None:
        """Finishes the interrupted erasures that this user ordered, and reports all others."""
        try:
            for order in filter(None, map(self._order, [*self.journal.entries().unfinished])):
                left = self.journal.entries().unfinished
                found = [version for id in order.entries for version in left.get(id, ())]
                if all(is_sealed([_words(version)], order.seals) for version in found):
                    self._erase(order, found)
        except RefoldError as error:
            tell("memory-failed", f"forgotten entries are not erased yet: {sentence(error)}")
            return
        if left := self.journal.entries().unfinished:
            ids = ", ".join(map(quoted, islice(left, MENTIONS_TOLD)))
            reason = f"forgotten entries are not erased yet, and you did not order it here: {ids}"
            tell("memory-failed", f"{reason}; refold memory forget ID erases one")

    def _order_file(self, entry: str) -> Path:
        """The file of the user's order to forget entries of this log, by the first of them."""
        name = msgspec.json.encode((near_url(self.journal.store), self.journal.id, entry))
        folder = data_folder(os.environ) / "refold" / "erasing"
        return folder / hashlib.sha256(name).hexdigest()

    def _order(self, entry: str) -> Order | None:
        """The user's order that begins with an entry; None if there is none."""
        try:
            return decoding.decode(disk.read_own(str(self._order_file(entry))), Order)
        except (OSError, msgspec.DecodeError):
            return None  # the caller reports what cannot be finished

    def _erase_shown(self, order: Order, versions: Sequence[Version]) -> list[Erased]:
        contents = tuple(dict.fromkeys(one.body.content for one in versions if one.body.content))
        with _opened(order.stores, self.stores) as more:
            return [
                erase_shown(store, order, contents, self.going, dry_run=self.dry_run)
                for store in (*self.stores, *more)
            ]

    def _receipt(
        self, order: Order, versions: Sequence[Version], erased: Sequence[Erased]
    ) -> Forgotten:
        shown_in = tuple(place for one in erased for place in one.shown_in)
        mentions = tuple(place for one in erased for place in one.mentions)
        reported = [f"#{seq} of {id}, which says it too" for id, seq in mentions[:MENTIONS_TOLD]]
        reported += [f"artifact {name}" for one in erased for name in one.artifacts]
        if self.journal.scope == "user":
            reported.append(OTHER_STORES)
        return Forgotten(
            entries=order.entries,
            events=len(versions),
            messages=sum(messages for _, messages, _ in shown_in),
            summaries=sum(summaries for *_, summaries in shown_in),
            shown_in=shown_in,
            mentions=mentions,
            out_of_reach=(*reported, *Forgotten().out_of_reach),
        )

    def _erase(self, order: Order, versions: Sequence[Version]) -> Forgotten:
        """Erases the words of entries marked as forgotten, and records completion."""
        entries = order.entries
        erased = self._erase_shown(order, versions)
        seqs = [version.seq for version in versions]
        self.finder.erase(self.journal.id, seqs, entries)
        # If all words are erased, erasing one event again cleans the file, which a killed process
        # may not have done.
        erased_seqs = (event.seq for event in self.journal.events() if event.erased)
        erase_events(self.journal.store, self.journal.id, seqs or [*islice(erased_seqs, 1)])
        self.journal.append([Memory(entry=id, state="forgotten", closed=True) for id in entries])
        for store in self.stores:
            store.flush()
        self._order_file(entries[0]).unlink(missing_ok=True)
        return self._receipt(order, versions, erased)


def _ended_by(known: Entries, gone: set[int], entries: Container[str]) -> Iterator[Memory]:
    """Closing versions of the entries that the forgotten ones had ended, which must not become true
    again."""
    for run in known.runs():
        if run.heir in gone and run.entry not in entries:
            body = run.versions[-1].body
            yield replace(
                body, version=body.version + 1, state="", closed=True, valid_from_ms=run.until_ms
            )


def _words(version: Version) -> str:
    """The words of a version that are sealed."""
    return telling_words(version.claim.said) or version.claim.said


@contextmanager
def _opened(urls: Sequence[str], known: Sequence[Store]) -> Iterator[list[Store]]:
    """Opens other stores for the length of a block, except those that are open already."""
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(open_store(url))) for url in urls]
        yield [one for one in opened if not any(is_same_place(one, other) for other in known)]


def stores_checked(urls: Sequence[str]) -> list[str]:
    """The URLs of existing stores; NotFound, before anything is written, if one does not exist."""
    with _opened(urls, ()) as opened:
        for store in opened:
            if not is_there(store):
                raise NotFound(f"there is no store at {store.url}", hint="check the URL")
        return [store.url for store in opened]


class Erased(Struct, frozen=True, kw_only=True):
    """The numbers of erased messages and summaries by conversation, the remaining messages with the
    same words, and the artifacts of erased messages."""

    shown_in: tuple[tuple[str, int, int], ...] = ()
    mentions: tuple[tuple[str, int], ...] = ()
    artifacts: tuple[str, ...] = ()


class _ConversationMatches(Struct):
    """The matches in one conversation."""

    about: Conversation
    erasures: dict[int, Erase]
    summaries: list[int]
    mentions: list[int]
    artifacts: list[str]


def erase_shown(
    store: Store, order: Order, contents: Sequence[str], going: set[Place], *, dry_run: bool
) -> Erased:
    """Erases entries with these contents from all conversations of a store, and from its index,
    except the events `going` already, to which it adds. A dry run only counts."""
    spoken = [words for words in map(_plain_words, contents) if words]
    found = [
        matches
        for about in list(conversations(store))
        if (matches := _matches_in(store, about, order, spoken, going))
    ]
    showing = [matches for matches in found if matches.erasures]
    if not dry_run:
        for matches in showing:
            _announce(store, matches)
        for matches in showing:
            _erase_bytes(store, matches)
        if showing:
            _erase_from_index(store)
    gone = {_own(matches.about, seq) for matches in showing for seq in matches.erasures}
    summaries = {_own(matches.about, seq) for matches in showing for seq in matches.summaries}
    going.update((store.url, *own) for own in gone)
    by_id = Counter(id for id, _ in gone)
    of_summaries = Counter(id for id, _ in summaries)
    return Erased(
        shown_in=tuple(
            (id, by_id[id] - of_summaries[id], of_summaries[id]) for id in sorted(by_id)
        ),
        mentions=tuple((matches.about.id, seq) for matches in found for seq in matches.mentions),
        artifacts=tuple(dict.fromkeys(name for matches in showing for name in matches.artifacts)),
    )


def _own(about: Conversation, seq: int) -> tuple[str, int]:
    """An event by the log that owns it: a fork shares events with its parent."""
    return (about.id if seq > about.parent_seq else about.parent or about.id), seq


# --- finding ---


def _matches_in(
    store: Store,
    about: Conversation,
    order: Order,
    spoken: Sequence[str],
    going: set[Place],
) -> _ConversationMatches | None:
    """The matches in one conversation except those `going` already; None if there are none."""
    matches = _ConversationMatches(about, {}, [], [], [])
    edits: list[tuple[int, Edit]] = []
    for event, body in _bodies(store, about):
        if (store.url, *_own(about, event.seq)) in going:
            continue
        if isinstance(body, Message):
            _match_message(matches, event, body, order, spoken)
        elif isinstance(body, Summarize | Replace):
            edits.append((event.seq, body))
    for seq, edit in edits:
        if _may_quote(edit, set(matches.erasures), spoken):
            matches.erasures[seq] = Erase(seq=seq)
            matches.summaries.append(seq)
    return matches if matches.erasures or matches.mentions else None


def _bodies(store: Store, about: Conversation) -> Iterator[tuple[Event, Body]]:
    """The messages and edits of a log, up to the first unreadable event."""
    with suppress(Corrupt):
        for events in pages_of(store, about.id, last=about.head):
            for event in events:
                body = decode(event) if event.kind in ("message", "edit") else None
                if body is not None:
                    yield event, body


def _match_message(
    matches: _ConversationMatches,
    event: Event,
    message: Message,
    order: Order,
    spoken: Sequence[str],
) -> None:
    is_source = (matches.about.id, event.seq) in order.sources
    if is_source or _shows(message, order, spoken):
        matches.erasures[event.seq] = Erase(
            seq=event.seq,
            role=message.role,
            calls=tuple(calls_of(message)),
            results=tuple(results_of(message)),
            ids=message.ids,
        )
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        matches.artifacts += [block.artifact for block in results if block.artifact]
    elif _has_any("\n".join(map(_block_text, message.blocks)), spoken):
        matches.mentions.append(event.seq)


def _shows(message: Message, order: Order, spoken: Sequence[str]) -> bool:
    """Whether a message shows an entry: as a memory on the page, as a tool's result with the entry
    itself, or as the call that stored it."""
    shown = message.metadata.get(MEMORIES)
    if shown is not None and (
        not order.ids.isdisjoint(shown)
        or _has_any("\n".join(map(_block_text, message.blocks)), spoken)
    ):
        return True
    for block in message.blocks:
        if isinstance(block, ToolResult) and _recalls(_block_text(block), order, spoken):
            return True
        if isinstance(block, ToolCall) and block.name == REMEMBER:
            said = (arguments_object(block) or {}).get("content", arguments_text(block))
            if _plain_words(str(said)) in spoken:
                return True
    return False


def _recalls(text: str, order: Order, spoken: Sequence[str]) -> bool:
    """Whether a result shows an entry: by its row, or by its id (or the handle of a message that
    goes with it) and its words. A result with the same words alone only mentions it."""
    names = {*order.entries, *(f"#{seq}" for _, seq in order.sources)}
    return any(
        row[1] in order.entries or _plain_words(row[2] or row[3] or "") in spoken
        for row in _ROW.finditer(text)
    ) or (not names.isdisjoint(_NAME.findall(text)) and _has_any(text, spoken))


def _block_text(block: Block) -> str:
    """The text of a block; of a call, its arguments without JSON escapes."""
    if not isinstance(block, ToolCall):
        return text_of(block)
    given = arguments_object(block)
    return arguments_text(block) if given is None else "\n".join(map(str, given.values()))


def _may_quote(edit: Edit, erased: set[int], spoken: Sequence[str]) -> bool:
    """Whether an edit may contain words of an erased message."""
    match edit:
        case Hide():
            return False
        case Replace():
            return edit.seq in erased
        case Summarize():
            if not any(seq in edit.span for seq in erased):
                return False
            seqs = {one.seq for one in edit.quotes} | {one.seq for one in edit.facts}
            text = "\n".join([summary_text(edit), edit.line, *(one.text for one in edit.facts)])
            return edit.prose is not None or bool(seqs & erased) or _has_any(text, spoken)


def _has_any(text: str, spoken: Sequence[str]) -> bool:
    """Whether the text contains one of these sentences, ignoring case, punctuation and line
    breaks."""
    folded = text.casefold()
    # Most texts lack the longest word, and need no further check.
    likely = [words for words in spoken if max(words.split(), key=len) in folded]
    spelt = f" {_plain_words(text)} " if likely else ""
    return any(f" {words} " in spelt for words in likely)


def _plain_words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


# --- erasing ---


def _announce(store: Store, matches: _ConversationMatches) -> None:
    """Records the erasures in a log, unless they are recorded already."""
    log = Log(store, matches.about.id)
    new = [one for seq, one in sorted(matches.erasures.items()) if seq not in log.state.erased]
    if new:
        at_ms = now_ms()
        log.append([Draft(body=replace(one, erased_ms=at_ms), by=BY) for one in new])


def _erase_bytes(store: Store, matches: _ConversationMatches) -> None:
    """Erases the events, except those already erased through another log: forks share events."""
    id = matches.about.id
    events = [
        store.read(id, after=seq - 1, last=seq, limit=1)[0] for seq in sorted(matches.erasures)
    ]
    erase_events(store, id, [event.seq for event in events if not event.erased])


def _erase_from_index(store: Store) -> None:
    """Removes the messages from the search index, if there is one."""
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
