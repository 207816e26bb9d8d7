"""Which entries of an index match a query: the best, with their scores, or the newest.

FTS5 says where each term occurs and how often; `rank` makes an order of it. Work is bounded: of a
term that occurs nearly everywhere only the newest places are looked at, and of all that matches
only the best are weighed. Neighbours: `index` has the rows, `rank` and `dates` the arithmetic,
`newest` walks the newest matches, `searcher` asks.

The newest entries that match: lanes are walked from the one that was written to last.

Ids grow with time inside a lane only, so the newest of all are found lane by lane until the
remaining lanes are older. Where that would be many lanes, all matches are ordered by time instead.
Neighbours: `index` explains lanes, `queries` has the SQL, `searcher` asks.

SQL for what a search asks of FTS5: matches in a range of ids that pass filters.

Values are always bound, never written into the text. Neighbours: `finding` and `newest` ask.
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
from refold.search.rank import best as rank_best
from refold.search.snippets import KINDS, OWN_PREFIX, Filters
from refold.search.words import Query, Term


def match_query(
    columns: str, filters: Filters, *, with_entries: bool = False
) -> tuple[str, tuple[Any, ...]]:
    """A query for matches in a range of ids, and the values of its filters."""
    conditions, values = conditions_of(filters)
    join = ""
    if conditions or with_entries:
        join = " CROSS JOIN entries ON entries.id = documents.rowid"
    where = "documents MATCH ? AND documents.rowid BETWEEN ? AND ?"
    if len(filters.kinds) < len(KINDS):
        kind = f"documents.rowid >> {POSITION_BITS} & {KIND_MASK}"
        where += f" AND {kind} IN ({kind_numbers(filters)})"
    return f"SELECT {columns} FROM documents{join} WHERE {where}{conditions}", values


# All tools that the entry is an answer of are ours: their names stand between newlines.
_OWN = f"\n{OWN_PREFIX}"
IS_OWN = (
    "entries.role = 'tool' AND entries.tools <> '' AND"
    " length(entries.tools) - length(replace(entries.tools, char(10), '')) - 1 ="
    f" (length(entries.tools) - length(replace(entries.tools, '{_OWN}', ''))) / {len(_OWN)}"
)


def kind_numbers(filters: Filters) -> str:
    """The numbers of the kinds that pass, as a list in SQL."""
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
    if index.standalone:
        out = rank.standalone_scores(found, sizes, total, mean)
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
    reach = 0 if index.standalone else NEIGHBOURS_READ
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


LANES_FIRST, LANES_WALKED = 1, 64

Lane = tuple[int, int, int]  # its first and last id, and when it was written to
Dated = tuple[int, int]  # the id of an entry, and its time


def newest_matches(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, float]]:
    """The newest entries that hold all terms and phrases, with their time as score."""
    match = " AND ".join(term.match for term in query.all_terms)
    found = _walk_lanes(index, match, ranges, filters, most)
    return rank_best({id: float(at_ms) for id, at_ms in found.items()}, most)


def _walk_lanes(
    index: Index, match: str, ranges: Sequence[Range], filters: Filters, most: int
) -> dict[int, int]:
    """The newest of many: lane by lane, the one that was written to last first, until the others
    are older."""
    found: dict[int, int] = {}
    top: list[Dated] = []  # those with the highest ids, wherever they are
    for walked, (first, last, updated) in enumerate(_lanes(index, ranges, filters)):
        if len(found) >= most and sorted(found.values())[-most] >= updated:
            break
        if walked == LANES_WALKED and ranges == EVERYWHERE:
            return dict(_by_time(index, match, filters, most))
        if not top and ranges == EVERYWHERE and (walked == LANES_FIRST or _is_newest(index, last)):
            top = _highest(index, match, (0, ID_MAX), filters, most + 1)
            if len(top) <= most:
                return dict(top)
        here = [row for row in top if first <= row[0] <= last]
        is_all = len(here) >= most or (top and top[-1][0] < first)
        found.update(here if is_all else _highest(index, match, (first, last), filters, most))
    return found


def _is_newest(index: Index, id: int) -> bool:
    """Whether an id is of the conversation that came last: the highest ids are then mostly its
    own."""
    newest_lane = index.rows("SELECT max(number) FROM lanes")[0][0]
    return bool(newest_lane >> KIND_BITS == id >> CONVERSATION_BITS)


def _lanes(index: Index, ranges: Sequence[Range], filters: Filters) -> Iterator[Lane]:
    """The lanes in these ranges, the one that was written to last first, each cut to the range."""
    kinds = f"number & {KIND_MASK} IN ({kind_numbers(filters)})"
    query = f"SELECT number, updated_ms FROM lanes WHERE {kinds} AND number BETWEEN ? AND ?"
    if ranges == EVERYWHERE:
        # Read one by one: seldom are more than a few needed.
        rows = index.connection.execute(query + " ORDER BY updated_ms DESC", (0, ID_MAX))
        return ((*lane_range(number), updated) for number, updated in rows)
    found = [lane for span in ranges for lane in _lanes_within(index, query, span)]
    return iter(sorted(found, key=lambda lane: lane[2], reverse=True))


def _lanes_within(index: Index, query: str, span: Range) -> Iterator[Lane]:
    first, last = span
    for number, updated in index.rows(query, (first >> POSITION_BITS, last >> POSITION_BITS)):
        low, high = lane_range(number)
        yield max(first, low), min(last, high), updated


def _highest(index: Index, match: str, within: Range, filters: Filters, most: int) -> list[Dated]:
    """The matches with the highest ids in a range."""
    query, values = _dated_query(filters)
    query += " ORDER BY documents.rowid DESC LIMIT ?"
    return index.rows(query, (match, *within, *values, most))


def _by_time(index: Index, match: str, filters: Filters, most: int) -> list[Dated]:
    query, values = _dated_query(filters)
    query += " ORDER BY entries.at_ms DESC LIMIT ?"
    return index.rows(query, (match, 0, ID_MAX, *values, most))


def _dated_query(filters: Filters) -> tuple[str, tuple[Any, ...]]:
    query, values = match_query("documents.rowid, entries.at_ms", filters, with_entries=True)
    return query + (f" AND NOT ({IS_OWN})" if filters.leaves_out_own else ""), values
