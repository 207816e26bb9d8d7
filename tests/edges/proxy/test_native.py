"""Folding by the provider's own compaction, through a proxy, beside an upstream as strict as the
providers."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.edges.proxy.savings import sums
from refold.edges.proxy.serve import ProxySettings, checked
from tests.edges.proxy.kit import Provider, Running, with_proxy
from tests.real.proxy.agent import SYSTEM, TOOLS, marked, tool_loop, turns, unsigned
from tests.real.proxy.strict.anthropic_compaction import BETA
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.server import Upstream, answered
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS

WINDOW = 30_000
Json = dict[str, Any]


class Strict(Provider):
    """The strict upstream behind the proxy. `refuses` is the error it has for compactions."""

    def __init__(self, refuses: int = 0) -> None:
        super().__init__()
        self.upstream, self.refuses = Upstream(Settings(window=200_000)), refuses

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body, path = message["body"], scope["raw_path"].decode()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        status, answer = 200, b""
        if self.refuses and b'"compaction":{"type"' in body:
            status, answer = self.refuses, b'{"error": {"type": "overloaded_error"}}'
        else:
            reply = answered(path, headers, body, self.upstream)
            status, answer = reply.status, b"".join(reply.pieces)
        start = {"type": "http.response.start", "status": status}
        await send({**start, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": answer})

    @property
    def compactions(self) -> list[Json]:
        return [one.body for one in self.upstream.requests if "compaction" in one.body]

    @property
    def calls(self) -> list[Json]:
        return [one.body for one in self.upstream.requests if "compaction" not in one.body]


async def loop(running: Running, provider: Strict, messages: list[Json], **beside: Any) -> None:
    """Plays a session: what is answered is repeated, as agents do."""
    talk: list[Json] = []
    for said, answer in turns(messages):
        talk += said
        provider.upstream.settings.script.choose = chosen(answer)
        body = {"model": "claude-opus-5-5", "max_tokens": 4_000, "system": SYSTEM, "tools": TOOLS}
        shown = [*talk[:-1], marked(talk[-1])]
        response = await running.client.post(
            "/anthropic/v1/messages", json={**body, "messages": shown, **beside}, headers=HEADERS
        )
        await running.settled()
        assert response.status_code == 200, response.text[:400]
        content = response.json()["content"]
        assert list(map(unsigned, content)) == answer
        talk.append({"role": "assistant", "content": content})


def chosen(answer: list[Json]) -> Any:
    """What the upstream says: this, or a summary if that is what it is asked for."""
    return lambda request: Answer("All files were read." if "compaction" in request else answer)


def played(provider: Strict, store: str = "memory:", count: int = 60, **beside: Any) -> list[str]:
    """The strategies of the compactions of a session."""

    async def work(running: Running) -> list[str]:
        await loop(running, provider, tool_loop(count), **beside)
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            return [batch.strategy for batch in context.log.batches()]

    return with_proxy(work, folds=True, native=True, window=WINDOW, store=store, provider=provider)


def blocks_of(messages: list[Json], kinds: tuple[str, ...]) -> list[Json]:
    found = [block for one in messages for block in one["content"] if isinstance(block, dict)]
    return [block for block in found if block["type"] in kinds]


def test_the_provider_compacts_and_nothing_is_refused() -> None:
    provider = Strict()
    strategies = played(provider)
    assert provider.upstream.refusals == []
    assert len(strategies) >= 2 and set(strategies) == {"native"}
    assert len(provider.compactions) == len(strategies)
    for request in provider.compactions:
        assert request["system"] == SYSTEM and request["tools"] == TOOLS
    last = provider.calls[-1]["messages"]
    assert last[0]["content"][0]["type"] == "compaction"
    thoughts, uses = blocks_of(last, ("thinking",)), blocks_of(last, ("tool_use",))
    assert len(thoughts) == len(uses) > 3


def test_the_keys_of_the_client_and_the_beta_go_with_it() -> None:
    provider = Strict()
    played(provider)
    held = [one for one in provider.upstream.requests if '"compaction"' in one.raw.decode()]
    assert held
    for one in held:
        assert one.headers["x-api-key"] == HEADERS["x-api-key"]
        assert one.headers["anthropic-beta"].count(BETA) == 1


def test_what_a_compaction_must_not_have_is_left_out() -> None:
    provider = Strict()
    beside = {
        "stop_sequences": ["x"],
        "tool_choice": {"type": "auto"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    }
    played(provider, **beside)
    assert provider.upstream.refusals == []
    assert not {"stop_sequences", "context_management"} & provider.compactions[0].keys()


@pytest.mark.parametrize("status", [400, 404, 429, 529])
def test_what_the_provider_refuses_is_folded_here(status: int) -> None:
    provider = Strict(refuses=status)
    strategies = played(provider)
    assert strategies and "native" not in strategies
    assert provider.upstream.refusals == [] and provider.compactions == []


def test_what_it_took_is_in_the_report() -> None:
    provider = Strict()

    async def work(running: Running) -> Any:
        await loop(running, provider, tool_loop(40))
        [total] = sums(running.book.store)
        return total

    total = with_proxy(work, folds=True, native=True, window=WINDOW, provider=provider)
    assert total.calls == 41 + len(provider.compactions)
    assert total.cost > 0 and total.folded > 0


def test_undo_brings_the_clients_messages_back() -> None:
    provider = Strict()

    async def work(running: Running) -> None:
        messages = tool_loop(30)
        await loop(running, provider, messages)
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            for batch in list(context.log.batches()):
                context.undo(batch.id)
            shown = context.page("anthropic", settle=False)
        kinds = ("tool_use", "tool_result")
        assert blocks_of([one.message for one in shown], kinds) == blocks_of(messages, kinds)

    with_proxy(work, folds=True, native=True, window=WINDOW, provider=provider)


# --- OpenAI ---


def items(count: int) -> list[tuple[list[Json], list[Json]]]:
    """A session of items: what is said, and what is answered to it."""
    told: list[tuple[list[Json], list[Json]]] = []
    said: list[Json] = [{"type": "message", "role": "user", "content": "Mend the login."}]
    for number in range(count):
        id = f"call_{number}"
        call = {"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}
        told.append((said, [{"type": "reasoning", "summary": []}, call]))
        output = f"file {number}\n" + "a line of output\n" * 200
        said = [{"type": "function_call_output", "call_id": id, "output": output}]
    return told


def test_openai_compacts_behind_the_path_of_the_call() -> None:
    provider = Strict()

    async def work(running: Running) -> list[str]:
        talk: list[Json] = []
        for said, answer in items(60):
            talk += said
            provider.upstream.settings.script.choose = chosen(answer)
            body = {"model": "gpt-5.5", "store": False, "instructions": "Be brief.", "input": talk}
            key = {"authorization": "Bearer k"}
            response = await running.client.post("/openai/v1/responses", json=body, headers=key)
            await running.settled()
            assert response.status_code == 200, response.text[:400]
            talk += response.json()["output"]
        [id] = running.kept()
        with refold.open(id, store=running.book.store) as context:
            return [batch.strategy for batch in context.log.batches()]

    strategies = with_proxy(work, folds=True, native=True, window=WINDOW, provider=provider)
    assert provider.upstream.refusals == []
    assert set(strategies) == {"native"}
    asked = [one for one in provider.upstream.requests if one.path.endswith("/compact")]
    assert len(asked) == len(strategies) >= 1
    assert asked[0].headers["authorization"] == "Bearer k"
    last = provider.upstream.requests[-1].body["input"]
    assert sum(item.get("type") == "compaction" for item in last) == 1


# --- what a client does itself ---


@pytest.mark.parametrize("native", [False, True])
def test_a_compaction_of_the_clients_own_passes_and_its_block_stays_first(native: bool) -> None:
    """The client asks for a compaction itself, and goes on behind the block; where the page is
    folded later, the block stays where it is."""
    provider = Strict()

    async def work(running: Running) -> None:
        talk = tool_loop(6)[:-1]
        signed: list[Json] = []
        own = {**HEADERS, "anthropic-beta": BETA}
        base = {"model": "claude-opus-5-5", "max_tokens": 4_000, "system": SYSTEM, "tools": TOOLS}

        async def post(messages: list[Json], answer: Any, **beside: Any) -> Json:
            provider.upstream.settings.script.choose = chosen(answer)
            body = {**base, "messages": messages, **beside}
            response = await running.client.post("/anthropic/v1/messages", json=body, headers=own)
            await running.settled()
            assert response.status_code == 200, response.text[:400]
            return response.json()

        for said, answer in turns(talk):
            signed += said
            signed.append({"role": "assistant", "content": (await post(signed, answer))["content"]})
        signed.append(talk[-1])
        wish = {"compaction": {"type": "summarize"}}
        block = (await post(signed, "", **wish))["content"]
        assert provider.bodies == [] and block[0]["type"] == "compaction"
        again = [{"role": "assistant", "content": block}, {"role": "user", "content": "Go on."}]
        for said, answer in turns(tool_loop(50)[1:]):
            again += said
            answered_now = (await post(again, answer))["content"]
            again.append({"role": "assistant", "content": answered_now})
        last = provider.upstream.requests[-1].body["messages"]
        [compaction] = blocks_of(last, ("compaction",))
        assert (compaction == block[0]) is not native and len(last) < len(again)

    with_proxy(work, folds=True, native=native, window=WINDOW, provider=provider)
    assert provider.upstream.refusals == []


def test_an_agent_that_asks_openai_itself_is_passed_on_and_goes_on_behind_its_item() -> None:
    provider = Strict()

    async def work(running: Running) -> None:
        talk: list[Json] = []
        key = {"authorization": "Bearer k"}

        async def post(path: str, body: Json) -> Json:
            response = await running.client.post(f"/openai/v1{path}", json=body, headers=key)
            await running.settled()
            assert response.status_code == 200, response.text[:400]
            return response.json()

        for number, (said, answer) in enumerate(items(60)):
            talk += said
            if number == 5:
                wish = {"model": "gpt-5.5", "input": talk}
                talk = (await post("/responses/compact", wish))["output"]
            provider.upstream.settings.script.choose = chosen(answer)
            body = {"model": "gpt-5.5", "store": False, "input": talk}
            talk += (await post("/responses", body))["output"]
        last = provider.upstream.requests[-1].body["input"]
        assert sum(item.get("type") == "compaction" for item in last) == 1
        assert len(last) < len(talk)

    with_proxy(work, folds=True, window=WINDOW, provider=provider)
    assert provider.upstream.refusals == []


def test_native_without_fold_is_refused_with_what_to_do() -> None:
    with pytest.raises(refold.Invalid) as error:
        checked(ProxySettings(store="memory:", native=True))
    assert "--fold --native" in error.value.hint
