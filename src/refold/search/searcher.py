"""Search in a store: the index finds entries, and the text of the hits is read from the logs.

Full text and, with an embedder, vectors find messages and artifacts of all conversations, including
messages no longer on any page. Problems that concern the user (an index that is behind or had to be
rebuilt, a failing embedder) are reported, and the answer is the best available. Neighbours:
`upkeep` hands out the index, `index_query` queries it, the engine and the command line ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.core.codec import decode
from refold.core.model import Artifact, Event
from refold.errors import Corrupt, Invalid, NotFound, Unavailable, sentence
from refold.redaction import redacted
from refold.search import (
    database,
    index_query,
    snippets,
    store_index,
    upkeep,
    words,
)
from refold.search import index as sources
from refold.search.embedders import Embedder, chosen
from refold.search.index import EVERYWHERE, Entry, Index, Range, range_of
from refold.search.index_query import newest_matches
from refold.search.snippets import Filters, Hit, ShownMessages, Wanted
from refold.search.store_index import ServedIndex, ServedUpkeep
from refold.search.upkeep import Progress, Tell, Upkeep, VectorUpkeep, index_path, retried
from refold.search.words import Query
from refold.stores import terms_of
from refold.stores.protocol import Store
from refold.system.disk import Moment, ms_of

CLOSE_EVENTS = 2_000
SEARCH_WAIT_S = 5.0
# Spare candidates, because some hits may be gone, and an artifact has several pieces.
MEMORY = "memory"  # the author of messages that show memories
SPARE = 10
ENTRIES_GROUPED = 2_000  # the best entries that are sorted by conversation
BATCH_GROUPED = 100

IDS_TYPES = (list, tuple, set, frozenset, dict)  # a str is a collection as well

Scored = tuple[int, float]  # the id of an entry, and its score


class Question(Struct, frozen=True, kw_only=True):
    """A checked search request. `conversations` restricts it; None means all. With `each`, the
    limit is of conversations, and `each` of the hits of one. With `redacts`, secrets are
    removed from snippets: a snippet may be shown where the whole text may not."""

    text: str
    limit: int
    newest: bool
    conversations: list[str] | None
    filters: Filters
    each: int = 0
    redacts: bool = True

    @property
    def entries_max(self) -> int:
        """The number of candidates."""
        return ENTRIES_GROUPED if self.each else 2 * self.limit + SPARE


class SearchOptions(TypedDict, total=False):
    """The options of a search; times are ms or datetimes."""

    limit: int
    each: int
    newest: bool
    role: str | None
    conversation: str | None
    conversations: Collection[str] | None
    since: Moment | None
    until: Moment | None
    tool: str | None
    kind: str | None
    redacts: bool


def question_of(query: str, **asked: Unpack[SearchOptions]) -> Question:
    """The checked request; Invalid for an empty query or a bad option."""
    newest = asked.get("newest", False)
    if not isinstance(newest, bool):
        raise Invalid(f"newest={quoted(newest)} is neither True nor False", hint="newest=True")
    if not isinstance(query, str) or not query.strip():
        raise Invalid("there is nothing to search for", hint="give a word or a few")
    since, until = asked.get("since"), asked.get("until")
    return Question(
        text=query,
        limit=snippets.limit_checked(asked.get("limit", 10)),
        newest=newest,
        conversations=_conversation_ids(asked.get("conversation"), asked.get("conversations")),
        each=asked.get("each", 0),
        redacts=asked.get("redacts", True),
        filters=snippets.filters_checked(
            role=asked.get("role"),
            tool=asked.get("tool"),
            kind=asked.get("kind"),
            since_ms=None if since is None else ms_of("since", since),
            until_ms=None if until is None else ms_of("until", until),
        ),
    )


class Searcher:
    """Search over one store. `embedder=None` takes the best installed extra, False none.
    `tell(name, reason)` receives the notices for the user; `said` collects them."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | str | bool | None = None,
        tell: Tell | None = None,
        path: str | None = None,
    ) -> None:
        self.store = store
        self.said: list[tuple[str, str]] = []
        self._listener = tell
        terms = terms_of(store) if path is None else None
        self._upkeep: Upkeep
        if terms is not None:
            self._upkeep = ServedUpkeep(store, terms, tell=self._tell)
        else:
            place = index_path(store) if path is None else path
            self._upkeep = Upkeep(store, place, tell=self._tell)
        # An embedder from the caller is checked now. Looking for an installed one is slow, so it is
        # left to the first search.
        self._embedder = embedder
        if embedder is not None and not isinstance(embedder, bool):
            self._embedder = chosen(embedder) or False
        self._embedder_asked = embedder is not None and embedder is not False
        self._shown = ShownMessages(store)

    @cached_property
    def _vectors(self) -> VectorUpkeep:
        return VectorUpkeep(self.store, chosen(self._embedder), tell=self._tell)

    @property
    def path(self) -> str:
        """The path of the index, `:memory:`, or the URL of a store with its own index."""
        return self.store.url if isinstance(self._upkeep, ServedUpkeep) else self._upkeep.path

    def _tell(self, name: str, reason: str) -> None:
        self.said.append((name, reason))
        if self._listener is not None:
            self._listener(name, reason)

    # --- asking ---

    def search(self, query: str, **asked: Unpack[SearchOptions]) -> list[Hit]:
        """The best hits for a query, or with `newest` the newest that contain all its words.
        `"Double quotes"` make a phrase: required alone, beside other words worth more. Searches all
        conversations unless some are named. Results of refold's own tools are found only with
        `tool`."""
        return self._answer(question_of(query, **asked))

    @retried
    def _answer(self, question: Question) -> list[Hit]:
        with self._upkeep.index() as index:
            self._upkeep.freshen(index, question.conversations)
            query = words.query_of(question.text, index.stems)
            if not question.limit or not query.all_terms:
                return []
            found = self._found(index, query, question)
            wanted = snippets.wanted_of(query, index.tokens)
            return self._hits(index, wanted, found, question)

    def _found(self, index: Index, query: Query, question: Question) -> list[Scored]:
        if isinstance(index, ServedIndex):
            if self._embedder_asked:
                self._embedder_asked = False
                reason = f"{self.store.url} keeps no vectors: answers are by full text alone"
                self._tell("embedder-failed", reason)
            scope = store_index.scope_of(index, question.conversations)
            search = store_index.Search(index, query, scope, question.filters)
            if question.newest:
                return store_index.newest_matches(search, question.entries_max)
            return store_index.best_matches(search, question.entries_max)
        ranges = _ranges(index, question.conversations)
        if not question.newest:
            return self._ranked(index, query, ranges, question)
        with database.limited(index.connection, SEARCH_WAIT_S):
            return newest_matches(index, query, ranges, question.filters, question.entries_max)

    def _ranked(
        self, index: Index, query: Query, ranges: Sequence[Range], question: Question
    ) -> list[Scored]:
        """The best entries, by full text and any vectors."""
        filters = question.filters
        with database.limited(index.connection, SEARCH_WAIT_S):
            found = index_query.matches(index, query, ranges, filters)
            scored = index_query.scored(index, query, found, ranges, filters)
        # This first computes missing vectors, within a time limit of its own.
        combined = self._vectors.compared(index, query, found, scored, ranges)
        with database.limited(index.connection, SEARCH_WAIT_S):
            most = question.entries_max
            return index_query.best(index, query, combined.scores, ranges, filters, most)

    # --- hits ---

    def _hits(
        self, index: Index, wanted: Wanted, found: Sequence[Scored], question: Question
    ) -> list[Hit]:
        hits: dict[tuple[str, int], Hit] = {}
        at = 0
        # Each round reads only as many as are still needed; usually one is enough.
        while at < len(found) and (question.each or len(hits) < question.limit):
            size = BATCH_GROUPED if question.each else question.limit - len(hits)
            batch = found[at : at + size]
            at += len(batch)
            entries = index.entries([id for id, _ in batch])
            if question.each:
                counts = Counter(conversation for conversation, _ in hits)
                chosen: dict[int, Entry] = {}
                for id, _ in batch:
                    home = entries[id].conversation if id in entries else ""
                    is_new = home not in counts and len(counts) < question.limit
                    if home and (is_new or 0 < counts[home] < question.each):
                        counts[home] += 1
                        chosen[id] = entries[id]
                entries = chosen
            events = sources.events_of(self.store, entries.values(), self._report_damage)
            for id, score in batch:
                entry = entries.get(id)
                place = (entry.conversation, entry.seq) if entry else None
                if entry is None or place not in events or place in hits:
                    continue
                hit = self._hit(
                    index, wanted, entry, events[place], score, redacts=question.redacts
                )
                if hit is not None:
                    hits[place] = hit
        placed = [self._placed(hit, question.conversations) for hit in hits.values()]
        # With a tool filter, other tools of the same message are not shown.
        tool = question.filters.tool
        return placed if tool is None else [replace(hit, tool=tool) for hit in placed]

    def _hit(
        self,
        index: Index,
        wanted: Wanted,
        entry: Entry,
        event: Event,
        score: float,
        *,
        redacts: bool,
    ) -> Hit | None:
        """The hit with the text of its event; None if the event was erased, or only shows
        memories. Secrets are removed before a part of the text is chosen, because half a secret is
        not recognized."""
        if event.erased:
            self._upkeep.erase(index, entry.conversation, entry.seq)
            return None
        if event.by == MEMORY:
            return None
        documents = sources.documents(self.store, event, {})
        document = next((one for one in documents if one.start == entry.start), None)
        if document is None:
            self._check(event)
            return None
        # Leave out the lines that name the artifact, which every piece repeats.
        text = document.text.split("\n", document.head_lines)[-1] or document.text
        text = redacted(text) if redacts else text
        is_users = entry.role == "user" and not entry.tools
        chars = snippets.USER_CHARS if is_users else snippets.SNIPPET_CHARS
        short_chars = 0 if entry.tools or document.artifact else snippets.SHORT_CHARS
        snippet, marks, start = snippets.snippet_of(text, wanted, index.tokens, chars, short_chars)
        before = [one for one in documents if one.start < document.start]
        lines_before = sum(one.text.count("\n") - one.head_lines for one in before)
        lines_before += text.count("\n", 0, start)
        return Hit(
            conversation=entry.conversation,
            seq=entry.seq,
            score=score,
            snippet=snippet,
            marks=marks,
            kind=entry.kind,
            role=entry.role,
            tool=", ".join(entry.tools),
            at_ms=entry.at_ms,
            artifact=document.artifact,
            line=lines_before + 1 if document.artifact else 0,
        )

    def _check(self, event: Event) -> None:
        """Reports damage of an event, or of its artifact, that has no document any more."""
        try:
            body = decode(event)
            if isinstance(body, Artifact):
                for _ in self.store.get(body.digest):
                    pass
        except Corrupt as error:
            self._report_damage(error)
        except NotFound:
            return  # it was removed

    def _report_damage(self, error: Corrupt) -> None:
        self._tell("index-behind", f"damaged parts are not searched: {sentence(error)}")

    def _placed(self, hit: Hit, wanted: list[str] | None) -> Hit:
        """The hit with its visibility, attributed to a wanted fork that shares its event."""
        home = hit.conversation
        if wanted is not None and home not in wanted:
            for fork in wanted:
                about = self.store.conversation(fork)
                if sources.holder(self.store, about, hit.seq) == hit.conversation:
                    home = fork
                    break
        if hit.kind == "message":
            hidden = self._shown.is_hidden(self._upkeep.conversation(home), hit.seq)
        else:
            hidden = hit.kind == "artifact"
        return replace(hit, conversation=home, hidden=hidden)

    # --- upkeep ---

    def catch_up(self, budget: int = upkeep.SEARCH_EVENTS) -> int:
        """Indexes new events, at most `budget`; returns the number left."""
        return self._upkeep.catch_up(budget)

    def complete(self, progress: Progress | None = None) -> int:
        """Indexes all new events, and computes all missing vectors; returns the number of events.
        `progress(done, all)` is called between batches."""
        return self._complete(progress, rebuild=False)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Discards the index and builds it again; returns the number of events."""
        return self._complete(progress, rebuild=True)

    @retried
    def _complete(self, progress: Progress | None, *, rebuild: bool) -> int:
        report = progress or (lambda done, total: None)
        with self._upkeep.index(rebuild=rebuild) as index:
            done = self._upkeep.complete(index, report)
            self._vectors.complete(index, report, done)
            return done

    def close(self, *, conversation: str | None = None) -> None:
        """Catches up a little, with one conversation or all, and closes the index. An index that
        does not exist yet is not created."""
        wanted = None if conversation is None else [conversation]
        try:
            if self._upkeep.has_file():
                self._upkeep.catch_up(CLOSE_EVENTS, wanted)
        except (Unavailable, Corrupt, NotFound) as error:
            self._tell("index-behind", error.message)
        finally:
            self._upkeep.close()


def _ranges(index: Index, wanted: list[str] | None) -> tuple[Range, ...]:
    """The ids to search: the conversations, and the events they share with ancestors."""
    if wanted is None:
        return EVERYWHERE
    ranges: list[Range] = []
    for id in wanted:
        mark = index.mark(id)
        if mark:
            ranges.append(range_of(mark.number))
        while mark and mark.parent:
            seq, mark = mark.parent_seq, index.mark(mark.parent)
            if mark:
                ranges += index.upto(mark.number, seq)
    return tuple(dict.fromkeys(ranges))


def _conversation_ids(
    conversation: str | None, conversations: Collection[str] | None
) -> list[str] | None:
    """The requested conversations, without duplicates; None for all."""
    if conversations is not None and not isinstance(conversations, IDS_TYPES):
        problem = f"conversations={quoted(conversations)} is not a list"
        raise Invalid(problem, hint="conversation= takes one id")
    if conversation is None and conversations is None:
        return None
    ids = [] if conversation is None else [conversation]
    ids += conversations or ()
    for id in ids:
        if not snippets.is_text(id):
            raise Invalid(f"conversation: {quoted(id)} is not an id", hint="refold list has them")
    return list(dict.fromkeys(ids))
