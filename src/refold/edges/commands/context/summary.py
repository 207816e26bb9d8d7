"""`refold context` and `/context`: a conversation at a glance.

In a pipe it is the plain text of `displays.overview`; on a terminal with colors a picture of the
window, how its size went, and what is largest. Only the page is looked at, and a bounded part of
the log: a conversation of ten thousand messages is shown as fast as one of ten.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta

from refold.artifacts.kinds.search_results import LISTED_CHARS_MAX, items_in
from refold.artifacts.listing import StoredArtifact, is_in_log
from refold.core.model import Artifact, Slot, View
from refold.edges.commands.batch_names import COMPACTION, batch_noun
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.context.history import Size, sizes
from refold.edges.commands.session import Session
from refold.edges.displays.overview import (
    ARTIFACTS_SHOWN,
    MESSAGES_SHOWN,
    Kept,
    Overview,
    Said,
    overview_lines,
)
from refold.edges.displays.panel import Large, Panel, panel_lines
from refold.edges.displays.parts import WindowPart, part_of, window_parts
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import RefoldError
from refold.log.unfold import body_text

TEXT_CHARS = 200
LARGEST = 5
PLAIN = Meta(description="The plain text, also on a terminal with colors.")


class ContextArguments(Arguments, frozen=True, kw_only=True):
    plain: Annotated[bool, PLAIN] = False


class Summary(Result, frozen=True, kw_only=True):
    """What a conversation holds. `parts` sum to the window; `history` is the size of the page
    over the log, `compactions` where it was compacted; `largest` are the slots that cost most."""

    overview: Overview
    model: str
    level: str
    due: str
    compact_at: int
    warn_at: int
    parts: tuple[WindowPart, ...]
    history: tuple[Size, ...]
    compactions: tuple[int, ...]
    largest: tuple[Large, ...]
    pins: tuple[int, ...]
    active: int
    summaries: int
    plain: bool


def run(session: Session, arguments: ContextArguments) -> Summary:
    with session.context() as context:
        stats, view = context.stats(), context.view
        return Summary(
            overview=_overview(context, stats, view),
            model=stats.model,
            level=stats.level,
            due=stats.due,
            compact_at=stats.compact_at,
            warn_at=stats.warn_at,
            parts=window_parts(view, context.budget),
            history=sizes(context, stats.current),
            compactions=_compactions(context),
            largest=_largest(view, stats.current),
            pins=tuple(sorted(view.pins)),
            active=stats.active,
            summaries=stats.summaries,
            plain=arguments.plain,
        )


def _compactions(context: Context) -> tuple[int, ...]:
    """Where the page was compacted, which a hide by hand and room that was made are not."""
    standing = (one for one in context.log.batches() if one.live)
    return tuple(one.seq for one in standing if batch_noun(one.purpose) == COMPACTION)


def _overview(context: Context, stats: Stats, view: View) -> Overview:
    kept = _kept(context)
    types = Counter[str](one.artifact.type for one in kept)
    return Overview(
        conversation=stats.conversation,
        title=stats.title,
        messages=stats.by_role,
        artifacts=dict(types),
        current=stats.current,
        window=stats.window,
        cost=stats.cost,
        created_ms=stats.created_ms,
        updated_ms=stats.updated_ms,
        recent=tuple(_said(slot) for slot in _newest(view)),
        first=tuple(_artifact(context, one) for one in kept[:ARTIFACTS_SHOWN]),
    )


def _kept(context: Context) -> list[StoredArtifact]:
    """The artifacts that are there, each content once."""
    there: dict[str, StoredArtifact] = {}
    for one in context.artifacts.list():
        if not one.cleaned_ms and not is_in_log(one.artifact):
            there.setdefault(one.id, one)
    return list(there.values())


def _newest(view: View) -> list[Slot]:
    return [slot for slot in view.slots[-2 * MESSAGES_SHOWN :] if not slot.standin][
        -MESSAGES_SHOWN:
    ]


def _said(slot: Slot) -> Said:
    return Said(role=slot.message.role, text=body_text(slot.message)[:TEXT_CHARS])


def _artifact(context: Context, one: StoredArtifact) -> Kept:
    found = one.artifact
    results = _results(context, found) if found.type == "search_result" else 0
    return Kept(id=found.id, name=found.name, type=found.type, lines=found.lines, results=results)


def _results(context: Context, found: Artifact) -> int:
    """How many results a search gave that are listed in JSON; 0 where each is a line, or where its
    content cannot be read."""
    if found.size_bytes > LISTED_CHARS_MAX:
        return 0
    try:
        return len(items_in(context.unfold(found.id).text))
    except RefoldError:
        return 0


def _largest(view: View, current: int) -> tuple[Large, ...]:
    """The slots that cost most, in the provider's tokens."""
    scale = current / view.tokens if view.tokens else 0.0
    slots = sorted(view.slots, key=lambda slot: -slot.tokens)[:LARGEST]
    return tuple(_large(slot, view, scale) for slot in slots)


def _large(slot: Slot, view: View, scale: float) -> Large:
    return Large(
        seq=slot.seq,
        last=slot.last,
        part=part_of(slot),
        tokens=round(slot.tokens * scale),
        text=body_text(slot.message)[:TEXT_CHARS],
        is_pinned=slot.seq in view.pins,
        is_request=slot.seq == view.request,
    )


def show(summary: Summary, screen: Screen) -> None:
    id = summary.overview.conversation
    if summary.plain or not screen.draws:
        for line in overview_lines(
            summary.overview, call=lambda name: screen.call(f"context {name}", id)
        ):
            screen.line(line)
        return
    shown = Panel(
        overview=summary.overview,
        model=summary.model,
        level=summary.level,
        compact_at=summary.compact_at,
        warn_at=summary.warn_at,
        parts=summary.parts,
        history=tuple((one.seq, one.tokens) for one in summary.history),
        compactions=summary.compactions,
        largest=summary.largest,
        pins=summary.pins,
        has_color=screen.has_color,
    )
    for parts in panel_lines(
        shown, screen.columns, lambda name, *words: screen.call(name, id, *words)
    ):
        screen.line(*parts)


COMMAND = Command(
    name="context",
    reads=True,
    arguments=ContextArguments,
    run=run,
    show=show,
)
