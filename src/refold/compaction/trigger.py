"""When the page is compacted automatically: at the trigger; at the warning level once the page has
left the provider's cache; under a condition of `compact_when`; at the model's own request; at a
strategy's own trigger; or when there are too many messages.

Two pauses hold it back while the page still fits: after a compaction (`compact_every` extends it),
and a longer one after an undo. A page that does not fit after an undo only loses its oldest
messages. A model asks for a compaction by the tool `refold_compact`; it gets one at the user's next
message, never between a call and its result. Neighbours: `compactor` acts, `planning` plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct

from refold.config import Config, When, recent_messages
from refold.core.budget import Budget, Load, current_tokens
from refold.core.fold import Fold
from refold.core.laws import results_of
from refold.core.model import BY_HAND, COMPACT_TOOL, MADE_ROOM, Slot, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.strategies.brief import Ages

EARLY_RATIO = 0.8  # of the input limit: a trigger below it is early
# Growth required between two batches, as a share of the window.
GROWTH_RATIO = 0.05
# The same after an undo.
PAUSE_RATIO = 0.10
# New messages required between two batches, as a share of `messages_cap`.
CROWD_RATIO = 0.10
# How far below its cap a crowded page is brought: at the cap itself, every new message would break
# the provider's cache.
CROWD_ROOM = 0.20
# Share of the window below which the number of messages alone is not a reason to compact.
NEARLY_EMPTY_RATIO = 0.02

Cause = Literal["", "full", "asked", "idle", "when", "early", "crowded"]
Due = Literal["no", "yes", "room", "undone", "recent", "off"]
Kind = Literal["none", "prune", "compact", "make-room"]
# Why a full page is left alone.
REASONS: dict[Due, str] = {
    "undone": "paused after an undo",
    "recent": "compacted recently",
    "off": "automatic compaction is off",
}


class Moment(Struct, frozen=True, kw_only=True):
    """Clock readings that a compaction trigger depends on."""

    now_ms: int
    cache_life_s: float
    ages: Ages

    def idle_s(self, state: Fold) -> float:
        """Seconds since the last model call; 0 if there was none."""
        return max(0, self.now_ms - state.called_ms) / 1_000 if state.called_ms else 0.0

    def is_expired(self, state: Fold) -> bool:
        """Whether the page has left the provider's cache, so that changing it is free."""
        return self.idle_s(state) > self.cache_life_s


def due(state: Fold, load: Load, config: Config, moment: Moment) -> Due:
    """Whether the page should be compacted now, or why a full page is not."""
    if not config.auto:
        return "off"
    why = cause(state, load, config, moment)
    if why in ("", "crowded", "asked"):
        return "yes" if why else "no"
    pause = _pause(state, load.budget, config)
    if load.tokens <= load.budget.input_max:
        return pause
    return "room" if pause == "undone" else "yes"


def cause(state: Fold, load: Load, config: Config, moment: Moment) -> Cause:
    """Why a compaction is due, pauses aside; empty if it is not."""
    budget, current = load
    if current >= _full_at(state, budget, config):
        return "full"
    if state.wish_before and is_granted(state):
        return "asked"
    if current >= budget.warn_at and moment.is_expired(state):
        return "idle"
    if any(_holds(when, state, load, moment) for when in config.compact_when):
        return "when"
    if config.strategy and early_strategies(state, load, config):
        return "early"
    is_large = current >= NEARLY_EMPTY_RATIO * budget.window
    return "crowded" if is_large and _is_crowded(state, config) else ""


def _full_at(state: Fold, budget: Budget, config: Config) -> int:
    """The size at which a page is full. An early trigger, far below the limit, counts the room
    left by the system prompt and the tools: they cannot be folded."""
    fixed = round((state.system_tokens + state.tools_tokens) * budget.factor)
    beside = budget.compact_at + round(fixed * (1 - budget.compact_at / budget.window))
    most = min(int(EARLY_RATIO * budget.input_max), config.tokens_cap)
    return max(budget.compact_at, min(beside, most))


def _holds(when: When, state: Fold, load: Load, moment: Moment) -> bool:
    """Whether every limit in the condition is reached. Checks age last, because it reads the
    log: the age of the oldest message on the page that is not a stand-in."""
    budget, current = load
    is_reached = (
        (when.tokens is None or current >= when.tokens)
        and (when.ratio is None or current >= when.ratio * budget.window)
        and (when.messages is None or len(state.slots) >= when.messages)
        and (when.idle_s is None or moment.idle_s(state) >= when.idle_s)
    )
    if not is_reached or when.age_s is None:
        return is_reached
    oldest = next((slot.seq for slot in state.slots if not slot.standin), 0)
    age_ms = moment.ages([oldest]).get(oldest, 0) if oldest else 0
    return age_ms / 1_000 >= when.age_s


