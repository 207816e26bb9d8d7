"""Tools that nobody called, left to the provider's tool search, beside an upstream as strict as the
provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.proxy.body import ParsedCall
from refold.edges.proxy.deferred_tools import SEARCHES, can_search, deferrable, with_deferred
from tests.edges.proxy.kit import Provider, Running, answer, user, with_proxy
from tests.edges.proxy.test_native import Strict, loop
from tests.real.proxy.agent import TOOLS, tool_loop

Json = dict[str, Any]
CALLED = ("Read", "Bash")


def parsed(tools: list[Json], dialect: str = "anthropic", model: str = "") -> ParsedCall:
    return ParsedCall(
        dialect=dialect,
        model=model or ("claude-opus-5-5" if dialect == "anthropic" else "gpt-5.5"),
        messages=[],
        marks=[],
        session="",
        size_bytes=0,
        is_native=False,
        fields={"tools": msgspec.Raw(json.dumps(tools).encode())},
    )


@pytest.mark.parametrize("folds", [False, True])
def test_what_nobody_called_is_deferred_in_every_call_also_after_a_restart(
    folds: bool, tmp_path: Path
) -> None:
    provider, window = Strict(), 30_000 if folds else None
    said: list[Json] = []  # by the client

    async def listen(request: httpx.Request) -> None:
        said.append(json.loads(request.content))

    async def work(running: Running) -> None:
        running.client.event_hooks["request"].append(listen)
        await loop(running, provider, tool_loop(30), tools=TOOLS)

    options: Json = {"folds": folds, "window": window, "store": f"sqlite:{tmp_path / 'x'}"}
    with_proxy(work, called=CALLED, provider=provider, **options)
    assert provider.upstream.refusals == []
    deferred = {tool["name"] for tool in TOOLS} - set(CALLED)
    sent = [one.body["tools"] for one in provider.upstream.requests]
    assert len(sent) == 31 and all(tools == sent[0] for tools in sent)
    assert {tool["name"] for tool in sent[0] if tool.get("defer_loading")} == deferred
    assert sent[0][-1] == SEARCHES["anthropic"]

    # Another process knows more tools, but a conversation goes on as it began.
    later = Strict()

    async def go_on(running: Running) -> None:
        talk = [*said[-1]["messages"], answer("So far."), user("Go on.")]
        await running.messages(talk, tools=TOOLS)

    with_proxy(go_on, called=[tool["name"] for tool in TOOLS], provider=later, **options)
    assert later.upstream.requests[-1].body["tools"] == sent[0]


def test_a_provider_without_a_search_gets_all_tools() -> None:
    provider = Provider()
    refusal = json.dumps({"error": {"message": "tools.3: unknown tool type"}}).encode()
    provider.answers.append((400, {"content-type": "application/json"}, refusal))

    async def work(running: Running) -> int:
        return (await running.messages([user("Hello.")], tools=TOOLS)).status_code

    assert with_proxy(work, called=CALLED, provider=provider) == 200
    first, again = (json.loads(body)["tools"] for body in provider.bodies)
    assert any(tool.get("defer_loading") for tool in first) and again == TOOLS


def test_nothing_is_deferred_without_the_option_or_any_knowledge() -> None:
    provider = Provider()

    async def work(running: Running) -> None:
        await running.messages([user("Hello.")], tools=TOOLS)

    with_proxy(work, provider=provider)
    assert provider.last["tools"] == TOOLS


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True),
    st.sets(st.sampled_from("abcdefgh")),
    st.sets(st.sampled_from("abcdefgh")),
    st.sampled_from(sorted(SEARCHES)),
)
def test_every_tool_stays_and_those_called_stay_loaded(
    names: list[str], called: set[str], marked: set[str], dialect: str
) -> None:
    kind = {} if dialect == "anthropic" else {"type": "function"}
    mark = {"cache_control": {"type": "ephemeral"}}
    tools = [{**kind, "name": name, **(mark if name in marked else {})} for name in names]
    before = parsed(tools, dialect)
    deferred = deferrable(before, called)
    after = with_deferred(before, deferred).tools or []
    if not deferred:
        assert after == tools
        return
    *kept, search = after
    assert search["type"] == SEARCHES[dialect]["type"] and not search.get("defer_loading")
    assert [one["name"] for one in kept] == names
    assert {one["name"] for one in kept if one.get("defer_loading")} == set(names) - called
    assert not any("cache_control" in one for one in kept if one.get("defer_loading"))
    assert ("cache_control" in search) == bool(marked & set(deferred))
    assert with_deferred(with_deferred(before, deferred), deferred).tools == after


@pytest.mark.parametrize(
    ("dialect", "model", "can"),
    [
        ("anthropic", "claude-opus-4-1-20250805", True),
        ("anthropic", "claude-sonnet-4-20250514", True),
        ("anthropic", "claude-haiku-5-5", True),
        ("anthropic", "claude-3-7-sonnet-20250219", False),
        ("openai_responses", "gpt-5.4", True),
        ("openai_responses", "gpt-5.1-codex", False),
        ("openai_responses", "gpt-6", True),
        ("gemini", "gemini-3-pro", False),
        ("openai_chat", "gpt-5.5", False),
    ],
)
def test_models_that_search_are_known(dialect: str, model: str, can: bool) -> None:
    assert can_search(dialect, model) == can


def test_a_client_with_a_search_of_its_own_keeps_its_tools() -> None:
    own = [{"name": "a"}, {"name": "b", "defer_loading": True}, SEARCHES["anthropic"]]
    assert deferrable(parsed(own), {"a"}) == ()
    assert with_deferred(parsed(own), ("a",)).tools == own
