"""Searching a store: the index is brought up to date, asked, and what its hits say is read from the
logs.

Full text and, where there is an embedder, vectors find messages and artifacts of all conversations,
also those that no page shows any more. What a caller should know (an index that had to be rebuilt
or is behind, an embedder that fails) is told, and the answer is the best there is. Neighbours:
`indexing` keeps the index, `search/` has it, `engine` and the command line ask.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from refold.core import bookmark
from refold.core.fold import CONTROLS
from refold.core.model import Conversation, Event
from refold.errors import Corrupt, Invalid, NotFound, Unavailable
from refold.log.log import Log
from refold.search import database, finding, words
from refold.search.embedders import Embedder
from refold.search.hits import Filters, Hit, filters_checked, limit_checked
from refold.search.index import EVERYWHERE, Entry, Index, Range, range_of
from refold.search.snippets import Wanted, snippet_of, wanted_of
from refold.search.upkeep import (
    BATCH_EVENTS,
    BATCH_VECTORS,
    Keeper,
    Progress,
    Tell,
    chosen,
    index_path,
)
from refold.search.words import Query
from refold.stores.protocol import Store

SEARCH_EVENTS, CLOSE_EVENTS, SEARCH_VECTORS = 20_000, 2_000, 10_000
TAIL_EVENTS, SPARE = 2_000, 10
PAGES_KEPT = 100

Moment = int | datetime


class Searcher:
    """Search over one store. `embedder=None` takes the extra `semantic` if it is installed,
    False none at all. `tell(name, reason)` hears what a caller should know; `said` keeps it,
    too."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | bool | None = None,
        tell: Tell | None = None,
        path: str | None = None,
    ) -> None:
        self.store, self.said, self._tell = store, list[tuple[str, str]](), tell
        place = index_path(store) if path is None else path
        self._keeper = Keeper(store, place, embedder=chosen(embedder), tell=self._say)
        self._pages: dict[str, tuple[bytes, set[int] | None]] = {}

    @property
    def path(self) -> str:
        """The index's file, or `:memory:`."""
        return self._keeper.path

    # --- asking ---

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        newest: bool = False,
        role: str | None = None,
        conversation: str | None = None,
        conversations: Collection[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        tool: str | None = None,
        kind: str | None = None,
    ) -> list[Hit]:
        """The places that answer the query best, or the newest that hold all its words. `"double
        quotes"` make a phrase that must be there. Looks in all conversations unless some are
        named; times are ms or datetimes."""
        if not isinstance(query, str) or not query.strip():
            raise Invalid("there is nothing to search for", hint="give a word or a few")
        limit_checked(limit)
        filters = filters_checked(
            role=role, tool=tool, kind=kind, since_ms=_ms(since), until_ms=_ms(until)
        )
        wanted = _wanted(conversation, conversations)
        return self._keeper.sound(lambda: self._search(query, limit, newest, wanted, filters))

    def _search(
        self, text: str, limit: int, newest: bool, wanted: list[str] | None, filters: Filters
    ) -> list[Hit]:
        self._freshen(wanted)
        index = self._keeper.opened()
        query = words.query_of(text, index.stems)
        if not limit or not (query.terms or query.required):
            return []
        ranges = _ranges(index, wanted)
        # More than are asked for: some may be gone by now, and an artifact has several pieces.
        if newest:
            found = finding.newest(index, query, ranges, filters, limit + SPARE)
        else:
            found = self._ranked(query, ranges, filters, 2 * limit + SPARE)
        return self._hits(index, wanted_of(query, index.tokens), found, limit, wanted)

    def _ranked(
        self, query: Query, ranges: Sequence[Range], filters: Filters, most: int
    ) -> list[tuple[int, float]]:
        index = self._keeper.opened()
        found = finding.matches(index, query, ranges, filters)
        scored = finding.scored(index, query, found, ranges, filters)
        vectors = self._keeper.vectors(SEARCH_VECTORS)
        if vectors is not None:
            scored = (
                self._keeper.embedding(lambda: vectors.fused(query, found, scored, ranges))
                or scored
            )
        return finding.best(index, query, scored, ranges, filters, most)

    # --- what a hit says ---

    def _hits(
        self,
        index: Index,
        query: Wanted,
        found: Sequence[tuple[int, float]],
        limit: int,
        wanted: list[str] | None,
    ) -> list[Hit]:
        hits: dict[tuple[str, int], Hit] = {}
        at = 0
        # As many are read as are still needed; usually that is all.
        while at < len(found) and len(hits) < limit:
            taken = found[at : at + limit - len(hits)]
            at += len(taken)
            entries = index.entries([id for id, _ in taken])
            part = [(entries[id], score) for id, score in taken if id in entries]
            events = self._keeper.events_of([entry for entry, _ in part])
            for entry, score in part:
                place = entry.conversation, entry.seq
                if place in events and place not in hits:
                    hit = self._hit(index, query, entry, events[place], score)
                    hits.update({place: hit} if hit else {})
        shown: dict[str, set[int] | None] = {}
        return [self._placed(hit, wanted, shown) for hit in hits.values()]

    def _hit(
        self, index: Index, query: Wanted, entry: Entry, event: Event, score: float
    ) -> Hit | None:
        """The hit, with what its event says; None if that was erased."""
        if event.erased:
            self._keeper.written(lambda index: index.erase(entry.conversation, [entry.seq]))
            return None
        documents = self._keeper.documents(event, {})
        document = next((one for one in documents if one.start == entry.start), None)
        if document is None:
            return None
        # What names an artifact stands before every piece of it; a snippet shows the piece itself.
        text = document.text.split("\n", document.head_lines)[-1] or document.text
        snippet, marks, start = snippet_of(text, query, index.tokens)
        before = sum(
            one.text.count("\n") - one.head_lines for one in documents if one.start < document.start
        )
        line = before + text.count("\n", 0, start) + 1 if document.artifact else 0
        return Hit(
            conversation=entry.conversation,
            seq=entry.seq,
            score=score,
            snippet=snippet,
            marks=marks,
            kind=entry.kind,
            role=entry.role,
            tool=entry.tools[0] if entry.tools else "",
            at_ms=entry.at_ms,
            artifact=document.artifact,
            line=line,
        )

    def _placed(self, hit: Hit, wanted: list[str] | None, shown: dict[str, set[int] | None]) -> Hit:
        """The hit, in the conversation that was asked for where it shares the event, and whether
        the page shows it."""
        home = hit.conversation
        if wanted is not None and home not in wanted:
            home = next((id for id in wanted if self._shares(id, hit)), home)
        if hit.kind != "message":
            return replace(hit, conversation=home, hidden=hit.kind == "artifact")
        if home not in shown:
            shown[home] = self._shown(home)
        seqs = shown[home]
        return replace(hit, conversation=home, hidden=None if seqs is None else hit.seq not in seqs)

    def _shares(self, fork: str, hit: Hit) -> bool:
        """Whether a fork reads the hit's event from its ancestors."""
        about = self.store.conversation(fork)
        while about.parent and hit.seq <= about.parent_seq:
            if about.parent == hit.conversation:
                return True
            about = self.store.conversation(about.parent)
        return False

    def _shown(self, conversation: str) -> set[int] | None:
        """The seqs that stand on the page in their own words; None where only the whole log
        would tell."""
        about = self._keeper.abouts.get(conversation) or self.store.conversation(conversation)
        known = self._pages.get(conversation)
        if known is None or known[0] != about.chain:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            known = self._pages[conversation] = about.chain, shown_on_page(self.store, about)
        return known[1]

    # --- keeping up ---

    def _freshen(self, wanted: list[str] | None) -> None:
        """Catches up before a search. What cannot be written now is said; the search goes on
        with what is there."""
        try:
            with database.translated(self.path):
                left = self._keeper.catch_up(SEARCH_EVENTS, wanted)
        except Unavailable as error:
            self._say("index-behind", f"{error}; the newest messages may be missing")
            return
        if left:
            self._say(
                "index-behind",
                f"{left:,} events are not in the index yet: search again, or run refold index",
            )

    def catch_up(self, budget: int = SEARCH_EVENTS) -> int:
        """Takes in what was appended, at most `budget` events; gives how many are left."""
        return self._keeper.sound(lambda: self._keeper.catch_up(budget))

    def complete(self, progress: Progress | None = None) -> int:
        """Takes in everything that is not in the index yet, its vectors too; gives the number of
        events. What is to do is told to `progress(done, all)` between batches."""
        return self._keeper.sound(lambda: self._completed(progress or (lambda done, total: None)))

    def rebuild(self, progress: Progress | None = None) -> int:
        """Throws the index away and makes it again; gives the number of events."""
        with self._keeper.lock:
            self._keeper.let_go()
            self._keeper.remove()
            return self.complete(progress)

    def _completed(self, progress: Progress) -> int:
        left = total = self._keeper.catch_up(0)
        while left and (less := self._keeper.catch_up(BATCH_EVENTS)) < left:
            left = less
            progress(total - left, total)
        while (vectors := self._keeper.vectors(BATCH_VECTORS)) and (
            behind := vectors.behind_count()
        ):
            progress(total, total + behind)
        return total - left

    def close(self, *, conversation: str | None = None) -> None:
        """Catches up a little, with one conversation or with all, and lets go of the index.
        Where nobody has ever searched there is none, and none is made."""
        with self._keeper.lock:
            try:
                if self.path != database.MEMORY and (
                    self._keeper.is_open or os.path.isfile(self.path)
                ):
                    wanted = [conversation] if conversation is not None else None
                    self._keeper.sound(lambda: self._keeper.catch_up(CLOSE_EVENTS, wanted))
            except (Unavailable, Corrupt, NotFound) as error:
                self._say("index-behind", str(error))
            finally:
                self._keeper.let_go()

    def _say(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._tell is not None:
            self._tell(name, reason)


def _ranges(index: Index, wanted: list[str] | None) -> tuple[Range, ...]:
    """The ids in which to look. A fork's own are only those behind the point at which it left
    its parent."""
    if wanted is None:
        return EVERYWHERE
    ranges: list[Range] = []
    for id in wanted:
        mark = index.mark(id)
        ranges += [range_of(mark.number)] if mark else []
        while mark and mark.parent:
            seq, mark = mark.parent_seq, index.mark(mark.parent)
            ranges += index.upto(mark.number, seq) if mark else []
    return tuple(dict.fromkeys(ranges))


def shown_on_page(store: Store, about: Conversation) -> set[int] | None:
    """The seqs that stand on a conversation's page in their own words; None where only the whole
    log would tell."""
    mark = bookmark.read(store.bookmark(about.id))
    head = mark.head if mark else 0
    if about.head - head > TAIL_EVENTS:
        return None
    tail = (
        store.read(about.id, after=head, last=about.head, limit=TAIL_EVENTS)
        if about.head > head
        else []
    )
    if mark is not None and not any(event.kind in CONTROLS for event in tail):
        slots = {seq for seq, _, _, edits in mark.slots if not edits}
        return slots | {event.seq for event in tail if event.kind == "message"}
    return {slot.seq for slot in Log(store, about.id).state.slots if not slot.edits}


def _wanted(conversation: str | None, conversations: Collection[str] | None) -> list[str] | None:
    if isinstance(conversations, str):
        raise Invalid(
            f"conversations={conversations!r} is not a list", hint="conversation= takes one id"
        )
    if conversation is None:
        return None if conversations is None else list(dict.fromkeys(conversations))
    return list(dict.fromkeys([conversation, *(conversations or ())]))


def _ms(moment: Moment | None) -> int | None:
    if moment is None or (isinstance(moment, int) and not isinstance(moment, bool)):
        return moment
    if not isinstance(moment, datetime):
        raise Invalid(f"{moment!r} is not a time", hint="milliseconds since 1970, or a datetime")
    return round(moment.timestamp() * 1_000)
