"""A conversation at a glance: `refold show --summary` and `/context`.

In a pipe it is the plain text of `displays.overview`; on a terminal with colors a picture of the
window, its size over time, and the largest messages. It reads only the page and a bounded part of
the log: a conversation of ten thousand messages is shown as fast as one of ten.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from refold.artifacts.kinds.structured import LISTED_CHARS_MAX, items_in
from refold.artifacts.listing import StoredArtifact, is_in_log
from refold.core.codec import decode
from refold.core.model import Artifact, Event, Slot, Usage, View
from refold.edges.commands.command import COMPACTION, Result, Screen, batch_noun
from refold.edges.displays.overview import (
    ARTIFACTS_SHOWN,
    MESSAGES_SHOWN,
    ArtifactLine,
    Overview,
    Said,
    WindowPart,
    overview_lines,
    part_of,
    window_parts,
)
from refold.edges.displays.panel import Large, Panel, panel_lines
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import RefoldError
from refold.log.points import sizes_of
from refold.log.unfold import body_text

FOLDED_MAX = 1_000  # events that are all folded
STRETCHES, STRETCH_EVENTS = 48, 8
TEXT_CHARS = 200
LARGEST = 5


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

    def show(self, screen: Screen) -> None:
        id = self.overview.conversation
        if self.plain or not screen.draws:
            for line in overview_lines(
                self.overview, call=lambda name: screen.call(f"context {name}", id)
            ):
                screen.line(line)
            return
        shown = Panel(
            overview=self.overview,
            model=self.model,
            level=self.level,
            compact_at=self.compact_at,
            warn_at=self.warn_at,
            parts=self.parts,
            history=tuple((one.seq, one.tokens) for one in self.history),
            compactions=self.compactions,
            largest=self.largest,
            pins=self.pins,
            has_color=screen.has_color,
        )
        for parts in panel_lines(
            shown, screen.columns, lambda name, *words: screen.call(name, id, *words)
        ):
            screen.line(*parts)


def summary_of(context: Context, *, plain: bool) -> Summary:
    """The summary of a conversation; `plain` text also on a terminal with colors."""
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
        plain=plain,
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


def _artifact(context: Context, one: StoredArtifact) -> ArtifactLine:
    found = one.artifact
    results = _results(context, found) if found.type == "search_result" else 0
    return ArtifactLine(
        id=found.id, name=found.name, type=found.type, lines=found.lines, results=results
    )


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


class Size(Struct, frozen=True, kw_only=True):
    """The tokens of the page after an event."""

    seq: int
    tokens: int


def sizes(context: Context, current: int) -> tuple[Size, ...]:
    """The sizes that are known, oldest first; the last is that of now."""
    head = context.view.head
    if head <= FOLDED_MAX:
        known = sizes_of(context.log.events(limit=FOLDED_MAX))
    else:
        known = _reported(context, head)
    found = [Size(seq=seq, tokens=tokens) for seq, tokens in known if seq < head]
    return (*found, Size(seq=head, tokens=current)) if head else ()


def _reported(context: Context, head: int) -> list[tuple[int, int]]:
    """Billed sizes, from some stretches of the log."""
    found: dict[int, int] = {}
    for stretch in range(STRETCHES):
        after = head * stretch // STRETCHES
        for event in context.log.events(after=after, limit=STRETCH_EVENTS):
            found.update(_size(event))
    return sorted(found.items())


def _size(event: Event) -> dict[int, int]:
    body = decode(event) if event.kind == "usage" else None
    if isinstance(body, Usage) and body.input:
        return {event.seq: body.input + body.output}
    return {}
