"""`refold stats`: the figures of a conversation, and its costs, tools and fill level.

`--cost` and `--debug` are modules of their own (`cost`, `debug`), imported when asked for.
Neighbour: `displays.overview` draws the fill level as text and as a box.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from refold.artifacts.listing import is_in_log
from refold.display import counted, cut, moment, number, one_line, plural
from refold.edges.commands.command import (
    FORMAT,
    Result,
    Screen,
    Window,
    command,
)
from refold.edges.commands.session import Session
from refold.edges.displays.overview import (
    page_parts,
    usage_box,
    usage_lines,
)
from refold.edges.displays.phrases import advice, header
from refold.engine.context import Context
from refold.errors import Invalid
from refold.tokens.models import dollars

SHOWN_CHARS = 70
Billed = dict[str, int | float]
Form = Literal["usage", "box", "header"]


COST = Meta(description="What was billed, and where the provider's cached prefix broke.")
TOOLS = Meta(description="The tools that the model gets, and their tokens.")
DEBUG = Meta(description="Every edit, its savings, and the next candidates, as JSON.")
LINE = Meta(description="Only how full the window is, and of what.")


@command("stats", reads=True)
def stats(
    session: Session,
    *,
    cost: Annotated[bool, COST] = False,
    tools: Annotated[bool, TOOLS] = False,
    line: Annotated[bool, LINE] = False,
    debug: Annotated[bool, DEBUG] = False,
    window: Window | None = None,
    format: Annotated[Form, FORMAT] | None = None,
) -> Result:
    if cost + tools + line + debug > 1:
        reason = "--cost, --tools, --line and --debug exclude each other"
        raise Invalid(reason, hint="refold stats --help")
    if cost:
        from refold.edges.commands.cost import bill

        return bill(session)
    if debug:
        from refold.edges.commands.debug import dump

        return dump(session)
    with session.context(window=window) as context:
        if tools:
            return _tools(context)
        if line or format is not None:
            return _status(context, format or "usage")
        figures = context.stats()
        listed = [one.artifact for one in context.artifacts.list() if not one.cleaned_ms]
        stored = {one.id: one.type for one in listed if not is_in_log(one)}
    plain = asdict(figures)
    plain["billed"], plain["inherited"] = asdict(figures.billed), asdict(figures.inherited)
    types = dict(Tally[str](stored.values()))
    return Figures(**plain, ratio=figures.ratio, artifact_types=types)


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

    def show(self, screen: Screen) -> None:
        billed = self.billed
        # Cut, not rounded: 80.0% is never shown before the warning.
        percent = self.current * 1000 // self.window / 10
        used = f"{self.current:,} / {self.window:,} ({percent:.1f}%), {self.level}"
        parts = ", ".join(f"{name} {size:,}" for name, size in self.breakdown.items())
        tokens = f"{number(billed['input'], 'token')} in, {billed['output']:,} out"
        calls = f"{number(billed['calls'], 'call')}, {tokens}"
        cached = f"{number(billed['cache_read'], 'token')} read, {billed['cache_write']:,} written"
        screen.fields(
            [
                ("Conversation", self.conversation),
                ("Title", self.title),
                ("Model", self.model or "unknown"),
                ("Messages", _messages(self)),
                ("Artifacts", _artifacts(self)),
                ("Tokens", used),
                ("Made of", parts),
                ("Compacts at", f"{self.compact_at:,}, warns at {self.warn_at:,}"),
                ("Billed", calls),
                ("Cached", cached),
                ("Cost", dollars(self.cost)),
                ("Created", moment(self.created_ms)),
                ("Updated", moment(self.updated_ms)),
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


def _status(context: Context, form: Form) -> Status:
    stats = context.stats()
    return Status(
        conversation=stats.conversation,
        model=stats.model,
        current=stats.current,
        window=stats.window,
        percent=stats.percent,
        level=stats.level,
        messages=stats.messages,
        active=stats.active,
        summaries=stats.summaries,
        oldest_age_ms=stats.oldest_age_ms,
        parts=page_parts(context.view, context.budget),
        form=form,
    )


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
    """One tool; `tokens` is its share of what all of them cost."""

    name: str
    description: str
    tokens: int


class Tools(Result, frozen=True, kw_only=True):
    conversation: str
    tools: tuple[Tool, ...]
    tokens: int

    def show(self, screen: Screen) -> None:
        if not self.tools:
            screen.line("The model gets no tools.")
            return
        rows = (
            (one.name, f"{one.tokens:,}", cut(one_line(one.description), SHOWN_CHARS))
            for one in self.tools
        )
        screen.table(("NAME", ">TOKENS", "DESCRIPTION"), rows)
        screen.line(
            f"{number(len(self.tools), 'tool')}, {number(self.tokens, 'token')} in every request."
        )


def _tools(context: Context) -> Tools:
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
