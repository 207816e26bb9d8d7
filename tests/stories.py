"""Stories: a conversation grows by chance, and everything that can be done to it is done, in an
order drawn by a seed.

After every step the page must obey every law, fit, and be a request that every provider would take
(`checked`). A story is told again exactly by its seed. Neighbours: `strategies.talks` draws the
conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import refold
from refold import dialects
from refold.core.budget import current_tokens
from refold.core.codec import decode
from refold.core.laws import broken
from refold.core.model import Message, ToolCall
from refold.errors import OverBudget
from refold.stores import open_store
from refold.strategies.protected_messages import protected
from refold.strategies.registry import BUILT_IN
from tests.scripted import GOOD, Scripted
from tests.strategies.talks import by_chance, said
from tests.strategies.test_presets import CASES

Arrangement = tuple[tuple[str, ...], dict[str, Any]]

# Every strategy alone, every preset, and ladders of all of them.
ARRANGEMENTS: dict[str, Arrangement] = {
    **{name: ((name,), {}) for name in BUILT_IN},
    **{case: ((strategy.__name__,), dict(options)) for case, (strategy, options) in CASES.items()},
    "the configured ladder": ((), {}),
    "every strategy": (tuple(BUILT_IN), {"max_tokens": 500, "task": "fix the login"}),
    "every strategy, the other way round": (
        tuple(reversed(BUILT_IN)),
        {"max_tokens": 500, "task": "fix the login"},
    ),
    "clear, gist": (("clear", "gist"), {}),
    "summarize, hide": (("summarize", "hide"), {}),
    "window, gist, summarize": (("window", "gist", "summarize"), {}),
    "summarize, few kept": (("summarize",), {"keep": 2}),
}
WINDOWS = (3_000, 8_000, 32_000)
MODELS = ("claude-sonnet-4-5", "gpt-4o", "claude-3-opus", "gemini-2.5-pro", "somebody/unknown")
# With a limit of its own: the windows of these stories leave no room for a budget.
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 2_048}
REFUSALS = (
    "prompt is too long: 9000 tokens > 2500 maximum",
    "This model's maximum context length is 6000 tokens.",
    "context_length_exceeded",
)


# --- what must hold ---


def checked(context: refold.Context) -> int:
    """How many requests could be made. Every one is valid by the dialect's own rules and fits;
    the page is lawful."""
    made = 0
    for name in dialects.DIALECTS:
        try:
            request = context.request(name)
        except OverBudget:
            assert _cannot_fit(context), "refused although it could be made to fit"
            continue
        assert dialects.dialect(name).check(request) == [], name
        if name == "anthropic":
            assert dialects.dialect(name).check(context.request(name, **THINKING)) == []
        made += 1
    view, budget = context.view, context.budget
    assert broken(view) == []
    assert current_tokens(view, budget.factor) <= budget.window or _cannot_fit(context)
    return made


def _cannot_fit(context: refold.Context) -> bool:
    """Whether what must stay is too much by itself: system, tools, pins, the latest request,
    what belongs to them."""
    view = context.view
    held = protected(view)
    stays = (
        view.system_tokens
        + view.tools_tokens
        + sum(slot.tokens for slot in view.slots if slot.seq in held)
    )
    return stays * context.budget.factor > context.budget.compact_at or not context.config.auto


# --- what happens ---


class Story:
    """One conversation, and what is done to it. `chance` decides everything."""

    def __init__(
        self, seed: int, arrangement: Arrangement, parts: Iterator[Message] | None = None
    ) -> None:
        self.chance = chance = Random(seed)
        self.strategies, self.settings = arrangement
        self.parts = parts or _drawn(chance)
        self.store, self.forks = open_store("memory:"), 0
        self.per_token = chance.choice(
            (0.7, 1.0, 1.4)
        )  # what the provider counts for one token of ours
        self.given: dict[str, Any] = {
            "config": refold.Config(auto=chance.random() < 0.9, keep_recent=chance.choice((2, 10))),
            "writer": Scripted(GOOD, "", GOOD) if chance.random() < 0.3 else None,
        }
        self.context = refold.Context(
            self.store,
            "story",
            window=chance.choice(WINDOWS),
            model=chance.choice((None, *MODELS)),
            system="Be brief." if chance.random() < 0.5 else None,
            **self.given,
        )
        self.context.append(
            said("user", "Fix the login.")
        )  # whatever comes then, somebody asked for something

    def told(self, steps: int) -> int:
        """Tells it: first what every story has, then steps by chance. Gives the number of
        requests that were made."""
        always = (
            self.grow,
            self.compact,
            self.grow,
            self.compact,
            self.undo,
            self.grow,
            self.restore,
            self.switch,
        )
        made = 0
        for step in (*always, *(self.chance.choice(self.steps()) for _ in range(steps))):
            step()
            made += checked(self.context) if step != self.grow else 0
        return made

    def steps(self) -> Sequence[Callable[[], object]]:
        return (
            self.grow,
            self.grow,
            self.compact,
            self.compact,
            self.undo,
            self.revert,
            self.restore,
            self.switch,
            self.pin,
            self.recover,
            self.report,
            self.break_off,
            self.reopen,
            self.fork,
        )

    def grow(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            message = next(self.parts, None)
            if message is not None:
                self.context.append(message)

    def compact(self) -> None:
        current = self.context.stats().current
        target = self.chance.choice((None, 0, current // 4, current // 2))
        task = self.settings.get("task", "")
        settings = {name: value for name, value in self.settings.items() if name != "task"}
        before = self.context.view
        receipt = self.context.compact(*self.strategies, target=target, task=task, **settings)
        assert not any(step.note for step in receipt.steps), "no rung had to be refused"
        assert broken(self.context.view) == []
        assert receipt.batch or self.context.view.slots == before.slots

    def undo(self) -> None:
        """What was undone is back when it is redone, slot for slot."""
        before = self.context.view.slots
        if self.context.undo() and self.chance.random() < 0.5:
            self.context.redo()
            assert self.context.view.slots == before

    def revert(self) -> None:
        batches = [batch for _, batch in self.context.view.undoable if batch]
        if batches:
            self.context.undo(self.chance.choice(batches))

    def restore(self) -> None:
        self.context.restore(
            self.chance.randint(self.context.view.head // 2, self.context.view.head)
        )

    def switch(self) -> None:
        self.context.update(model=self.chance.choice(MODELS), window=self.chance.choice(WINDOWS))

    def pin(self) -> None:
        slots = [slot for slot in self.context.view.slots if not slot.standin and slot.tokens < 300]
        if slots:
            is_pinned = self.chance.random() < 0.6
            self.context.pin(self.chance.choice(slots).seq, on=is_pinned)

    def recover(self) -> None:
        with suppress(OverBudget):  # refused twice, or nothing can go: the caller is told
            assert self.context.recover(self.chance.choice(REFUSALS))

    def report(self) -> None:
        """A reply to the page with the provider's own count of it, which is not ours."""
        with suppress(OverBudget):
            self.context.request("openai_chat")
        size = round(self.context.view.tokens * self.per_token)
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "done"},
        }
        usage = {"prompt_tokens": size, "completion_tokens": 1, "total_tokens": size + 1}
        self.context.record(
            {
                "id": f"r{self.chance.random()}",
                "object": "chat.completion",
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        )

    def break_off(self) -> None:
        """A call that is never answered, and a user who goes on."""
        id = f"open{self.chance.random()}"
        self.context.append(
            Message(role="assistant", blocks=(ToolCall(id, "run", {"command": "wait"}),))
        )
        if self.chance.random() < 0.7:
            self.context.append(said("user", "never mind, go on"))
        if self.chance.random() < 0.3:
            self.context.append_result(id, "late " * self.chance.randint(1, 400))

    def reopen(self) -> None:
        before = self.context.view.slots
        window, conversation = self.context._model.window, self.context.id
        self.context.close()
        self.context = refold.Context(self.store, conversation, window=window, **self.given)
        assert self.context.view.slots == before

    def fork(self) -> None:
        self.forks += 1
        self.context = self.context.fork(f"story-{self.forks}")


def _drawn(chance: Random) -> Iterator[Message]:
    """Messages without end: as ours or as they come from a provider, now and then out of order."""
    while True:
        log = by_chance(chance.randrange(10**6), 4)
        messages = [body for event in log if isinstance(body := decode(event), Message)]
        name = chance.choice((None, *dialects.DIALECTS))
        came = messages if name is None else list(from_wire(messages, name))
        yield from scrambled(came, chance) if chance.random() < 0.2 else came


def scrambled(messages: Sequence[Message], chance: Random) -> list[Message]:
    """The messages with some lost, some twice, some in another place: results without calls,
    calls without results."""
    out: list[Message] = []
    for message in messages:
        out += [message] * chance.choice((0, 1, 1, 1, 1, 2))
        if len(out) > 1 and chance.random() < 0.15:
            out[-1], out[-2] = out[-2], out[-1]
    return out


def from_wire(messages: Sequence[Message], name: str) -> Iterator[Message]:
    """The messages after a way through a provider's wire format."""
    dialect = dialects.dialect(name)
    for wire in dialect.render(messages, []):
        yield from dialect.parse(wire)
