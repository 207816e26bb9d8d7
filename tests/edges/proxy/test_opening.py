"""A hand-over as the opening of a conversation behind the proxy: only where it was asked for, once, and in every call
from the first on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.core.model import Message
from refold.engine.handover import HEAD, handed_over, named, opening_of
from tests.edges.cli.rooms import PROGRAM
from tests.edges.proxy.kit import MODEL, TOOLS, Provider, Running, answer, user, with_proxy
from tests.edges.proxy.test_first_words import DECLARED, STATED, first_message, refusal, said_in
from tests.edges.proxy.test_native import Strict, loop
from tests.edges.proxy.test_replies import CASES, JSON
from tests.real.proxy.agent import tool_loop
from tests.servers import Play, serving
from tests.waiting import LONG_S

RULE = "From now on, every invoice has a number."


def opening() -> Message:
    store = refold.open_store("memory:")
    with refold.open("first", store=store, embedder=False) as context:
        context.append({"role": "user", "content": f"Add invoices. {RULE}"}, at="2026-03-01")
    made = opening_of(handed_over(store, named(store, ()), refold.Config()))
    assert made is not None
    return made


def talked(name: str, *, refused: bool = False, **given: Any) -> tuple[list[Any], list[Any]]:
    """Two turns of a conversation: the lists that were sent, and the messages in the log."""
    path, body, whole, _, repeated = CASES[name]
    [key] = {"messages", "input", "contents"} & body.keys()
    fields = {"model": MODEL, "tools": DECLARED if name == "gemini" else TOOLS}
    provider = Provider()

    async def work(running: Running) -> list[Any]:
        provider.answers += [refusal(STATED)] if refused else []
        talk = [first_message(name, "Draw a logo. " * (9_000 if refused else 1))]
        for more in ([], [*repeated, first_message(name, "Go on.")]):
            provider.answers.append((200, JSON, json.dumps(whole).encode()))
            await running.client.post(path, json={**fields, key: [*talk, *more]})
            await running.settled()
        [id] = running.kept()
        return [slot.message for slot in running.view(id).slots]

    kept = with_proxy(work, provider=provider, **given)
    return [said_in(one, key) for one in provider.bodies], kept


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_follows_the_first_words_in_every_call_and_stands_in_the_log(
    name: str, tools: bool
) -> None:
    [first, second], kept = talked(name, opening=opening(), tools=tools)
    assert json.dumps(first).count(HEAD) == 1 and RULE in json.dumps(first)
    assert json.dumps(first).index("Draw a logo") < json.dumps(first).index(RULE)
    assert second[: len(first)] == first and json.dumps(second).count(HEAD) == 1
    assert [RULE in str(one) for one in kept] == [False, True, False, False]


@pytest.mark.parametrize("name", CASES)
def test_nobody_gets_one_unasked(name: str) -> None:
    [first, second], kept = talked(name, folds=True)
    assert RULE not in json.dumps([first, second]) and len(kept) == 3


@pytest.mark.parametrize("name", CASES)
def test_first_words_that_are_too_long_are_cut_and_keep_it(name: str) -> None:
    sent, _ = talked(name, opening=opening(), refused=True, window=20_000)
    assert [RULE in json.dumps(one) for one in sent] == [True, True, True]
    assert len(json.dumps(sent[1])) < 0.8 * len(json.dumps(sent[0]))
    assert sent[2][: len(sent[1])] == sent[1]


def test_a_session_gets_it_once_and_its_sub_agents_do_not() -> None:
    provider = Provider()

    async def work(running: Running) -> None:
        headers = {"x-claude-code-session-id": "one"}
        for words in ("Draw a logo", "Draw a logo", "You are a sub-agent: look for whales"):
            await running.messages([user(words)], headers=headers)
        await running.messages([user("Draw a logo")], headers={"x-claude-code-session-id": "two"})

    with_proxy(work, provider=provider, opening=opening())
    assert [RULE.encode() in body for body in provider.bodies] == [True, True, False, True]


def test_a_conversation_goes_on_with_it_in_a_proxy_without_the_option(tmp_path: Path) -> None:
    store, provider = f"sqlite:{tmp_path}/a.db", Provider()
    talk = [user("Draw a logo")]

    async def turn(running: Running) -> None:
        await running.messages(talk)

    whole = json.dumps(CASES["anthropic"][2]).encode()
    provider.answers = [(200, JSON, whole), (200, JSON, whole)]
    with_proxy(turn, provider=provider, opening=opening(), store=store)
    talk += [answer("Paris."), user("Go on.")]
    with_proxy(turn, provider=provider, folds=True, store=store)
    first, second = (json.loads(body)["messages"] for body in provider.bodies)
    assert RULE in str(first) and second[: len(first)] == first


def test_a_long_session_with_it_is_never_refused_for_its_thinking() -> None:
    provider = Strict()

    async def work(running: Running) -> None:
        await loop(running, provider, tool_loop(40))

    with_proxy(work, provider=provider, opening=opening(), window=30_000)
    sent = [RULE in json.dumps(one["messages"]) for one in provider.calls]
    assert provider.upstream.refusals == [] and sent[0] and len(sent) > 40


AGENT = f"""
import json, os, urllib.request
body = json.dumps({{"model": "{MODEL}", "max_tokens": 9, "tools": [{{"name": "read", "input_schema": {{}}}}],
    "messages": [{{"role": "user", "content": "Draw a logo"}}]}}).encode()
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(url, body), timeout=100).read()
"""


def ran(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, "run", *options, PROGRAM[0], "-c", AGENT],
        env={**os.environ, "ANTHROPIC_BASE_URL": url},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=True,
    )


def test_an_agent_started_with_the_option_gets_what_earlier_conversations_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = Play(CASES["anthropic"][2], content_type="application/json")
    with serving(whole) as server:
        told = ran(server.url, "--handover").stderr
        assert "nothing to hand over yet" in told
        with refold.open("first") as context:
            context.append({"role": "user", "content": f"Add invoices. {RULE}"}, at="2026-03-01")
        ran(server.url)
        ran(server.url, "--handover")
    assert [RULE in json.dumps(body) for _, _, body in server.seen] == [False, False, True]
