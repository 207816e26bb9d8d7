"""Which entries of an index match a query: the best, with their scores, or the newest.

FTS5 says where each term stands and how often; `rank` makes an order of it. Work is bounded: of a
term that stands nearly everywhere only the newest places are looked at, and of all that matches
only the best are weighed. Neighbours: `index` has the rows, `rank` and `dates` the arithmetic,
`refold.searching` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from refold.search import dates, rank
from refold.search.hits import KINDS, Filters
from refold.search.index import (
    CONVERSATION_BITS,
    EVERYWHERE,
    ID_MAX,
    KIND_BITS,
    POSITION_BITS,
    Index,
    Range,
    carried,
)
from refold.search.words import Query, Term

POSTINGS_MAX, POSTINGS_MIN, POSTINGS_ALL, SEEDS_MAX = 5_000, 500, 40_000, 1_000
LANES_FIRST, LANES_WALKED = 1, 64
AUTHOR_ROWS_MIN, QUESTION_WORDS = 3, 3
_NEAR = "SELECT id, words, asks FROM entries WHERE id IN carray(?)"
_AUTHORS = (
    "SELECT author, sum(rows) FROM authors WHERE conversation BETWEEN ? AND ? GROUP BY author"
)


def matches(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters
) -> list[rank.Found]:
    """Where each term of the query stands."""
    total, _ = index.size(ranges)
    most = max(POSTINGS_MIN, min(POSTINGS_MAX, POSTINGS_ALL // max(1, len(query.terms))))
    return [_found(index, term, ranges, filters, total, most) for term in query.terms]


def scored(
    index: Index,
    query: Query,
    found: Sequence[rank.Found],
    ranges: Sequence[Range],
    filters: Filters,
) -> dict[int, float]:
    """The score of every entry worth ranking. Some may still fail the filters, being only
    neighbours of others."""
    total, mean = index.size(ranges)
    kept = rank.seeds(found, total, SEEDS_MAX, _among(index, query, found, ranges, filters))
    near = index.rows(_NEAR, (carried(rank.around(kept, 4)),))
    sizes, asking = {id: words for id, words, _ in near}, {id for id, _, asks in near if asks}
    out = rank.scores(found, kept & sizes.keys(), sizes, asking, total, mean)
    if len(query.terms) + len(query.quiet) < QUESTION_WORDS:
        # Who looks for a word or two wants these words; an answer without them is for who asks a
        # question.
        out = {id: score for id, score in out.items() if id in kept}
    else:
        out.update((id, rank.QUESTION_FACTOR * out[id]) for id in asking & out.keys())
    return _preferred(index, query, ranges, out)


def _among(
    index: Index,
    query: Query,
    found: Sequence[rank.Found],
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
    scored: dict[int, float],
    ranges: Sequence[Range],
    filters: Filters,
    most: int,
) -> list[tuple[int, float]]:
    """The best entries that pass the filters."""
    left = allowed(index, scored, query.required, ranges, filters)
    return rank.best({id: score for id, score in scored.items() if id in left}, most)


def _found(
    index: Index, term: Term, ranges: Sequence[Range], filters: Filters, total: int, most: int
) -> rank.Found:
    """Where a term stands. Of a very common one only the newest places are looked at."""
    rows = _postings(index, term.match, ranges, Filters(kinds=filters.kinds), most)
    if len(rows) < most:
        return rank.Found(dict(rows), len(rows), term.weight)
    share = len(rows) / _spanned(id for id, _ in rows)
    if filters.needs_entries:
        rows = _postings(index, term.match, ranges, filters, most)
    return rank.Found(dict(rows), max(len(rows), min(total, round(share * total))), term.weight)


def _spanned(ids: Iterable[int]) -> int:
    """How many entries lie between the first and the last of these, lane by lane: ids have gaps
    between lanes."""
    ends: dict[int, tuple[int, int]] = {}
    for id in ids:
        low, high = ends.get(id >> POSITION_BITS, (id, id))
        ends[id >> POSITION_BITS] = min(low, id), max(high, id)
    return sum(high - low + 1 for low, high in ends.values())


def _postings(
    index: Index, match: str, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, int]]:
    query, values = _sql("documents.rowid, occurrences(documents)", filters)
    rows: list[tuple[int, int]] = []
    for first, last in ranges:
        if len(rows) < most:
            given = (match, first, last, *values, most - len(rows))
            rows += index.rows(query + " ORDER BY documents.rowid DESC LIMIT ?", given)
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
    left = {id for id in ids if id >> POSITION_BITS & (1 << KIND_BITS) - 1 in kinds}
    if ranges != EVERYWHERE:
        left = {id for id in left if any(first <= id <= last for first, last in ranges)}
    for phrase in required:
        left &= {id for id, _ in _postings(index, phrase.match, ranges, filters, 4 * POSTINGS_MAX)}
    conditions, values = _conditions(filters)
    if conditions:
        query = f"SELECT id FROM entries WHERE id IN carray(?){conditions}"
        left = {id for (id,) in index.connection.execute(query, (carried(left), *values))}
    return left


def newest(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, float]]:
    """The newest entries that hold all terms and phrases, with their time as score."""
    match = " AND ".join(term.match for term in (*query.terms, *query.required))
    found = _walked(index, match, ranges, filters, most)
    return [
        (id, float(at))
        for id, at in sorted(found.items(), key=lambda item: (item[1], item[0]))[::-1][:most]
    ]


def _walked(
    index: Index, match: str, ranges: Sequence[Range], filters: Filters, most: int
) -> dict[int, int]:
    """The newest of many: lane by lane, the one that was written to last first, until the others
    are older."""
    found: dict[int, int] = {}
    top: list[tuple[int, int]] = []  # those with the highest ids, wherever they are
    for walked, (first, last, updated) in enumerate(_lanes(index, ranges, filters)):
        if len(found) >= most and sorted(found.values())[-most] >= updated:
            break
        if walked == LANES_WALKED and ranges == EVERYWHERE:
            return dict(_by_time(index, match, filters, most))
        if not top and ranges == EVERYWHERE and (walked == LANES_FIRST or _is_newest(index, last)):
            top = _tail(index, match, 0, ID_MAX, filters, most + 1)
            if len(top) <= most:
                return dict(top)
        here = [row for row in top if first <= row[0] <= last]
        is_all = len(here) >= most or (top and top[-1][0] < first)
        found.update(here if is_all else _tail(index, match, first, last, filters, most))
    return found


def _is_newest(index: Index, id: int) -> bool:
    """Whether an id is of the conversation that came last: the highest ids are then mostly its
    own."""
    newest = index.rows("SELECT max(number) FROM lanes")[0][0]
    return bool(newest >> KIND_BITS == id >> CONVERSATION_BITS)


def _lanes(
    index: Index, ranges: Sequence[Range], filters: Filters
) -> Iterator[tuple[int, int, int]]:
    """The lanes in these ranges, the one that was written to last first, each cut to the range."""
    kinds = ",".join(str(KINDS.index(kind)) for kind in filters.kinds)
    query = f"SELECT number, updated_ms FROM lanes WHERE number & 7 IN ({kinds}) AND number BETWEEN ? AND ?"
    if ranges == EVERYWHERE:
        rows = index.connection.execute(query + " ORDER BY updated_ms DESC", (0, ID_MAX))
        yield from (
            (n << POSITION_BITS, (n + 1 << POSITION_BITS) - 1, updated) for n, updated in rows
        )
        return
    found = []
    for first, last in ranges:
        for n, updated in index.connection.execute(
            query, (first >> POSITION_BITS, last >> POSITION_BITS)
        ):
            bounds = max(first, n << POSITION_BITS), min(last, (n + 1 << POSITION_BITS) - 1)
            found.append((*bounds, updated))
    yield from sorted(found, key=lambda lane: lane[2], reverse=True)


def _tail(
    index: Index, match: str, first: int, last: int, filters: Filters, most: int
) -> list[tuple[int, int]]:
    query, values = _sql("documents.rowid, entries.at_ms", filters, joined=True)
    return index.rows(
        query + " ORDER BY documents.rowid DESC LIMIT ?", (match, first, last, *values, most)
    )


def _by_time(index: Index, match: str, filters: Filters, most: int) -> list[tuple[int, int]]:
    query, values = _sql("documents.rowid, entries.at_ms", filters, joined=True)
    given = (match, 0, ID_MAX, *values, most)
    return index.rows(query + " ORDER BY entries.at_ms DESC LIMIT ?", given)


# --- who spoke, and when ---


def _preferred(
    index: Index, query: Query, ranges: Sequence[Range], scored: dict[int, float]
) -> dict[int, float]:
    """The scores, a little higher for those who are named, if the query names exactly one who
    speaks, and for what was said on a day or in a month that it names."""
    named, days = _named(index, query, ranges), dates.dates_in(query.text)
    if len(named) == 1:
        chosen = "SELECT id FROM entries WHERE id IN carray(?) AND author = ?"
        for (id,) in index.rows(chosen, (carried(scored), named[0])):
            scored[id] *= rank.AUTHOR_FACTOR
    if days:
        for id, at_ms in index.rows(
            "SELECT id, at_ms FROM entries WHERE id IN carray(?)", (carried(scored),)
        ):
            scored[id] *= 1 + dates.DATE_WORTH * dates.nearness(at_ms, days)
    return scored


def _named(index: Index, query: Query, ranges: Sequence[Range]) -> list[str]:
    said = {term.text.lower() for term in query.terms}
    known: dict[str, int] = {}
    for first, last in ranges:
        given = (first >> CONVERSATION_BITS, last >> CONVERSATION_BITS)
        for author, rows in index.connection.execute(_AUTHORS, given):
            known[author] = known.get(author, 0) + rows
    return [
        author
        for author, rows in known.items()
        if rows >= AUTHOR_ROWS_MIN and author.lower() in said
    ]


def _sql(what: str, filters: Filters, *, joined: bool = False) -> tuple[str, tuple[Any, ...]]:
    """A query for matches in a range of ids, and the values of its filters."""
    conditions, values = _conditions(filters)
    join = " CROSS JOIN entries ON entries.id = documents.rowid" if conditions or joined else ""
    kinds = ",".join(str(KINDS.index(kind)) for kind in filters.kinds)
    lanes = (
        f" AND documents.rowid >> {POSITION_BITS} & 7 IN ({kinds})"
        if len(filters.kinds) < len(KINDS)
        else ""
    )
    where = f"documents MATCH ? AND documents.rowid BETWEEN ? AND ?{lanes}{conditions}"
    return f"SELECT {what} FROM documents{join} WHERE {where}", values


def _conditions(filters: Filters) -> tuple[str, tuple[Any, ...]]:
    tool = None if filters.tool is None else f"\n{filters.tool}\n"
    given = {
        "entries.role = ?": filters.role,
        "instr(entries.tools, ?)": tool,
        "entries.at_ms >= ?": filters.since_ms,
        "entries.at_ms <= ?": filters.until_ms,
    }
    asked = {condition: value for condition, value in given.items() if value is not None}
    return "".join(f" AND {condition}" for condition in asked), tuple(asked.values())
