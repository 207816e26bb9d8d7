"""Moments of real sessions, each with the page that every policy would send and what the agent
then did.

A small model reads some 8,000 tokens, so long messages are shortened for all policies alike, and
the moment is the last turn at which all that was said so far still fits. The actions are the next
assistant turns with tool calls. What they need are names last seen some messages before the moment,
and nowhere after it but in the action. Neighbours: `likelihood` scores the pages; `needs`,
`baselines` and `contenders` give what is needed and the policies.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.sessions import (
    Message,
    family_of,
    names_in,
    schema_words,
    session_of,
    session_paths,
    text_of,
    tokens_of,
    tokens_of_all,
    tokens_of_text,
)
from refold.replay.needs import History, Need
from refold.replay.policies import Everything, Policy, Refold, SlidingWindow

TOKENS_MIN, TOKENS_MAX = 3_000, 4_200  # of all that came before a point; four characters each
TEXT_CHARS_MAX = 800
ACTION_CHARS_MAX = 360
ACTIONS = 6
SEEN_AGO = 6  # messages
NEEDS_MIN = 3
FLOOR_MAX = 0.5  # of the budget, for the task and the last step
ROOMY = 8  # times the budget: a window in which nothing is compacted by itself
CUT = "\n[…]\n"


# --- policies ---


class RefoldNow(Refold):
    """A page of the budget's size: everything compacted once, at this turn. Turn by turn a page is
    compacted to well below its window and grows again, so it is smaller than what others send."""

    def start(self, budget: int) -> None:
        super().start(ROOMY * budget)
        self.budget = budget

    def prompt(self) -> list[Message]:
        page = super().prompt()
        if tokens_of_all(page) <= self.budget:
            return page
        self.context.compact(target=self.budget)
        page = super().prompt()
        self.context.undo()
        return page


class TaskOnly(Everything):
    """The task, the latest request and the last step: what any agent would be sent at least."""

    def prompt(self) -> list[Message]:
        return self.shown(self.from_unit(max(0, len(self.units) - 1)))


class BagOfNames(TaskOnly):
    """The same, and the bare names of all that was seen, the newest first, as many as fit."""

    def prompt(self) -> list[Message]:
        page = super().prompt()
        left = self.budget - tokens_of_all(page)
        bag = {"role": "user", "content": "Seen so far: " + _fitting(self.log, left)}
        return [*page[: self.opening], bag, *page[self.opening :]]


def _fitting(log: list[Message], tokens: int) -> str:
    newest = (name for message in reversed(log) for name in sorted(names_in(text_of(message))))
    found = ""
    for name in dict.fromkeys(newest):
        longer = f"{found}, {name}" if found else name
        if tokens_of_text(longer) + 8 > tokens:
            break
        found = longer
    return found


POLICIES: dict[str, Callable[[], Policy]] = {
    "everything": Everything,
    "refold": RefoldNow,
    "bag of names": BagOfNames,
    "sliding window": SlidingWindow,
    "task only": TaskOnly,
}

TURN_BY_TURN: dict[str, Callable[[], Policy]] = {"refold, turn by turn": Refold}


# --- points ---


@dataclass
class Needed:
    """A name that an action uses, where in its text, and where it was seen last."""

    need: Need
    action: int
    start: int  # characters before it in the action's text
    ago: int  # messages
    source: Message


@dataclass
class Point:
    session: str
    messages: list[Message]  # all that came before
    budget: int
    actions: list[str]
    needed: list[Needed]

    def page(self, policy: Policy) -> list[Message]:
        """What a policy sends now, after it saw all before turn by turn."""
        policy.start(self.budget)
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant" and index > 1:
                policy.prompt()
            policy.observe(message)
        return policy.prompt()


def shortened(message: Message) -> Message:
    """A message whose text and arguments have at most so many characters each."""
    calls = [
        {**call, "arguments": _cut_arguments(call.get("arguments"))}
        for call in message.get("tool_calls") or ()
    ]
    content = cut(message.get("content") or "")
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}


def _cut_arguments(arguments: object) -> object:
    if isinstance(arguments, dict):
        return {name: _cut_arguments(value) for name, value in arguments.items()}
    return cut(arguments) if isinstance(arguments, str) else arguments


def cut(text: str, chars: int = TEXT_CHARS_MAX) -> str:
    """The beginning and the end of a text that is too long, two to one."""
    if len(text) <= chars:
        return text
    return text[: chars * 2 // 3] + CUT + text[-(chars // 3) :]


def point_of(name: str, session: list[Message], share: float) -> Point | None:
    """The last turn at which all before still fits; None if it needs too little, or the task and
    the last step leave no room to choose."""
    messages = list(map(shortened, session))
    at, size = _moment(messages)
    if size < TOKENS_MIN:
        return None
    point = Point(name, messages[:at], int(size * share), *_future(messages, at))
    least = tokens_of_all(point.page(TaskOnly()))
    return point if len(point.needed) >= NEEDS_MIN and least <= FLOOR_MAX * point.budget else None


def _acts(message: Message) -> bool:
    return message["role"] == "assistant" and bool(message.get("tool_calls"))


def _moment(messages: list[Message]) -> tuple[int, int]:
    size, found = 0, (0, 0)
    for index, message in enumerate(messages):
        if size > TOKENS_MAX:
            break
        if _acts(message):
            found = index, size
        size += tokens_of(message)
    return found


def _future(messages: list[Message], at: int) -> tuple[list[str], list[Needed]]:
    history = History(schema_words(messages))
    for index in range(at):
        history.add(index, messages[index])
    actions: list[str] = []
    needed: list[Needed] = []
    since: set[str] = set()
    for message in messages[at:]:
        if _acts(message):
            text = text_of(message)[:ACTION_CHARS_MAX]
            found = history.needs_of(at, {"role": "assistant", "content": text})
            for need in found:
                last = history.last[need.name]
                if need.name not in since and at - last > SEEN_AGO:
                    start = text.find(need.name)
                    needed.append(Needed(need, len(actions), start, at - last, messages[last]))
            actions.append(text)
        since |= names_in(text_of(message))
        if len(actions) == ACTIONS:
            break
    return actions, needed


def sampled(paths: Iterable[Path], count: int, seed: int) -> list[Path]:
    """The order in which sessions are tried: shuffled within each agent, then one of each in turn,
    `count` at most."""
    families: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        families[family_of(path)].append(path)
    shuffle = random.Random(seed).shuffle
    for family in sorted(families):
        shuffle(families[family])
    rounds = range(max(map(len, families.values()), default=0))
    order = [families[name][turn : turn + 1] for turn in rounds for name in sorted(families)]
    return [path for one in order for path in one][:count]


def points_in(folder: Path, count: int, seed: int, share: float) -> list[Point]:
    """So many points, of as many agents as there are; sessions without one are passed over."""
    paths = session_paths(folder)
    found: list[Point] = []
    for path in sampled(paths, len(paths), seed):
        if len(found) == count:
            break
        point = point_of(path.name.removesuffix(".jsonl.gz"), session_of(path), share)
        found += [point] if point else []
    return found
