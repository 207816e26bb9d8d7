"""`refold stats`: the numbers of one conversation.

`refold cost`: what was billed, and why it is as much: where the provider had to read again what
it could have had from its cache.

A call could have had the page of the call before it from the cache, as far as it is the same. What
it read anew of that is a break; the events between the two calls say why: a compaction, another
system prompt, an undo, another model, or a pause in which the cache expired.

`refold tools`: the tools that the model is told of, and what telling it costs.

`refold model`: which model reads the page and in which window, or others from now on; limits
follow at once.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from refold.artifacts.listing import is_in_log
from refold.core.codec import decode
from refold.core.model import Event, Hide, Replace, Restore, Revert, Summarize, Usage
from refold.core.model import Meta as ModelMeta
from refold.display import counted, cut, moment, nearest, number, one_line, plural
from refold.edges.commands.command import Arguments, Command, Result, Screen, short_line
from refold.edges.commands.session import Session
from refold.edges.displays.phrases import percent_of, tokens_of
from refold.engine.stats import Stats
from refold.log.trace import pages_of
from refold.tokens.models import PER, dollars, model_info, table, together

Billed = dict[str, int | float]


class StatsArguments(Arguments, frozen=True, kw_only=True):
    window: Annotated[int, Meta(description="The model's window in tokens.", ge=1)] | None = None


class Figures(Result, frozen=True, kw_only=True):
    """`Stats` in plain values, with the share of messages that are on the page (`ratio`) and the
    number of artifacts of each type. The same content kept again is the same artifact."""

    conversation: str
    title: str
    model: str
    current: int
    window: int
    percent: float
    level: str
    warn_at: int
    compact_at: int
    breakdown: dict[str, int]
    messages: int
    active: int
    summaries: int
    by_role: dict[str, int]
    artifacts: int
    checkpoints: int
    pins: int
    billed: Billed
    inherited: Billed
    cost: float | None
    created_ms: int
    updated_ms: int
    oldest_age_ms: int
    due: str
    due_reason: str
    ratio: float
    artifact_types: dict[str, int]


def run_stats(session: Session, arguments: StatsArguments) -> Figures:
    with session.context(window=arguments.window) as context:
        stats = context.stats()
        listed = [one.artifact for one in context.artifacts.list() if not one.cleaned_ms]
        there = [artifact for artifact in listed if not is_in_log(artifact)]
        kept = {artifact.id: artifact.type for artifact in there}
        types = Tally[str](kept.values())
    return _figures(stats, types)


def _figures(stats: Stats, types: Tally[str]) -> Figures:
    plain = asdict(stats)
    plain["billed"], plain["inherited"] = asdict(stats.billed), asdict(stats.inherited)
    return Figures(**plain, ratio=stats.ratio, artifact_types=dict(types))


def show_stats(figures: Figures, screen: Screen) -> None:
    billed = figures.billed
    # Cut, not rounded: 80.0% is never shown before the warning.
    percent = figures.current * 1000 // figures.window / 10
    used = f"{figures.current:,} / {figures.window:,} ({percent:.1f}%), {figures.level}"
    parts = ", ".join(f"{name} {size:,}" for name, size in figures.breakdown.items())
    tokens = f"{number(billed['input'], 'token')} in, {billed['output']:,} out"
    calls = f"{number(billed['calls'], 'call')}, {tokens}"
    cached = f"{number(billed['cache_read'], 'token')} read, {billed['cache_write']:,} written"
    screen.fields(
        [
            ("Conversation", figures.conversation),
            ("Title", figures.title),
            ("Model", figures.model or "unknown"),
            ("Messages", _messages(figures)),
            ("Artifacts", _artifacts(figures)),
            ("Tokens", used),
            ("Made of", parts),
            ("Compacts at", f"{figures.compact_at:,}, warns at {figures.warn_at:,}"),
            ("Billed", calls),
            ("Cached", cached),
            ("Cost", dollars(figures.cost)),
            ("Created", moment(figures.created_ms)),
            ("Updated", moment(figures.updated_ms)),
        ]
    )


def _messages(figures: Figures) -> str:
    """`16 (5 user, 6 assistant, 5 tool), 4 off the page`."""
    shown = counted(Tally(figures.by_role))
    hidden = figures.messages - figures.active
    return f"{shown}, {hidden:,} off the page" if hidden else shown


def _artifacts(figures: Figures) -> str:
    """`3 (2 files, 1 command output)`."""
    types = figures.artifact_types
    return counted(Tally({plural(name, count): count for name, count in types.items()}))


STATS = Command(
    name="stats",
    reads=True,
    arguments=StatsArguments,
    run=run_stats,
    show=show_stats,
)


BREAK_TOKENS_MIN = 1_024  # providers cache nothing that is shorter
BREAK_SHARE_MIN = 0.1
EXPIRES_S = 300
BREAKS_SHOWN = 10
TELLING = ("usage", "edit", "revert", "restore", "meta")  # kinds of events: others are not decoded


class CostArguments(Arguments, frozen=True, kw_only=True):
    pass


class Break(Struct, frozen=True, kw_only=True):
    """A call that read anew what the call before it had sent: the seq of its report, how many
    tokens, what that cost more than from the cache (None if prices are not known), and why."""

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


class _Call(Struct, frozen=True, kw_only=True):
    """One report, and what happened since the one before it."""

    seq: int
    at_ms: int
    usage: Usage
    since: str


def run_cost(session: Session, arguments: CostArguments) -> Bill:
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
    """What so many tokens cost more than from the cache."""
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


# --- shown ---


def show_cost(bill: Bill, screen: Screen) -> None:
    if not bill.models:
        screen.line("No call was billed.")
        return
    for one in bill.models:
        screen.line(("bold", short_line(one.model or "unknown model", 80)), f": {_bill(one)}")
    if len(bill.models) > 1:
        screen.line(f"In all: {dollars(bill.cost)}")
    if not bill.has_cache:
        screen.line("No call used the provider's cache.")
        return
    _show_breaks(bill, screen)


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


COST = Command(
    name="cost",
    reads=True,
    arguments=CostArguments,
    run=run_cost,
    show=show_cost,
)


SHOWN_CHARS = 70


class ToolsArguments(Arguments, frozen=True, kw_only=True):
    pass


class Tool(Struct, frozen=True, kw_only=True):
    """One tool; `tokens` is its share of what all of them cost."""

    name: str
    description: str
    tokens: int


class Tools(Result, frozen=True, kw_only=True):
    conversation: str
    tools: tuple[Tool, ...]
    tokens: int


def run_tools(session: Session, arguments: ToolsArguments) -> Tools:
    with session.context() as context:
        view = context.view
    listed = view.tools or []
    sizes = [len(msgspec.json.encode(tool)) for tool in listed]
    whole = sum(sizes) or 1
    tools = tuple(
        Tool(
            name=_field(tool, "name"),
            description=_field(tool, "description"),
            tokens=view.tools_tokens * size // whole,
        )
        for tool, size in zip(listed, sizes, strict=True)
    )
    return Tools(conversation=context.id, tools=tools, tokens=view.tools_tokens)


def _field(tool: Any, name: str) -> str:
    """A field of a tool, in the shape of whichever provider: a function may lie one level down.
    A server-side tool has a type instead of a name."""
    if not isinstance(tool, Mapping):
        return ""
    inner = tool.get("function")
    found = inner if isinstance(inner, Mapping) else tool
    value = found.get(name) or (tool.get("type") if name == "name" else "")
    return value if isinstance(value, str) else ""


def show_tools(found: Tools, screen: Screen) -> None:
    if not found.tools:
        screen.line("The model gets no tools.")
        return
    rows = (
        (one.name, f"{one.tokens:,}", cut(one_line(one.description), SHOWN_CHARS))
        for one in found.tools
    )
    screen.table(("NAME", ">TOKENS", "DESCRIPTION"), rows)
    screen.line(
        f"{number(len(found.tools), 'tool')}, {number(found.tokens, 'token')} in every request."
    )


TOOLS = Command(
    name="tools",
    reads=True,
    arguments=ToolsArguments,
    run=run_tools,
    show=show_tools,
)


NAME = Meta(
    description="The model for the next requests.",
    extra={"positional": True, "completes": "model"},
)


WINDOW = Meta(description="The window to work in from now on, in tokens.", ge=1)


class ModelArguments(Arguments, frozen=True, kw_only=True):
    name: Annotated[str, NAME] | None = None
    window: Annotated[int, WINDOW] | None = None


class Chosen(Result, frozen=True, kw_only=True):
    """The model, and what the page is for it. `before` is the one that was there; `nearest` are
    known names like one that is not known, whose window is a guess."""

    conversation: str
    model: str
    before: str
    is_known: bool
    nearest: tuple[str, ...]
    current: int
    window: int
    due: str


def run_model(session: Session, arguments: ModelArguments) -> Chosen:
    changes = arguments.name is not None or arguments.window is not None
    with session.context(writes=changes) as context:
        before = context.view.model
        if changes:
            context.update(model=arguments.name, window=arguments.window)
            context.flush()
        stats = context.stats()
        model = context.view.model
    is_known = model_info(model).known
    like = () if is_known or not model else tuple(nearest(model, table().models, limit=3))
    return Chosen(
        conversation=context.id,
        model=model,
        before=before,
        is_known=is_known,
        nearest=like,
        current=stats.current,
        window=stats.window,
        due=stats.due,
    )


def show_model(chosen: Chosen, screen: Screen) -> None:
    name = short_line(chosen.model, 200) or "no model is named"
    screen.line(("bold", name), f": {tokens_of(chosen.current, chosen.window)}")
    if chosen.model and not chosen.is_known:
        hint = f"; did you mean {' or '.join(chosen.nearest)}?" if chosen.nearest else ""
        guess = f"This model is not known; a window of {number(chosen.window, 'token')} is assumed"
        screen.line(("yellow", f"{guess}{hint}"))
    if chosen.due != "none":
        screen.line(("yellow", "The next request makes the page shorter first."))
    if chosen.before and chosen.before != chosen.model:
        back = screen.call("model", chosen.conversation, chosen.before)
        screen.line(("dim", f"Go back with: {back}"))


MODEL = Command(
    name="model",
    details="Without a NAME and a window, nothing is changed.",
    arguments=ModelArguments,
    run=run_model,
    show=show_model,
)
