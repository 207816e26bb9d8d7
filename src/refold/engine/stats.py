"""The numbers of a conversation: what the next request carries, what it is made of, what was
billed.

Two different things, never mixed: `current` is the size of the next request; `billed` only grows.

Messages counted without a conversation: what a request of them would have, before anything is
appended.

The count is what the same messages have on a page of a new conversation; no report corrects it.
Neighbours: `dialects` parse, `tokens.counter` counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.checked import checked
from refold.compaction.active_model import ActiveModel
from refold.compaction.trigger import Kind, kind_due
from refold.conversations.listing import UNTITLED, title_of
from refold.core.budget import Budget, Level, current_tokens
from refold.core.fold import Fold
from refold.core.model import Event, Message, Slot, ToolResult, Totals, View, shows_memories
from refold.dialects.input import plain_value
from refold.log.draft import message_checked
from refold.log.open_log import OpenLog
from refold.tokens.counter import Count, count_message, count_system, count_tools, counter_for
from refold.tokens.models import model_info

NOTHING = Totals()


class Stats(Struct, frozen=True, kw_only=True):
    """`breakdown` parts always sum to `current`; its `artifacts` are the messages that show
    stubs of results which were moved out, its `memory` those that show what is remembered.
    `inherited` is the part of `billed` that a fork brought from its parent. `due` is what the next
    request will do about the size of the page: nothing, `prune` (below the trigger), `compact`, or
    `make-room` (the oldest messages leave, because an undone compaction does not come back);
    `due_reason` says why it does nothing although the page is full. Ages are in milliseconds; 0
    messages have none."""

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
        due, reason = kind_due(state, model.load, log.config, model.moment())
        return replace(
            stats_of_view(view, budget, now_ms=log.log.clock()),
            conversation=log.id,
            title=title_of(log.store, log.id, log.metadata.title or ""),
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
        # A notice that messages were hidden is not a summary.
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
    sizes = {"system": view.system_tokens, "tools": view.tools_tokens}
    sizes |= {"memory": 0, "summaries": 0, "artifacts": 0}
    for slot in view.slots:
        if part := _part(slot):
            sizes[part] += slot.tokens
    parts = {part: round(tokens * scale) for part, tokens in sizes.items()}
    return {**parts, "conversation": current - sum(parts.values())}


def _part(slot: Slot) -> str:
    """Which part of the page a slot is; empty for the conversation itself."""
    if slot.standin:
        return "summaries"
    if shows_memories(slot.message):
        return "memory"
    blocks = slot.message.blocks
    is_stub = any(isinstance(block, ToolResult) and block.artifact for block in blocks)
    return "artifacts" if is_stub else ""


@checked
def count_messages(
    messages: list[Any] | tuple[Any, ...],
    *,
    model: str | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    dialect: str | None = None,
    counter: Count | str | None = None,
) -> int:
    """The tokens of messages in any provider's shape, with a system prompt and tools, as a model
    counts them. Nothing is written."""
    info = model_info(model)
    count = counter_for(counter, model)
    spoken = dialects.dialect(dialect or info.dialect or dialects.DEFAULT).name
    parsed = [one for message in messages for one in _parsed(message, spoken)]
    beside = count_system(plain_value(system), count)
    beside += count_tools(plain_value(tools), count)
    return beside + sum(count_message(one, count) for one in parsed)


def _parsed(message: Any, dialect: str) -> list[Message]:
    if isinstance(message, Message):
        return [message_checked(message)]
    return dialects.parse(message, dialect)
