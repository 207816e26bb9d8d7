"""Statistics of a conversation: the size of the next request, its parts, and the billed totals.

Two different things, never mixed: `current` is the size of the next request; `billed` only grows.
`count_messages` counts messages without a conversation, as on the page of a new one; no provider's
report corrects this count. Neighbours: `dialects` parse, `tokens.counter` counts.
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
from refold.conversations.listing import IMPORTED, UNTITLED, shown_title, title_of
from refold.core.budget import Budget, Level, current_tokens
from refold.core.codec import decode
from refold.core.fold import Fold
from refold.core.model import Event, Message, Slot, ToolResult, Totals, Usage, View, shows_memories
from refold.dialects.input import plain_value
from refold.log.draft import message_checked
from refold.log.open_log import OpenLog
from refold.tokens.counter import Count, count_message, count_system, count_tools, counter_for
from refold.tokens.models import model_info

NOTHING = Totals()
TAIL_EVENTS = 200  # in which the newest report of an imported session is looked for


class Stats(Struct, frozen=True, kw_only=True):
    """The parts of `breakdown` always sum to `current`; `artifacts` are messages with stubs of
    stored results, `memory` counts messages that show memories. `inherited` is the part of `billed`
    that a fork got from its parent. `due` is the next request's action for the size of the page:
    `none`, `prune` (below the trigger), `compact`, or `make-room` (the oldest messages leave,
    because an undone compaction does not come back); `due_reason` explains why a full page is left
    alone. Of an imported session, `recorded` is the size of the agent's last request and its
    answer, as the provider reported it: unlike `current` with the agent's own system prompt and
    tools, which are not in the file. Ages are in milliseconds, 0 without messages."""

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
    recorded: int = 0

    @property
    def ratio(self) -> float:
        """The share of messages that are on the page."""
        return self.active / self.messages if self.messages else 1.0


def stats_of(log: OpenLog, model: ActiveModel, artifacts: int, inherited: Totals) -> Stats:
    """The statistics of an open log for its model."""
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
            recorded=_recorded(log, view),
        )


def _recorded(log: OpenLog, view: View) -> int:
    """The size of an imported session when its agent last sent it; 0 if that is unknown, or refold
    has sent it since."""
    if view.anchor is not None or IMPORTED not in view.metadata:
        return 0
    sizes: dict[str, int] = {}
    for event in log.log.read(max(0, view.head - TAIL_EVENTS), view.head):
        body = decode(event) if event.kind == "usage" else None
        if isinstance(body, Usage):
            # A later report of a response has what an earlier one lacked.
            sizes[body.response] = sizes.get(body.response, 0) + body.input + body.output
    return next(reversed(sizes.values()), 0)


def inherited(log: OpenLog) -> Totals:
    """The parent's bill at the fork; empty if the conversation is not a fork."""
    with log.reading() as state:
        left = log.store.conversation(log.id).parent_seq if state.head else 0
        return inherited_totals(log.log.read(0, left))


def stats_of_view(view: View, budget: Budget, *, now_ms: int) -> Stats:
    """The statistics of a view under a budget; values that a view does not have are empty."""
    current = current_tokens(view, budget.factor)
    standins = [slot for slot in view.slots if slot.standin]
    return Stats(
        conversation="",
        title=shown_title(view.title) or UNTITLED,
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
    """The bill after these events."""
    state = Fold()
    for event in events:
        if event.kind == "usage":
            state.step(event, live=False)
    return state.totals


def _breakdown(view: View, current: int) -> dict[str, int]:
    """The estimate of each part, scaled to the provider's count; rounding goes to the
    conversation."""
    scale = current / view.tokens if view.tokens else 0.0
    sizes = {"system": view.system_tokens, "tools": view.tools_tokens}
    sizes |= {"memory": 0, "summaries": 0, "artifacts": 0}
    for slot in view.slots:
        if part := _part(slot):
            sizes[part] += slot.tokens
    parts = {part: round(tokens * scale) for part, tokens in sizes.items()}
    return {**parts, "conversation": current - sum(parts.values())}


def _part(slot: Slot) -> str:
    """The part of the page that a slot belongs to; empty for the conversation itself."""
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
    """Token count of messages in any provider's shape, with a system prompt and tools, for a
    model. Writes nothing."""
    info = model_info(model)
    count = counter_for(counter, model)
    wire = dialects.dialect(dialect or info.dialect or dialects.DEFAULT).name
    tokens = count_system(plain_value(system), count) + count_tools(plain_value(tools), count)
    for message in messages:
        is_parsed = isinstance(message, Message)
        parsed = [message_checked(message)] if is_parsed else dialects.parse(message, wire)
        tokens += sum(count_message(one, count) for one in parsed)
    return tokens
