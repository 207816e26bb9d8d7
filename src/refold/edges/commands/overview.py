"""A conversation at a glance: `refold show --summary` and `/context`.

In a pipe it is the plain text of `displays.overview`; on a terminal with colors a picture of the
window, its size over time, and the largest messages. It reads only the page and a bounded part of
the log: a conversation of ten thousand messages is shown as fast as one of ten.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from refold.artifacts.kinds.structured import LISTED_CHARS_MAX, items_in
from refold.artifacts.listing import is_in_log
from refold.core.codec import decode
from refold.core.model import Artifact, Usage, View
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
    tool_tokens,
    window_parts,
)
from refold.edges.displays.panel import Large, Panel, panel_lines
from refold.engine.context import Context
from refold.engine.stats import Stats
from refold.errors import RefoldError
from refold.log.handles import body_text

FOLDED_MAX = 1_000  # a longer log is sampled, not folded
SAMPLES, SAMPLE_EVENTS = 48, 8
TEXT_CHARS = 200
LARGEST = 5


class Summary(Result, frozen=True, kw_only=True):
    """The content of a conversation. `parts` sum to the window; `history` is the size of the page
    over the log, `compactions` the seqs of compactions; `largest` are the most expensive slots;
    `tools` has the tokens of each, as they are sent with every request."""

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
    tools: tuple[tuple[str, int], ...]
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
            tools=self.tools,
            has_color=screen.has_color,
        )
        for parts in panel_lines(
            shown, screen.columns, lambda name, *words: screen.call(name, id, *words)
        ):
            screen.line(*parts)


def summary_of(context: Context, *, plain: bool) -> Summary:
    """The summary of a conversation; with `plain`, plain text even on a terminal with colors."""
    stats, view = context.stats(), context.view
    live = (one for one in context.log.batches() if one.live)
    return Summary(
        overview=_overview(context, stats, view),
        model=stats.model,
        level=stats.level,
        due=stats.due,
        compact_at=stats.compact_at,
        warn_at=stats.warn_at,
        parts=window_parts(view, context.budget),
        history=sizes(context, stats.current),
        # Manual hides and removals that made room are not compactions.
        compactions=tuple(one.seq for one in live if batch_noun(one.purpose) == COMPACTION),
        largest=_largest(view, stats.current),
        pins=tuple(sorted(view.pins)),
        tools=tuple(tool_tokens(view)),
        active=stats.active,
        summaries=stats.summaries,
        plain=plain,
    )


def _overview(context: Context, stats: Stats, view: View) -> Overview:
    # The same content is listed once.
    stored: dict[str, Artifact] = {}
    for one in context.artifacts.list():
        if not one.cleaned_ms and not is_in_log(one.artifact):
            stored.setdefault(one.id, one.artifact)
    artifacts = list(stored.values())
    types = Counter[str](one.type for one in artifacts)
    newest = [slot for slot in view.slots[-2 * MESSAGES_SHOWN :] if not slot.standin]
    return Overview(
        conversation=stats.conversation,
        title=stats.title,
        messages=dict(Counter(slot.message.role for slot in view.slots if not slot.standin)),
        off_page=stats.messages - stats.active,
        artifacts=dict(types),
        current=stats.current,
        window=stats.window,
        recorded=stats.recorded,
        cost=stats.cost,
        created_ms=stats.created_ms,
        updated_ms=stats.updated_ms,
        recent=tuple(
            Said(role=slot.message.role, text=body_text(slot.message)[:TEXT_CHARS])
            for slot in newest[-MESSAGES_SHOWN:]
        ),
        first=tuple(
            ArtifactLine(
                id=one.id,
                name=one.name,
                type=one.type,
                lines=one.lines,
                results=_results(context, one),
            )
            for one in artifacts[:ARTIFACTS_SHOWN]
        ),
    )


def _results(context: Context, artifact: Artifact) -> int:
    """The number of search results listed in JSON; 0 if each is a line, or if the content cannot be
    read."""
    if artifact.type != "search_result" or artifact.size_bytes > LISTED_CHARS_MAX:
        return 0
    try:
        return len(items_in(context.unfold(artifact.id).text))
    except RefoldError:
        return 0


def _largest(view: View, current: int) -> tuple[Large, ...]:
    """The most expensive slots, in the provider's tokens."""
    scale = current / view.tokens if view.tokens else 0.0
    slots = sorted(view.slots, key=lambda slot: -slot.tokens)[:LARGEST]
    return tuple(
        Large(
            seq=slot.seq,
            last=slot.last,
            part=part_of(slot),
            tokens=round(slot.tokens * scale),
            text=body_text(slot.message)[:TEXT_CHARS],
            is_pinned=slot.seq in view.pins,
            is_request=slot.seq == view.request,
        )
        for slot in slots
    )


class Size(Struct, frozen=True, kw_only=True):
    """The tokens of the page after an event."""

    seq: int
    tokens: int


def sizes(context: Context, current: int) -> tuple[Size, ...]:
    """The known sizes, oldest first; the last is the current one."""
    head = context.view.head
    if head <= FOLDED_MAX:
        known = context.log.states().sizes
    else:
        known = _billed_sizes(context, head)
    past = [Size(seq=seq, tokens=tokens) for seq, tokens in known if seq < head]
    return (*past, Size(seq=head, tokens=current)) if head else ()


def _billed_sizes(context: Context, head: int) -> tuple[tuple[int, int], ...]:
    """Billed sizes by seq, sampled at regular positions of the log."""
    sizes: dict[int, int] = {}
    for sample in range(SAMPLES):
        after = head * sample // SAMPLES
        for event in context.log.events(after=after, limit=SAMPLE_EVENTS):
            body = decode(event) if event.kind == "usage" else None
            if isinstance(body, Usage) and body.input:
                sizes[event.seq] = body.input + body.output
    return tuple(sorted(sizes.items()))
