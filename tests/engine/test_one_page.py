"""One log, one page: what a live context sends, and what it decides, follows from the log.

Random stories by two writers on one store. After every step a context that is opened afresh, and
one on a copy of the log as it was before the request, must give the same request as the live one,
and the same answer to what is due.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.errors import Invalid, OverBudget
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.types import Writer

WINDOW = 4_000
MODELS = ("gpt-4o", "claude-opus-4-8", "gemini-2.5-pro", "claude-3-opus")
DIALECTS = ("openai_chat", "anthropic", "gemini", "openai_responses")
WORDS = "a line of output that is long enough to count for something "

STEPS = (
    "say",
    "say",
    "reply",
    "think",
    "call",
    "call",
    "call",
    "result",
    "result",
    "result",
    "stray",
    "request",
    "request",
    "report",
    "compact",
    "undo",
    "undo",
    "redo",
    "restore",
    "model",
    "system",
    "tools",
    "pin",
    "unpin",
    "clear",
)
steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 1), st.integers(0, 1_000)), max_size=40
)


class Telling:
    """Two writers on one store, and every call that was made."""

    def __init__(self, store: Store) -> None:
        first = opened(store)
        self._say(first, 1)
        self.writers = [first, opened(store)]
        self.calls: list[str] = []
        self.ids = count()

    def tell(self, step: str, who: int, number: int) -> None:
        context = self.writers[who]
        getattr(self, f"_{step}")(context, number)
        context.flush()

    def _say(self, context: refold.Context, number: int) -> None:
        context.append({"role": "user", "content": f"{number} " + WORDS * (number % 60)})

    def _reply(self, context: refold.Context, number: int) -> None:
        context.append({"role": "assistant", "content": f"answer {number}"})

    def _think(self, context: refold.Context, number: int) -> None:
        thinking = {"type": "thinking", "thinking": "hm", "signature": f"sig{number}"}
        text = {"type": "text", "text": "so"}
        context.append({"role": "assistant", "content": [thinking, text]})

    def _call(self, context: refold.Context, number: int) -> None:
        made = [f"t{next(self.ids)}" for _ in range(1 + number % 3)]
        function = {"name": "bash", "arguments": "{}"}
        calls = [{"id": id, "type": "function", "function": function} for id in made]
        context.append({"role": "assistant", "content": None, "tool_calls": calls})
        self.calls += made

    def _result(self, context: refold.Context, number: int) -> None:
        if self.calls:
            call = self.calls[-1 - number % min(4, len(self.calls))]
            answer = {"role": "tool", "tool_call_id": call, "content": WORDS * (number % 60)}
            context.append(answer)

    def _stray(self, context: refold.Context, number: int) -> None:
        context.append({"role": "tool", "tool_call_id": f"nobody{number}", "content": "x"})

    def _request(self, context: refold.Context, number: int) -> None:
        answer_of(context, DIALECTS[number % 4])

    def _report(self, context: refold.Context, number: int) -> None:
        answer_of(context, None)
        context.record(
            {
                "id": f"r{next(self.ids)}",
                "object": "chat.completion",
                "model": "gpt-4o",
                "choices": [{"message": {"role": "assistant", "content": f"yes {number}"}}],
                "usage": {
                    "prompt_tokens": context.stats().current + number % 50,
                    "completion_tokens": 5,
                },
            }
        )

    def _compact(self, context: refold.Context, number: int) -> None:
        context.compact(target=number if number % 2 else None)

    def _undo(self, context: refold.Context, number: int) -> None:
        context.undo()

    def _redo(self, context: refold.Context, number: int) -> None:
        context.redo()

    def _restore(self, context: refold.Context, number: int) -> None:
        context.restore(number % (context.view.head + 1))

    def _model(self, context: refold.Context, number: int) -> None:
        context.update(model=MODELS[number % len(MODELS)])

    def _system(self, context: refold.Context, number: int) -> None:
        context.update(system=f"Be brief. {number}")

    def _tools(self, context: refold.Context, number: int) -> None:
        function = {"name": f"tool{number}", "parameters": {"type": "object", "properties": {}}}
        context.update(tools=[{"type": "function", "function": function}])

    def _pin(self, context: refold.Context, number: int) -> None:
        slots = [slot for slot in context.view.slots if not slot.standin and slot.tokens < 200]
        if slots:
            context.pin(slots[number % len(slots)].seq)

    def _unpin(self, context: refold.Context, number: int) -> None:
        for seq in sorted(context.view.pins)[:1]:
            context.unpin(seq)

    def _clear(self, context: refold.Context, number: int) -> None:
        context.clear(checkpoint=f"clear-{number}")


def opened(store: Store, id: str = "c", writer: Writer | None = None) -> refold.Context:
    return refold.open(id, store=store, window=WINDOW, writer=writer)


def answer_of(context: refold.Context, dialect: str | None) -> str:
    """The bytes of the next request, or the name of the error."""
    try:
        request = context.request(dialect)
    except (OverBudget, Invalid) as error:
        return type(error).__name__
    name = dialect or context._model.dialect()
    assert dialects.dialect(name).check(request) == []
    return json.dumps(request)


def facts_of(context: refold.Context) -> tuple[Any, ...]:
    stats = context.stats()
    return (stats.due, stats.due_reason, stats.current, stats.model, stats.compact_at, stats.level)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_a_live_context_and_a_reopened_one_agree_after_every_step(story):
    store = open_store("memory:")
    telling = Telling(store)
    for at, (step, who, number) in enumerate(story):
        telling.tell(step, who, number)
        live, other = telling.writers
        copy = f"copy-{at}"
        store.fork("c", live.view.head, copy)
        fresh = opened(store, copy)
        assert facts_of(live) == facts_of(other) == facts_of(fresh), (step, who, number)
        dialect = DIALECTS[number % 4]
        expected = answer_of(fresh, dialect)
        assert answer_of(live, dialect) == expected, (step, who, number)
        assert answer_of(live, dialect) == expected, (step, who, number)
        assert answer_of(other, dialect) == expected
        reopened = opened(store)
        assert answer_of(reopened, dialect) == expected
        assert facts_of(reopened) == facts_of(live) == facts_of(fresh)
