"""Our own tools and the provider's own compaction together, beside an upstream that is as strict as
the provider: it checks what each thought was thought under."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.edges.proxy.savings import NOTE
from refold.edges.proxy.serve import ProxySettings, checked
from tests.edges.proxy.kit import Running, with_proxy
from tests.edges.proxy.test_native import WINDOW, Strict, blocks_of
from tests.real.proxy.agent import SYSTEM, TOOLS, marked, tool_loop, turns, unsigned
from tests.real.proxy.strict.anthropic_compaction import BETA
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.talks import HEADERS, thought

Json = dict[str, Any]
OWN = ("refold_search", "refold_unfold", "refold_grep", "refold_artifacts")


def chosen(number: int, answer: list[Json], *, is_inside: bool) -> Any:
    """What the upstream says: a summary if it is asked for one, else a call of ours first if there
    is to be one, and what the client is to have once that is answered."""
    given = {"query": "login"}
    ours = {"type": "tool_use", "id": f"own_{number}", "name": "refold_search", "input": given}

    def choose(request: Json) -> Answer:
        if "compaction" in request:
            return Answer("All files were read.")
        results = blocks_of(request["messages"][-1:], ("tool_result",))
        is_answered = any(one["tool_use_id"] == ours["id"] for one in results)
        is_end = is_answered or not is_inside
        return Answer(answer if is_end else [thought(f"I search {number}."), ours])

    return choose


class Overflowing(Strict):
    """The same, and the first call after each compaction is too long."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.refused == len(self.compactions):
            await super().__call__(scope, receive, send)
            return
        self.refused += 1
        await receive()
        said = "prompt is too long: 210000 tokens > 200000 maximum"
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
        start = {"type": "http.response.start", "status": 400}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(error).encode()})


async def played(
    running: Running, provider: Strict, messages: list[Json], every: int
) -> list[Json]:
    """The client's list after a session in which some answers begin with a call of ours."""
    talk: list[Json] = []
    fields = {"model": "claude-opus-5-5", "max_tokens": 4_000, "system": SYSTEM, "tools": TOOLS}
    for number, (said, answer) in enumerate(turns(messages)):
        talk += said
        choose = chosen(number, answer, is_inside=number % every == 0)
        provider.upstream.settings.script.choose = choose
        body = {**fields, "messages": [*talk[:-1], marked(talk[-1])]}
        response = await running.client.post("/anthropic/v1/messages", json=body, headers=HEADERS)
        await running.settled()
        assert response.status_code == 200, response.text[:400]
        content = response.json()["content"]
        assert list(map(unsigned, content))[-len(answer) :] == answer
        talk.append({"role": "assistant", "content": content})
    return talk


@pytest.mark.parametrize("every", [1, 3])
def test_the_provider_compacts_a_conversation_that_has_our_tools(every: int) -> None:
    provider = Strict()

    async def work(running: Running) -> tuple[list[Json], list[str]]:
        talk = await played(running, provider, tool_loop(60), every)
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            return talk, [batch.strategy for batch in context.log.batches()]

    talk, strategies = with_proxy(work, tools=True, native=True, window=WINDOW, provider=provider)
    assert provider.upstream.refusals == []
    assert len(strategies) >= 2 and set(strategies) == {"native"}
    assert len(provider.compactions) == len(strategies)
    tools = provider.calls[0]["tools"]
    assert [one["name"] for one in tools] == [*(one["name"] for one in TOOLS), *OWN]
    assert all(one.body["tools"] == tools for one in provider.upstream.requests)
    # The client sees none of ours, and the provider sees those behind the cut.
    assert not [one for one in blocks_of(talk, ("tool_use",)) if one["name"] in OWN]
    last = provider.upstream.requests[-1]
    assert last.body["messages"][0]["content"][0]["type"] == "compaction"
    assert last.headers["anthropic-beta"].count(BETA) == 1
    shown = blocks_of(last.body["messages"], ("tool_use",))
    assert [one for one in shown if one["name"] in OWN]


@pytest.mark.parametrize("kind", [Strict, Overflowing])
def test_every_call_of_the_provider_is_noted_once(kind: type[Strict]) -> None:
    provider = kind()

    async def work(running: Running) -> int:
        await played(running, provider, tool_loop(40), 1)
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            return len(context.log.notes(NOTE))

    noted = with_proxy(work, tools=True, native=True, window=WINDOW, provider=provider)
    assert provider.compactions and noted == len(provider.upstream.requests)


def test_a_count_of_what_the_provider_compacted_is_taken() -> None:
    provider = Strict()

    async def work(running: Running) -> tuple[int, Json]:
        talk = await played(running, provider, tool_loop(60), 3)
        body = {"model": "claude-opus-5-5", "system": SYSTEM, "tools": TOOLS}
        shown = [*talk, {"role": "user", "content": "Go on."}]
        path = "/anthropic/v1/messages/count_tokens"
        counted = await running.client.post(path, json={**body, "messages": shown}, headers=HEADERS)
        return counted.status_code, counted.json()

    status, said = with_proxy(work, tools=True, native=True, window=WINDOW, provider=provider)
    assert provider.upstream.refusals == [] and status == 200
    last = provider.upstream.requests[-1]
    assert last.path.endswith("/count_tokens") and BETA in last.headers["anthropic-beta"]
    assert last.body["messages"][0]["content"][0]["type"] == "compaction"
    assert 0 < said["input_tokens"] < WINDOW


def test_tools_fold_so_native_may_be_asked_for_with_them() -> None:
    given = ProxySettings(store="memory:", folds=True, native=True, tools=True)
    assert checked(given) == given
