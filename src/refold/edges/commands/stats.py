"""`refold stats`: the numbers of one conversation."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from refold.artifacts.listing import is_in_log
from refold.display import counted, moment, number, plural
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.engine.stats import Stats
from refold.tokens.models import dollars

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


def run(session: Session, arguments: StatsArguments) -> Figures:
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


def show(figures: Figures, screen: Screen) -> None:
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


COMMAND = Command(
    name="stats",
    reads=True,
    arguments=StatsArguments,
    run=run,
    show=show,
)
