"""When the page is compacted automatically: at the trigger; at the warning level once the provider
has forgotten the page; under a condition of `compact_when`; when the model asked for it (`wish`);
at a strategy's own trigger; or when there are too many messages.

Two pauses hold it back while the page still fits: right after a compaction, which `compact_every`
makes longer, and for longer after an undo. A page that does not fit after an undo is not compacted
again; only its oldest messages leave. Everything follows from the log, the budget, the
configuration and the time. Neighbours: `compactor` acts, `planning` says what is done.

A model that asks for a compaction itself, by the tool `refold_compact`.

The wish is the call in the log and its answer; it is granted once, when the turn has ended: at the
request that begins with the user's next message, never between a call and its result. Neighbours:
`engine.toolbox` has the tool, `trigger` grants the wish, `compactor` gives its instructions to the
writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct

from refold.config import Config, When
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.laws import results_of
from refold.core.model import BY_HAND, COMPACT_TOOL, MADE_ROOM, Slot, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.strategies.brief import Ages
from refold.strategies.hide import oldest_units

# How much of the window must have come since the last batch before another is made.
GROWTH_RATIO = 0.05
# The same after an undo.
PAUSE_RATIO = 0.10
# How many messages must have come since the last batch, as a share of `messages_cap`.
CROWD_RATIO = 0.10
# How far below its cap a crowded page is brought: at the cap itself, every message would break the
# provider's cache.
CROWD_ROOM = 0.20

Cause = Literal["", "full", "asked", "idle", "when", "early", "crowded"]
Due = Literal["no", "yes", "room", "undone", "recent", "off"]
Kind = Literal["none", "prune", "compact", "make-room"]
# Why nothing is done although the page is full.
REASONS: dict[Due, str] = {
    "undone": "paused after an undo",
    "recent": "compacted recently",
    "off": "automatic compaction is off",
}


class Moment(Struct, frozen=True, kw_only=True):
    """The time at which is asked, how long the provider keeps a page in its cache, and how old
    messages are."""

    now_ms: int
    cache_life_s: float
    ages: Ages

    def idle_s(self, state: Fold) -> float:
        """How long ago the model was last heard; 0 where it never was."""
        return max(0, self.now_ms - state.called_ms) / 1_000 if state.called_ms else 0.0

    def is_expired(self, state: Fold) -> bool:
        """Whether the page is no longer in the provider's cache, so that changing it is free."""
        return self.idle_s(state) > self.cache_life_s


def due(state: Fold, budget: Budget, config: Config, moment: Moment) -> Due:
    """Whether the page should be compacted now, or why not although it is full."""
    if not config.auto:
        return "off"
    why = cause(state, budget, config, moment)
    if why in ("", "crowded", "asked"):
        return "yes" if why else "no"
    pause = _pause(state, budget, config)
    if current_tokens(state, budget.factor) <= budget.input_max:
        return pause
    return "room" if pause == "undone" else "yes"


def cause(state: Fold, budget: Budget, config: Config, moment: Moment) -> Cause:
    """What makes a compaction due, pauses aside; empty if nothing does."""
    current = current_tokens(state, budget.factor)
    if current >= budget.compact_at:
        return "full"
    if is_granted(state):
        return "asked"
    if current >= budget.warn_at and moment.is_expired(state):
        return "idle"
    if any(_holds(when, state, budget, moment) for when in config.compact_when):
        return "when"
    if config.strategy and early_strategies(state, budget, config):
        return "early"
    is_small = current < config.crowd_ratio * budget.window
    return "crowded" if not is_small and _is_crowded(state, config) else ""


def _holds(when: When, state: Fold, budget: Budget, moment: Moment) -> bool:
    """Whether all that a condition names is so. The age is looked up last: it reads the log."""
    current = current_tokens(state, budget.factor)
    idle_s = moment.idle_s(state)
    return (
        (when.tokens is None or current >= when.tokens)
        and (when.ratio is None or current >= when.ratio * budget.window)
        and (when.messages is None or len(state.slots) >= when.messages)
        and (when.idle_s is None or idle_s >= when.idle_s)
        and (when.age_s is None or _oldest_age_s(state, moment) >= when.age_s)
    )


def _oldest_age_s(state: Fold, moment: Moment) -> float:
    """How long ago the oldest message came that the page shows as itself."""
    oldest = next((slot.seq for slot in state.slots if not slot.standin), 0)
    return moment.ages([oldest]).get(oldest, 0) / 1_000 if oldest else 0.0


