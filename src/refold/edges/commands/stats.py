"""`refold stats`: figures, costs, tools and fill level of a conversation.

With `--cost`, what was billed and where the cached prefix broke: a call could have read the page of
the call before it from the cache, as far as the two agree. Tokens billed again are a break, and the
events between the calls explain it: a compaction, another system prompt or model, an undo, or a
pause in which the cache expired. Neighbours: `displays.overview` draws, `why` has `--debug`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from refold.artifacts.listing import is_in_log
from refold.conversations.listing import FOLDER, newest, tools_called, tools_called_in
from refold.core.codec import decode
from refold.core.model import Event, Hide, Replace, Restore, Revert, Summarize, Usage
from refold.core.model import Meta as ModelMeta
from refold.display import counted, cut, local_moment, number, one_line, plural
from refold.edges.commands.command import (
    AGENT,
    FORMAT,
    PROJECT,
    Result,
    Screen,
    Since,
    Window,
    command,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.displays.overview import (
    page_parts,
    recorded_size,
    tool_field,
    tool_tokens,
    usage_box,
    usage_lines,
)
from refold.edges.displays.phrases import advice, header, percent_of
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.stored_logs import pages_of
from refold.stores.protocol import Store
from refold.tokens import models
from refold.tokens.models import PER, amount, dollars, model_info, together, write_price

SHOWN_CHARS, DESCRIPTION_CHARS_MIN = 70, 12
BESIDE_CHARS = 34  # the columns between the name of a tool and its description
Billed = dict[str, int | float]
Form = Literal["usage", "box", "header"]
By = Literal["day", "week", "project", "model", "agent"]


COST = Meta(description="What was billed, and where the provider's cached prefix broke.")
TOOLS = Meta(description="The tools that the model gets, and their tokens.")
DEBUG = Meta(description="Every edit, its savings, and the next candidates, as JSON.")
BY = Meta(description="With --cost: the sums of each; without an ID, of the whole store.")


@command(
    "stats",
    details="--format usage shows only how full the window is, and of what. --cost without an ID "
    "sums up the store.",
    on="either",
    reads=True,
)
def stats(
    session: Session,
    *,
    cost: Annotated[bool, COST] = False,
    tools: Annotated[bool, TOOLS] = False,
    debug: Annotated[bool, DEBUG] = False,
    window: Window | None = None,
    format: Annotated[Form, FORMAT] | None = None,
    by: Annotated[By, BY] | None = None,
    project: Annotated[str, PROJECT] | None = None,
    agent: Annotated[str, AGENT] = "",
    since: Since | None = None,
) -> Result:
    if cost + tools + debug > 1:
        reason = "--cost, --tools and --debug exclude each other"
        raise Invalid(reason, hint="refold stats --help")
    is_sum = by is not None or not session.is_named
    if not (cost and is_sum) and (by or project is not None or agent or since):
        reason = "--by, --project, --agent and --since are for the cost of several conversations"
        raise Invalid(reason, hint="refold stats --cost --by day")
    if cost and is_sum:
        from refold.edges.commands.usage import usage_by

        return usage_by(session, by or "day", project=project, agent=agent, since=since)
    if cost:
        return bill(session)
    if debug:
        from refold.edges.commands.why import dump

        return dump(session)
    with session.context(window=window) as context:
        if tools:
            return tools_of(context, session.store)
        if format is not None:
            figures = context.stats()
            return Status(
                conversation=figures.conversation,
                model=figures.model,
                current=figures.current,
                window=figures.window,
                percent=figures.percent,
                level=figures.level,
                messages=figures.messages,
                active=figures.active,
                summaries=figures.summaries,
                oldest_age_ms=figures.oldest_age_ms,
                parts=page_parts(context.view, context.budget),
                form=format,
            )
        figures = context.stats()
        listed = [one.artifact for one in context.artifacts.list() if not one.cleaned_ms]
        stored = {one.id: one.type for one in listed if not is_in_log(one)}
    plain = asdict(figures)
    plain["billed"], plain["inherited"] = asdict(figures.billed), asdict(figures.inherited)
    types = dict(Tally[str](stored.values()))
    return Figures(**plain, ratio=figures.ratio, artifact_types=types)


class Figures(Result, frozen=True, kw_only=True):
    """`Stats` in plain values, with the share of messages on the page (`ratio`) and the number of
    artifacts of each type. The same content stored twice is one artifact."""

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
    recorded: int
    ratio: float
    artifact_types: dict[str, int]

    def show(self, screen: Screen) -> None:
        billed, types = self.billed, self.artifact_types
        messages, hidden = counted(Tally(self.by_role)), self.messages - self.active
        # Cut, not rounded: 80.0% is never shown before the warning.
        percent = self.current * 1000 // self.window / 10
        used = f"{self.current:,} / {self.window:,} ({percent:.1f}%), {self.level}"
        recorded = recorded_size(self.recorded, self.window)
        parts = ", ".join(f"{name} {size:,}" for name, size in self.breakdown.items())
        tokens = f"{number(billed['input'], 'token')} in, {billed['output']:,} out"
        calls = f"{number(billed['calls'], 'call')}, {tokens}"
        cached = f"{number(billed['cache_read'], 'token')} read, {billed['cache_write']:,} written"
        screen.fields(
            [
                ("Conversation", self.conversation),
                ("Title", self.title),
                ("Model", self.model or "unknown"),
                ("Messages", f"{messages}, {hidden:,} off the page" if hidden else messages),
                ("Artifacts", counted(Tally({plural(name, n): n for name, n in types.items()}))),
                ("Tokens", used),
                *([("As recorded", recorded)] if recorded else []),
                ("Made of", parts),
                ("Compacts at", f"{self.compact_at:,}, warns at {self.warn_at:,}"),
                ("Billed", calls),
                ("Cached", cached),
                ("Cost", dollars(self.cost)),
                ("Created", local_moment(self.created_ms)),
                ("Updated", local_moment(self.updated_ms)),
            ]
        )


class Status(Result, frozen=True, kw_only=True):
    """The size of the next request, and its parts, which sum to it."""

    conversation: str
    model: str
    current: int
    window: int
    percent: float
    level: str
    messages: int
    active: int
    summaries: int
    oldest_age_ms: int
    parts: dict[str, int]
    form: Form

    def show(self, screen: Screen) -> None:
        for line in _status_lines(self, screen.columns):
            screen.line(line)
        if self.form == "box":
            percent = 1_000 * self.current // self.window / 10  # cut, as in the other forms
            full = f"of the window, {percent:.1f}% is used"
            screen.line(("dim", f"Usage counts messages on the page of all messages; {full}."))
        if self.level != "ok" and self.form != "header":
            compact = screen.call("compact", self.conversation)
            screen.line(("yellow", advice(self.current, self.window, compact)))


def _status_lines(status: Status, columns: int) -> list[str]:
    match status.form:
        case "box":
            return usage_box(status.active, status.messages, status.summaries, columns)
        case "header":
            return [header(status.active, status.messages, int(status.percent))]
    return usage_lines(
        current=status.current,
        window=status.window,
        messages=status.messages,
        oldest_age_ms=status.oldest_age_ms,
        parts=status.parts,
    )


class Tool(Struct, frozen=True, kw_only=True):
    """One tool; `tokens` is its share of the tokens of all tools, `calls` and `project_calls` count
    its calls in the conversation, and in all of the same project."""

    name: str
    description: str
    tokens: int
    calls: int = 0
    project_calls: int = 0


class Tools(Result, frozen=True, kw_only=True):
    """The tools of a conversation, the largest first. `unused` tokens are those of tools never
    called in the project; without them, the recorded calls would have cost `unused_cost` less."""

    conversation: str
    tools: tuple[Tool, ...]
    tokens: int
    unused: int = 0
    unused_cost: float | None = None

    def show(self, screen: Screen) -> None:
        if not self.tools:
            screen.line("No tools of this conversation are recorded.")
            return
        room = screen.columns - max(len(one.name) for one in self.tools) - BESIDE_CHARS
        most = max(DESCRIPTION_CHARS_MIN, min(SHOWN_CHARS, room)) if screen.draws else SHOWN_CHARS
        rows = (
            (
                one.name,
                f"{one.tokens:,}",
                f"{one.calls:,}",
                f"{one.project_calls:,}",
                cut(one_line(one.description), most),
            )
            for one in self.tools
        )
        screen.table(("NAME", ">TOKENS", ">CALLS", ">IN PROJECT", "DESCRIPTION"), rows)
        screen.line(
            f"{number(len(self.tools), 'tool')}, {number(self.tokens, 'token')} in every request."
        )
        unused = sum(not one.project_calls for one in self.tools)
        if unused:
            less = f", {amount(self.unused_cost)} of the bill so far" if self.unused_cost else ""
            screen.line(
                f"{number(unused, 'tool')} never called in this project: "
                f"{number(self.unused, 'token')} in every request{less}."
            )


def tools_of(context: Context, store: Store | None = None) -> Tools:
    """The tools, and their calls; without the store, calls of other conversations are not read."""
    view = context.view
    own = tools_called_in(context.log.events())
    folder = (view.metadata or {}).get(FOLDER)
    if store is not None and isinstance(folder, str) and folder:
        others = [about for about in newest(store, folder=folder) if about.id != context.id]
        of_project = own + tools_called(store, others)
    else:
        of_project = own
    tools = tuple(
        Tool(
            name=name,
            description=tool_field(tool, "description"),
            tokens=tokens,
            calls=own[name],
            project_calls=of_project[name],
        )
        for tool, (name, tokens) in zip(view.tools or [], tool_tokens(view), strict=True)
    )
    unused = sum(one.tokens for one in tools if not one.project_calls)
    return Tools(
        conversation=context.id,
        tools=tuple(sorted(tools, key=lambda one: -one.tokens)),
        tokens=view.tools_tokens,
        unused=unused,
        unused_cost=_cost_of_part(context, unused),
    )


def _cost_of_part(context: Context, tokens: int) -> float | None:
    """What this part of every prompt cost so far, cached like the rest of it."""
    billed = context.stats().billed
    share = tokens * billed.calls / billed.input if billed.input else 0.0
    model = context.view.model
    part = Usage(
        input=tokens * billed.calls,
        cache_read=int(share * billed.cache_read),
        cache_write=int(share * billed.cache_write),
    )
    return models.cost(model_info(model or None), part) if billed.calls else None


BREAK_TOKENS_MIN = 1_024  # providers do not cache shorter prefixes
BREAK_SHARE_MIN = 0.1
EXPIRES_S = 300
BREAKS_SHOWN = 10
DECODED_KINDS = ("usage", "edit", "revert", "restore", "meta")  # other events explain no break


class Break(Struct, frozen=True, kw_only=True):
    """A call that missed the cache: the seq of its report, the tokens read again, their price in
    excess of the cache's (None if unknown), and the reason."""

    seq: int
    tokens: int
    cost: float | None
    why: str