def _pause(state: Fold, budget: Budget, config: Config) -> Due:
    """Whether the page has grown enough since the last batch, undo or restore."""
    last, batch = last_change(state)
    if not last:
        return "yes"
    new = [slot for slot in state.slots if slot.seq > last]
    grown = sum(slot.tokens for slot in new)
    if not batch and grown < PAUSE_RATIO * budget.window:
        return "undone"
    is_early = config.compact_every > 0 and answers(new) < config.compact_every
    if batch and (is_early or grown < GROWTH_RATIO * budget.window):
        return "recent"
    return "yes"


def answers(slots: Sequence[Slot]) -> int:
    """The number of answers in these slots; one answer may be several messages in a row."""
    by_model = [slot.message.role == "assistant" for slot in slots]
    return by_model[:1].count(True) + sum(now and not before for before, now in pairwise(by_model))


def last_change(state: Fold) -> tuple[int, str]:
    """The seq and batch of the newest compaction, undo or restore, else (0, ""). Room made after an
    undo is part of the undo, and hiding messages by hand does not count as a compaction."""
    for seq, batch in reversed(state.undoable):
        if state.purposes.get(batch) not in (MADE_ROOM, BY_HAND):
            return seq, batch
    return 0, ""


def kind_due(state: Fold, load: Load, config: Config, moment: Moment) -> tuple[Kind, str]:
    """What the next request would do, and why it leaves a full page alone."""
    answer = due(state, load, config, moment)
    if answer == "room":
        return "make-room", ""
    if answer != "yes":
        return "none", REASONS.get(answer, "")
    why = cause(state, load, config, moment)
    return ("prune" if why in ("early", "crowded") else "compact"), ""


def early_strategies(state: Fold, load: Load, config: Config) -> list[str]:
    """Strategies of the ladder past a trigger of their own: a size, or a number of tool uses."""
    settings = config.strategy
    return [name for name in config.ladder if _is_past(settings.get(name, {}), load.tokens, state)]


def _is_past(settings: dict[str, Any], current: int, state: Fold) -> bool:
    if tokens := settings.get("trigger_tokens"):
        return bool(current > tokens)
    uses: int = settings.get("trigger_uses") or 0
    return 0 < uses < sum(len(results_of(slot.message)) for slot in state.slots)


def is_unchanged(state: Fold) -> bool:
    """Whether the page is as the last compaction left it."""
    last, batch = last_change(state)
    return bool(batch) and not any(slot.seq > last for slot in state.slots if not slot.standin)


def _is_crowded(state: Fold, config: Config) -> bool:
    """Whether the page has too many messages, enough of them newer than the last batch."""
    cap = _messages_max(config)
    if config.messages_cap <= 0 or len(state.slots) <= cap:
        return False
    last, batch = last_change(state)
    fresh = sum(slot.seq > last for slot in state.slots)
    return not last or (bool(batch) and fresh >= cap * CROWD_RATIO)


def _messages_max(config: Config) -> int:
    """The message limit of the page. Recent messages and the summary are on the page anyway: a
    lower cap could never be met."""
    return max(config.messages_cap, recent_messages(config) + 2)


def messages_left(config: Config) -> int:
    """The number of messages that compacting a crowded page leaves."""
    return int(_messages_max(config) * (1 - CROWD_ROOM))


def crowd_target(state: Fold, budget: Budget, most: int) -> int:
    """The target size of a crowded page. The oldest messages leave until `most` are left; their
    stand-in may take half of their tokens. The rest of the page is untouched."""
    from refold.strategies.hide import oldest_units

    over = max(0, len(state.slots) - most)
    leaving = islice(chain.from_iterable(oldest_units(state.view())), over)
    tokens = sum(state.slots[index].tokens for index in leaving)
    return current_tokens(state, budget.factor) - round(tokens * budget.factor / 2)


NOTED = "Noted: the conversation will be compacted when this turn has ended."
INSTRUCTIONS_CHARS_MAX = 2_000


def is_granted(state: Fold) -> bool:
    """Whether the model asked for a compaction in the turn that has just ended."""
    if not state.wish_before or not state.slots or state.slots[-1].seq != state.request:
        return False
    changes = [seq for seq, batch in state.undoable if state.purposes.get(batch) != MADE_ROOM]
    call = _compact_call(state)
    if call is None or (changes and changes[-1] >= state.wish_before):
        return False
    # The tool's answer must promise it: a refusal does not count.
    return any(
        isinstance(block, ToolResult) and block.call == call.id and text_of(block).startswith(NOTED)
        for slot in state.slots
        if slot.seq > state.wish_before
        for block in slot.message.blocks
    )


def instructions_of(state: Fold) -> str:
    """The model's instructions for the summary; empty if it gave none."""
    call = _compact_call(state)
    arguments = call.arguments if call is not None else ""
    try:
        decoded = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    instructions = decoded.get("instructions") if isinstance(decoded, Mapping) else ""
    return instructions[:INSTRUCTIONS_CHARS_MAX] if isinstance(instructions, str) else ""


def _compact_call(state: Fold) -> ToolCall | None:
    slot = state.slot_at(state.wish_before)
    blocks = slot.message.blocks if slot is not None else ()
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    return next((call for call in reversed(calls) if call.name == COMPACT_TOOL), None)
