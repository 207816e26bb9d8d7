"""Whatever somebody does to the page between an answer and the call that brings it back, the next
request is one that a strict provider takes.

The newest answer is in the client's hands and not in the log, so an edit from the shell is written
before it. The provider here signs thinking with everything before it, as newer models do, and
refuses a request that begins with the assistant, leaves a call open, says a call twice, or holds
thinking under another front. It words that so that nothing is recovered by asking again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import refold
from refold.dialects.anthropic.check import check
from refold.errors import RefoldError
from tests.edges.proxy.kit import MODEL, Message, Provider, Running, user, with_proxy

WINDOW = 8_000
LINES = "line of the file\n"
CALLS = 2  # so many at a time


class Strict(Provider):
    """Answers with thinking, and with as many calls as it is told; refuses what it may not be
    sent."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = CALLS
        self.faults: list[str] = []
        self.during: Callable[[], None] | None = None  # what happens while it thinks

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        faults = faults_of(json.loads(body))
        self.faults += faults
        if self.during is not None:
            await asyncio.to_thread(self.during)
            self.during = None
        status = 400 if faults else 200
        answer = {"error": faults} if faults else self.answer(json.loads(body))
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    def answer(self, body: Message) -> Message:
        number = len(self.bodies)
        signature = front(body, body["messages"])
        content = [{"type": "thinking", "thinking": f"Hm {number}.", "signature": signature}]
        content += [
            {"type": "tool_use", "id": f"t{number}_{at}", "name": "read", "input": {"n": number}}
            for at in range(self.calls)
        ] or [{"type": "text", "text": f"Done {number}."}]
        size = len(json.dumps(body)) // 4
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": "tool_use" if self.calls else "end_turn",
            "usage": {"input_tokens": size, "output_tokens": 50},
        }


