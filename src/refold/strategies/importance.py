"""What is worth its room stays: every message gets a score from 0 to 1 by code, and whole units
compete by value.

`importance` frees what the target asks for, or all below a `threshold`; `relevance` does the same
to a size of its own for a task. The `rest` is hidden, or put in summaries. `explain` gives every
score with its factors. Neighbours: `scores` has the factors, `hide_notice` hides with one notice,
`summarize` makes the asks.

What a message is worth, factor by factor, each from 0 to 1, by code.

Who spoke, how far back, whether it holds a decision, a plan or an error, whether later messages use
its names, what the user stressed, whether the tool worked, whether it is about the task, and
whether it is said again. Position counts for age, not hours: a weekend changes nothing. Neighbours:
`importance` weighs the factors and chooses, `terms` finds the task's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.core.laws import units
from refold.core.model import Edit, Message, Role, ToolResult, View
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.errors import Invalid
from refold.strategies.brief import (
    Brief,
    check_choice,
    check_needed,
    mentioning,
    run_tokens,
    weight,
    words,
)
from refold.strategies.hide import (
    hide_edits,
    is_notice,
    newest_work,
    notice_tokens,
    runs_of,
    shown_notice_tokens,
    staying,
)
from refold.strategies.summarize import asks_for, cap_tokens

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
    going = _indices_to_hide(brief, whole, values)
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
    going = _indices_to_hide(brief, whole, values)
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


def _indices_to_hide(brief: Brief, whole: Sequence[range], values: Sequence[float]) -> set[int]:
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


ROLES: dict[Role, float] = {"user": 1.0, "assistant": 0.6, "tool": 0.4, "system": 0.2}
WEIGHTS: dict[str, float] = {
    "role": 1.0,
    "recency": 1.5,
    "marks": 1.0,
    "references": 1.5,
    "open": 0.5,
    "emphasis": 0.5,
    "success": 0.5,
    "keywords": 2.0,
    "novelty": 1.0,
}
POWER = 3
OPEN_UNITS = 8  # what the newest units name is still open
# Only the beginning and the end of a long text are looked at: a page costs the same however long
# its results are.
HEAD, TAIL = 1_500, 500
NAMED_CHARS, NAMES_MAX, NAME_CHARS = 400, 16, 48
NAME, ARTIFACT = re.compile(r"[\w-]+"), re.compile(r"\bart-[\w-]+")
DECISIONS = ("decid", "instead of", "must ", "root cause", "conclu")
PLANS = ("plan", "todo", "next step", "[ ]")
ERRORS = ("error", "exception", "traceback", "fail")
STRESSED = (
    "important",
    "must",
    "never",
    "always",
    "do not",
    "don't",
    "critical",
    "make sure",
    "only ",
)


def factors_of(brief: Brief, whole: Sequence[range]) -> dict[str, list[float]]:
    """For every factor its value from 0 to 1 for each slot; `whole` are the units of the page."""
    slots = brief.slots
    texts = [text_looked_at(slot.message) for slot in slots]
    lowers = [text.lower() for text in texts]
    worked = [success(slot.message) for slot in slots]
    references, still_open = _references(whole, [names_in(text[:NAMED_CHARS]) for text in texts])
    return {
        "role": [1.0 if slot.standin else ROLES[slot.message.role] for slot in slots],
        "recency": [index / len(slots) for index in range(1, len(slots) + 1)],
        "marks": [marks(lower) for lower in lowers],
        "references": references,
        "open": still_open,
        "emphasis": [emphasis(slot.message.role, text) for slot, text in zip(slots, texts)],
        "success": worked,
        "keywords": task_shares(brief.task, texts, lowers),
        "novelty": _novelty(texts, worked),
    }


def weighed(factors: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> list[float]:
    """The scores: the mean of the factors by their weights, which add up to 1. It is a mean of
    powers, so that what stands out in a few respects is not lost among those that say nothing:
    what a user said first is worth 0.6 or more, mere narration less."""
    scores = [0.0] * len(factors["role"])
    for name, share in weights.items():
        for index, value in enumerate(factors[name]):
            scores[index] += share * value**POWER
    return [score ** (1 / POWER) for score in scores]


def _references(
    whole: Sequence[range], names: Sequence[set[str]]
) -> tuple[list[float], list[float]]:
    """For each message how much its names are used later, and whether the newest units still use
    them."""
    references, still_open = [0.0] * len(names), [0.0] * len(names)
    used: dict[str, int] = {}
    newest: set[str] = set()
    for place, unit in enumerate(reversed(whole)):
        for index in unit:
            if names[index]:
                references[index] = 1 - 0.5 ** max(used.get(name, 0) for name in names[index])
                still_open[index] = float(not newest.isdisjoint(names[index]))
        in_unit = set[str]().union(*names[unit.start : unit.stop])
        for name in in_unit:
            used[name] = used.get(name, 0) + 1
        if place < OPEN_UNITS:
            newest |= in_unit
    return references, still_open


def _novelty(texts: Sequence[str], worked: Sequence[float]) -> list[float]:
    """0 for what is said again later in the same words, else 1. What a failed tool said never
    makes the same words of one that worked look old: it is itself what is not needed."""
    best = _best_copies(texts, worked)
    return [float(best[text] == index) for index, text in enumerate(texts)]


def _best_copies(texts: Sequence[str], worked: Sequence[float]) -> dict[str, int]:
    """For every text its last message, among those that worked best."""
    best: dict[str, int] = {}
    for index, text in enumerate(texts):
        if worked[index] >= worked[best.get(text, index)]:
            best[text] = index
    return best


# --- what one message says ---


def text_looked_at(message: Message) -> str:
    """The text of a message, without the middle where it is long."""
    return _without_middle("\n".join(map(text_of, message.blocks)))


def _without_middle(text: str) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= HEAD + TAIL:
        return text
    return text[:HEAD] + "\n" + text[-TAIL:]


def marks(lower: str) -> float:
    """Whether a text holds a decision, a plan or an error, in this order of worth."""
    for phrases, worth in ((DECISIONS, 1.0), (PLANS, 0.8), (ERRORS, 0.6)):
        for phrase in phrases:
            if phrase in lower:
                return worth
    return 0.0


def emphasis(role: Role, text: str) -> float:
    """Whether a user stressed something; 0 for anybody else."""
    if role != "user":
        return 0.0
    lower = text.lower()
    if any(phrase in lower for phrase in STRESSED):
        return 1.0
    return 0.5 if _is_loud(text) else 0.0


def _is_loud(text: str) -> bool:
    """Whether a text has an exclamation mark or a word in capitals."""
    return "!" in text or any(len(word) > 3 and word.isupper() for word in text.split())


def success(message: Message) -> float:
    """1 for tools that worked, 0 for tools that failed, 0.5 for what is not a tool result."""
    failures = [block.is_error for block in message.blocks if isinstance(block, ToolResult)]
    if not failures:
        return 0.5
    return 1 - sum(failures) / len(failures)


def names_in(text: str) -> set[str]:
    """The file names and artifacts that a text speaks of. A path counts by its last part, since
    it is often written from another folder. Looking for the dot is ten times as fast as looking
    for names."""
    found = {name.rstrip("-") for name in ARTIFACT.findall(text)} if "art-" in text else set()
    at = text.find(".")
    while at >= 0 and len(found) < NAMES_MAX:
        after = NAME.match(text, at + 1)
        before = _name_before(text, at)
        if after and before:
            found.add(f"{before}.{after[0]}")
        at = text.find(".", after.end() if after else at + 1)
    return found


def _name_before(text: str, at: int) -> str:
    """The name that ends at this place; nothing if none does."""
    turned = text[max(0, at - NAME_CHARS) : at][::-1]
    found = NAME.match(turned)
    return found[0][::-1] if found else ""


def task_shares(task: str, texts: Sequence[str], lowers: Sequence[str]) -> list[float]:
    """For each text the part of the task's words that it has, rare words counting more; 0 for
    all without a task."""
    hits = [mentioning(word, texts, lowers) for word in dict.fromkeys(words(task))]
    weights = [weight(len(found), len(texts)) for found in hits]
    total = sum(weights)
    shares = [0.0] * len(texts)
    for found, each in zip(hits, weights):
        for index in found:
            shares[index] += each / total
    return [min(1.0, share) for share in shares]
