"""The entries of an index that match a query: the best, with their scores, or the newest.

FTS5 reports where each term occurs and how often; `rank` orders the matches. The work is bounded:
for a very common term, only the newest matches are read, and only the best of all matches are
scored. Ids grow with time only inside a lane, so the newest entries are found lane by lane, until
the remaining lanes are older. SQL values are always bound. Neighbours: `index` explains lanes and
ids, `rank` and `words` have the arithmetic, `searcher` asks.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from refold.search import rank
from refold.search import words as dates
from refold.search.index import (
    CONVERSATION_BITS,
    EVERYWHERE,
    ID_MAX,
    KIND_BITS,
    KIND_MASK,
    POSITION_BITS,
    Index,
    Range,
    carried,
    lane_range,
)
from refold.search.snippets import KINDS, OWN_PREFIX, Filters
from refold.search.words import Query, Term


def match_query(
    columns: str, filters: Filters, *, with_entries: bool = False
) -> tuple[str, tuple[Any, ...]]:
    """SQL for the matches in a range of ids, and the values of its filters."""
    conditions, values = conditions_of(filters)
    join = ""
    if conditions or with_entries:
        join = " CROSS JOIN entries ON entries.id = documents.rowid"
    where = "documents MATCH ? AND documents.rowid BETWEEN ? AND ?"
    if len(filters.kinds) < len(KINDS):
        kind = f"documents.rowid >> {POSITION_BITS} & {KIND_MASK}"
        where += f" AND {kind} IN ({kind_numbers(filters)})"
    return f"SELECT {columns} FROM documents{join} WHERE {where}{conditions}", values


# True for a result of our own tools alone; the names of tools are separated by newlines.
_OWN = f"\n{OWN_PREFIX}"
IS_OWN = (
    "entries.role = 'tool' AND entries.tools <> '' AND"
    " length(entries.tools) - length(replace(entries.tools, char(10), '')) - 1 ="
    f" (length(entries.tools) - length(replace(entries.tools, '{_OWN}', ''))) / {len(_OWN)}"
)


def kind_numbers(filters: Filters) -> str:
    """The numbers of the allowed kinds, as a list in SQL."""
    return ",".join(str(KINDS.index(kind)) for kind in filters.kinds)


def conditions_of(filters: Filters) -> tuple[str, tuple[Any, ...]]:
    """The conditions on an entry's row, and their values."""
    tool = None if filters.tool is None else f"\n{filters.tool}\n"
    possible = (
        ("entries.role = ?", filters.role),
        ("instr(entries.tools, ?)", tool),
        ("entries.at_ms >= ?", filters.since_ms),
        ("entries.at_ms <= ?", filters.until_ms),
    )
    asked = [(condition, value) for condition, value in possible if value is not None]
    conditions = "".join(f" AND {condition}" for condition, _ in asked)
    return conditions, tuple(value for _, value in asked)


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
    """The occurrences of each term of the query; only the newest for a very common term."""
    total, _ = index.size(ranges)
    most = postings_max(query)
    found: list[rank.Matches] = []
    for term in query.terms:
        rows = _postings(index, term.match, ranges, Filters(kinds=filters.kinds), most)
        entries = len(rows)
        if entries >= most:
            share = entries / spanned_entries([id for id, _ in rows])
            if filters.needs_entries:
                rows = _postings(index, term.match, ranges, filters, most)
            entries = max(len(rows), min(total, round(share * total)))
        found.append(rank.Matches(dict(rows), entries, term.weight))
    return found


def postings_max(query: Query) -> int:
    """The number of matches to read for each term of a query."""
    share = POSTINGS_ALL // max(1, len(query.terms))
    return max(POSTINGS_MIN, min(POSTINGS_MAX, share))


