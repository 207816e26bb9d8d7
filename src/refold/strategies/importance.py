"""What is worth its room stays: every message gets a score from 0 to 1 by code, and whole units compete by value.

The score asks who spoke, how far back, whether it holds a decision, a plan or an error, whether later messages use its
names, what the user stressed, whether the tool worked, whether it is about the task, and whether it is said again.
Position counts for age, not hours: a weekend changes nothing. `importance` frees what the target asks for, or hides
all below a `threshold`; `relevance` does the same to a size of its own for a task. `explain` gives every score with
its factors. Neighbours: `words` finds the task's words, `hide` hides with one notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from refold.core.fold import text_of
from refold.core.laws import units
from refold.core.model import Edit, Message, Role, Slot, Span, ToolResult, View
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, text_tokens
from refold.strategies.hide import hidden, is_notice, newest_work, notice_of, staying
from refold.strategies.words import mentions, weight, words

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
NAMES_MAX = 48
DECISIONS = ("decid", "we will use", "instead of", "must ", "chose", "constraint", "root cause", "conclu")
PLANS = ("plan", "todo", "next step", "first,", "step 1", "[ ]", "remaining")
ERRORS = ("error", "exception", "traceback", "failed", "failure", "panic", "cannot ")
STRESSED = ("important", "must", "never", "always", "do not", "don't", "critical", "make sure", "only ")
_PUNCTUATION = "'`(),:;[]{}<>*!?=|.\\"
_QUOTES = str.maketrans("\"'`=(),", "       ")


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
    return hidden(brief, _going(brief, scores(brief)), "least important")


def relevance(brief: Brief) -> list[Edit | Ask]:
    """`importance` for a task, to a size: both must be given."""
    if not brief.task.strip():
        raise Invalid("relevance without a task", hint="say what the agent works on: task=…")
    if "max_tokens" not in brief.settings:
        raise Invalid("relevance without a size", hint="set max_tokens")
    return importance(brief)


def explain(brief: Brief) -> list[Score]:
    """Every message of the page with its score, its factors, and whether it would go. Changes nothing."""
    found = scores(brief)
    going = _going(brief, found)
    slots = brief.view.slots
    return [
        Score(seq=slot.seq, tokens=slot.tokens, score=one.score, factors=one.factors, goes=index in going)
        for index, (slot, one) in enumerate(zip(slots, found, strict=True))
    ]


# --- the choice ----------------------------------------------------------------------------------------------------


def _going(brief: Brief, found: Sequence[Score]) -> set[int]:
    view, stays = brief.view, staying(brief.view) | set(newest_work(brief.view))
    stays |= {index for index, slot in enumerate(view.slots) if is_notice(slot)}
    free = [unit for unit in units(view.slots) if stays.isdisjoint(unit)]
    recent = _recent(brief, free)
    older = [unit for unit in free if unit not in recent]
    if brief.setting("preset", "") == "threshold" or "threshold" in brief.settings:
        chosen = [unit for unit in older if _value(found, unit) < brief.setting("threshold", THRESHOLD)]
    else:
        chosen = _crowded_out(brief, found, older, recent)
    return {index for unit in chosen for index in unit}


def _value(found: Sequence[Score], unit: range) -> float:
    """A unit is worth what its best message is worth: a call goes or stays with its result."""
    return max(found[index].score for index in unit)


def _recent(brief: Brief, free: Sequence[range]) -> set[range]:
    """The free units among the last `keep_recent` messages; 0 means none."""
    start = len(brief.view.slots) - brief.setting("keep_recent", brief.config.keep_recent)
    return {unit for unit in free if unit.stop > start}


def _crowded_out(
    brief: Brief, found: Sequence[Score], older: Sequence[range], recent: Iterable[range]
) -> list[range]:
    """What does not fit: first the newest find room, then the best by value per token."""
    best = sorted(older, key=lambda unit: (-_value(found, unit) / (_size(brief.view, unit) + UNIT_TOKENS), unit.start))
    newest_first = sorted(recent, key=lambda unit: -unit.start)
    ranked = [*newest_first, *best]
    room = _room(brief) - brief.view.slot_tokens + sum(_size(brief.view, unit) for unit in ranked)
    if room >= sum(_size(brief.view, unit) for unit in ranked):
        return []
    room -= _notice_tokens(brief)
    out: list[range] = []
    for unit in ranked:
        size = _size(brief.view, unit)
        if size <= room:
            room -= size
        else:
            out.append(unit)
    return out


def _size(view: View, unit: range) -> int:
    return sum(view.slots[index].tokens for index in unit)


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


def scores(brief: Brief) -> list[Score]:
    """The score of every slot. One pass takes what a message says by itself, one more what others say of it."""
    slots = brief.view.slots
    texts = [text_looked_at(slot.message) for slot in slots]
    lowers = [text.lower() for text in texts]
    keywords = task_shares(brief.task, texts, lowers)
    references, still_open = _references(slots, texts)
    novelty = _novelty(texts)
    weights = _weights(brief)
    out: list[Score] = []
    for index, slot in enumerate(slots):
        factors = {
            "role": 1.0 if slot.standin else ROLES[slot.message.role],
            "recency": (index + 1) / len(slots),
            "marks": marks(lowers[index]),
            "references": references[index],
            "open": still_open[index],
            "emphasis": emphasis(texts[index], lowers[index]) if slot.message.role == "user" else 0.0,
            "success": success(slot.message),
            "keywords": keywords[index],
            "novelty": novelty[index],
        }
        out.append(Score(seq=slot.seq, tokens=slot.tokens, score=weighed(factors, weights), factors=factors))
    return out


def weighed(factors: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The factors by their weights, from 0 to 1."""
    total = sum(weights.values())
    return sum(factors[name] * each for name, each in weights.items()) / total if total > 0 else 0.0


