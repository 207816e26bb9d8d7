"""The first screen: every conversation with its project, size and cost, and the cost per day.

Rows come from bookmarks, without opening logs; one that has no fitting bookmark is opened. The bill
per day needs the reports of every call, so it is read separately, and cached by head. Neighbour:
`answers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from refold.conversations.listing import newest
from refold.conversations.overview import overviews
from refold.core.model import Usage as CoreUsage
from refold.display import visible
from refold.edges.commands.stats import Call
from refold.edges.commands.usage import CallsOnce, age, stored_calls
from refold.edges.importers.recognition import scan
from refold.edges.ui.conversation import short_folder
from refold.edges.ui.readable import safe
from refold.errors import RefoldError
from refold.redaction import redacted
from refold.stores.protocol import Store

# Day, model, calls, tokens read, of them from the cache, all tokens, cost.
Sums = tuple[str, str, int, int, int, int, float | None]


def rows(store: Store) -> list[dict[str, Any]]:
    """Every conversation, the last written first."""
    return [
        {
            "id": one.id,
            "title": safe(one.label, redacted),
            "project": visible(short_folder(one.project)),
            "agent": visible(one.agent or "refold"),
            "model": visible(one.model),
            "messages": one.messages,
            "tokens": one.tokens,
            "window": one.window,
            "peak": one.peak_tokens,
            "calls": one.calls,
            "cost": one.cost,
            "parent": one.parent,
            "part_of": one.part_of,
            "updated_ms": one.updated_ms,
            "damaged": safe(one.damaged, redacted),
        }
        for one in overviews(store, newest(store))
    ]


def found() -> list[dict[str, Any]]:
    """How many session files each agent has on this machine. None of them is read."""
    counts = Counter[str]()
    for one in scan():
        counts[one.source] += len(one.files)
    return [{"agent": agent, "files": files} for agent, files in counts.items()]


class Usage:
    """The bills of all conversations by day and model, each read once per head. A call that several
    have counts for the oldest."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, tuple[Call, ...]]] = {}

    def days(self, store: Store) -> list[dict[str, Any]]:
        """One row for each conversation, day and model with a bill: calls, tokens and cost."""
        found = []
        listed = sorted(newest(store), key=age)
        once = CallsOnce(one.id for one in listed)
        for about in overviews(store, listed):
            known = self._known.get(about.id)
            if known is None or known[0] != about.head:
                try:
                    known = (about.head, tuple(stored_calls(store, about)))
                except RefoldError:
                    continue  # the list says that it is damaged
                self._known[about.id] = known
            found += [
                {"id": about.id, "day": day, "model": visible(model), "calls": calls,
                 "input": read, "cached": cached, "tokens": tokens, "cost": cost}
                for day, model, calls, read, cached, tokens, cost in _days(once.of(about, known[1]))
            ]  # fmt: skip
        return found


def _days(calls: Iterable[Call]) -> list[Sums]:
    groups: dict[tuple[str, str], list[CoreUsage]] = {}
    for call in calls:
        day = datetime.fromtimestamp(call.at_ms / 1_000).date().isoformat()
        groups.setdefault((day, call.usage.model), []).append(call.usage)
    return [
        (
            day,
            model,
            len(calls),
            sum(one.input for one in calls),
            sum(one.cache_read for one in calls),
            sum(one.input + one.output for one in calls),
            None if any(one.cost is None for one in calls) else sum(one.cost or 0 for one in calls),
        )
        for (day, model), calls in sorted(groups.items())
    ]