def _pause(state: Fold, budget: Budget, config: Config) -> Due:
    """Whether enough has come since the last batch, undo or restore."""
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
    """How many answers these are; one may be several messages in a row."""
    said = [slot.message.role == "assistant" for slot in slots]
    return said[:1].count(True) + sum(now and not before for before, now in pairwise(said))


def last_change(state: Fold) -> tuple[int, str]:
    """The seq of the newest compaction, undo or restore, and its batch; room that an undo made
    necessary is part of the undo, and what was hidden by hand is no compaction. Zero if there is
    none."""
    for seq, batch in reversed(state.undoable):
        if state.purposes.get(batch) not in (MADE_ROOM, BY_HAND):
            return seq, batch
    return 0, ""


def kind_due(state: Fold, budget: Budget, config: Config, moment: Moment) -> tuple[Kind, str]:
    """What the next request would do, and why it does nothing although the page is full."""
    answer = due(state, budget, config, moment)
    if answer == "room":
        return "make-room", ""
    if answer != "yes":
        return "none", REASONS.get(answer, "")
    why = cause(state, budget, config, moment)
    return ("prune" if why in ("early", "crowded") else "compact"), ""


def early_strategies(state: Fold, budget: Budget, config: Config) -> list[str]:
    """The strategies of the ladder that are configured to act below the trigger, at a size or a
    number of tool uses of their own, and are past it."""
    current = current_tokens(state, budget.factor)
    settings = config.strategy
    return [name for name in config.ladder if _is_past(settings.get(name, {}), current, state)]


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
    """Whether the page has more messages than it may, and enough of them came since the last
    batch."""
    cap = _messages_max(config)
    if config.messages_cap <= 0 or len(state.slots) <= cap:
        return False
    last, batch = last_change(state)
    fresh = sum(slot.seq > last for slot in state.slots)
    return not last or (bool(batch) and fresh >= cap * CROWD_RATIO)


def _messages_max(config: Config) -> int:
    """How many messages the page may have. What stays whole and the summary are on the page
    anyway: a cap below that could never be met."""
    return max(config.messages_cap, config.keep_recent + 2)


def messages_left(config: Config) -> int:
    """How many messages a crowded page is brought to."""
    return int(_messages_max(config) * (1 - CROWD_ROOM))


def crowd_target(state: Fold, budget: Budget, most: int) -> int:
    """The size to which a crowded page is brought: of the oldest messages, those above `most`, half
    may stay for what stands for them. The rest of the page is not touched."""
    over = max(0, len(state.slots) - most)
    going = islice(chain.from_iterable(oldest_units(state.view())), over)
    tokens = sum(state.slots[index].tokens for index in going)
    return current_tokens(state, budget.factor) - round(tokens * budget.factor / 2)


NOTED = "Noted: the conversation will be compacted when this turn has ended."
INSTRUCTIONS_CHARS_MAX = 2_000


def is_granted(state: Fold) -> bool:
    """Whether a compaction is due because the model asked for it in the turn that has just
    ended."""
    if not state.wish_before or not state.slots or state.slots[-1].seq != state.request:
        return False
    changes = [seq for seq, batch in state.undoable if state.purposes.get(batch) != MADE_ROOM]
    call = _call(state)
    is_new = not changes or changes[-1] < state.wish_before
    return is_new and call is not None and _is_noted(state, call.id)


def instructions_of(state: Fold) -> str:
    """What the model wants to be kept; empty where it did not say."""
    call = _call(state)
    given = call.arguments if call is not None else ""
    try:
        read = msgspec.json.decode(given) if isinstance(given, str) else given
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    said = read.get("instructions") if isinstance(read, Mapping) else ""
    return said[:INSTRUCTIONS_CHARS_MAX] if isinstance(said, str) else ""


def _call(state: Fold) -> ToolCall | None:
    slot = state.slot_at(state.wish_before)
    blocks = slot.message.blocks if slot is not None else ()
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    return next((call for call in reversed(calls) if call.name == COMPACT_TOOL), None)


def _is_noted(state: Fold, call: str) -> bool:
    """Whether the tool answered the call that it will be done; a refusal is no promise."""
    results = (
        block
        for slot in state.slots
        if slot.seq > state.wish_before
        for block in slot.message.blocks
        if isinstance(block, ToolResult) and block.call == call
    )
    return any(text_of(result).startswith(NOTED) for result in results)
