"""`refold stats --cost --by day`: what was billed, by day, week, project, model or agent.

Sums come from the usage that providers reported, call by call, in local time. A call that several
conversations have is counted once: a fork has its parent's, a copy those of its original, and
agents copy the lines of a session that they continue into a new file. It counts for the oldest of
them, in an order that no later event changes. Neighbours: `stats` has the bill of one conversation,
`conversations` the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from refold.conversations.listing import newest
from refold.conversations.overview import Overview, overviews
from refold.core.model import Conversation, Usage
from refold.display import number, one_line
from refold.edges.commands.command import Result, Screen, project_of, show_damage
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.edges.commands.stats import By, Call, calls_of
from refold.edges.displays.wrap import width
from refold.errors import Corrupt
from refold.log.stored_logs import pages_of
from refold.stores.protocol import Store
from refold.tokens.models import amount

UNKNOWN = "unknown"
NAME_MIN = 12


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
            rows = [_cells(one) for one in (*self.groups, self.total)]
            if self.by == "project" and screen.draws:
                # Paths differ at their ends.
                sizes = [max(map(width, column)) for column in zip(heads, *rows, strict=True)]
                room = max(NAME_MIN, screen.columns - sum(sizes[1:]) - 2 * len(heads))
                rows = [(end_of(name, room), *cells) for name, *cells in rows]
            screen.table(heads, rows)
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


def end_of(path: str, length: int) -> str:
    """The end of a path, in at most `length` characters."""
    return path if len(path) <= length else "…" + path[1 - length :]


def usage_by(
    session: Session, by: By, *, project: str | None, agent: str, since: str | None
) -> UsageSums:
    """The sums of the store, or of one conversation if one is named."""
    start = time_of(since)
    since_ms = 0 if start is None else int(start.timestamp() * 1000)
    folder = project_of(project)
    if session.is_named:
        chosen = [session.store.conversation(session.conversation)]
    else:
        chosen = newest(session.store, folder=folder)
    damaged: dict[str, str] = {}
    groups: dict[str, Used] = {}
    total, once, count = Used(name="all"), CallsOnce(one.id for one in chosen), 0
    with session.followed("adding up") as store:
        for about in overviews(store, sorted(chosen, key=age)):
            if about.updated_ms < since_ms or agent not in ("", about.agent):
                continue
            count += 1
            try:
                for call in once.of(about, stored_calls(store, about)):
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


class CallsOnce:
    """Counts each call once, in the first of these conversations that has it. They have to be asked
    for from the oldest to the newest (`age`)."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = set(ids)
        self._responses: set[str] = set()
        self._known: set[tuple[object, ...]] = set()

    def of(self, about: Overview, calls: Iterable[Call]) -> Iterator[Call]:
        """The calls of a conversation that no earlier one has."""
        has_parent = about.parent in self._ids
        responses, known = set[str](), set[tuple[object, ...]]()
        try:
            for call in calls:
                usage = call.usage
                if has_parent and call.seq <= about.parent_seq:
                    continue  # the parent has it
                # Some local servers repeat the ids of responses; files of agents may have only the
                # first report of one.
                one = usage.response or call.at_ms, usage.model, usage.input, usage.output
                is_known = one in self._known or (bool(about.agent) and one[0] in self._responses)
                if not is_known:
                    yield call
                known.add(one)
                responses.add(usage.response)
        finally:
            # Not earlier: equal calls of one conversation are different calls.
            self._known |= known
            self._responses |= responses - {""}


def age(about: Conversation) -> tuple[int, int, str]:
    """The order of conversations by age. A fork comes after its parent."""
    return about.at_ms, about.parent_seq, about.id


def stored_calls(store: Store, about: Conversation) -> Iterator[Call]:
    pages = pages_of(store, about.id, last=about.head)
    return calls_of(event for page in pages for event in page)


def cost_of_all(store: Store, listed: Collection[Overview]) -> float | None:
    """What these conversations cost together; None if nothing is known. Only those that may share
    calls are read: forks, their parents, and those that began at the same time or alike."""
    priced = [one for one in listed if one.cost is not None]
    if not priced:
        return None
    parents = {one.parent for one in priced}
    starts = Counter(start for one in priced for start in (one.at_ms, one.preview))
    is_shared = {
        one.id: bool(one.parent)
        or one.id in parents
        or max(starts[one.at_ms], starts[one.preview]) > 1
        for one in priced
    }
    total = sum(one.cost or 0.0 for one in priced if not is_shared[one.id])
    once = CallsOnce(one.id for one in priced)
    for about in sorted(priced, key=age):
        if is_shared[about.id]:
            calls = once.of(about, stored_calls(store, about))
            total += sum(call.usage.cost or 0.0 for call in calls)
    return total


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
