"""Sessions replayed through policies, side by side, message by message; scores per policy and agent
family.

What is counted is said in `fidelity`. All policies see one session in step, so that what a turn
needs is worked out once and is the same for all. Neighbours: `needs` says what a turn needs,
`contenders` and `baselines` are the policies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

import refold
from bench.contenders import Oracle, contenders
from bench.sessions import (
    Message,
    family_of,
    opening_of,
    schema_words,
    session_of,
    text_of,
    tokens_of,
    tokens_of_all,
    tokens_of_text,
)
from refold.replay.needs import History, Need, Prompt, Recall
from refold.replay.policies import Policy
from refold.replay.run import faults_of, same_prefix

READ, WRITE = 0.1, 1.25
BUDGET_MIN = 4_000
OVERFLOW = 1.3  # a session must be that much longer than its budget
OPENING_MAX = 0.6
SESSION_NEEDS_MIN = 5

Policies = dict[str, Callable[[], Policy]]


# --- scores ---


@dataclass
class Bill:
    """What the prompts cost, and what was wrong with them."""

    cost: float = 0.0
    whole: float = 0.0  # the cost of sending everything
    breaks: int = 0
    prompts: int = 0
    cpu_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


@dataclass
class Score:
    recall: Recall = field(default_factory=Recall)
    bill: Bill = field(default_factory=Bill)

    def add(self, other: Score) -> None:
        for mine, others in ((self.recall, other.recall), (self.bill, other.bill)):
            for one in fields(mine):
                setattr(mine, one.name, getattr(mine, one.name) + getattr(others, one.name))

    @property
    def rich(self) -> float:
        return self.recall.rich / max(1, self.recall.tellable)

    @property
    def cost(self) -> float:
        return self.bill.cost / max(1.0, self.bill.whole)

    def row(self) -> dict[str, float]:
        recall, bill, needed = self.recall, self.bill, max(1, self.recall.needed)
        return {
            "rich": self.rich,
            "/sess.": sum(recall.parts) / max(1, len(recall.parts)),
            "line": recall.line / needed,
            "ref": recall.ref / needed,
            "around": recall.around / needed,
            "fresh": recall.fresh_met / max(1, recall.fresh),
            "cost": self.cost,
            "breaks": bill.breaks / max(1, bill.prompts),
            "faults": sum(bill.faults.values()),
            "ms/turn": 1_000 * bill.cpu_s / max(1, bill.prompts),
            "needed": recall.needed,
        }


Scores = dict[str, dict[str, Score]]  # by policy, by family


def pooled(families: dict[str, Score]) -> Score:
    total = Score()
    for score in families.values():
        total.add(score)
    return total


# --- one session ---


class Run:
    """One policy on one session."""

    def __init__(self, policy: Policy, budget: int) -> None:
        self.policy, self.budget, self.score = policy, budget, Score()
        self.previous: list[str] = []
        policy.start(budget)

    def observe(self, message: Message) -> None:
        began = time.process_time()
        self.policy.observe(message)
        self.score.bill.cpu_s += time.process_time() - began

    def turn(self, request: str, needs: Iterable[Need]) -> None:
        began = time.process_time()
        prompt = self._prompt()
        self.score.bill.cpu_s += time.process_time() - began
        texts = [message["role"] + "\0" + text_of(message) for message in prompt]
        self._charge(texts, [tokens_of(message) for message in prompt])
        self.score.bill.faults.update(faults_of(prompt, self.budget, request))
        if needs:
            page = Prompt("\n".join(texts))
            for need in needs:
                self.score.recall.weigh(page, need)

    def _prompt(self) -> list[Message]:
        """A policy that gives no prompt has failed the turn: that is a fault, and nothing of
        what it needs is there."""
        try:
            return self.policy.prompt()
        except refold.OverBudget:
            self.score.bill.faults["no prompt"] += 1
            return []

    def _charge(self, texts: list[str], sizes: list[int]) -> None:
        same = same_prefix(self.previous, texts)
        bill = self.score.bill
        bill.cost += READ * sum(sizes[:same]) + WRITE * sum(sizes[same:])
        bill.breaks += same < len(self.previous)
        bill.prompts += 1
        self.previous = texts

    def done(self) -> Score:
        recall = self.score.recall
        if recall.tellable >= SESSION_NEEDS_MIN:
            recall.parts.append(recall.rich / recall.tellable)
        return self.score


def replay(messages: list[Message], budget: int, policies: Policies) -> dict[str, Score]:
    """All policies side by side, so that what a turn needs is worked out once."""
    runs = {name: Run(make(), budget) for name, make in policies.items()}
    for run in runs.values():
        if isinstance(run.policy, Oracle):
            run.policy.foresee(needs_by_turn(messages))
    history = History(schema_words(messages))
    size = shown = 0
    request = ""
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            needs = history.needs_of(index, message) if size > budget else []
            asked = request if tokens_of_text(request) < budget // 4 else ""
            for run in runs.values():
                run.turn(asked, needs)
                run.score.bill.whole += READ * shown + WRITE * (size - shown)
            shown = size
        request = (message.get("content") or "") if message["role"] == "user" else request
        history.add(index, message)
        size += tokens_of(message)
        for run in runs.values():
            run.observe(message)
    return {name: run.done() for name, run in runs.items()}


def needs_by_turn(messages: list[Message]) -> list[tuple[int, list[str]]]:
    """What each action will need that was not seen lately: what the oracle knows."""
    history, found = History(schema_words(messages)), []
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index > 1:
            found.append((index, [need.name for need in history.needs_of(index, message)]))
        history.add(index, message)
    return found


# --- all sessions ---


def budget_of(messages: list[Message], share: float) -> int | None:
    """The budget of a session; None if it would not overflow, or its opening would fill the
    page."""
    size = tokens_of_all(messages)
    budget = max(BUDGET_MIN, int(size * share))
    opening = tokens_of_all(messages[: opening_of(messages)])
    return None if size < budget * OVERFLOW or opening > OPENING_MAX * budget else budget


def _one(path: Path, share: float, only: tuple[str, ...]) -> tuple[str, dict[str, Score]]:
    messages = session_of(path)
    budget = budget_of(messages, share)
    return family_of(path), replay(messages, budget, contenders(only)[0]) if budget else {}


def measured(paths: list[Path], share: float, only: Iterable[str] = (), jobs: int = 1) -> Scores:
    """The scores of all policies at one share, per family."""
    work = partial(_one, share=share, only=tuple(only))
    scores: Scores = {name: {} for name in contenders(only)[0]}
    if jobs == 1:
        found = map(work, paths)
        return _gathered(scores, found)
    with ProcessPoolExecutor(jobs) as pool:
        return _gathered(scores, pool.map(work, paths))


def _gathered(scores: Scores, found: Iterable[tuple[str, dict[str, Score]]]) -> Scores:
    for family, by_policy in found:
        for name, score in by_policy.items():
            scores[name].setdefault(family, Score()).add(score)
    return scores
