"""Long tool loops in a small window, answered by an upstream that signs and refuses as the providers
do: not one request of refold's is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import refold
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, call, posted, text, thought

Json = dict[str, Any]
WINDOW = 24_000
TURNS = 25


def claude_says(chance: Random, ids: list[str]) -> list[Json]:
    thinks = [thought("hm " * chance.randint(1, 60))] if chance.random() < 0.8 else []
    return [*thinks, text("so " * chance.randint(1, 60)), *(call(id, path="a") for id in ids)]


def chat_says(chance: Random, ids: list[str]) -> Json:
    function = {"name": "read", "arguments": '{"path": "a"}'}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    said: Json = {"role": "assistant", "content": "so " * chance.randint(1, 60)}
    return {**said, "tool_calls": calls} if calls else said


def responses_say(chance: Random, ids: list[str]) -> list[Json]:
    said = [{"type": "output_text", "text": "so " * chance.randint(1, 60), "annotations": []}]
    items: list[Json] = [{"type": "reasoning", "summary": []}] if chance.random() < 0.8 else []
    items.append({"type": "message", "role": "assistant", "content": said})
    calls = (
        {"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"} for id in ids
    )
    return [*items, *calls]


def gemini_says(chance: Random, ids: list[str]) -> list[Json]:
    said = [{"text": "so " * chance.randint(1, 60)}]
    return said + [{"functionCall": {"id": id, "name": "read", "args": {}}} for id in ids]


def of_gemini(request: Json) -> Json:
    """The body that the SDK makes of a call's keywords."""
    body = {"contents": request["contents"]}
    body |= {"systemInstruction": request.get("config", {}).get("system_instruction")}
    return json.loads(json.dumps(body))


def as_it_is(request: Json) -> Json:
    return request


KEY = {**HEADERS, "authorization": "Bearer key", "x-goog-api-key": "key"}
MANUAL = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}
ADAPTIVE = {"thinking": {"type": "adaptive"}}
Says = Callable[[Random, list[str]], Any]
PROVIDERS: dict[str, tuple[str, str, Says, Callable[[Json], Json], Json]] = {
    "claude-opus-5-5": ("anthropic", "/v1/messages", claude_says, as_it_is, ADAPTIVE),
    "claude-opus-4-1": ("anthropic", "/v1/messages", claude_says, as_it_is, MANUAL),
    "gpt-4.1": ("openai_chat", "/v1/chat/completions", chat_says, as_it_is, {}),
    "gpt-5": ("openai_responses", "/v1/responses", responses_say, as_it_is, {"store": False}),
    "gemini-3-pro-preview": (
        "gemini",
        "/v1beta/models/gemini-3-pro-preview:generateContent",
        gemini_says,
        of_gemini,
        {},
    ),
}


def said_by_system(chance: Random) -> list[Json]:
    """What Claude Code says as the system, behind a user's message: words, or a setting alone."""
    sets: Json = {"output_config": {"effort": chance.choice(["low", "high"])}}
    words = {"role": "system", "content": "Mind the house rules."}
    listed = {"role": "system", "content": [text("Mind them.")], **sets}
    silent = {"role": "system", "content": [], **sets}
    return chance.choice([[], [words], [listed], [silent]])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model", PROVIDERS)
def test_a_long_loop_is_never_refused(model, seed):
    dialect, path, says, body_of, keywords = PROVIDERS[model]
    chance, upstream = Random(seed), Upstream(Settings(window=WINDOW))

    def sent(ids: list[str]) -> None:
        """One request and its answer."""
        upstream.script.add(says(chance, ids))
        request = context.request(dialect, **keywords)
        status, answer = posted(upstream, path, body_of(request), KEY)
        assert status == 200, answer
        context.record(answer)

    with refold.open("work", store="memory:", model=model, window=WINDOW) as context:
        for turn in range(TURNS):
            words = f"step {turn} " + "why " * chance.randint(1, 60)
            context.append({"role": "user", "content": words})
            for message in said_by_system(chance) if dialect == "anthropic" else []:
                context.append(message)
            for step in range(4):
                count = chance.randint(0, 2) if step < 3 else 0
                ids = [f"c{turn}_{step}_{n}" for n in range(count)]
                sent(ids)
                for id in ids:
                    context.append_result(id, "a line of output\n" * chance.randint(1, 300))
                if not ids:
                    break
            if chance.random() < 0.1:
                context.compact()
            elif chance.random() < 0.05:
                context.undo()
        assert any(slot.edits for slot in context.view.slots)
    assert upstream.refusals == []


@pytest.mark.parametrize("seed", range(3))
def test_a_page_folded_from_the_list_of_a_host_keeps_what_it_was_thought_under(seed):
    """The host sends its own list until the page has an edit; from then on refold's page is sent:
    the thinking that stays on it was thought under the host's words."""
    chance, upstream = Random(seed), Upstream(Settings())
    mine: list[Json] = []
    with refold.open("host", store="memory:", model="claude-opus-5-5", window=WINDOW) as context:
        for turn in range(40):
            mine.append(
                {"role": "user", "content": f"step {turn} " + "why " * chance.randint(1, 60)}
            )
            mine += said_by_system(chance)
            ids = [f"c{turn}"]
            for _ in range(2):
                context.mirror(mine)
                is_folded = any(slot.edits for slot in context.view.slots)
                request = context.request("anthropic", **ADAPTIVE)
                is_folded = is_folded or any(slot.edits for slot in context.view.slots)
                body = request if is_folded else {**request, "messages": mine}
                upstream.script.add(claude_says(chance, ids))
                status, answer = posted(upstream, "/v1/messages", body, KEY)
                assert status == 200, answer
                mine.append({"role": "assistant", "content": answer["content"]})
                if ids:
                    output = "a line of output\n" * chance.randint(50, 300)
                    result = {"type": "tool_result", "tool_use_id": ids[0], "content": output}
                    mine.append({"role": "user", "content": [result]})
                ids = []
        assert any(slot.edits for slot in context.view.slots)
    assert upstream.refusals == []
