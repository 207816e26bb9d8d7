"""Which entries of an index match a query: the best, with their scores, or the newest.

FTS5 says where each term occurs and how often; `rank` makes an order of it. Work is bounded: of a
term that occurs nearly everywhere only the newest places are looked at, and of all that matches
only the best are weighed. Neighbours: `index` has the rows, `rank` and `dates` the arithmetic,
`newest` walks the newest matches, `searcher` asks.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence

from refold.search import dates, rank
from refold.search.hits import KINDS, Filters
from refold.search.index import (
    CONVERSATION_BITS,
    EVERYWHERE,
    KIND_MASK,
    POSITION_BITS,
    Index,
    Range,
    carried,
)
from refold.search.queries import IS_OWN, conditions_of, match_query
from refold.search.words import Query, Term

POSTINGS_MAX, POSTINGS_MIN, POSTINGS_ALL, SEEDS_MAX = 5_000, 500, 40_000, 1_000
AUTHOR_ROWS_MIN, QUESTION_WORDS = 3, 3
NEIGHBOURS_READ = 4
_NEAR = "SELECT id, words, asks FROM entries WHERE id IN carray(?)"
_AMONG = "SELECT id FROM entries WHERE id IN carray(?)"
_OWN_AMONG = f"{_AMONG} AND {IS_OWN}"
_BY_AUTHOR = _AMONG + " AND author = ?"
_ASKING = _AMONG + " AND asks"
_TIMES = "SELECT id, at_ms FROM entries WHERE id IN carray(?)"
_AUTHORS = (
    "SELECT author, sum(rows) FROM authors WHERE conversation BETWEEN ? AND ? GROUP BY author"
)


def matches(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters
) -> list[rank.Matches]:
    """Where each term of the query occurs."""
    total, _ = index.size(ranges)
    share = POSTINGS_ALL // max(1, len(query.terms))
    most = max(POSTINGS_MIN, min(POSTINGS_MAX, share))
    return [_matches(index, term, ranges, filters, total, most) for term in query.terms]


def scored(
    index: Index,
    query: Query,
    found: Sequence[rank.Matches],
    ranges: Sequence[Range],
    filters: Filters,
) -> dict[int, float]:
    """The score of every entry worth ranking. Some may still fail the filters, being only
    neighbours of others."""
    total, mean = index.size(ranges)
    among = _filtered_if_many(index, query, found, ranges, filters)
    kept = rank.seeds(found, total, SEEDS_MAX, among)
    sizes, asking = _neighbourhood(index, kept)
    if index.apart:
        out = rank.scores_apart(found, sizes, total, mean)
    else:
        out = rank.scores(found, kept & sizes.keys(), sizes, asking, total, mean)
    if not _is_question(query):
        # A query of a word or two wants these words; an answer without them is for a question.
        out = {id: score for id, score in out.items() if id in kept}
    else:
        out.update((id, rank.QUESTION_FACTOR * out[id]) for id in asking & out.keys())
    _prefer_author(index, query, ranges, out)
    _prefer_dates(index, query, out)
    return out


def _is_question(query: Query) -> bool:
    return len(query.terms) + len(query.quiet) >= QUESTION_WORDS


def _neighbourhood(index: Index, ids: set[int]) -> tuple[dict[int, int], set[int]]:
    """The lengths of entries and their neighbours, and which of them are questions."""
    reach = 0 if index.apart else NEIGHBOURS_READ
    near = index.rows(_NEAR, (carried(rank.around(ids, reach)),))
    sizes = {id: words for id, words, _ in near}
    asking = {id for id, _, asks in near if asks}
    return sizes, asking


def _filtered_if_many(
    index: Index,
    query: Query,
    found: Sequence[rank.Matches],
    ranges: Sequence[Range],
    filters: Filters,
) -> set[int] | None:
    """Of more than can be weighed, those that pass the filters: the best of all may all fail
    them."""
    ids = {id for one in found for id in one.occurrences}
    if len(ids) <= SEEDS_MAX or not (filters.needs_entries or query.required):
        return None
    return allowed(index, ids, query.required, ranges, filters)


def best(
    index: Index,
    query: Query,
    scored: Mapping[int, float],
    ranges: Sequence[Range],
    filters: Filters,
    most: int,
) -> list[tuple[int, float]]:
    """The best entries that pass the filters."""
    left = allowed(index, scored, query.required, ranges, filters)
    if filters.leaves_out_own:
        left -= {id for (id,) in index.rows(_OWN_AMONG, (carried(left),))}
    return rank.best({id: scored[id] for id in left}, most)


def _matches(
    index: Index, term: Term, ranges: Sequence[Range], filters: Filters, total: int, most: int
) -> rank.Matches:
    """Where a term occurs. Of a very common one only the newest places are looked at."""
    rows = _postings(index, term.match, ranges, Filters(kinds=filters.kinds), most)
    if len(rows) < most:
        return rank.Matches(dict(rows), len(rows), term.weight)
    share = len(rows) / _spanned([id for id, _ in rows])
    if filters.needs_entries:
        rows = _postings(index, term.match, ranges, filters, most)
    likely = min(total, round(share * total))
    return rank.Matches(dict(rows), max(len(rows), likely), term.weight)


def _spanned(ids: Sequence[int]) -> int:
    """How many entries lie between the first and the last of these, lane by lane: ids have gaps
    between lanes."""
    low, high = min(ids), max(ids)
    if low >> POSITION_BITS == high >> POSITION_BITS:
        return high - low + 1
    ends: dict[int, tuple[int, int]] = {}
    for id in ids:
        lane = id >> POSITION_BITS
        low, high = ends.get(lane, (id, id))
        ends[lane] = min(low, id), max(high, id)
    return sum(high - low + 1 for low, high in ends.values())


def _postings(
    index: Index, match: str, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, int]]:
    """The newest entries that match, and how often."""
    query, values = match_query("documents.rowid, occurrences(documents)", filters)
    query += " ORDER BY documents.rowid DESC LIMIT ?"
    rows: list[tuple[int, int]] = []
    for first, last in ranges:
        if len(rows) < most:
            rows += index.rows(query, (match, first, last, *values, most - len(rows)))
    return rows


def allowed(
    index: Index,
    ids: Iterable[int],
    required: Sequence[Term],
    ranges: Sequence[Range],
    filters: Filters,
) -> set[int]:
    """Those of the entries that pass the filters, lie in the ranges and hold every required
    phrase."""
    kinds = {KINDS.index(kind) for kind in filters.kinds}
    left = {id for id in ids if id >> POSITION_BITS & KIND_MASK in kinds}
    if len(ranges) == 1:
        [(low, high)] = ranges
        left = {id for id in left if low <= id <= high}
    elif ranges != EVERYWHERE:
        left = {id for id in left if any(first <= id <= last for first, last in ranges)}
    for phrase in required:
        left &= {id for id, _ in _postings(index, phrase.match, ranges, filters, 4 * POSTINGS_MAX)}
    return _passing(index, left, filters) if filters.needs_entries else left


def _passing(index: Index, ids: set[int], filters: Filters) -> set[int]:
    """Those of the entries whose rows pass the filters."""
    conditions, values = conditions_of(filters)
    return {id for (id,) in index.rows(_AMONG + conditions, (carried(ids), *values))}


# --- who spoke, and when ---


def _prefer_author(
    index: Index, query: Query, ranges: Sequence[Range], scored: dict[int, float]
) -> None:
    """Raises the scores of what somebody said, if the query names exactly one who speaks."""
    authors = _authors_named(index, query, ranges)
    if len(authors) != 1:
        return
    for (id,) in index.rows(_BY_AUTHOR, (carried(scored), authors[0])):
        scored[id] *= rank.AUTHOR_FACTOR


def leanings(
    index: Index, query: Query, ranges: Sequence[Range], ids: Sequence[int]
) -> dict[int, float]:
    """By how much entries count more or less, whatever words they have: what somebody said whom
    the query names, and for a question the questions."""
    out: dict[int, float] = {}
    authors = _authors_named(index, query, ranges)
    if len(authors) == 1:
        rows = index.rows(_BY_AUTHOR, (carried(ids), authors[0]))
        out = {id: rank.AUTHOR_LEANING for (id,) in rows}
    if _is_question(query):
        for (id,) in index.rows(_ASKING, (carried(ids),)):
            out[id] = out.get(id, 0.0) + rank.QUESTION_LEANING
    return out


def _prefer_dates(index: Index, query: Query, scored: dict[int, float]) -> None:
    """Raises the scores of what was said on a day or in a month that the query names."""
    days = dates.dates_in(query.text)
    if not days:
        return
    for id, at_ms in index.rows(_TIMES, (carried(scored),)):
        scored[id] *= 1 + dates.DATE_WORTH * dates.nearness(at_ms, days)


def _authors_named(index: Index, query: Query, ranges: Sequence[Range]) -> list[str]:
    """Those who speak in these ranges and are named by the query."""
    named = {term.text.lower() for term in query.terms}
    rows: Tally[str] = Tally()
    for first, last in ranges:
        numbers = (first >> CONVERSATION_BITS, last >> CONVERSATION_BITS)
        rows.update(dict(index.rows(_AUTHORS, numbers)))
    speaking = [author for author, count in rows.items() if count >= AUTHOR_ROWS_MIN]
    return [author for author in speaking if author.lower() in named]
