"""The newest entries that match: lanes are walked from the one that was written to last.

Ids grow with time inside a lane only, so the newest of all are found lane by lane until the
remaining lanes are older. Where that would be many lanes, all matches are ordered by time instead.
Neighbours: `index` explains lanes, `queries` has the SQL, `searcher` asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from refold.search.hits import Filters
from refold.search.index import (
    CONVERSATION_BITS,
    EVERYWHERE,
    ID_MAX,
    KIND_BITS,
    KIND_MASK,
    POSITION_BITS,
    Index,
    Range,
    lane_range,
)
from refold.search.queries import IS_OWN, kind_numbers, match_query
from refold.search.rank import best
from refold.search.words import Query

LANES_FIRST, LANES_WALKED = 1, 64

Lane = tuple[int, int, int]  # its first and last id, and when it was written to
Dated = tuple[int, int]  # the id of an entry, and its time


def newest_matches(
    index: Index, query: Query, ranges: Sequence[Range], filters: Filters, most: int
) -> list[tuple[int, float]]:
    """The newest entries that hold all terms and phrases, with their time as score."""
    match = " AND ".join(term.match for term in query.all_terms)
    found = _walk_lanes(index, match, ranges, filters, most)
    return best({id: float(at_ms) for id, at_ms in found.items()}, most)


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
