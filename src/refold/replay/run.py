"""Plays one session through all policies, side by side, and finds what each would have sent, its
cost, its faults and its losses; or plays it through refold alone, in several windows at once.

Where the provider's reports are known, the agent's real prompts are billed as reported, and all
others in proportion (`scale`); otherwise a prompt counts as cached as far as it begins like the one
before. Once the session is longer than the window, or refold has folded, the names in a turn are
looked up in each prompt (`needs`): a name is kept if the prompt has a line that says something
about it. Neighbours: `policies`, `session`; `verdict` and `page` show the result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from refold.config import Config
from refold.core.model import Usage
from refold.dialects import dialect
from refold.engine.context import Context
from refold.errors import OverBudget
from refold.replay.needs import (
    History,
    Message,
    Need,
    Prompt,
    Recall,
    opening_of,
    schema_words,
    text_of,
    tokens_of,
    tokens_of_all,
    tokens_of_said,
    tokens_of_text,
)
from refold.replay.policies import BASELINES, Everything, Policy, Refold, plain
from refold.replay.scale import Scale, Sent, billed, scale_of, with_front
from refold.replay.session import SUMMARY, USAGE
from refold.tokens.models import cost, model_info

OURS, AGENT, ALL = "refold", "the agent's own", "everything"
FREE = frozenset({ALL, AGENT})  # not bound to the window, so no fault is counted
DIALECT = "openai_chat"
LOST_MAX = 50


class Turn(Struct, frozen=True):
    """One prompt: its size, its cached part, and whether it changed part of the prompt before."""

    tokens: int
    cached: int
    is_changed: bool


class Lost(Struct, frozen=True):
    """A name in a turn that the prompt no longer explained, and the line that had explained it."""

    turn: int
    name: str
    line: str


class Receipt(Struct, frozen=True):
    """One compaction of refold: the turn after it, and its effect."""

    turn: int
    strategy: str
    tokens_before: int
    tokens_after: int


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a policy on a session. `kept` is the share of needed names with a telling line
    in the prompt (None if there were none), `dollars` the cost of the calls. Where usage is
    recorded, sums and costs are over the calls that have it. `faulty` is the number of prompts with
    a fault (None if not counted), `faults` the number for each kind: one prompt may have
    several."""

    policy: str
    turns: list[Turn]
    sent: int
    cached: int
    changes: int
    dollars: float | None
    kept: float | None
    needed: int
    lost: list[Lost]
    faulty: int | None
    faults: dict[str, int]


class Replayed(Struct, frozen=True, kw_only=True):
    """A played session: its size, the window, `cap` (the page size at which refold compacts at the
    latest), each policy's outcome, and refold's receipts; all in the provider's tokens where usage
    is recorded (`calls` answers)."""

    messages: int
    tokens: int
    window: int
    cap: int
    model: str
    calls: int = 0
    outcomes: list[Outcome]
    receipts: list[Receipt]

    @property
    def sent(self) -> Outcome:
        """The prompts that the agent really sent: after its own compactions, or all messages."""
        return next((one for one in self.outcomes if one.policy == AGENT), self.outcome(ALL))

    def outcome(self, policy: str) -> Outcome:
        return next(one for one in self.outcomes if one.policy == policy)


class Kept(Struct):
    """Every prompt of every policy. Each message's text is stored once; a page is the number of
    messages that it shares with the page before, and the runs of messages after them (the first,
    and a count). `log` has the session's own messages, `seen` their number before each turn,
    `context` is refold's conversation at the end."""

    texts: dict[str, int] = field(default_factory=dict)
    pages: dict[str, list[tuple[int, list[tuple[int, int]]]]] = field(default_factory=dict)
    log: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    context: Context | None = None

    def number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def keep(self, policy: str, said: list[str], same: int) -> None:
        new = runs_of([self.number(text) for text in said[same:]])
        self.pages.setdefault(policy, []).append((same, new))


def runs_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers as runs: the first of each, and the count of consecutive ones."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        first, count = runs[-1] if runs else (-1, 0)
        if number == first + count and runs:
            runs[-1] = (first, count + 1)
        else:
            runs.append((number, 1))
    return runs


Rivals = Mapping[str, Callable[[], Everything]]  # other policies by name
Settings = Callable[[int], dict[str, Any]]  # refold's settings in a window


class AsTheAgent(Everything):
    """The agent's own compactions: its summary, and the messages after it."""

    def start(self, budget: int) -> None:
        super().start(budget)
        self.after = 0

    def observe(self, message: Message) -> None:
        if message.get(SUMMARY):
            self.after = len(self.log)
        super().observe(message)

    def prompt(self) -> list[Message]:
        systems = [one for one in self.log[: self.after] if one["role"] == "system"]
        return [*systems, *self.log[self.after :]]


