"""The most valuable messages stay: code scores every message from 0 to 1, and whole units compete
by value per token.

`importance` frees the tokens above the target, or every unit below a `threshold`; `relevance` does
the same for a given task and size. The `rest` is hidden or summarized. `explain` gives every
score with its factors: the speaker, the position (not the clock), decisions, plans and errors,
later uses of its names, the user's emphasis, tool success, words of the task, and repetition.
Neighbours: `hide` hides with one notice, `summarize` creates the asks, `word_stems` finds the words
of a task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.config import recent_messages
from refold.core.laws import units
from refold.core.model import Edit, Message, Role, ToolResult, View
from refold.core.plan import Ask
from refold.core.shortened import text_of
from refold.errors import Invalid
from refold.strategies.brief import Brief, cap_tokens, check_choice, check_needed
from refold.strategies.hide import (
    hide_edits,
    is_notice,
    newest_work,
    notice_tokens,
    runs_of,
    shown_notice_tokens,
    staying,
)
from refold.strategies.protected_messages import run_tokens
from refold.strategies.summarize import asks_for
from refold.strategies.word_stems import mentioning, weight, words

THRESHOLD = 0.6
DIGITS = 6  # of a score; smaller differences are floating-point error
REASON = "least important"
RESTS = ("hide", "summarize")
SCORES_LISTED = 200  # scores in the reason for one run; a longer run gets their range instead
# Added to every unit's size, so that many tiny messages do not push out a substantial one.
UNIT_TOKENS = 32
_HANDLES_EXPECTED = 4  # in a notice whose size is estimated before it is written


class Score(Struct, frozen=True, kw_only=True):
    """The value of a message, from 0 to 1, with its factors; `goes` is true if it would be
    hidden."""

    seq: int
    tokens: int
    score: float
    factors: dict[str, float]
    goes: bool = False


def importance(brief: Brief) -> list[Edit | Ask]:
    """Removes the least valuable units until the page fits, or every unit scored below
    `threshold`."""
    if brief.view.tokens <= brief.setting("trigger_tokens", 0):
        return []
    page_units = units(brief.slots)
    values = weighed(factors_of(brief, page_units), _weights(brief))
    hidden = _indices_to_hide(brief, page_units, values)
    if not _is_summarized(brief):
        return hide_edits(brief, hidden, partial(_reason, brief.view, values))
    runs = runs_of(brief.view, hidden)
    asks = asks_for(brief, [brief.slots[run.start : run.stop] for run in runs])
    return [
        replace(ask, draft=replace(ask.draft, reason=_reason(brief.view, values, run)))
        for ask, run in zip(asks, runs)
    ]


def relevance(brief: Brief) -> list[Edit | Ask]:
    """`importance` for a given task and size; both are required."""
    check_needed("relevance", brief.settings, brief.task)
    return importance(brief)


def explain(brief: Brief) -> list[Score]:
    """Every message of the page with its score, its factors, and whether it would be hidden.
    Changes nothing."""
    page_units = units(brief.slots)
    factors = factors_of(brief, page_units)
    values = weighed(factors, _weights(brief))
    hidden = _indices_to_hide(brief, page_units, values)
    return [
        Score(
            seq=slot.seq,
            tokens=slot.tokens,
            score=values[index],
            factors={name: column[index] for name, column in factors.items()},
            goes=index in hidden,
        )
        for index, slot in enumerate(brief.slots)
    ]


def _weights(brief: Brief) -> dict[str, float]:
    """The factor weights, normalized to sum to 1."""
    overrides = brief.setting("weights", {})
    is_valid = all(isinstance(weight, int | float) and weight >= 0 for weight in overrides.values())
    if not is_valid or not overrides.keys() <= WEIGHTS.keys():
        hint = f"use non-negative numbers for: {', '.join(WEIGHTS)}"
        raise Invalid(f"invalid weights: {shown(overrides)}", hint=hint)
    weights: dict[str, float] = {**WEIGHTS, **overrides}
    if not brief.task.strip():
        weights["keywords"] = 0.0  # no task, no keywords to match
    total = sum(weights.values()) or 1.0
    return {name: weight / total for name, weight in weights.items() if weight}


def _is_summarized(brief: Brief) -> bool:
    """Whether removed messages are summarized instead of hidden."""
    rest: str = brief.setting("rest", "hide")
    check_choice("unknown value of rest:", rest, RESTS)
    return rest == "summarize"


def _reason(view: View, values: Sequence[float], run: range) -> str:
    """The reason for removing a run: the scores of its messages, or their range if there are
    many."""
    slots = [(index, view.slots[index]) for index in run]
    scores = {slot.seq: values[index] for index, slot in slots if not is_notice(slot)}
    if not scores:
        return REASON
    lowest, highest = min(scores.values()), max(scores.values())
    if len(scores) == 1:
        return f"{REASON} ({lowest:.2f})"
    if len(scores) > SCORES_LISTED:
        return f"{REASON} ({lowest:.2f} to {highest:.2f})"
    return f"{REASON} ({', '.join(f'#{seq} {score:.2f}' for seq, score in scores.items())})"


# --- the choice ---


def _indices_to_hide(
    brief: Brief, page_units: Sequence[range], values: Sequence[float]
) -> set[int]:
    """The indices of the messages to remove."""
    view = brief.view
    stays = staying(view, page_units).union(newest_work(view, page_units))
    stays.update(index for index, slot in enumerate(view.slots) if is_notice(slot))
    free = [unit for unit in page_units if stays.isdisjoint(unit)]
    # The free units among the last `keep_recent` messages; 0 means none.
    start = len(view.slots) - brief.setting("keep_recent", recent_messages(brief.config))
    recent = {unit for unit in free if unit.stop > start}
    older = [unit for unit in free if unit not in recent]
    if brief.setting("preset", "") == "threshold" or "threshold" in brief.settings:
        threshold: float = brief.setting("threshold", THRESHOLD)
        if not 0 <= threshold <= 1:
            raise Invalid(f"invalid threshold: {threshold}", hint="use a number from 0 to 1")
        least = round(threshold, DIGITS)
        chosen = [unit for unit in older if round(_value(values, unit), DIGITS) < least]
    else:
        chosen = _crowded_out(brief, values, older, recent)
    return set(chain.from_iterable(chosen))


def _value(values: Sequence[float], unit: range) -> float:
    """The value of a unit's best message: a call and its result stay or go together."""
    return max(values[unit.start : unit.stop])