def scored(
    index: Index,
    query: Query,
    found: Sequence[rank.Matches],
    ranges: Sequence[Range],
    filters: Filters,
) -> dict[int, float]:
    """The score of every entry worth ranking. Some may still fail the filters, because neighbours
    of matches get scores too."""
    total, mean = index.size(ranges)
    ids = {id for one in found for id in one.occurrences}
    among = None
    if len(ids) > SEEDS_MAX and (filters.needs_entries or query.required):
        # Filter before choosing: otherwise all of the best could fail the filters.
        among = allowed(index, ids, query.required, ranges, filters)
    kept = rank.seeds(found, total, SEEDS_MAX, among)
    reach = 0 if index.standalone else NEIGHBOURS_READ
    near = index.rows(_NEAR, (carried(rank.around(kept, reach)),))
    sizes = {id: words for id, words, _ in near}
    asking = {id for id, _, asks in near if asks}
    if index.standalone:
        out = rank.standalone_scores(found, sizes, total, mean)
    else:
        out = rank.scores(found, kept & sizes.keys(), sizes, asking, total, mean)
    if not is_question_query(query):
        # A query of a word or two is about exactly these words; only a question asks for an answer.
        out = {id: score for id, score in out.items() if id in kept}
    else:
        out.update((id, rank.QUESTION_FACTOR * out[id]) for id in asking & out.keys())
    author = _author_named(index, query, ranges)
    if author:
        for (id,) in index.rows(_BY_AUTHOR, (carried(out), author)):
            out[id] *= rank.AUTHOR_FACTOR
    days = dates.dates_in(query.text)
    if days:
        for id, at_ms in index.rows(_TIMES, (carried(out),)):
            out[id] *= 1 + dates.DATE_WORTH * dates.nearness(at_ms, days)
    return out


def is_question_query(query: Query) -> bool:
    """Whether a query is long enough to be a question."""
    return len(query.terms) + len(query.quiet) >= QUESTION_WORDS


def best(
    index: Index,
    query: Query,
    scored: Mapping[int, float],
    ranges: Sequence[Range],
    filters: Filters,
    most: int,
) -> list[tuple[int, float]]:
    """The best entries that pass the filters, with their scores."""
    left = allowed(index, scored, query.required, ranges, filters)
    if filters.leaves_out_own:
        left -= {id for (id,) in index.rows(_OWN_AMONG, (carried(left),))}
    return rank.best({id: scored[id] for id in left}, most)


def spanned_entries(ids: Sequence[int]) -> int:
    """The number of entries between the first and the last of these ids, lane by lane, because
    ids have gaps between lanes."""
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
    """The newest matching entries, with their numbers of occurrences."""
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
    """The entries that pass the filters, are in the ranges and contain every required phrase."""
    kinds = {KINDS.index(kind) for kind in filters.kinds}
    left = {id for id in ids if id >> POSITION_BITS & KIND_MASK in kinds}
    if len(ranges) == 1:
        [(low, high)] = ranges
        left = {id for id in left if low <= id <= high}
    elif ranges != EVERYWHERE:
        left = {id for id in left if any(first <= id <= last for first, last in ranges)}
    for phrase in required:
        left &= {id for id, _ in _postings(index, phrase.match, ranges, filters, 4 * POSTINGS_MAX)}
    if not filters.needs_entries:
        return left
    conditions, values = conditions_of(filters)
    return {id for (id,) in index.rows(_AMONG + conditions, (carried(left), *values))}


def leanings(
    index: Index, query: Query, ranges: Sequence[Range], ids: Sequence[int]
) -> dict[int, float]:
    """Score corrections that do not depend on words: higher for messages by a person whom the query
    names, lower for questions if the query is one."""
    out: dict[int, float] = {}
    author = _author_named(index, query, ranges)
    if author:
        rows = index.rows(_BY_AUTHOR, (carried(ids), author))
        out = {id: rank.AUTHOR_LEANING for (id,) in rows}
    if is_question_query(query):
        for (id,) in index.rows(_ASKING, (carried(ids),)):
            out[id] = out.get(id, 0.0) + rank.QUESTION_LEANING
    return out


