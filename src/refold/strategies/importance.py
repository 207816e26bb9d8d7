"""What is worth its room stays: every message gets a score from 0 to 1 by code, and whole units
compete by value.

`importance` frees what the target asks for, or all below a `threshold`; `relevance` does the same
to a size of its own for a task. The `rest` is hidden, or put in summaries. `explain` gives every
score with its factors. Neighbours: `scores` has the factors, `hide_notice` hides with one notice,
`summarize` makes the asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.core.laws import units
from refold.core.model import Edit, View
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, check_choice, check_needed, run_tokens
from refold.strategies.hide import newest_work, staying
from refold.strategies.hide_notice import (
    hide_edits,
    is_notice,
    notice_tokens,
    runs_of,
    shown_notice_tokens,
)
from refold.strategies.prose import cap_tokens
from refold.strategies.scores import POWER, WEIGHTS, factors_of, weighed
from refold.strategies.summarize import asks_for

THRESHOLD = 0.6
DIGITS = 6  # of a score: differences after them come from adding floats
REASON = "least important"
RESTS = ("hide", "summarize")
SCORES_TOLD = 200  # of one run, each by itself; of a longer one the range
# Added to every unit's size, so that many tiny messages do not push out one that says something.
UNIT_TOKENS = 32
_HANDLES_EXPECTED = 4  # in the notice, when its size must be known before it is written


class Score(Struct, frozen=True, kw_only=True):
    """What a message is worth, from 0 to 1, and why; `goes` says whether it would be hidden."""

    seq: int
    tokens: int
    score: float
    factors: dict[str, float]
    goes: bool = False


def importance(brief: Brief) -> list[Edit | Ask]:
    """Takes away the units of least value per token until the page fits, or all below the
    `threshold`."""
    if brief.view.tokens <= brief.setting("trigger_tokens", 0):
        return []
    whole = units(brief.slots)
    values = weighed(factors_of(brief, whole), _weights(brief))
    going = _going(brief, whole, values)
    reason = partial(_reason, brief.view, values)
    take_away = _summary_asks if _is_summarized(brief) else hide_edits
    return take_away(brief, going, reason)


def relevance(brief: Brief) -> list[Edit | Ask]:
    """`importance` for a task, to a size: both must be given."""
    check_needed("relevance", brief.settings, brief.task)
    return importance(brief)


def explain(brief: Brief) -> list[Score]:
    """Every message of the page with its score, its factors, and whether it would go. Changes
    nothing."""
    whole = units(brief.slots)
    factors = factors_of(brief, whole)
    values = weighed(factors, _weights(brief))
    going = _going(brief, whole, values)
    scores: list[Score] = []
    for index, slot in enumerate(brief.slots):
        own = {name: column[index] for name, column in factors.items()}
        goes = index in going
        score = Score(seq=slot.seq, tokens=slot.tokens, score=values[index], factors=own, goes=goes)
        scores.append(score)
    return scores


def _weights(brief: Brief) -> dict[str, float]:
    """The weights with the caller's changes, as parts of 1; without a task its words weigh
    nothing."""
    given = brief.setting("weights", {})
    _check_weights(given)
    weights: dict[str, float] = {**WEIGHTS, **given}
    if not brief.task.strip():
        weights["keywords"] = 0.0
    return _parts_of_one(weights)


def _parts_of_one(weights: dict[str, float]) -> dict[str, float]:
    """The weights that count, so that they add up to 1."""
    total = sum(weights.values()) or 1.0
    return {name: weight / total for name, weight in weights.items() if weight}


def _check_weights(given: dict[str, object]) -> None:
    if not given.keys() <= WEIGHTS.keys() or not all(map(_is_weight, given.values())):
        hint = "known: " + ", ".join(WEIGHTS) + "; numbers, none below 0"
        raise Invalid(f"weights are {shown(given)}", hint=hint)


def _is_weight(value: object) -> bool:
    """Whether a value is a number that is not negative."""
    return isinstance(value, int | float) and value >= 0


# --- the rest ---


def _is_summarized(brief: Brief) -> bool:
    """Whether what goes is put in summaries, and not hidden."""
    rest: str = brief.setting("rest", "hide")
    check_choice("the rest is", rest, RESTS)
    return rest == "summarize"


def _summary_asks(
    brief: Brief, going: set[int], reason: Callable[[range], str]
) -> list[Edit | Ask]:
    """An ask for every run of what goes."""
    runs = runs_of(brief.view, going)
    asks = asks_for(brief, [brief.slots[run.start : run.stop] for run in runs])
    return [_with_reason(ask, reason(run)) for ask, run in zip(asks, runs)]


def _with_reason(ask: Ask, reason: str) -> Ask:
    """The ask with a reason for its draft."""
    return replace(ask, draft=replace(ask.draft, reason=reason))


def _reason(view: View, values: Sequence[float], run: range) -> str:
    """Why a run goes: the scores of its messages."""
    slots = [(index, view.slots[index]) for index in run]
    scores = {slot.seq: values[index] for index, slot in slots if not is_notice(slot)}
    return f"{REASON} ({_told_scores(scores)})" if scores else REASON


def _told_scores(scores: dict[int, float]) -> str:
    """Scores by seq as text: one by one where they are few."""
    lowest, highest = min(scores.values()), max(scores.values())
    if len(scores) == 1:
        return f"{lowest:.2f}"
    if len(scores) > SCORES_TOLD:
        return f"{lowest:.2f} to {highest:.2f}"
    return ", ".join(f"#{seq} {score:.2f}" for seq, score in scores.items())


# --- the choice ---


def _going(brief: Brief, whole: Sequence[range], values: Sequence[float]) -> set[int]:
    """The indices of the messages that go."""
    free = _free_units(brief.view, whole)
    recent = _recent(brief, free)
    older = [unit for unit in free if unit not in recent]
    if brief.setting("preset", "") == "threshold" or "threshold" in brief.settings:
        chosen = _below_threshold(brief, values, older)
    else:
        chosen = _crowded_out(brief, values, older, recent)
    return set(chain.from_iterable(chosen))


def _free_units(view: View, whole: Sequence[range]) -> list[range]:
    """The units that may go."""
    stays = staying(view, whole).union(newest_work(view, whole))
    stays.update(index for index, slot in enumerate(view.slots) if is_notice(slot))
    return [unit for unit in whole if stays.isdisjoint(unit)]


def _recent(brief: Brief, free: Sequence[range]) -> set[range]:
    """The free units among the last `keep_recent` messages; 0 means none."""
    start = len(brief.slots) - brief.setting("keep_recent", brief.config.keep_recent)
    return {unit for unit in free if unit.stop > start}


def _below_threshold(brief: Brief, values: Sequence[float], older: Sequence[range]) -> list[range]:
    """The units whose value is less than the threshold."""
    least = round(_threshold(brief), DIGITS)
    return [unit for unit in older if round(_value(values, unit), DIGITS) < least]


def _threshold(brief: Brief) -> float:
    threshold: float = brief.setting("threshold", THRESHOLD)
    if not 0 <= threshold <= 1:
        raise Invalid(f"a threshold of {threshold}", hint="a score lies between 0 and 1")
    return threshold


def _value(values: Sequence[float], unit: range) -> float:
    """A unit is worth what its best message is worth: a call goes or stays with its result."""
    return max(values[unit.start : unit.stop])


def _crowded_out(
    brief: Brief, values: Sequence[float], older: Sequence[range], recent: Iterable[range]
) -> list[range]:
    """What does not fit: first the newest find room, then the best by value per token."""
    slots = brief.slots
    sizes = {unit: run_tokens(slots, unit) for unit in (*older, *recent)}
    total = sum(sizes.values())
    room = _room(brief) - brief.view.slot_tokens + total
    if room >= total:
        return []
    room -= _standin_tokens(brief)
    newest_first = sorted(recent, key=lambda unit: -unit.start)
    out: list[range] = []
    for unit in (*newest_first, *_best_first(older, values, sizes)):
        if sizes[unit] <= room:
            room -= sizes[unit]
        else:
            out.append(unit)
    return out


def _best_first(
    found: Sequence[range], values: Sequence[float], sizes: dict[range, int]
) -> list[range]:
    """The units by value per token; of two alike the older one first."""

    def order(unit: range) -> tuple[float, int]:
        density = _value(values, unit) ** POWER / (sizes[unit] + UNIT_TOKENS)
        return -density, unit.start

    return sorted(found, key=order)


def _room(brief: Brief) -> int:
    """How large the slots may be together: `max_tokens`, or what the target leaves next to system
    and tools."""
    view = brief.view
    fixed = view.system_tokens + view.tools_tokens
    most: int = brief.setting("max_tokens", max(0, brief.target - fixed))
    return most


def _standin_tokens(brief: Brief) -> int:
    """What will stand for what goes: a summary, or a notice that takes in the notices there are."""
    if _is_summarized(brief):
        return cap_tokens(brief.budget.window)
    notice = notice_tokens(brief, _HANDLES_EXPECTED)
    return max(0, notice - shown_notice_tokens(brief.slots))