class _Checked(Refold):
    """refold, with every request checked by its provider's rules, and its compactions noted."""

    def start(self, budget: int) -> None:
        super().start(budget)
        self.turn, self.is_invalid = 0, False
        self.shown: dict[int, tuple[Message, Message]] = {}  # of the newest request, by identity
        self.compacted: list[int] = []  # the turns
        self.context.on("compaction-complete", lambda _: self.compacted.append(self.turn))

    def observe(self, message: Message) -> None:
        if message["role"] == "system" and not self.context.view.slots:
            # An agent's system prompt: no compaction may shorten it.
            self.context.update(system=message["content"])
        else:
            super().observe(message)

    def prompt(self) -> list[Message]:
        self.turn += 1
        request = self.context.request(dialect=DIALECT)
        self.is_invalid = bool(dialect(DIALECT).check(request))
        before = self.shown
        shown = [before.get(id(one)) or (one, plain(one)) for one in request["messages"]]
        self.shown = {id(message): (message, made) for message, made in shown}
        return [made for _, made in shown]

    def receipts(self) -> list[Receipt]:
        """Its compactions, from its notices."""
        return [
            Receipt(turn, one.strategy, one.tokens_before, one.tokens_after)
            for turn, one in zip(self.compacted, self.context.log.batches())
        ]