def _crowded_out(
    brief: Brief, values: Sequence[float], older: Sequence[range], recent: Iterable[range]
) -> list[range]:
    """The units that do not fit: the newest get room first, then the best by value per token; the
    older unit wins a tie."""
    view = brief.view
    sizes = {unit: run_tokens(view.slots, unit) for unit in (*older, *recent)}
    total = sum(sizes.values())
    fixed = view.system_tokens + view.tools_tokens
    slots_max: int = brief.setting("max_tokens", max(0, brief.target - fixed))
    room = slots_max - view.slot_tokens + total
    if room >= total:
        return []
    # The stand-in is a summary, or a notice that absorbs earlier notices.
    if _is_summarized(brief):
        room -= cap_tokens(brief.budget.window)
    else:
        notice = notice_tokens(brief, _HANDLES_EXPECTED)
        room -= max(0, notice - shown_notice_tokens(view.slots))

    def by_density(unit: range) -> tuple[float, int]:
        density = _value(values, unit) ** POWER / (sizes[unit] + UNIT_TOKENS)
        return -density, unit.start

    newest_first = sorted(recent, key=lambda unit: -unit.start)
    crowded_out: list[range] = []
    for unit in (*newest_first, *sorted(older, key=by_density)):
        if sizes[unit] <= room:
            room -= sizes[unit]
        else:
            crowded_out.append(unit)
    return crowded_out


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
OPEN_UNITS = 8  # names in this many of the newest units count as open
# Only the beginning and the end of long text are read, so the cost of a page does not depend on the
# length of its results.
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


def factors_of(brief: Brief, page_units: Sequence[range]) -> dict[str, list[float]]:
    """The value of each factor for each slot, from 0 to 1."""
    slots = brief.slots
    texts = [text_looked_at(slot.message) for slot in slots]
    lowers = [text.lower() for text in texts]
    worked = [success(slot.message) for slot in slots]
    names = [names_in(text[:NAMED_CHARS]) for text in texts]
    references, still_open = _references(page_units, names)
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
    """The scores: the weighted power mean of the factors. The power keeps a message that excels in
    a few factors from being lost among mediocre ones: a user's first message scores 0.6 or more,
    plain narration less."""
    scores = [0.0] * len(factors["role"])
    for name, share in weights.items():
        for index, value in enumerate(factors[name]):
            scores[index] += share * value**POWER
    return [score ** (1 / POWER) for score in scores]