class ModelBill(Struct, frozen=True, kw_only=True):
    """The billed usage of one model; `cost` is None if its prices are unknown."""

    model: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None


class Bill(Result, frozen=True, kw_only=True):
    """`broken` is the part of `cost` due to breaks; both are None if a price is unknown."""

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


class Call(Struct, frozen=True, kw_only=True):
    """One usage report, and the change since the previous one."""

    seq: int
    at_ms: int
    usage: Usage
    since: str


def bill(session: Session) -> Bill:
    """The bill of the conversation by model, and the breaks of the cached prefix."""
    about = session.store.conversation(session.conversation)
    pages = pages_of(session.store, about.id, last=about.head)
    calls = list(calls_of(event for page in pages for event in page))
    models = tuple(models_of(calls))
    breaks = tuple(breaks_of(calls)) if any(one.usage.cache_read for one in calls) else ()
    return Bill(
        conversation=about.id,
        models=models,
        breaks=breaks,
        cost=_sum(one.cost for one in models),
        broken=_sum(one.cost for one in breaks),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    """The sum, or None if any cost is unknown."""
    known = list(costs)
    return None if None in known else sum(cost for cost in known if cost is not None)


def calls_of(events: Iterable[Event]) -> Iterator[Call]:
    """Every call. A report without a model gets the conversation's. A later report about the same
    response is added to its call. A change made while the model answered belongs to the next
    call."""
    calls: dict[str | int, Call] = {}
    changes: list[tuple[int, str]] = []
    model = ""
    for event in events:
        body = decode(event) if event.kind in DECODED_KINDS else None
        if isinstance(body, ModelMeta) and body.model:
            model = body.model
        if isinstance(body, Usage):
            usage = body if body.model else replace(body, model=model)
            shown = body.upto or event.seq
            since = next((why for seq, why in changes if seq <= shown), "")
            changes = [change for change in changes if change[0] > shown]
            call = Call(seq=event.seq, at_ms=event.at_ms, usage=usage, since=since)
            first = calls.setdefault(usage.response or event.seq, call)
            if first is not call:
                joined = replace(first, usage=together(first.usage, usage))
                calls[usage.response] = joined
        elif why := _change(event, body):
            changes.append((event.seq, why))
    yield from calls.values()


def _change(event: Event, body: object) -> str:
    """The change that an event made to the beginning of the page; empty if none."""
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


def models_of(calls: Iterable[Call]) -> Iterator[ModelBill]:
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


def breaks_of(calls: list[Call]) -> Iterator[Break]:
    for before, call in pairwise(calls):
        usage = call.usage
        reusable = min(before.usage.input, usage.input)
        lost = reusable - usage.cache_read
        if lost < max(BREAK_TOKENS_MIN, reusable * BREAK_SHARE_MIN):
            continue
        yield Break(seq=call.seq, tokens=lost, cost=_extra(usage, lost), why=_why(before, call))


def _extra(usage: Usage, tokens: int) -> float | None:
    """The price of tokens in excess of the cache's price."""
    model = model_info(usage.model)
    prices = model.prices
    if prices is None:
        return None
    read = prices.input if prices.cache_read is None else prices.cache_read
    paid = write_price(model, prices, usage) if usage.cache_write else prices.input
    return tokens * max(0.0, paid - read) / PER


def _why(before: Call, call: Call) -> str:
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
