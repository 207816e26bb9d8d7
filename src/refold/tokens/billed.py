"""More than one report of what a response was billed, as a file has them while it is written.

A response was billed the most that any of them says, number by number, so what comes later is never
less; in a log, a later report adds to the earlier ones. Neighbours: `core.fold` adds reports up,
`edges.importers` reads them, `engine.batch` writes them.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.core.model import Usage

COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")


def most(one: Usage, other: Usage) -> Usage:
    """The greater of two reports of one response, number by number."""
    return replace(one, **{name: max(getattr(one, name), getattr(other, name)) for name in COUNTS})


def is_more(one: Usage, other: Usage) -> bool:
    """Whether a report says more than another of the same response."""
    return any(getattr(one, name) > getattr(other, name) for name in COUNTS)


def together(one: Usage, more: Usage) -> Usage:
    """What was billed by two reports of one response, of which the second adds to the first."""
    counts = {name: getattr(one, name) + getattr(more, name) for name in COUNTS}
    cost = None if one.cost is None or more.cost is None else one.cost + more.cost
    return replace(one, **counts, cost=cost)


def beyond(whole: Usage, before: Usage) -> Usage:
    """What a response was billed beside what it was billed before."""
    counts = {name: getattr(whole, name) - getattr(before, name) for name in COUNTS}
    cost = whole.cost
    if cost is not None and before.cost is not None:
        cost -= before.cost
    return replace(whole, **counts, cost=cost)