def _references(
    page_units: Sequence[range], names: Sequence[set[str]]
) -> tuple[list[float], list[float]]:
    """For each message, a value for how often later units use its names, and whether the newest
    units do."""
    references, still_open = [0.0] * len(names), [0.0] * len(names)
    used: dict[str, int] = {}
    newest: set[str] = set()
    for age, unit in enumerate(reversed(page_units)):
        for index in unit:
            if names[index]:
                references[index] = 1 - 0.5 ** max(used.get(name, 0) for name in names[index])
                still_open[index] = float(not newest.isdisjoint(names[index]))
        in_unit = set[str]().union(*names[unit.start : unit.stop])
        for name in in_unit:
            used[name] = used.get(name, 0) + 1
        if age < OPEN_UNITS:
            newest |= in_unit
    return references, still_open


def _novelty(texts: Sequence[str], worked: Sequence[float]) -> list[float]:
    """0 for text that a later message repeats, else 1. Of equal outputs of a failed and a
    successful tool, the failed one gets 0, even if it is later."""
    best: dict[str, int] = {}  # for each text, the last of its most successful messages
    for index, text in enumerate(texts):
        if worked[index] >= worked[best.get(text, index)]:
            best[text] = index
    return [float(best[text] == index) for index, text in enumerate(texts)]


# --- factors of one message ---


def text_looked_at(message: Message) -> str:
    """The text of a message, without the middle if it is long."""
    text = "\n".join(map(text_of, message.blocks))
    return text if len(text) <= HEAD + TAIL else text[:HEAD] + "\n" + text[-TAIL:]


def marks(lower: str) -> float:
    """1.0 for text with a decision, 0.8 for a plan, 0.6 for an error, 0 for other text."""
    for phrases, worth in ((DECISIONS, 1.0), (PLANS, 0.8), (ERRORS, 0.6)):
        if any(phrase in lower for phrase in phrases):
            return worth
    return 0.0


def emphasis(role: Role, text: str) -> float:
    """The emphasis of a user: 1 for an emphatic phrase, 0.5 for an exclamation mark or a word in
    capitals; 0 for any other role."""
    if role != "user":
        return 0.0
    lower = text.lower()
    if any(phrase in lower for phrase in STRESSED):
        return 1.0
    is_loud = "!" in text or any(len(word) > 3 and word.isupper() for word in text.split())
    return 0.5 if is_loud else 0.0


def success(message: Message) -> float:
    """1 for tools that worked, 0 for tools that failed, 0.5 for a message without tool results."""
    failures = [block.is_error for block in message.blocks if isinstance(block, ToolResult)]
    return 1 - sum(failures) / len(failures) if failures else 0.5


def names_in(text: str) -> set[str]:
    """The file names and artifacts in the text. Only the last part of a path counts, since paths
    may be relative to different folders. Searching for dots is ten times as fast as searching for
    names."""
    names = {name.rstrip("-") for name in ARTIFACT.findall(text)} if "art-" in text else set()
    at = text.find(".")
    while at >= 0 and len(names) < NAMES_MAX:
        extension = NAME.match(text, at + 1)
        stem = NAME.match(text[max(0, at - NAME_CHARS) : at][::-1])  # read backwards from the dot
        if extension and stem:
            names.add(f"{stem[0][::-1]}.{extension[0]}")
        at = text.find(".", extension.end() if extension else at + 1)
    return names


def task_shares(task: str, texts: Sequence[str], lowers: Sequence[str]) -> list[float]:
    """The share of the task's words that each text has; rare words count more. All 0 without a
    task."""
    hits = [mentioning(word, texts, lowers) for word in dict.fromkeys(words(task))]
    weights = [weight(len(indices), len(texts)) for indices in hits]
    total = sum(weights)
    shares = [0.0] * len(texts)
    for indices, each in zip(hits, weights):
        for index in indices:
            shares[index] += each / total
    return [min(1.0, share) for share in shares]
