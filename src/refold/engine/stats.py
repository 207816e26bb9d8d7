"""The numbers of a conversation: what the next request carries, what it is made of, what was
billed.

Two different things, never mixed: `current` is the size of the next request; `billed` only grows.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from refold.compaction.active_model import ActiveModel
from refold.compaction.trigger import Kind, kind_due
from refold.conversations.listing import UNTITLED, title_of
from refold.core.budget import Budget, Level, current_tokens
from refold.core.fold import Fold
from refold.core.model import Event, Slot, ToolResult, Totals, View, shows_memories
from refold.log.open_log import OpenLog

NOTHING = Totals()


class Stats(Struct, frozen=True, kw_only=True):
    """`breakdown` parts always sum to `current`; its `artifacts` are the messages that show
    stubs of results which were moved out, its `memory` those that show memories. `inherited` is
    the part of `billed` that a fork brought from its parent. `due` is what the next request will
    do about the size of the page: nothing, `prune` (below the trigger), `compact`, or `make-room`
    (the oldest messages leave, because an undone compaction does not come back); `due_reason` says
    why it does nothing although the page is full. Ages are in milliseconds; 0 messages have
    none."""

    conversation: str
    title: str
    model: str
    current: int
    window: int
    percent: float
    level: Level
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
    billed: Totals
    inherited: Totals = NOTHING
    cost: float | None
    created_ms: int
    updated_ms: int
    oldest_age_ms: int
    due: Kind = "none"
    due_reason: str = ""

    @property
    def ratio(self) -> float:
        """The share of messages that are on the page."""
        return self.active / self.messages if self.messages else 1.0


def stats_of(
    log: OpenLog, model: ActiveModel, *, artifacts: int, inherited: Totals = NOTHING
) -> Stats:
    """The numbers of an open log, for the model that reads it."""
    with log.reading() as state:
        view, budget = log.view(), model.budget
        due, reason = kind_due(state, budget, log.config, model.moment())
        return replace(
            stats_of_view(view, budget, now_ms=log.log.clock()),
            conversation=log.id,
            title=title_of(log.store, log.id, log.known.title or ""),
            model=model.info.name,
            artifacts=artifacts,
            due=due,
            due_reason=reason,
            inherited=inherited,
        )


def inherited(log: OpenLog) -> Totals:
    """What had been billed to the parent where this conversation left it; nothing unless it is a
    fork."""
    with log.reading() as state:
        left = log.store.conversation(log.id).parent_seq if state.head else 0
        return inherited_totals(log.log.read(0, left))


def stats_of_view(view: View, budget: Budget, *, now_ms: int) -> Stats:
    """The numbers of a view under a budget; what a view does not know is empty."""
    current = current_tokens(view, budget.factor)
    standins = [slot for slot in view.slots if slot.standin]
    return Stats(
        conversation="",
        title=view.title or UNTITLED,
        model=view.model,
        current=current,
        window=budget.window,
        percent=budget.percent(current),
        level=budget.level(current),
        warn_at=budget.warn_at,
        compact_at=budget.compact_at,
        breakdown=_breakdown(view, current),
        messages=sum(view.counts.values()),
        active=len(view.slots) - len(standins),
        # What only says that messages were hidden is none.
        summaries=sum(slot.summary is not None for slot in standins),
        by_role=dict(view.counts),
        artifacts=0,
        checkpoints=len(view.checkpoints),
        pins=len(view.pins),
        billed=view.totals,
        cost=None if view.totals.unpriced else view.totals.cost,
        created_ms=view.first_at_ms,
        updated_ms=view.updated_ms,
        oldest_age_ms=max(0, now_ms - view.first_at_ms) if view.first_at_ms else 0,
    )


def inherited_totals(events: Iterable[Event]) -> Totals:
    """What had been billed when these events were all there was."""
    state = Fold()
    for event in events:
        if event.kind == "usage":
            state.step(event, live=False)
    return state.totals


def _breakdown(view: View, current: int) -> dict[str, int]:
    """Our estimate of each part, scaled to the provider's number; the conversation takes the
    rounding."""
    scale = current / view.tokens if view.tokens else 0.0
    summaries = sum(slot.tokens for slot in view.slots if slot.standin)
    stubs = sum(slot.tokens for slot in view.slots if _shows_stub(slot))
    memories = (slot for slot in view.slots if shows_memories(slot.message))
    parts = {
        "system": round(view.system_tokens * scale),
        "tools": round(view.tools_tokens * scale),
        "memory": round(sum(slot.tokens for slot in memories if not slot.standin) * scale),
        "summaries": round(summaries * scale),
        "artifacts": round(stubs * scale),
    }
    return {**parts, "conversation": current - sum(parts.values())}


def _shows_stub(slot: Slot) -> bool:
    return any(isinstance(block, ToolResult) and block.artifact for block in slot.message.blocks)
