"""What is worth its room stays: every message gets a score from 0 to 1 by code, and whole units compete by value.

The score asks who spoke, how far back, whether it holds a decision, a plan or an error, whether later messages use its
names, what the user stressed, whether the tool worked, whether it is about the task, and whether it is said again.
Position counts for age, not hours: a weekend changes nothing. `importance` frees what the target asks for, or hides
all below a `threshold`; `relevance` does the same to a size of its own for a task. `explain` gives every score with
its factors. Neighbours: `words` finds the task's words, `hide` hides with one notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from refold.core.fold import text_of
from refold.core.laws import units
from refold.core.model import Edit, Message, Role, Span, ToolResult
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, text_tokens
from refold.strategies.hide import hidden, is_notice, newest_work, notice_of, staying
from refold.strategies.words import mentioning, weight, words

ROLES: dict[Role, float] = {"user": 1.0, "assistant": 0.6, "tool": 0.4, "system": 0.2}
WEIGHTS: dict[str, float] = {
    "role": 1.0, "recency": 1.5, "marks": 1.0, "references": 1.5, "open": 0.5, "emphasis": 0.5, "success": 0.5,
    "keywords": 2.0, "novelty": 1.0,
}  # fmt: skip
THRESHOLD = 0.6
OPEN_UNITS = 8
# Added to every unit's size, so that a heap of tiny messages does not push out one that says something.
UNIT_TOKENS = 32
# Only the beginning and the end of a long text are looked at: a page costs the same however long its results are.
HEAD, TAIL = 1_500, 500
NAMED_CHARS, NAMES_MAX, NAME_CHARS = 400, 16, 48
NAME, ARTIFACT = re.compile(r"[\w-]+"), re.compile(r"\bart-[\w-]+")
DECISIONS = ("decid", "instead of", "must ", "root cause", "conclu")
PLANS = ("plan", "todo", "next step", "[ ]")
ERRORS = ("error", "exception", "traceback", "fail")
STRESSED = ("important", "must", "never", "always", "do not", "don't", "critical", "make sure", "only ")


class Score(Struct, frozen=True, kw_only=True):
    """What a message is worth, from 0 to 1, and why; `goes` says whether it would be hidden."""

    seq: int
    tokens: int
    score: float
    factors: dict[str, float]
    goes: bool = False


def importance(brief: Brief) -> list[Edit | Ask]:
    """Hides the units of least value per token until the page fits, or all below the `threshold`."""
    if brief.view.tokens <= brief.setting("trigger_tokens", 0):
        return []
    whole = units(brief.view.slots)
    return hidden(brief, _going(brief, whole, weighed(factors_of(brief, whole), _weights(brief))), "least important")


def relevance(brief: Brief) -> list[Edit | Ask]:
    """`importance` for a task, to a size: both must be given."""
    if not brief.task.strip():
        raise Invalid("relevance without a task", hint="say what the agent works on: task=…")
    if "max_tokens" not in brief.settings:
        raise Invalid("relevance without a size", hint="set max_tokens")
    return importance(brief)


def explain(brief: Brief) -> list[Score]:
    """Every message of the page with its score, its factors, and whether it would go. Changes nothing."""
    whole = units(brief.view.slots)
    factors = factors_of(brief, whole)
    values = weighed(factors, _weights(brief))
    going = _going(brief, whole, values)
    return [
        Score(
            seq=slot.seq, tokens=slot.tokens, score=values[index], goes=index in going,
            factors={name: column[index] for name, column in factors.items()},
        )
        for index, slot in enumerate(brief.view.slots)
    ]  # fmt: skip


# --- the choice ----------------------------------------------------------------------------------------------------


def _going(brief: Brief, whole: Sequence[range], values: Sequence[float]) -> set[int]:
    view = brief.view
    stays = staying(view, whole).union(newest_work(view, whole))
    stays.update(index for index, slot in enumerate(view.slots) if is_notice(slot))
    free = [unit for unit in whole if stays.isdisjoint(unit)]
    recent = _recent(brief, free)
    older = [unit for unit in free if unit not in recent]
    if brief.setting("preset", "") == "threshold" or "threshold" in brief.settings:
        threshold = brief.setting("threshold", THRESHOLD)
        chosen = [unit for unit in older if _value(values, unit) < threshold]
    else:
        chosen = _crowded_out(brief, values, older, recent)
    return {index for unit in chosen for index in unit}


def _value(values: Sequence[float], unit: range) -> float:
    """A unit is worth what its best message is worth: a call goes or stays with its result."""
    return max(values[unit.start : unit.stop])


def _recent(brief: Brief, free: Sequence[range]) -> set[range]:
    """The free units among the last `keep_recent` messages; 0 means none."""
    start = len(brief.view.slots) - brief.setting("keep_recent", brief.config.keep_recent)
    return {unit for unit in free if unit.stop > start}


def _crowded_out(brief: Brief, values: Sequence[float], older: Sequence[range], recent: Iterable[range]) -> list[range]:
    """What does not fit: first the newest find room, then the best by value per token."""
    slots = brief.view.slots
    newest_first = sorted(recent, key=lambda unit: -unit.start)
    sizes = {unit: sum(slots[index].tokens for index in unit) for unit in (*older, *newest_first)}
    best = sorted(older, key=lambda unit: (-_value(values, unit) / (sizes[unit] + UNIT_TOKENS), unit.start))
    room = _room(brief) - brief.view.slot_tokens + sum(sizes.values())
    if room >= sum(sizes.values()):
        return []
    room -= _notice_tokens(brief)
    out: list[range] = []
    for unit in (*newest_first, *best):
        if sizes[unit] <= room:
            room -= sizes[unit]
        else:
            out.append(unit)
    return out


def _room(brief: Brief) -> int:
    """How large the slots may be together: `max_tokens`, or what the target leaves beside system and tools."""
    view = brief.view
    fixed = view.system_tokens + view.tools_tokens
    most: int = brief.setting("max_tokens", max(0, brief.target - fixed))
    return most


def _notice_tokens(brief: Brief) -> int:
    """What the new notice adds beside the notices it takes in."""
    view = brief.view
    notice = notice_of(len(view.slots), [Span(view.head, view.head)] * 4)
    taken = sum(slot.tokens for slot in view.slots if is_notice(slot))
    return max(0, text_tokens(brief.count, notice) - taken)


# --- the scores ----------------------------------------------------------------------------------------------------


def factors_of(brief: Brief, whole: Sequence[range]) -> dict[str, list[float]]:
    """For every factor its value from 0 to 1 for each slot; `whole` are the units of the page."""
    slots = brief.view.slots
    texts = [text_looked_at(slot.message) for slot in slots]
    lowers = [text.lower() for text in texts]
    references, still_open = _references(whole, texts)
    return {
        "role": [1.0 if slot.standin else ROLES[slot.message.role] for slot in slots],
        "recency": [index / len(slots) for index in range(1, len(slots) + 1)],
        "marks": [marks(lower) for lower in lowers],
        "references": references,
        "open": still_open,
        "emphasis": [emphasis(text) if slot.message.role == "user" else 0.0 for slot, text in zip(slots, texts)],
        "success": [success(slot.message) for slot in slots],
        "keywords": task_shares(brief.task, texts, lowers),
        "novelty": _novelty(texts),
    }


def weighed(factors: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> list[float]:
    """The scores: the factors by their weights, which add up to 1."""
    scores = [0.0] * len(factors["role"])
    for name, each in weights.items():
        scores = [score + each * value for score, value in zip(scores, factors[name])]
    return scores


def _weights(brief: Brief) -> dict[str, float]:
    """The weights with the caller's changes, as parts of 1; without a task its words weigh nothing."""
    given = brief.setting("weights", {})
    unknown = sorted(set(given) - set(WEIGHTS))
    if unknown or any(each < 0 for each in given.values()):
        raise Invalid(f"weights are {given!r}", hint="known: " + ", ".join(WEIGHTS) + "; none below 0")
    weights = {**WEIGHTS, **given} if brief.task.strip() else {**WEIGHTS, **given, "keywords": 0.0}
    total = sum(weights.values()) or 1.0
    return {name: each / total for name, each in weights.items() if each}


