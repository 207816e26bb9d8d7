"""SQL for what a search asks of FTS5: matches in a range of ids that pass filters.

Values are always bound, never written into the text. Neighbours: `finding` and `newest` ask.
"""

from __future__ import annotations

from typing import Any

from refold.search.hits import KINDS, OWN_PREFIX, Filters
from refold.search.index import KIND_MASK, POSITION_BITS


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
