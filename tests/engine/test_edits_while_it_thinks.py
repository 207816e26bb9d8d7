"""Whatever somebody does to the stored conversation while the model thinks, the next request is one
that a strict provider takes.

A reply comes to the log after the edit, and was thought under the page before it. Two contexts hold
one conversation, as an agent and a shell beside it do: the agent asks, the other edits or speaks,
the agent hands over the reply by any of the doors there are. The upstream signs thinking with
everything before it, and refuses it elsewhere.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import refold
from refold import aio
from refold.core.codec import decode
from refold.core.model import UPTO, Thinking
from refold.dialects.anthropic.check import check
from refold.errors import RefoldError
from refold.stores import open_store
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, call, posted, text, thought

Json = dict[str, Any]
BOUND, OLDER = "claude-opus-5-5", "claude-opus-4-1"
WINDOW = 12_000
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
THINKING: Json = {
    BOUND: {"type": "adaptive"},
    OLDER: {"type": "enabled", "budget_tokens": 1_024},
}
EDITS = (
    "clear", "undo", "redo", "compact", "hide", "pin", "unpin", "restore", "restore back", "system",
)  # fmt: skip
DEEDS = (*EDITS, "own system", "say", "answer", "result")
DOORS = ("record", "usage apart", "stream", "append", "extend", "mirror", "aio", "aio stream")


class Work:
    """An agent at work on a conversation that a shell holds, too."""

    def __init__(self, model: str = BOUND) -> None:
        store = open_store("memory:")
        given = {"store": store, "model": model, "window": WINDOW}
        self.agent = refold.open("work", system="S", tools=TOOLS, **given)
        self.agent.append({"role": "user", "content": "Find out why the login fails."})
        self.agent.flush()
        self.shell = refold.open("work", **given)
        self.upstream, self.model, self.number = Upstream(Settings()), model, 0

    def step(self, calls: int, deeds: list[str], door: str = "record") -> None:
        """A request, what is done while it is answered, its answer, and what follows on that."""
        answer = self.asked(calls)
        own = [one.message for one in self.agent.page("anthropic", settle=False)]
        for deed in deeds:
            self.do(deed)
        self.take(answer, door, own)
        for at in range(calls):
            output = f"{self.number}\n" + "line of the file\n" * 100
            self.agent.append_result(f"t{self.number}-{at}", output)
        if not calls:
            self.agent.append({"role": "user", "content": f"And the next? {self.number}"})

    def asked(self, calls: int) -> Json:
        self.number += 1
        said: list[Json] = [thought(f"Hm {self.number}.")]
        said += [call(f"t{self.number}-{at}", path="a") for at in range(calls)] or [text("Done.")]
        self.upstream.script.add(said)
        request = self.agent.request("anthropic", thinking=THINKING[self.model])
        assert check(request) == []
        status, answer = posted(self.upstream, "/v1/messages", request, HEADERS)
        assert status == 200, answer
        return answer

    def take(self, answer: Json, door: str, own: list[Json]) -> None:
        message = {"role": "assistant", "content": answer["content"]}
        match door:
            case "record":
                self.agent.record(answer)
            case "usage apart":
                self.agent.append(message)
                self.agent.record(usage=answer["usage"])
            case "stream":
                assert list(self.agent.stream(pieces(answer)))
            case "append":
                self.agent.append(message)
            case "extend":
                self.agent.append([message])
            case "mirror":
                self.agent.mirror([*own, message])
            case "aio":
                asyncio.run(aio.AsyncContext(self.agent).record(answer))
            case "aio stream":
                asyncio.run(streamed(aio.AsyncContext(self.agent), answer))

    def do(self, deed: str) -> None:
        shell = self.shell
        said = [event.seq for event in shell.log.events() if event.kind == "message"]
        try:
            match deed:
                case "clear":
                    shell.clear()
                case "undo":
                    shell.undo()
                case "redo":
                    shell.redo()
                case "compact":
                    shell.compact()
                case "hide":
                    shell.hide(said[len(said) // 2])
                case "pin":
                    shell.pin(said[len(said) // 3])
                case "unpin":
                    shell.pin(said[len(said) // 3], on=False)
                case "restore":
                    shell.restore(shell.view.head)
                case "restore back":
                    shell.restore(said[len(said) // 2])
                case "system":
                    shell.update(system=f"S{self.number}")
                    shell.flush()
                case "own system":
                    self.agent.update(system=f"T{self.number}")
                case "say":
                    shell.append({"role": "user", "content": "And mind the tests."})
                case "answer":
                    shell.append({"role": "assistant", "content": "Somebody else's answer."})
                case "result":
                    shell.append_result(f"t{self.number - 1}-0", "came late")
        except RefoldError:
            pass  # nothing to do it to

    def thinking(self) -> list[str]:
        """What was thought, of all that stands in the next request."""
        request = self.agent.request("anthropic", thinking=THINKING[self.model])
        blocks = [one for message in request["messages"] for one in parts(message)]
        return [one["thinking"] for one in blocks if one["type"] == "thinking"]


def parts(message: Json) -> list[Json]:
    return message["content"] if isinstance(message["content"], list) else []


def pieces(answer: Json) -> list[Json]:
    """The answer as the events of a stream."""
    begun = {**answer, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(answer["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": answer["stop_reason"]}
    events.append({"type": "message_delta", "delta": ended, "usage": answer["usage"]})
    return [*events, {"type": "message_stop"}]


async def streamed(context: aio.AsyncContext, answer: Json) -> None:
    async def chunks() -> Any:
        for piece in pieces(answer):
            yield piece

    assert [chunk async for chunk in context.stream(chunks())]


def worked(model: str = BOUND) -> Work:
    work = Work(model)
    for _ in range(5):
        work.step(2, [])
    return work


AFTERWARDS = ((2, "record"), (0, "record"), (0, "record"))


def goes_on(work: Work) -> None:
    for calls, door in AFTERWARDS:
        work.step(calls, [], door)
    assert work.upstream.refusals == []


@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("deed", DEEDS)
def test_an_edit_while_the_model_thinks_leaves_a_request_that_is_taken(deed: str, calls: int):
    work = worked()
    work.step(calls, [deed])
    goes_on(work)


@pytest.mark.parametrize("deed", ["hide", "say", "own system"])
@pytest.mark.parametrize("door", DOORS)
def test_it_does_by_whichever_door_the_reply_comes(door: str, deed: str):
    work = worked()
    work.step(2, [deed], door)
    goes_on(work)


@pytest.mark.parametrize("model", [BOUND, OLDER])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.sampled_from(DEEDS), max_size=3),
            st.sampled_from(DOORS),
        ),
        min_size=1,
        max_size=6,
    ),
    begins=st.integers(0, 5),
)
@example(steps=[(2, ["compact"], "record"), (0, ["undo"], "append")], begins=5)
def test_any_edits_while_the_model_thinks_leave_requests_that_are_taken(model, steps, begins):
    work = Work(model)
    for _ in range(begins):
        work.step(2, [])
    for calls, deeds, door in steps:
        work.step(calls, deeds, door)
    goes_on(work)


class Two:
    """Two agents that work on one conversation, each through a context of its own."""

    def __init__(self) -> None:
        self.work = Work()
        self.contexts = (self.work.agent, self.work.shell)
        self.answers: list[Json | None] = [None, None]
        self.open: list[list[str]] = [[], []]  # calls whose results are still to come

    def do(self, who: int, deed: str) -> None:
        work, context, answer = self.work, self.contexts[who], self.answers[who]
        match deed:
            case "ask":
                work.agent = context
                if not context.view.slots:  # it was cleared
                    context.append({"role": "user", "content": "go on"})
                self.answers[who] = work.asked(work.number % 3)
            case "record" if answer is not None:
                context.record(answer)
                calls = [one["id"] for one in answer["content"] if one["type"] == "tool_use"]
                self.answers[who], self.open[who] = None, self.open[who] + calls
            case "result" if self.open[who]:
                context.append_result(self.open[who].pop(0), "line of the file\n" * 50)
            case "say":
                context.append({"role": "user", "content": f"And mind the {work.number}."})
            case "edit":
                work.shell = context
                work.do(EDITS[work.number % len(EDITS)])


deeds = st.sampled_from(("ask", "record", "result", "ask", "record", "result", "say", "edit"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 1), deeds), min_size=4, max_size=40))
def test_two_agents_on_one_conversation_are_never_refused(story):
    two = Two()
    for who, deed in [*story, (0, "say"), (0, "ask"), (1, "ask")]:
        two.do(who, deed)
    assert two.work.upstream.refusals == []


def test_nothing_of_a_reply_that_came_late_is_lost_and_it_is_recorded_once():
    work = worked()
    answer = work.asked(2)
    work.do("hide")
    head = work.agent.view.head
    assert work.agent.record(answer)
    assert work.agent.record(answer) == []
    events = [one for one in work.agent.log.events() if one.seq > head]
    assert [one.kind for one in events] == ["message", "usage"]
    said = decode(events[0])
    [thinking] = [block for block in said.blocks if isinstance(block, Thinking)]
    assert (thinking.text, thinking.signature) == tuple(
        answer["content"][0][name] for name in ("thinking", "signature")
    )


@pytest.mark.parametrize("deed", ["hide", "say", ""])
@pytest.mark.parametrize("door", ["record", "usage apart", "stream", "aio", "aio stream"])
def test_the_usage_of_a_late_reply_is_that_of_the_page_that_was_sent(door: str, deed: str):
    work = worked()
    answer = work.asked(0)
    sent = work.agent.view.head
    work.do(deed)
    work.take(answer, door, [])
    [*_, usage] = [one for one in work.agent.log.events() if one.kind == "usage"]
    assert decode(usage).upto == sent


def test_thinking_stays_where_nothing_was_done():
    work = worked()
    assert len(work.thinking()) == 5
    marks = [UPTO in slot.message.metadata for slot in work.agent.view.slots]
    assert not any(marks)


@pytest.mark.parametrize("door", ["record", "append"])
def test_a_writer_between_the_last_look_and_the_write_is_seen(door: str):
    work = worked()
    answer = work.asked(2)
    store = work.agent._open.store
    write, store.append = store.append, None

    def slowly(*given: Any, **more: Any) -> Any:
        store.append = write
        work.do("hide")
        return write(*given, **more)

    store.append = slowly
    work.take(answer, door, [])
    for at in range(2):
        work.agent.append_result(f"t{work.number}-{at}", "line")
    goes_on(work)


def test_threads_that_share_a_context_are_answered_for_themselves():
    """Two ask, one before an edit and one after it, and the first is answered first."""
    work = worked()
    heads: list[int] = []
    turns = [threading.Event() for _ in range(3)]

    def first() -> None:
        answer = work.asked(2)
        turns[0].set()
        turns[1].wait()
        heads.append(upto_of(work.agent.record(answer)))
        turns[2].set()

    def second() -> None:
        turns[0].wait()
        work.do("hide")
        answer = work.asked(0)
        turns[1].set()
        turns[2].wait()
        heads.append(upto_of(work.agent.record(answer)))

    before = work.agent.view.head
    threads = [threading.Thread(target=one) for one in (first, second)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert heads[0] == before < heads[1]
    work.agent.append({"role": "user", "content": "go on"})
    goes_on(work)


def test_tasks_that_share_a_context_are_answered_for_themselves():
    work = worked()
    context = aio.AsyncContext(work.agent)
    begin, first, second = (asyncio.Event() for _ in range(3))
    before = work.agent.view.head

    async def ask(before: asyncio.Event, after: asyncio.Event, deed: str) -> int:
        await before.wait()
        work.do(deed)
        await context.request("anthropic", thinking=THINKING[BOUND])
        after.set()
        await second.wait()
        usage = {"input_tokens": 5_000, "output_tokens": 5}
        answer = {"id": f"m {deed}", "type": "message", "model": BOUND, "stop_reason": "end_turn"}
        said = {"role": "assistant", "content": [text(f"said {deed}")]}
        return upto_of(await context.record({**answer, **said, "usage": usage}))

    async def both() -> list[int]:
        begin.set()
        return await asyncio.gather(ask(begin, first, ""), ask(first, second, "hide"))

    heads = asyncio.run(both())
    assert heads[0] == before < heads[1]


def upto_of(events: list[Any]) -> int:
    [usage] = [one for one in events if one.kind == "usage"]
    return decode(usage).upto
