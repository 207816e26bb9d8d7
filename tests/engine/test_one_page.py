"""One log, one page: what a live context sends, and what it decides, follows from the log.

Random stories by two writers on one store. After every step a context that is opened afresh, and
one on a copy of the log as it was before the request, must give the same request as the live one,
and the same answer to what is due.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.errors import Invalid, OverBudget
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.types import Writer

WINDOW = 4_000
MODELS = ("gpt-4o", "claude-opus-5-5", "gemini-2.5-pro", "claude-3-opus")
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
    "window",
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

    def __init__(self, store: Store, model: str | None) -> None:
        first = refold.open("c", store=store, model=model, window=WINDOW)
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
        context.update(model=MODELS[number % len(MODELS)], window=WINDOW)

    def _window(self, context: refold.Context, number: int) -> None:
        context.update(window=WINDOW + number)

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
            context.pin(seq, on=False)

    def _clear(self, context: refold.Context, number: int) -> None:
        context.clear(checkpoint=f"clear-{number}")


def opened(store: Store, id: str = "c", writer: Writer | None = None) -> refold.Context:
    """Nothing but the log says which model and window a known conversation has."""
    return refold.open(id, store=store, writer=writer)


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
@given(st.sampled_from([MODELS[0], None]), steps)
def test_a_live_context_and_a_reopened_one_agree_after_every_step(model, story):
    store = open_store("memory:")
    telling = Telling(store, model)
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


def test_a_late_result_reaches_the_model_and_reads_the_same_after_reopening(url):
    """A user types while a tool runs, and a request goes out before its result comes."""
    context = refold.open("x", store=url, model="gpt-4o")
    context.append({"role": "user", "content": "run the tests"})
    function = {"name": "bash", "arguments": "{}"}
    call = {"id": "t1", "type": "function", "function": function}
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append({"role": "user", "content": "by the way, use port 8443"})
    early = context.request()["messages"]
    context.append_result("t1", "17 passed")
    shown = context.request()["messages"]
    assert shown[: len(early)] == early
    assert [message["content"] for message in shown[2:]] == [
        "[no result recorded]",
        "by the way, use port 8443",
        "[late result of call t1 (bash)]\n17 passed",
    ]
    context.close()
    if not url.startswith("memory:"):
        assert refold.open("x", store=url).request()["messages"] == shown


def test_a_late_image_is_an_image():
    context = refold.open("x", store="memory:", model="claude-opus-4-8")
    context.append({"role": "user", "content": "look"})
    use = {"type": "tool_use", "id": "t1", "name": "screen", "input": {}}
    context.append({"role": "assistant", "content": [use]})
    context.append({"role": "user", "content": "quick!"})
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "text", "text": "here"}, {"type": "image", "source": source}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    context.append({"role": "user", "content": [result]})
    last = context.request("anthropic")["messages"][-1]["content"]
    late = [part for part in last if "late result" in part.get("text", "")]
    assert late[0]["text"] == "[late result of call t1 (screen)]\nhere"
    assert any(part["type"] == "image" and part["source"] == source for part in last)
    for dialect in DIALECTS:
        assert dialects.dialect(dialect).check(context.request(dialect)) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("way", ["clear", "restore", "stray", "empty"])
def test_a_page_without_a_message_is_refused_with_a_hint(way, dialect):
    context = refold.open("x", store="memory:", model="gpt-4o")
    if way in ("clear", "restore"):
        context.append({"role": "user", "content": "hi"})
    if way == "stray":
        context.append({"role": "tool", "tool_call_id": "nobody", "content": "x"})
    if way == "clear":
        context.clear()
    if way == "restore":
        context.restore(0)
    with pytest.raises(Invalid) as refused:
        context.request(dialect)
    assert refused.value.hint == "append a user message"
    context.append({"role": "user", "content": "again"})
    assert dialects.dialect(dialect).check(context.request(dialect)) == []


def test_a_restore_to_the_beginning_takes_model_system_and_tools_back():
    context = refold.open("x", store="memory:", model="gpt-4o", system="Be brief.")
    context.append({"role": "user", "content": "hi"})
    context.restore(0)
    assert (context.view.model, context.view.system, context.stats().model) == ("", None, "")
    context.undo()
    assert (context.view.system, context.stats().model) == ("Be brief.", "gpt-4o")


@pytest.mark.parametrize("change", [{"system": "Be kind."}, {"tools": [{"name": "t"}]}])
def test_bound_thinking_is_not_sent_after_system_or_tools_changed(change):
    context = refold.open("x", store="memory:", model="claude-opus-5-5", system="Be brief.")
    assert context._model.info.thinking_bound
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    reply = {"role": "assistant", "content": [thinking, {"type": "text", "text": "so"}]}
    context.append({"role": "user", "content": "a"})
    context.append(reply)
    context.append({"role": "user", "content": "b"})
    assert "sig" in json.dumps(context.request("anthropic")["messages"])
    context.update(**change)
    assert "sig" not in json.dumps(context.request("anthropic")["messages"])
    context.append(reply)
    assert "sig" in json.dumps(context.request("anthropic")["messages"])