def _author_named(index: Index, query: Query, ranges: Sequence[Range]) -> str:
    rows: Tally[str] = Tally()
    for first, last in ranges:
        numbers = (first >> CONVERSATION_BITS, last >> CONVERSATION_BITS)
        rows.update(dict(index.rows(_AUTHORS, numbers)))
    return author_named(query, rows)


def author_named(query: Query, messages: Mapping[str, int]) -> str:
    """The one author named by the query, among those with several messages; empty if there is none,
    or more than one."""
    named = {term.text.lower() for term in query.terms}
    authors = [
        author
        for author, count in messages.items()
        if count >= AUTHOR_ROWS_MIN and author.lower() in named
    ]
    return authors[0] if len(authors) == 1 else ""


LANES_FIRST, LANES_WALKED = 1, 64

Lane = tuple[int, int, int]  # first id, last id, and time of the last write
Dated = tuple[int, int]  # the id of an entry, and its time


def newest_matches(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, float]]:
    """The newest entries that contain all terms and phrases, with their time as score."""
    match = " AND ".join(term.match for term in query.all_terms)
    found = _walk_lanes(index, match, ranges, filters, most)
    return rank.best({id: float(at_ms) for id, at_ms in found.items()}, most)


def _walk_lanes(
    index: Index, match: str, ranges: Sequence[Range], filters: Filters, most: int
) -> dict[int, int]:
    """The newest matches with their times: lane by lane, the one written last first, until the
    remaining lanes are older."""
    found: dict[int, int] = {}
    top: list[Dated] = []  # the highest ids of all lanes
    for walked, (first, last, updated) in enumerate(_lanes(index, ranges, filters)):
        if len(found) >= most and sorted(found.values())[-most] >= updated:
            break
        if walked == LANES_WALKED and ranges == EVERYWHERE:
            # There are too many lanes: order all matches by time instead.
            return dict(_dated(index, match, EVERYWHERE[0], filters, most, "entries.at_ms"))
        if not top and ranges == EVERYWHERE:
            # The newest conversation mostly has the highest ids itself.
            newest_lane = index.rows("SELECT max(number) FROM lanes")[0][0]
            is_newest = newest_lane >> KIND_BITS == last >> CONVERSATION_BITS
            if walked == LANES_FIRST or is_newest:
                top = _dated(index, match, EVERYWHERE[0], filters, most + 1)
                if len(top) <= most:
                    return dict(top)
        here = [row for row in top if first <= row[0] <= last]
        is_all = len(here) >= most or (top and top[-1][0] < first)
        found.update(here if is_all else _dated(index, match, (first, last), filters, most))
    return found


def _lanes(index: Index, ranges: Sequence[Range], filters: Filters) -> Iterator[Lane]:
    """The lanes in these ranges, the one written last first, each cut to its range."""
    kinds = f"number & {KIND_MASK} IN ({kind_numbers(filters)})"
    query = f"SELECT number, updated_ms FROM lanes WHERE {kinds} AND number BETWEEN ? AND ?"
    if ranges == EVERYWHERE:
        # Lanes are read one by one: more than a few are seldom needed.
        rows = index.connection.execute(query + " ORDER BY updated_ms DESC", (0, ID_MAX))
        return ((*lane_range(number), updated) for number, updated in rows)
    found: list[Lane] = []
    for first, last in ranges:
        for number, updated in index.rows(query, (first >> POSITION_BITS, last >> POSITION_BITS)):
            low, high = lane_range(number)
            found.append((max(first, low), min(last, high), updated))
    return iter(sorted(found, key=lambda lane: lane[2], reverse=True))


def _dated(
    index: Index,
    match: str,
    span: Range,
    filters: Filters,
    most: int,
    order: str = "documents.rowid",
) -> list[Dated]:
    """The matches in a range that are highest in this order, with their times."""
    query, values = match_query("documents.rowid, entries.at_ms", filters, with_entries=True)
    if filters.leaves_out_own:
        query += f" AND NOT ({IS_OWN})"
    query += f" ORDER BY {order} DESC LIMIT ?"
    return index.rows(query, (match, *span, *values, most))