class _Run:
    """One policy on one session."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        window: int,
        model: str,
        kept: Kept | None,
        read_once: ReadOnce,
    ) -> None:
        self.name, self.policy, self.window, self.model = name, policy, window, model
        self.kept, self.read_once = kept, read_once
        self.sent: list[Sent] = []
        self.changed: list[bool] = []
        self.lost: list[Lost] = []
        self.recall = Recall()
        self.wrong: set[str] = set()  # the faults of the newest prompt
        self.faulty = 0
        self.faults: dict[str, int] = {}
        self.previous: list[str] = []
        # The newest prompt as far as it was read: its messages, their sizes, and its faults.
        self.prompt: list[Message] = []
        self.said: list[str] = []
        self.sizes: list[int] = []
        self.user_first = model_info(model).dialect in USER_FIRST
        self.order = Order(user_first=self.user_first)
        policy.start(window)

    def observe(self, message: Message) -> None:
        self.policy.observe(message)

    def turn(self, request: str, needs: list[Need]) -> None:
        """Asks for a prompt and measures it: its size, its faults, its share of the needs."""
        self.wrong = set()
        self._read_on(self._prompt())
        said = self.said.copy()
        self._bill(said)
        self._count({*self.wrong, *self.order.faults(request)})
        if needs and self.name == ALL:  # a prompt with all messages meets every need
            told = sum(bool(need.telling) for need in needs)
            self.recall.tellable += told
            self.recall.rich += told
        elif needs:
            self._weigh(Prompt("\n".join(said)), needs)

    def _read_on(self, prompt: list[Message]) -> None:
        """Reads the part of a prompt after its common beginning with the one before."""
        known = len(self.prompt)
        if prompt[:known] != self.prompt:
            known, self.said, self.sizes = 0, [], []
            self.order = Order(user_first=self.user_first)
        new = prompt[known:]
        for read in map(self.read_once.read, new):
            self.said.append(read.said)
            self.sizes.append(read.tokens)
        self.order.extend(new)
        self.prompt = prompt.copy()

    def _bill(self, said: list[str]) -> None:
        sizes = self.sizes
        same, size = same_prefix(self.previous, said), sum(sizes)
        self.sent.append(Sent(size, sum(sizes[:same])))
        self.changed.append(same < len(self.previous))
        self.previous = said
        if self.kept is not None:
            self.kept.keep(self.name, said, same)
        if size > self.window:
            self.wrong.add("over budget")

    def _count(self, wrong: set[str]) -> None:
        if self.name in FREE:
            return
        self.faulty += bool(wrong)
        for fault in sorted(wrong):
            self.faults[fault] = self.faults.get(fault, 0) + 1

    def _prompt(self) -> list[Message]:
        try:
            prompt = self.policy.prompt()
        except OverBudget:
            self.wrong.add("no prompt")
            return []
        if isinstance(self.policy, _Checked) and self.policy.is_invalid:
            self.wrong.add("invalid request")
        return prompt

    def _weigh(self, prompt: Prompt, needs: list[Need]) -> None:
        for need in needs:
            before = self.recall.rich
            self.recall.weigh(prompt, need)
            if need.telling and self.recall.rich == before and len(self.lost) < LOST_MAX:
                self.lost.append(Lost(len(self.sent), need.name, need.telling[-1]))

    @property
    def has_folded(self) -> bool:
        """Whether refold, or the agent itself, has shortened a prompt."""
        match self.policy:
            case _Checked() as ours:
                return bool(ours.compacted)
            case AsTheAgent() as own:
                return own.after > 0
        return False

    def outcome(self, recorded: list[Sent], calls: list[Usage], scale: Scale) -> Outcome:
        usages = list(billed(self.sent, recorded, calls, scale))
        counted = [usage for usage, call in zip(usages, calls) if call.input or not scale.calls]
        recall = self.recall
        return Outcome(
            policy=self.name,
            turns=[
                Turn(usage.input, usage.cache_read, is_changed)
                for usage, is_changed in zip(usages, self.changed)
            ],
            sent=sum(usage.input for usage in counted),
            cached=sum(usage.cache_read for usage in counted),
            changes=sum(self.changed),
            dollars=self._dollars(counted),
            kept=recall.rich / recall.tellable if recall.tellable else None,
            needed=recall.tellable,
            lost=self.lost,
            faulty=None if self.name in FREE else self.faulty,
            faults=self.faults,
        )

    def _dollars(self, usages: list[Usage]) -> float | None:
        costs = [cost(model_info(usage.model or self.model), usage) for usage in usages]
        known = [one for one in costs if one is not None]
        return sum(known) if len(known) == len(costs) else None


class Read(Struct, frozen=True):
    """A measured message: its role, its text, and its size."""

    message: Message
    said: str
    tokens: int


class ReadOnce:
    """Reads each message once: policies repeat the same ones in prompt after prompt."""

    def __init__(self) -> None:
        self._read: dict[int, Read] = {}

    def read(self, message: Message) -> Read:
        found = self._read.get(id(message))
        if found is None:
            text = text_of(message)
            said = text.rstrip() if message["role"] == "system" else text  # without a blank front
            found = Read(message, f"{message['role']}\0{said}", tokens_of_said(text))
            # The message is kept too, so that no other object can get its id.
            self._read[id(message)] = found
        return found


def replay(
    messages: list[Message],
    window: int,
    model: str = "",
    progress: Callable[[int, int], Any] | None = None,
    kept: Kept | None = None,
    settings: Settings | None = None,
    rivals: Rivals = BASELINES,
) -> Replayed:
    """Plays the session through refold and its rivals. Every prompt is stored in `kept`, if it is
    given."""
    return _played(messages, (window,), model, progress, kept, settings, rivals)[0]


def replay_windows(
    messages: list[Message],
    windows: Sequence[int],
    model: str = "",
    progress: Callable[[int, int], Any] | None = None,
    settings: Settings | None = None,
) -> list[Replayed]:
    """Plays the session through refold in each of these windows, in one pass, and as it was
    sent."""
    return _played(messages, windows, model, progress, None, settings, {ALL: Everything})


def _played(
    messages: list[Message],
    windows: Sequence[int],
    model: str,
    progress: Callable[[int, int], Any] | None,
    kept: Kept | None,
    settings: Settings | None,
    rivals: Rivals,
) -> list[Replayed]:
    scale = scale_of(messages)
    player = _Player(with_front(messages, scale), windows, model, kept, scale, settings, rivals)
    for done, message in enumerate(player.messages, start=1):
        player.take(message)
        if progress is not None:
            progress(done, len(player.messages))
    blank = len(player.messages) - len(messages)
    return [player.replayed(window, blank) for window in windows]


class _Player:
    """All policies on one session, in step: the needs of a turn are computed once."""

    def __init__(
        self,
        messages: list[Message],
        windows: Sequence[int],
        model: str,
        kept: Kept | None,
        scale: Scale,
        settings: Settings | None,
        rivals: Rivals,
    ) -> None:
        said = [message for message in messages if not message.get(SUMMARY)]
        self.messages, self.model, self.kept, self.scale = messages, model, kept, scale
        self.read_once = ReadOnce()
        self.ours = {window: _Checked(**self._settings(window, settings)) for window in windows}
        # Policies without a window limit are weighed if there is only one window, or after a
        # compaction of their own.
        free = scale.ours(windows[0]) if len(windows) == 1 else sys.maxsize
        policies: list[tuple[str, Policy, int]] = [
            *((OURS, policy, scale.ours(window)) for window, policy in self.ours.items()),
            *((name, make(), free) for name, make in rivals.items()),
        ]
        if len(said) < len(messages):
            policies.append((AGENT, AsTheAgent(), free))
        self.runs = [
            _Run(name, policy, window, model, kept, self.read_once)
            for name, policy, window in policies
        ]
        self.history, self.opening = History(schema_words(said)), opening_of(said)
        self.calls: list[Usage] = []
        self.count = self.size = 0
        self.request = ""

    def _settings(self, window: int, settings: Settings | None) -> dict[str, Any]:
        """refold's settings, with its cap in our tokens."""
        chosen = settings(window) if settings is not None else {}
        self.cap = int(chosen.get("tokens_cap", Config().tokens_cap))
        return {**chosen, "tokens_cap": self.scale.ours(self.cap)}

    def take(self, message: Message) -> None:
        """Takes the next message; before a message of the assistant, every policy makes its
        prompt."""
        if message.get(SUMMARY):
            for run in self.runs:
                if run.name == AGENT:
                    run.observe(message)
            return
        if message["role"] == "assistant" and self.count >= self.opening:
            self._turn(message)
        if message["role"] == "user":
            self.request = str(message.get("content") or "")
        self.history.add(self.count, message)
        read = self.read_once.read(message)
        if self.kept is not None:
            self.kept.log.append(self.kept.number(read.said))
        self.size += read.tokens
        self.count += 1
        for run in self.runs:
            run.observe(message)

    def _turn(self, message: Message) -> None:
        self.calls.append(message.get(USAGE) or Usage(output=tokens_of(message)))
        folded = {run.window for run in self.runs if run.has_folded}
        due = [run for run in self.runs if self.size > run.window or run.window in folded]
        needs = self.history.needs_of(self.count, message) if due else []
        for run in self.runs:
            asked = self.request if tokens_of_text(self.request) < run.window // 4 else ""
            run.turn(asked, needs if run in due else [])
        if self.kept is not None:
            self.kept.seen.append(len(self.kept.log))

    def replayed(self, window: int, blank: int) -> Replayed:
        """The result in one window; `blank` messages are not the session's."""
        ours, scale = self.ours[window], self.scale
        if self.kept is not None:
            self.kept.context = ours.context
        sent = next(run.sent for name in (AGENT, ALL) for run in self.runs if run.name == name)
        runs = [run for run in self.runs if run.policy is ours or run.name != OURS]
        return Replayed(
            messages=self.count - blank,
            tokens=scale.real(self.size),
            window=window,
            cap=self.cap,
            model=self.model,
            calls=scale.calls,
            outcomes=[run.outcome(sent, self.calls, scale) for run in runs],
            receipts=[
                replace(
                    one,
                    tokens_before=scale.real(one.tokens_before),
                    tokens_after=scale.real(one.tokens_after),
                )
                for one in ours.receipts()
            ],
        )