def _references(whole: Sequence[range], texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """For each message how much its names are used later, and whether the newest units still use them."""
    used: dict[str, int] = {}
    references, still_open = [0.0] * len(texts), [0.0] * len(texts)
    newest: set[str] = set()
    for place, unit in enumerate(reversed(whole)):
        everything: set[str] = set()
        for index in unit:
            own = names_in(texts[index][:NAMED_CHARS])
            if own:
                references[index] = 1 - 0.5 ** max(used.get(name, 0) for name in own)
                still_open[index] = float(not newest.isdisjoint(own))
                everything |= own
        for name in everything:
            used[name] = used.get(name, 0) + 1
        if place < OPEN_UNITS:
            newest |= everything
    return references, still_open


def _novelty(texts: Sequence[str]) -> list[float]:
    """0 for what is said again later in the same words, else 1."""
    last = {text: index for index, text in enumerate(texts)}
    return [float(last[text] == index) for index, text in enumerate(texts)]


# --- what a message says by itself -----------------------------------------------------------------------------------


def text_looked_at(message: Message) -> str:
    """The text of a message, without the middle where it is long."""
    if len(message.blocks) == 1:
        text = text_of(message.blocks[0])
    else:
        text = "\n".join(map(text_of, message.blocks))
    return text if len(text) <= HEAD + TAIL else text[:HEAD] + "\n" + text[-TAIL:]


def marks(lower: str) -> float:
    """Whether a text holds a decision, a plan or an error, in this order of worth."""
    for signs, worth in ((DECISIONS, 1.0), (PLANS, 0.8), (ERRORS, 0.6)):
        for sign in signs:
            if sign in lower:
                return worth
    return 0.0


def emphasis(text: str) -> float:
    """Whether a user stressed something."""
    lower = text.lower()
    if any(mark in lower for mark in STRESSED):
        return 1.0
    return 0.5 if "!" in text or any(len(word) > 3 and word.isupper() for word in text.split()) else 0.0


def success(message: Message) -> float:
    """1 for tools that worked, 0 for tools that failed, between for what is no tool result."""
    results = [block.is_error for block in message.blocks if isinstance(block, ToolResult)]
    return 1 - sum(results) / len(results) if results else 0.5


def names_in(text: str) -> set[str]:
    """The file names and artifacts that a text speaks of. A path counts by its last part, since it is often written
    from another folder. Looking for the dot is ten times as fast as looking for names."""
    found = {name.rstrip("-") for name in ARTIFACT.findall(text)} if "art-" in text else set()
    at = text.find(".")
    while at >= 0 and len(found) < NAMES_MAX:
        behind = NAME.match(text, at + 1)
        before = NAME.match(text[max(0, at - NAME_CHARS) : at][::-1])
        if behind and before:
            found.add(f"{before[0][::-1]}.{behind[0]}")
        at = text.find(".", behind.end() if behind else at + 1)
    return found


def task_shares(task: str, texts: Sequence[str], lowers: Sequence[str]) -> list[float]:
    """For each text the part of the task's words that it has, rare words counting more; 0 for all without a task."""
    shares = [0.0] * len(texts)
    hits = {word: mentioning(word, texts, lowers) for word in dict.fromkeys(words(task))}
    weights = {word: weight(len(found), len(texts)) for word, found in hits.items()}
    total = sum(weights.values())
    for word, found in hits.items():
        for index in found:
            shares[index] += weights[word] / total
    return [min(1.0, share) for share in shares]
