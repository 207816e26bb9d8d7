"""Somebody edits the conversation of a framework while the model answers: what is sent next is taken
by a provider that binds thinking to what was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import refold
from refold.edges.adapters.guest import Guest, same
from refold.stores import open_store
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, MODEL, OLDER, call, posted, result, text, thought

Json = dict[str, Any]


Spelling = Callable[[Json], Json]
DEEDS = ["", "clear", "hide", "undo", "compact", "restore"]


class Host:
    """A framework with a list of its own; it may tell at once what was answered, or only repeat
    it. `spelt` is how it keeps thinking among the parts of OpenAI's form, which `_as_blocks` turns
    into Anthropic's before it is sent; by default it keeps Anthropic's own messages."""

    def __init__(self, *, tells: bool, spelt: Spelling | None = None, model: str = MODEL) -> None:
        self.store, self.tells, self.spelt, self.model = open_store("memory:"), tells, spelt, model
        dialect = "openai_chat" if spelt else "anthropic"
        self.guest = Guest(dialect, self.store, {"model": model, "window": 12_000})
        self.upstream = Upstream(Settings())
        self.messages: list[Json] = [{"role": "user", "content": "Why does it fail?"}]
        self.thoughts: list[int] = []  # how many blocks of thinking each request had

    def step(self, number: int, deed: str = "") -> None:
        """One call, and its result; in every third step words only, and the user's next ones."""
        calls = [call(f"c{number}")] if number % 3 else []
        self.upstream.script.add([thought(f"hm {number}"), text("So."), *calls])
        sent = self.guest.fold("s", self.messages, same, same)
        shown = _as_blocks(sent.shown) if self.spelt else sent.shown
        self.thoughts.append(sum(part["type"] == "thinking" for part in _parts(shown)))
        body: Json = {"model": self.model, "max_tokens": 2_000, "messages": shown}
        if self.model == OLDER:
            body["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
        status, answer = posted(self.upstream, "/v1/messages", body, HEADERS)
        assert status == 200, answer
        reply = {"role": "assistant", "content": answer["content"]}
        output = f"{number}\n" + "line of the file\n" * 150
        following: Json = {"role": "user", "content": output}
        if calls and not self.spelt:
            following = {"role": "user", "content": [result(f"c{number}", output)]}
        if self.spelt:
            thinking, *said = answer["content"]
            placed = self.spelt(thinking)
            content = [*placed.pop("content", []), said[0]]
            reply = {"role": "assistant", "content": content, **placed}
            if calls:
                function = {"name": "read", "arguments": "{}"}
                reply["tool_calls"] = [
                    {"id": f"c{number}", "type": "function", "function": function}
                ]
                following = {"role": "tool", "tool_call_id": f"c{number}", "content": output}
        self.do(deed, sent.conversation)
        if self.tells:
            self.guest.take(sent, lambda: ([reply], answer["usage"]))
        self.messages += [reply, following]

    def do(self, deed: str, conversation: str) -> None:
        if not deed:
            return
        with refold.open(conversation, store=self.store) as shell:
            view = shell.view
            said = [one.seq for one in view.slots if not one.standin and one.seq != view.request]
            match deed:
                case "clear":
                    shell.clear()
                case "hide" if said:
                    shell.hide(said[len(said) // 2])
                case "undo":
                    shell.undo()
                case "compact":
                    shell.compact()
                case "restore":
                    shell.restore(shell.view.head)


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("deed", DEEDS)
def test_an_edit_while_the_model_answers_leaves_a_request_that_is_taken(deed: str, tells: bool):
    host = Host(tells=tells)
    for number in range(24):
        host.step(number, deed if number in (12, 16) else "")
    assert host.upstream.refusals == []


# --- frameworks that keep OpenAI's form, in front of a model that binds its thinking ---


def _as_reasoning(thinking: Json) -> Json:
    """A part of LangChain's standard content."""
    signature = {"signature": thinking["signature"]}
    return {"type": "reasoning", "reasoning": thinking["thinking"], "extras": signature}


def _as_converse(thinking: Json) -> Json:
    """A part as Bedrock's Converse spells it."""
    said = {"text": thinking["thinking"], "signature": thinking["signature"]}
    return {"type": "reasoning_content", "reasoning_content": said}


SPELLINGS: dict[str, Spelling] = {
    "block": lambda thinking: {"content": [thinking]},
    "reasoning": lambda thinking: {"content": [_as_reasoning(thinking)]},
    "converse": lambda thinking: {"content": [_as_converse(thinking)]},
    "thinking_blocks": lambda thinking: {"thinking_blocks": [thinking]},
}


def _as_blocks(messages: list[Json]) -> list[Json]:
    """Messages in OpenAI's form as Anthropic's, thinking first, as the frameworks send them."""
    made = []
    for one in messages:
        content = one["content"] or []
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if one["role"] == "tool":
            results = [result(one["tool_call_id"], one["content"])]
            made.append({"role": "user", "content": results})
            continue
        parts = [*one.get("thinking_blocks", []), *map(_as_thinking, content)]
        for called in one.get("tool_calls", []):
            function = called["function"]
            parts.append(call(called["id"], **json.loads(function["arguments"])))
        made.append({"role": one["role"], "content": parts})
    return made


def _as_thinking(part: Json) -> Json:
    match part:
        case {"type": "reasoning", "reasoning": said, "extras": {"signature": signature}}:
            return {"type": "thinking", "thinking": said, "signature": signature}
        case {"type": "reasoning_content", "reasoning_content": {"text": said, **rest}}:
            return {"type": "thinking", "thinking": said, **rest}
        case _:
            return part


def _parts(messages: list[Json]) -> list[Json]:
    contents = (one["content"] for one in messages)
    return [part for content in contents if isinstance(content, list) for part in content]


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(deadline=None, max_examples=10)
@given(
    tells=some.booleans(),
    deeds=some.dictionaries(some.integers(6, 19), some.sampled_from(DEEDS), max_size=4),
)
def test_signed_thinking_in_another_form_is_sent_as_long_as_its_page_stands(
    spelling: str, tells: bool, deeds: dict[int, str]
):
    host = Host(tells=tells, spelt=SPELLINGS[spelling])
    for number in range(20):
        host.step(number, deeds.get(number, ""))
    assert host.upstream.refusals == []
    native = Host(tells=tells)
    for number in range(20):
        native.step(number, deeds.get(number, ""))
    assert host.thoughts == native.thoughts
    assert max(host.thoughts) > 5


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(deadline=None, max_examples=8)
@given(deeds=some.dictionaries(some.integers(6, 19), some.sampled_from(DEEDS), max_size=4))
def test_an_open_tool_loop_begins_with_thinking_in_every_spelling(
    spelling: str, deeds: dict[int, str]
):
    host = Host(tells=True, spelt=SPELLINGS[spelling], model=OLDER)
    for number in range(20):
        host.step(number, deeds.get(number, ""))
    assert host.upstream.refusals == []