def plain(value: Any) -> Any:
    """The value without cache marks."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key != "cache_control"}
    return list(map(plain, value)) if isinstance(value, list) else value


def blocks_of(message: Message) -> list[Message]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def front(body: Message, before: list[Message]) -> str:
    """What stands before an answer, as one digest."""
    said = [(one["role"], plain(blocks_of(one))) for one in before]
    text = json.dumps([body.get("system"), body.get("tools"), said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def faults_of(body: Message) -> list[str]:
    """What is wrong with a request."""
    messages = body["messages"]
    faults = [] if messages[0]["role"] == "user" else ["it begins with the assistant"]
    waiting: list[str] = []
    ids = [one["id"] for message in messages for one in blocks_of(message) if "id" in one]
    faults += ["a call is said twice"] if len(ids) > len(set(ids)) else []
    if body.get("thinking", {}).get("type") == "enabled":
        faults += [one for one in check(body) if "expected thinking" in one]
    for at, message in enumerate(messages):
        blocks = blocks_of(message)
        results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            faults.append(f"{at}: {results} answers {waiting}")
        waiting = [one["id"] for one in blocks if one["type"] == "tool_use"]
        thoughts = [one["signature"] for one in blocks if one["type"] == "thinking"]
        if any(one != front(body, messages[:at]) for one in thoughts):
            faults.append(f"{at}: thought under another front")
    return faults


class Agent:
    """A client with its own list, and somebody at a shell beside it."""

    def __init__(self, running: Running, provider: Strict, **fields: Any) -> None:
        self.running, self.provider, self.fields = running, provider, fields
        self.messages = [user("Find out why the login fails.")]
        self.system = "You are careful."

    async def step(self, calls: int, deeds: list[str], during: list[str]) -> None:
        """A call whose answer asks for so many tools, and what is done until it is brought
        back."""
        self.provider.calls = calls
        self.provider.during = (lambda: self.do(during)) if during else None
        answered = await self.running.messages(self.messages, system=self.system, **self.fields)
        assert answered.status_code == 200, self.provider.faults
        content = answered.json()["content"]
        self.messages = [*self.messages, {"role": "assistant", "content": content}]
        self.do(deeds)
        self.messages.append(self.reaction(content))

    def reaction(self, content: list[Message]) -> Message:
        ids = [one["id"] for one in content if one["type"] == "tool_use"]
        if not ids:
            return user(f"And the next? {len(self.messages)}")
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": f"{id}\n" + LINES * 100}
            for id in ids
        ]
        return {"role": "user", "content": results}

    def do(self, deeds: list[str]) -> None:
        for deed in deeds:
            if deed == "system":
                # Under its own list, what a client changes is its own matter.
                held = self.running.book._held.values()
                self.system += " Still." if any(one.is_swapped for one in held) else ""
            elif self.running.kept():
                self.edit(deed)

    def edit(self, deed: str) -> None:
        with refold.open(self.running.kept()[0], store=self.running.book.store) as context:
            said = [one.seq for one in context.log.events() if one.kind == "message"]
            try:
                match deed:
                    case "clear":
                        context.clear()
                    case "undo":
                        context.undo()
                    case "redo":
                        context.redo()
                    case "compact":
                        context.compact("gist", target=500)
                    case "hide":
                        context.hide(said[len(said) // 2])
                    case "pin":
                        context.pin(said[len(said) // 3])
                    case "unpin":
                        context.pin(said[len(said) // 3], on=False)
                    case "restore":
                        context.restore(context.view.head)
                    case "restore back":
                        context.restore(said[len(said) // 2])
            except RefoldError:
                pass  # nothing to do it to


DEEDS = (
    "clear", "undo", "redo", "compact", "hide", "pin", "unpin", "restore", "restore back", "system",
)  # fmt: skip
some = st.lists(st.sampled_from(DEEDS), max_size=3)
steps = st.lists(st.tuples(st.sampled_from([0, 1, CALLS]), some, some), min_size=1, max_size=5)
Steps = list[tuple[int, list[str], list[str]]]
AFTERWARDS: Steps = [(CALLS, [], []), (0, [], []), (0, [], [])]


def play(steps: Steps, begins: int = 9, **fields: Any) -> Strict:
    provider = Strict()

    async def work(running: Running) -> None:
        agent = Agent(running, provider, **fields)
        for _ in range(begins):
            await agent.step(CALLS, [], [])
        for one in [*steps, *AFTERWARDS]:
            await agent.step(*one)

    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    return provider


@pytest.mark.parametrize("calls", [0, 1, CALLS])
@pytest.mark.parametrize("deed", DEEDS)
def test_an_edit_before_an_answer_is_brought_back_leaves_a_request_that_is_taken(
    deed: str, calls: int
) -> None:
    assert play([(calls, [deed], [])]).faults == []


@pytest.mark.parametrize("deed", DEEDS)
def test_a_client_that_thinks_by_a_budget_sends_no_open_loop_without_thinking(deed: str) -> None:
    by_budget = {"type": "enabled", "budget_tokens": 1_024}
    assert play([(CALLS, [deed], []), (CALLS, [], [])], thinking=by_budget).faults == []


@pytest.mark.parametrize("deed", DEEDS)
def test_an_edit_while_the_model_thinks_leaves_a_request_that_is_taken(deed: str) -> None:
    assert play([(CALLS, [], [deed])]).faults == []


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 10))
@example([(0, ["clear"], []), (1, ["undo"], []), (2, ["clear", "undo", "redo"], [])], 9)
@example([(2, ["compact"], []), (2, ["restore back"], []), (2, ["undo"], []), (2, [], [])], 9)
def test_any_edits_leave_requests_that_are_taken(steps: Steps, begins: int) -> None:
    assert play(steps, begins).faults == []


@pytest.mark.parametrize("calls", [0, CALLS])
@pytest.mark.parametrize("deed", DEEDS)
def test_an_edit_before_the_proxy_is_started_anew_leaves_a_request_that_is_taken(
    deed: str, calls: int, tmp_path: Path
) -> None:
    """A last answer is written when the proxy ends: after the edit."""
    provider = Strict()
    agents: list[Agent] = []

    async def begin(running: Running) -> None:
        agents.append(agent := Agent(running, provider))
        for _ in range(9):
            await agent.step(CALLS, [], [])
        await agent.step(calls, [deed], [])

    async def go_on(running: Running) -> None:
        agents[0].running = running
        for one in AFTERWARDS:
            await agents[0].step(*one)

    for work in (begin, go_on):
        with_proxy(work, folds=True, window=WINDOW, provider=provider, store=tmp_path / "s.db")
    assert provider.faults == []


def test_thinking_stays_where_nothing_was_done() -> None:
    provider = play([])
    assert len(provider.last["messages"]) < 2 * len(provider.bodies) - 1  # it was folded
    last = [one for one in provider.last["messages"] if one["role"] == "assistant"][-1]
    assert last["content"][0]["type"] == "thinking"
