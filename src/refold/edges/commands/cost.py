"""What a conversation was billed, and where the provider's cached prefix broke: `stats --cost`.

A call could have read the page of the call before it from the cache, as far as the two are the
same. Tokens read again are a break; the events between the two calls say why: a
compaction, another system prompt, an undo, another model, or a pause in which the cache expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import decode
from refold.core.model import Event, Hide, Replace, Restore, Revert, Summarize, Usage
from refold.core.model import Meta as ModelMeta
from refold.display import number
from refold.edges.commands.command import Result, Screen, short_line
from refold.edges.commands.session import Session
from refold.edges.displays.phrases import percent_of
from refold.log.trace import pages_of
from refold.tokens.models import PER, dollars, model_info, together

BREAK_TOKENS_MIN = 1_024  # providers cache nothing that is shorter
BREAK_SHARE_MIN = 0.1
EXPIRES_S = 300
BREAKS_SHOWN = 10
TELLING = ("usage", "edit", "revert", "restore", "meta")  # kinds of events: others are not decoded


class Break(Struct, frozen=True, kw_only=True):
    """A call that missed the cache: the seq of its report, the tokens read again, their price above
    the cache's (None if unknown), and the reason."""

    seq: int
    tokens: int
    cost: float | None
    why: str


class ModelBill(Struct, frozen=True, kw_only=True):
    """What the calls of one model were billed; `cost` is None if its prices are not known."""

    model: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None


class Bill(Result, frozen=True, kw_only=True):
    """`broken` is what the breaks cost, out of `cost`: each None where a price is not known."""

    conversation: str
    models: tuple[ModelBill, ...]
    breaks: tuple[Break, ...]
    cost: float | None
    broken: float | None

    @property
    def has_cache(self) -> bool:
        return any(one.cache_read or one.cache_write for one in self.models)

    def show(self, screen: Screen) -> None:
        if not self.models:
            screen.line("No call was billed.")
            return
        for one in self.models:
            screen.line(("bold", short_line(one.model or "unknown model", 80)), f": {_bill(one)}")
        if len(self.models) > 1:
            screen.line(f"In all: {dollars(self.cost)}")
        if not self.has_cache:
            screen.line("No call used the provider's cache.")
            return
        _show_breaks(self, screen)


class _Call(Struct, frozen=True, kw_only=True):
    """One report, and what happened since the one before it."""

    seq: int
    at_ms: int
    usage: Usage
    since: str


def bill(session: Session) -> Bill:
    """What the calls of the conversation were billed, model by model, and their breaks."""
    known = session.store.conversation(session.conversation)
    id, pages = known.id, pages_of(session.store, known.id, last=known.head)
    events = (event for page in pages for event in page)
    calls = list(_calls(events))
    models = tuple(_models(calls))
    breaks = tuple(_breaks(calls)) if any(one.usage.cache_read for one in calls) else ()
    return Bill(
        conversation=id,
        models=models,
        breaks=breaks,
        cost=_sum(one.cost for one in models),
        broken=_sum(one.cost for one in breaks),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    """The sum, unless one of them is not known."""
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


def _calls(events: Iterable[Event]) -> Iterator[_Call]:
    """Every call; one whose report names no model was made with the conversation's. What was
    billed later for a response is a part of its call. A change that came while the model answered
    is one of the call after it."""
    calls: dict[str | int, _Call] = {}
    changes: list[tuple[int, str]] = []
    model = ""
    for event in events:
        body = decode(event) if event.kind in TELLING else None
        if isinstance(body, ModelMeta) and body.model:
            model = body.model
        if isinstance(body, Usage):
            usage = body if body.model else replace(body, model=model)
            shown = body.upto or event.seq
            since = next((why for seq, why in changes if seq <= shown), "")
            changes = [change for change in changes if change[0] > shown]
            call = _Call(seq=event.seq, at_ms=event.at_ms, usage=usage, since=since)
            first = calls.setdefault(usage.response or event.seq, call)
            if first is not call:
                joined = replace(first, usage=together(first.usage, usage))
                calls[usage.response] = joined
        elif why := _change(event, body):
            changes.append((event.seq, why))
    yield from calls.values()


def _change(event: Event, body: object) -> str:
    """What an event did to the beginning of the page; empty if nothing."""
    match body:
        case Replace() | Hide() | Summarize():
            return f"compaction by {short_line(event.by, 40)} (#{event.seq})"
        case Revert():
            return f"something was undone (#{event.seq})"
        case Restore():
            return f"the page was restored (#{event.seq})"
        case ModelMeta() if body.tools is not None or body.tools_seq is not None:
            return f"other tools (#{event.seq})"
        case ModelMeta() if body.system is not None or body.system_seq is not None:
            return f"another system prompt (#{event.seq})"
    return ""


def _models(calls: Iterable[_Call]) -> Iterator[ModelBill]:
    by_model: dict[str, list[Usage]] = {}
    for call in calls:
        by_model.setdefault(call.usage.model, []).append(call.usage)
    for model, reports in by_model.items():
        yield ModelBill(
            model=model,
            calls=len(reports),
            input=sum(one.input for one in reports),
            output=sum(one.output for one in reports),
            cache_read=sum(one.cache_read for one in reports),
            cache_write=sum(one.cache_write for one in reports),
            cost=_sum(one.cost for one in reports),
        )


# --- where the cached prefix broke ---


def _breaks(calls: list[_Call]) -> Iterator[Break]:
    for before, call in pairwise(calls):
        usage = call.usage
        reusable = min(before.usage.input, usage.input)
        lost = reusable - usage.cache_read
        if lost < max(BREAK_TOKENS_MIN, reusable * BREAK_SHARE_MIN):
            continue
        yield Break(seq=call.seq, tokens=lost, cost=_extra(usage, lost), why=_why(before, call))


def _extra(usage: Usage, tokens: int) -> float | None:
    """The price of tokens above the cache's."""
    prices = model_info(usage.model).prices
    if prices is None:
        return None
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    paid = write if usage.cache_write else prices.input
    return tokens * max(0.0, paid - read) / PER


def _why(before: _Call, call: _Call) -> str:
    if before.usage.model != call.usage.model:
        return f"another model ({short_line(call.usage.model, 60)})"
    if call.since:
        return call.since
    pause_s = (call.at_ms - before.at_ms) // 1_000
    if pause_s > EXPIRES_S:
        return f"a pause of {number(pause_s // 60, 'minute')}: the cache had expired"
    return "not known; the provider did not have it"


def _bill(one: ModelBill) -> str:
    cached = f"{percent_of(one.cache_read, one.input)}% of it from the cache"
    tokens = f"{number(one.input, 'token')} in ({cached}), {one.output:,} out"
    return f"{number(one.calls, 'call')}, {tokens}, {dollars(one.cost)}"


def _show_breaks(bill: Bill, screen: Screen) -> None:
    if not bill.breaks:
        screen.line("The cached prefix never broke.")
        return
    times = number(len(bill.breaks), "time")
    screen.line(f"The cached prefix broke {times}, which cost {dollars(bill.broken)}:")
    worst = sorted(bill.breaks, key=lambda one: -one.tokens)[:BREAKS_SHOWN]
    for one in sorted(worst, key=lambda one: one.seq):
        size = f"{number(one.tokens, 'token')} read again, {dollars(one.cost)}"
        screen.line(("cyan", f"  #{one.seq} "), size, ("dim", f": {one.why}"))
    if len(bill.breaks) > BREAKS_SHOWN:
        screen.line(f"  ... +{len(bill.breaks) - BREAKS_SHOWN:,} smaller ones")