ASKED_CHARS = 2_000  # the beginning of a request that identifies it
USER_FIRST = frozenset({"anthropic", "gemini"})  # dialects in which the user must speak first


def faults_of(prompt: list[Message], budget: int, request: str) -> list[str]:
    """The faults that a provider would refuse or a user would not forgive: excess length, and those
    that `Order` finds."""
    order = Order()
    order.extend(prompt)
    found = ["over budget"] if tokens_of_all(prompt) > budget else []
    return found + order.faults(request)


class Order:
    """Reads a prompt message by message; if a prompt grew, only its new part is read. Whether the
    user must speak first depends on the provider."""

    def __init__(self, *, user_first: bool = True) -> None:
        self._found: dict[str, None] = {}  # each once, in the order found
        self._asked: set[str] = set()
        self._waiting: set[str] = set()
        self._user_spoke = not user_first

    def faults(self, request: str) -> list[str]:
        """The faults of the prompt so far: a missing latest request, a result without its call, a
        call without its result, an assistant before any user. Each is named once."""
        is_missing = bool(request) and request[:ASKED_CHARS] not in self._asked
        return [*(["latest request missing"] if is_missing else []), *self._found]

    def extend(self, messages: Iterable[Message]) -> None:
        """Reads the next messages."""
        for message in messages:
            if message["role"] == "tool":
                call = message.get("tool_call_id", "")
                if call not in self._waiting:
                    self._found["orphaned result"] = None
                self._waiting.discard(call)
            else:
                self._say(message)

    def _say(self, message: Message) -> None:
        if self._waiting:
            self._found["unanswered call"] = None
        calls = message.get("tool_calls")
        self._waiting = {call["id"] for call in calls} if calls else set()
        if message["role"] == "user":
            self._user_spoke = True
            self._asked.add((message.get("content") or "")[:ASKED_CHARS])
        elif message["role"] == "assistant" and not self._user_spoke:
            self._found["assistant before user"] = None


def same_prefix(before: list[str], now: list[str]) -> int:
    """The number of messages at the beginning that a prompt shares with the one before."""
    if before == now[: len(before)]:
        return len(before)
    pairs = enumerate(zip(before, now))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(now)))
