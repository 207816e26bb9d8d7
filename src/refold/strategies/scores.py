"""What a message is worth, factor by factor, each from 0 to 1, by code.

Who spoke, how far back, whether it holds a decision, a plan or an error, whether later messages use
its names, what the user stressed, whether the tool worked, whether it is about the task, and
whether it is said again. Position counts for age, not hours: a weekend changes nothing. Neighbours:
`importance` weighs the factors and chooses, `terms` finds the task's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from refold.core.model import Message, Role, ToolResult
from refold.core.shortened import text_of
from refold.strategies.brief import Brief
from refold.strategies.terms import mentioning, weight, words

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
