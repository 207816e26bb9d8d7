"""Which entries match in an index that the store keeps: the same steps as in `finding`.

The store says where terms occur and how often, and gives the rows around the best; everything else
is arithmetic here. So a search asks once per term and twice more. Neighbours: `served` has the
index, `rank` and `dates` the arithmetic, `finding` the limits and the same for a local index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from refold.search import dates, finding, rank
from refold.search.hits import KINDS, Filters
from refold.search.served import ServedIndex
from refold.search.words import Query, Term
from refold.stores.terms import Phrases, Scope, Sought, TermEntry

_PHRASE = re.compile(r'"([^"]*)"( \*)?')

Scored = tuple[int, float]


class Search(Struct, frozen=True):
    """One search: where it looks, and what passes."""

    index: ServedIndex
    query: Query
    scope: Scope
    filters: Filters

    def postings(
        self, terms: Sequence[Term], most: int, *, filters: Filters | None = None
    ) -> list[tuple[int, int]]:
        """The newest entries that have all of these terms, and how often; `filters` are those of
        the search unless others are given."""
        asked = self.filters if filters is None else filters
        all_of = tuple(phrases_of(term, self.index) for term in terms)
        if not all(one.phrases for one in all_of):
            return []
        sought = Sought(
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
    """A term of a query, which is written for FTS5: `"a b"`, `"a" *`, or `("a" OR "b")`."""
    found = _PHRASE.findall(term.match)
    phrases = tuple(tuple(index.stems(text)) for text, _ in found)
    is_prefix = any(star for _, star in found)
    return Phrases(tuple(filter(None, phrases)), is_prefix)


def newest_matches(search: Search, most: int) -> list[Scored]:
    """The newest entries that hold all terms and phrases, with their time as score."""
    rows = search.postings(search.query.all_terms, most)
    entries = search.index.found(id for id, _ in rows)
    return rank.best({id: float(one.at_ms) for id, one in entries.items()}, most)


def best_matches(search: Search, most: int) -> list[Scored]:
    """The best entries that pass the filters."""
    total, context_words = search.index.terms.size(search.scope)
    if not total:
        return []
    found = _matches(search, total)
    kept = rank.seeds(found, total, finding.SEEDS_MAX, _passing_if_many(search, found))
    near = search.index.found(rank.around(kept, finding.NEIGHBOURS_READ))
    scored = _scored(search, found, kept & near.keys(), near, total, context_words / total or 1.0)
    left = _allowed(search, near, scored)
    return rank.best({id: scored[id] for id in left}, most)


def _matches(search: Search, total: int) -> list[rank.Matches]:
    """Where each term of the query occurs. Of a very common one only the newest places are looked
    at."""
    share = finding.POSTINGS_ALL // max(1, len(search.query.terms))
    most = max(finding.POSTINGS_MIN, min(finding.POSTINGS_MAX, share))
    kinds = Filters(kinds=search.filters.kinds)
    found: list[rank.Matches] = []
    for term in search.query.terms:
        rows = search.postings([term], most, filters=kinds)
        entries = len(rows)
        if entries >= most:
            part = entries / finding._spanned([id for id, _ in rows])
            entries = max(entries, min(total, round(part * total)))
            if search.filters.needs_entries:
                rows = search.postings([term], most, filters=search.filters)
        found.append(rank.Matches(dict(rows), entries, term.weight))
    return found


def _passing_if_many(search: Search, found: Sequence[rank.Matches]) -> set[int] | None:
    """Of more than can be weighed, those that pass the filters: the best of all may all fail
    them."""
    ids = {id for one in found for id in one.occurrences}
    required = search.query.required
    if len(ids) <= finding.SEEDS_MAX or not (search.filters.needs_entries or required):
        return None
    most = 4 * finding.POSTINGS_MAX
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
    if not finding._is_question(search.query):
        out = {id: score for id, score in out.items() if id in kept}
    else:
        out.update((id, rank.QUESTION_FACTOR * out[id]) for id in asking & out.keys())
    author = _author_named(search)
    days = dates.dates_in(search.query.text)
    for id in out:
        if author and near[id].author == author:
            out[id] *= rank.AUTHOR_FACTOR
        if days:
            out[id] *= 1 + dates.DATE_WORTH * dates.nearness(near[id].at_ms, days)
    return out


def _author_named(search: Search) -> str:
    """Who speaks here and is named by the query, if it is one alone."""
    named = {term.text.lower() for term in search.query.terms}
    speaking = search.index.terms.authors(search.scope).items()
    least = finding.AUTHOR_ROWS_MIN
    authors = [one for one, count in speaking if count >= least and one.lower() in named]
    return authors[0] if len(authors) == 1 else ""


def _allowed(
    search: Search, near: Mapping[int, TermEntry], scored: Mapping[int, float]
) -> set[int]:
    """Those of the entries that pass the filters, lie in the scope and hold every required
    phrase."""
    left = {id for id in scored if _passes(near[id], search.filters, search.scope)}
    for phrase in search.query.required:
        most = 4 * finding.POSTINGS_MAX
        left &= {id for id, _ in search.postings([phrase], most)}
    return left


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
    """The conversations in which to look, and up to which seq: those that are wanted, and what they
    share with their ancestors."""
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
