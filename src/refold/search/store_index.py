"""An index inside the store itself (`stores.protocol.Terms`), for stores on a server.

Every search brings it up to date for all users, so a team's conversations are indexed only once.
The store reports where terms occur and returns the rows around the best matches. They are ranked
here, by the same terms, lengths and neighbours as in a local index, so a search needs one query per
term and two more. There are no vectors. Neighbours: `index_query` does the same for a local index,
`upkeep` feeds it events, `searcher` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from refold.core.model import Conversation
from refold.patterns import regex
from refold.search import index_query, rank
from refold.search import words as dates
from refold.search.documents import Document
from refold.search.index import (
    CONVERSATION_BITS,
    KIND_MASK,
    POSITION_BITS,
    POSITION_MASK,
    Entry,
    Index,
    Mark,
    document_words,
    entry_row,
)
from refold.search.snippets import KINDS, OWN_PREFIX, Filters
from refold.search.upkeep import Tell, Upkeep
from refold.search.words import Query, Term
from refold.stores import is_read_only
from refold.stores.protocol import (
    Phrases,
    Scope,
    Store,
    TermEntry,
    TermLane,
    TermMark,
    TermPlace,
    TermQuery,
    Terms,
)

# Positions between the words of a text and the parts of its names, so that no phrase spans both.
GAP = 8

_PHRASE = regex(r'"([^"]*)"( \*)?')

Scored = tuple[int, float]


class ServedUpkeep(Upkeep):
    """The upkeep of an index inside the store."""

    def __init__(self, store: Store, terms: Terms, *, tell: Tell) -> None:
        super().__init__(store, ":memory:", tell=tell)
        self._terms = terms

    def _open(self) -> Index:
        if self._index is None:
            self._index = ServedIndex(self._terms, is_writable=not is_read_only(self._store))
        return self._index

    def _remove(self) -> None:
        """Empties the index."""
        self._terms.forget(list(self._terms.marks()))
        self.close()


class ServedIndex(Index):
    """An index behind `Terms`. Ids are built as in a local one; conversation numbers are valid
    while it is open."""

    def __init__(self, terms: Terms, *, is_writable: bool) -> None:
        super().__init__()  # in memory: for its tokenizer
        self.terms, self._is_writable = terms, is_writable
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    @property
    def is_writable(self) -> bool:
        return self._is_writable

    # --- ids ---

    def id_of(self, place: TermPlace) -> int:
        """The id of an entry."""
        conversation, lane, position = place
        number = self._numbers.setdefault(conversation, len(self._names))
        if number == len(self._names):
            self._names.append(conversation)
        return number << CONVERSATION_BITS | lane << POSITION_BITS | position

    def place_of(self, id: int) -> TermPlace:
        """The place of an entry."""
        conversation = self._names[id >> CONVERSATION_BITS]
        return conversation, id >> POSITION_BITS & KIND_MASK, id & POSITION_MASK

    def found(self, ids: Iterable[int]) -> dict[int, TermEntry]:
        """The existing entries among these ids."""
        known = [id for id in ids if 0 <= id >> CONVERSATION_BITS < len(self._names)]
        entries = self.terms.entries([self.place_of(id) for id in known])
        return {self.id_of((one.conversation, one.lane, one.position)): one for one in entries}

    def entries(self, ids: Sequence[int]) -> dict[int, Entry]:
        return {
            id: Entry(
                id,
                one.conversation,
                KINDS[one.lane],
                one.seq,
                one.at_ms,
                one.start,
                one.role,
                tuple(one.tools.split("\n")[1:-1]),
            )
            for id, one in self.found(ids).items()
        }

    # --- marks ---

    def mark(self, conversation: str) -> Mark | None:
        found = self.terms.marks([conversation]).get(conversation)
        return None if found is None else self._mark_of(conversation, found)

    def marks(self) -> dict[str, Mark]:
        return {id: self._mark_of(id, mark) for id, mark in self.terms.marks().items()}

    def _mark_of(self, conversation: str, mark: TermMark) -> Mark:
        number = self.id_of((conversation, 0, 0)) >> CONVERSATION_BITS
        return Mark(number, mark.head, mark.chain, mark.parent, mark.parent_seq)

    def enter(self, about: Conversation) -> None:
        mark = TermMark(
            head=about.parent_seq,
            chain=about.chain,
            parent=about.parent,
            parent_seq=about.parent_seq,
        )
        self.terms.enter(about.id, mark)

    # --- adding and removing ---

    def add(
        self,
        conversation: str,
        documents: Sequence[Document],
        *,
        after: int,
        head: int,
        chain: bytes,
    ) -> bool:
        lanes = self.terms.lanes(conversation)
        added: list[TermEntry] = []
        grown: dict[int, TermLane] = {}
        for lane, kind in enumerate(KINDS):
            fitting = [one for one in documents if one.kind == kind]
            if fitting:
                before = lanes.get(lane, TermLane())
                grown[lane], entries = self._grown(conversation, lane, before, fitting)
                added += entries
        return self.terms.add(conversation, added, grown, after=after, head=head, chain=chain)

    def _grown(
        self, conversation: str, lane: int, before: TermLane, documents: Sequence[Document]
    ) -> tuple[TermLane, list[TermEntry]]:
        """A lane after adding these documents, and their entries."""
        sizes = list(before.last_words)
        context_words = before.context_words
        entries: list[TermEntry] = []
        for position, document in enumerate(documents, before.entries):
            size = document_words(document)
            context_words += rank.added_context_words(sizes[-2:], size)
            sizes.append(size)
            entries.append(self._entry(conversation, lane, position, document, size))
        count = before.entries + len(documents)
        return TermLane(entries=count, context_words=context_words), entries

    def _entry(
        self, conversation: str, lane: int, position: int, document: Document, size: int
    ) -> TermEntry:
        row = entry_row(0, document, size)
        is_own = document.role == "tool" and bool(document.tools)
        # Terms with their positions, the parts of names after all others.
        positions: dict[str, list[int]] = {}
        at = 0
        for column in dates.columns(document.text):
            for term in self.stems(column):
                at += 1
                positions.setdefault(term, []).append(at)
            at += GAP
        return TermEntry(
            conversation=conversation,
            lane=lane,
            position=position,
            seq=document.seq,
            at_ms=document.at_ms,
            words=size,
            role=document.role,
            tools=str(row[5]),
            author=document.author,
            start=document.start,
            asks=bool(row[8]),
            is_own=is_own and all(tool.startswith(OWN_PREFIX) for tool in document.tools),
            terms=positions,
        )

    def forget(self, conversations: Iterable[str]) -> None:
        self.terms.forget(list(conversations))

    def erase(self, conversation: str, seqs: Iterable[int]) -> None:
        self.terms.erase(conversation, list(seqs))


class Search(Struct, frozen=True):
    """One search: its index, query, scope and filters."""

    index: ServedIndex
    query: Query
    scope: Scope
    filters: Filters

    def postings(
        self, terms: Sequence[Term], most: int, *, filters: Filters | None = None
    ) -> list[tuple[int, int]]:
        """The newest entries that contain all of these terms, with their numbers of occurrences;
        `filters` override the filters of the search."""
        asked = self.filters if filters is None else filters
        all_of = tuple(phrases_of(term, self.index) for term in terms)
        if not all(one.phrases for one in all_of):
            return []
        sought = TermQuery(
            all_of=all_of,
            lanes=tuple(KINDS.index(kind) for kind in asked.kinds),
            role=asked.role,
            tool=None if asked.tool is None else f"\n{asked.tool}\n",
            since_ms=asked.since_ms,
            until_ms=asked.until_ms,
            without_own=filters is None and asked.leaves_out_own,
        )
        found = self.index.terms.postings(sought, self.scope, most)
        return [(self.index.id_of(place), times) for place, times in found]


def phrases_of(term: Term, index: ServedIndex) -> Phrases:
    """The phrases of a query term in FTS5 syntax: `"a b"`, `"a" *`, or `("a" OR "b")`."""
    found = _PHRASE.findall(term.match)
    phrases = tuple(tuple(index.stems(text)) for text, _ in found)
    is_prefix = any(star for _, star in found)
    return Phrases(tuple(filter(None, phrases)), is_prefix)


def newest_matches(search: Search, most: int) -> list[Scored]:
    """The newest entries that contain all terms and phrases, with their time as score."""
    rows = search.postings(search.query.all_terms, most)
    entries = search.index.found(id for id, _ in rows)
    return rank.best({id: float(one.at_ms) for id, one in entries.items()}, most)


def best_matches(search: Search, most: int) -> list[Scored]:
    """The best entries that pass the filters."""
    total, context_words = search.index.terms.size(search.scope)
    if not total:
        return []
    found = _matches(search, total)
    kept = rank.seeds(found, total, index_query.SEEDS_MAX, _passing_if_many(search, found))
    near = search.index.found(rank.around(kept, index_query.NEIGHBOURS_READ))
    scored = _scored(search, found, kept & near.keys(), near, total, context_words / total or 1.0)
    left = {id for id in scored if _passes(near[id], search.filters, search.scope)}
    for phrase in search.query.required:
        left &= {id for id, _ in search.postings([phrase], 4 * index_query.POSTINGS_MAX)}
    return rank.best({id: scored[id] for id in left}, most)


def _matches(search: Search, total: int) -> list[rank.Matches]:
    """The occurrences of each term of the query; only the newest for a very common term."""
    most = index_query.postings_max(search.query)
    kinds = Filters(kinds=search.filters.kinds)
    found: list[rank.Matches] = []
    for term in search.query.terms:
        rows = search.postings([term], most, filters=kinds)
        entries = len(rows)
        if entries >= most:
            share = entries / index_query.spanned_entries([id for id, _ in rows])
            entries = max(entries, min(total, round(share * total)))
            if search.filters.needs_entries:
                rows = search.postings([term], most, filters=search.filters)
        found.append(rank.Matches(dict(rows), entries, term.weight))
    return found


def _passing_if_many(search: Search, found: Sequence[rank.Matches]) -> set[int] | None:
    """The matches that pass the filters, if there are too many to rank, because all of the best
    could fail the filters; else None."""
    ids = {id for one in found for id in one.occurrences}
    required = search.query.required
    if len(ids) <= index_query.SEEDS_MAX or not (search.filters.needs_entries or required):
        return None
    most = 4 * index_query.POSTINGS_MAX
    passing = {
        id
        for term in search.query.terms
        for id, _ in search.postings([term, *required], most, filters=search.filters)
    }
    return ids & passing


def _scored(
    search: Search,
    found: Sequence[rank.Matches],
    kept: set[int],
    near: Mapping[int, TermEntry],
    total: int,
    mean: float,
) -> dict[int, float]:
    """The score of every entry worth ranking."""
    sizes = {id: one.words for id, one in near.items()}
    asking = {id for id, one in near.items() if one.asks}
    out = rank.scores(found, kept, sizes, asking, total, mean)
    if not index_query.is_question_query(search.query):
        out = {id: score for id, score in out.items() if id in kept}
    else:
        out.update((id, rank.QUESTION_FACTOR * out[id]) for id in asking & out.keys())
    author = index_query.author_named(search.query, search.index.terms.authors(search.scope))
    days = dates.dates_in(search.query.text)
    for id in out:
        if author and near[id].author == author:
            out[id] *= rank.AUTHOR_FACTOR
        if days:
            out[id] *= 1 + dates.DATE_WORTH * dates.nearness(near[id].at_ms, days)
    return out


def _passes(one: TermEntry, filters: Filters, scope: Scope) -> bool:
    return (
        KINDS[one.lane] in filters.kinds
        and (scope is None or one.seq <= scope.get(one.conversation, -1))
        and filters.role in (None, one.role)
        and (filters.tool is None or f"\n{filters.tool}\n" in one.tools)
        and (filters.since_ms is None or one.at_ms >= filters.since_ms)
        and (filters.until_ms is None or one.at_ms <= filters.until_ms)
        and not (filters.leaves_out_own and one.is_own)
    )


def scope_of(index: ServedIndex, wanted: Sequence[str] | None) -> Scope:
    """The last seq to search in each conversation: the wanted ones, and the events they share with
    their ancestors."""
    if wanted is None:
        return None
    scope: dict[str, int] = {}
    for id in wanted:
        last, mark = (1 << 40) - 1, index.mark(id)
        while mark is not None:
            scope[id] = max(last, scope.get(id, 0))
            id, last = mark.parent, min(last, mark.parent_seq)
            mark = index.mark(id) if id else None
    return scope