def _weights(brief: Brief) -> dict[str, float]:
    """The weights with the caller's changes; without a task its words weigh nothing, for any message."""
    given = brief.setting("weights", {})
    unknown = sorted(set(given) - set(WEIGHTS))
    if unknown or any(each < 0 for each in given.values()):
        raise Invalid(f"weights are {given!r}", hint="known: " + ", ".join(WEIGHTS) + "; none below 0")
    weights = {**WEIGHTS, **given}
    return weights if brief.task.strip() else {**weights, "keywords": 0.0}


def _references(slots: Sequence[Slot], texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """For each slot how much its names are used later, and whether the newest units still use them."""
    used: dict[str, int] = {}
    references, still_open = [0.0] * len(slots), [0.0] * len(slots)
    all_units = units(slots)
    newest: set[str] = set()
    for place, unit in enumerate(reversed(all_units)):
        names = {index: names_in(texts[index]) for index in unit}
        for index, own in names.items():
            later = max((used.get(name, 0) for name in own), default=0)
            references[index] = 1 - 0.5**later
            still_open[index] = float(not newest.isdisjoint(own))
        everything = set().union(*names.values())
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
    if any(mark in lower for mark in DECISIONS):
        return 1.0
    if any(mark in lower for mark in PLANS):
        return 0.8
    return 0.6 if any(mark in lower for mark in ERRORS) else 0.0


def emphasis(text: str, lower: str) -> float:
    """Whether a user stressed something."""
    if any(mark in lower for mark in STRESSED):
        return 1.0
    return 0.5 if "!" in text or any(len(word) > 3 and word.isupper() for word in text.split()) else 0.0


def success(message: Message) -> float:
    """1 for tools that worked, 0 for tools that failed, between for what is no tool result."""
    results = [block.is_error for block in message.blocks if isinstance(block, ToolResult)]
    return 1 - sum(results) / len(results) if results else 0.5


def names_in(text: str) -> set[str]:
    """The file names, ids and artifacts that a text speaks of. A path counts by its last part, since it is often
    written from another folder."""
    found: set[str] = set()
    for word in text.translate(_QUOTES).split():
        if ("." in word or "/" in word or word[:4] == "art-") and len(word) > 3:
            name = word.strip(_PUNCTUATION).rsplit("/", 1)[-1]
            if len(name) > 3 and not name.isdigit():
                found.add(name)
                if len(found) >= NAMES_MAX:
                    break
    return found


def task_shares(task: str, texts: Sequence[str], lowers: Sequence[str]) -> list[float]:
    """For each text the part of the task's words that it has, rare words counting more; 0 for all without a task."""
    wanted = list(dict.fromkeys(words(task)))
    hits = {word: [mentions(text, lower, word) for text, lower in zip(texts, lowers)] for word in wanted}
    weights = {word: weight(sum(found), len(texts)) for word, found in hits.items()}
    total = sum(weights.values())
    if not total:
        return [0.0] * len(texts)
    return [sum(weights[word] for word in wanted if hits[word][index]) / total for index in range(len(texts))]
