"""`refold stats --cost --by day`: what was billed, by day, week, project, model or agent.

Sums come from the usage that providers reported, call by call, in local time. Agents copy the lines
of a session that they continue into a new file, so a response that two imported sessions have is
counted once, in the older one; a fork counts only its own calls. Neighbours: `stats` has the bill
of one conversation, `conversations` the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from refold.conversations.listing import newest
from refold.conversations.overview import Overview, overviews
from refold.core.model import Usage
from refold.display import number, one_line
from refold.edges.commands.command import Result, Screen, show_damage
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.edges.commands.stats import By, Call, calls_of
from refold.errors import Corrupt
from refold.log.stored_logs import pages_of
from refold.stores.protocol import Store
from refold.tokens.models import amount

UNKNOWN = "unknown"


class Used(Struct, frozen=True, kw_only=True):
    """The calls of one group. `input` includes what was read from and written to the cache; `cost`
    is of the calls with a known price, and `unpriced` counts the others."""

    name: str
    calls: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def with_call(self, usage: Usage) -> Used:
        return replace(
            self,
            calls=self.calls + 1,
            input=self.input + usage.input,
            cache_read=self.cache_read + usage.cache_read,
            cache_write=self.cache_write + usage.cache_write,
            output=self.output + usage.output,
            cost=self.cost + (usage.cost or 0.0),
            unpriced=self.unpriced + (usage.cost is None),
        )


class UsageSums(Result, frozen=True, kw_only=True):
    """The sums of each group: days and weeks in order, others the most expensive first. `damaged`
    has the reasons why conversations could not be read."""

    store: str
    by: By
    groups: tuple[Used, ...]
    total: Used
    conversations: int
    damaged: dict[str, str]

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"

    def show(self, screen: Screen) -> None:
        if self.groups:
            heads = (self.by.upper(), ">CALLS", ">INPUT", ">CACHED", ">WRITTEN", ">OUTPUT", ">COST")
            screen.table(heads, map(_cells, (*self.groups, self.total)))
        else:
            screen.line("No call was billed.")
        scope = number(self.conversations, "conversation")
        missing = f"; {number(self.total.unpriced, 'call')} without a known price"
        screen.line(("dim", f"{scope}{missing if self.total.unpriced else ''}"))
        show_damage(self.damaged, screen)


def _cells(one: Used) -> tuple[str, ...]:
    tokens = (one.calls, one.input, one.cache_read, one.cache_write, one.output)
    cost = "" if one.unpriced == one.calls else amount(one.cost)
    return (one_line(one.name), *(f"{count:,}" for count in tokens), cost)


def usage_by(
    session: Session, by: By, *, project: str | None, agent: str, since: str | None
) -> UsageSums:
    """The sums of the store, or of one conversation if one is named."""
    start = time_of(since)
    since_ms = 0 if start is None else int(start.timestamp() * 1000)
    folder = "" if project is None else str(Path(project).resolve())
    if session.is_named:
        chosen = [session.store.conversation(session.conversation)]
    else:
        chosen = newest(session.store, folder=folder)
    damaged: dict[str, str] = {}
    groups: dict[str, Used] = {}
    total, seen, count = Used(name="all"), set[str](), 0
    with session.followed("adding up") as store:
        for about in overviews(store, reversed(chosen)):
            if about.updated_ms < since_ms or agent not in ("", about.agent):
                continue
            count += 1
            try:
                for call in _own_calls(store, about, seen):
                    if call.at_ms < since_ms:
                        continue
                    name = _NAMES[by](about, call) or UNKNOWN
                    groups[name] = groups.get(name, Used(name=name)).with_call(call.usage)
                    total = total.with_call(call.usage)
            except Corrupt as error:
                damaged[about.id] = error.message
    is_time = by in ("day", "week")
    rows = sorted(groups.values(), key=lambda one: one.name if is_time else (-one.cost, one.name))
    return UsageSums(
        store=session.store.url,
        by=by,
        groups=tuple(rows),
        total=total,
        conversations=count,
        damaged=damaged,
    )


def _own_calls(store: Store, about: Overview, seen: set[str]) -> Iterator[Call]:
    """The calls of a conversation that neither its parent nor an older session has."""
    pages = pages_of(store, about.id, last=about.head)
    for call in calls_of(event for page in pages for event in page):
        response = call.usage.response
        is_known = bool(about.agent and response) and response in seen
        if call.seq > about.parent_seq and not is_known:
            yield call
        if about.agent and response:
            seen.add(response)


def _day(_: Overview, call: Call) -> str:
    return _local_day(call).isoformat()


def _week(_: Overview, call: Call) -> str:
    day = _local_day(call)
    return (day - timedelta(days=day.weekday())).isoformat()


def _local_day(call: Call) -> date:
    return datetime.fromtimestamp(call.at_ms / 1000).date()


_NAMES: dict[By, Callable[[Overview, Call], str]] = {
    "day": _day,
    "week": _week,
    "project": lambda about, _: about.project,
    "model": lambda _, call: call.usage.model,
    "agent": lambda about, _: about.agent,
}
