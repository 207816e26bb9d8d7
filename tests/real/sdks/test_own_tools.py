"""The real SDKs behind a proxy that answers refold's own tools inside: their streams are whole, what
they repeat is taken by an upstream as strict as the providers, and they never see a call of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from tests.real.proxy.process import Process, proxied
from tests.real.proxy.strict.server import Upstream, serving
from tests.real.proxy.strict.talks import call, result, text, thought

KEY = "not-a-key"
ASK = {"role": "user", "content": "Read it."}
CLAUDE = {"model": "claude-opus-5-5", "max_tokens": 1_000}
READ: Any = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
FUNCTION: Any = {"name": "read", "parameters": SCHEMA, "strict": True}
SEARCH = {"type": "tool_use", "id": "own_1", "name": "refold_search", "input": {"query": "it"}}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as running:
        yield running


@pytest.fixture
def proxy(upstream: Upstream, tmp_path: Path) -> Iterator[Process]:
    with proxied(tmp_path, upstream.url, "--tools") as running:
        yield running


@pytest.mark.parametrize("is_mixed", [False, True])
def test_anthropic_goes_on_with_what_it_streamed(
    is_mixed: bool, upstream: Upstream, proxy: Process
) -> None:
    reads = call("toolu_1", path="a")
    first_round = [thought("Hm."), text("I look."), SEARCH]
    if is_mixed:
        upstream.script.add([*first_round, reads])
    else:
        upstream.script.add(first_round, [thought("So."), text("I read."), reads])
    upstream.script.add([thought("Well."), text("Done.")])
    with anthropic.Anthropic(
        base_url=f"{proxy.url}/anthropic", api_key=KEY, max_retries=0
    ) as client:
        with client.messages.stream(messages=[ASK], tools=[READ], **CLAUDE) as stream:
            events = [one.type for one in stream]
            first = stream.get_final_message()
        said = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
        messages = [ASK, said, {"role": "user", "content": [result("toolu_1")]}]
        second = client.messages.create(messages=messages, tools=[READ], **CLAUDE)
    rounds = 1 if is_mixed else 2
    assert events.count("message_start") == events.count("message_stop") == 1
    kinds = ["thinking", "text"] * rounds + ["tool_use"]
    assert [block.type for block in first.content] == kinds
    assert first.stop_reason == "tool_use"
    assert first.usage.output_tokens > 0
    assert second.content[-1].text == "Done."
    assert upstream.refusals == []
    assert len(upstream.requests) == rounds + 1


def chat_call(id: str, name: str, **given: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(given)}
    return {"id": id, "type": "function", "function": function}


@pytest.mark.parametrize("is_mixed", [False, True])
def test_openai_chat_goes_on_with_what_it_streamed(
    is_mixed: bool, upstream: Upstream, proxy: Process
) -> None:
    own, reads = chat_call("own_1", "refold_search", query="it"), chat_call("c1", "read")
    if is_mixed:
        upstream.script.add({"content": "I look.", "tool_calls": [own, reads]})
    else:
        upstream.script.add({"content": "I look.", "tool_calls": [own]})
        upstream.script.add({"content": "I read.", "tool_calls": [reads]})
    tools: Any = [{"type": "function", "function": FUNCTION}]
    with openai.OpenAI(base_url=f"{proxy.url}/openai/v1", api_key=KEY, max_retries=0) as client:
        with client.chat.completions.stream(
            model="gpt-5.5", messages=[ASK], tools=tools, stream_options={"include_usage": True}
        ) as stream:
            for _ in stream:
                pass
            first = stream.get_final_completion()
        message = first.choices[0].message
        made = [one.to_dict() for one in message.tool_calls or []]
        for one in made:
            one["function"].pop("parsed_arguments", None)
            one.pop("index", None)
        said: Any = {"role": "assistant", "content": message.content, "tool_calls": made}
        given: Any = {"role": "tool", "tool_call_id": "c1", "content": "x"}
        second = client.chat.completions.create(
            model="gpt-5.5", messages=[ASK, said, given], tools=tools
        )
    assert message.role == "assistant"
    assert message.content == ("I look." if is_mixed else "I look.\n\nI read.")
    assert [one["function"]["name"] for one in made] == ["read"]
    assert first.usage is not None and first.usage.prompt_tokens > 0
    assert second.choices[0].message.content == "Done."
    assert upstream.refusals == []


def item_call(id: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(given)}


@pytest.mark.parametrize("is_mixed", [False, True])
def test_openai_responses_go_on_with_what_they_streamed(
    is_mixed: bool, upstream: Upstream, proxy: Process
) -> None:
    thinks = {"type": "reasoning", "summary": []}
    own, reads = item_call("own_1", "refold_search", query="it"), item_call("c1", "read")
    if is_mixed:
        upstream.script.add([thinks, own, reads])
    else:
        upstream.script.add([thinks, own], [thinks, reads])
    tools: Any = [{"type": "function", **FUNCTION}]
    fields: Any = {"model": "gpt-5.5", "tools": tools, "store": False}
    fields["include"] = ["reasoning.encrypted_content"]
    with openai.OpenAI(base_url=f"{proxy.url}/openai/v1", api_key=KEY, max_retries=0) as client:
        with client.responses.stream(input=[ASK], **fields) as stream:
            numbers = [one.sequence_number for one in stream]
            first = stream.get_final_response()
        items = [one.to_dict() for one in first.output]
        for one in items:
            one.pop("parsed_arguments", None)
        given: Any = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        second = client.responses.create(input=[ASK, *items, given], **fields)
    assert numbers == sorted(set(numbers))
    called = [one.name for one in first.output if one.type == "function_call"]
    assert called == ["read"]
    assert second.output_text == "Done."
    assert upstream.refusals == []


def gemini_call(name: str, **given: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": given}}


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("streams", [False, True])
def test_gemini_goes_on_with_what_it_got(
    streams: bool, is_mixed: bool, upstream: Upstream, proxy: Process
) -> None:
    """A chat of the SDK's keeps every chunk of a stream as a content of its own."""
    own, reads = gemini_call("refold_search", query="it"), gemini_call("read")
    first_round = [{"text": "I "}, {"text": "look."}, own]
    if is_mixed:
        upstream.script.add([*first_round, reads])
    else:
        upstream.script.add(first_round, [{"text": "I read."}, reads])
    function: Any = {"name": "read", "description": "Reads.", "parameters_json_schema": SCHEMA}
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[function])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    given = types.Part.from_function_response(name="read", response={"output": "x"})
    options = types.HttpOptions(base_url=f"{proxy.url}/gemini")
    with genai.Client(api_key=KEY, http_options=options) as client:
        chat = client.chats.create(model="gemini-3-pro", config=config)
        if streams:
            answers = list(chat.send_message_stream("Read it."))
        else:
            answers = [chat.send_message("Read it.")]
        second = chat.send_message(given)
    called = [one.name for answer in answers for one in answer.function_calls or []]
    said = "".join(part.text or "" for answer in answers for part in answer.parts or [])
    assert called == ["read"]
    assert said == ("I look." if is_mixed else "I look.\n\nI read.")
    assert second.text == "Done."
    assert upstream.refusals == []
    sent = [json.loads(one.raw)["contents"] for one in upstream.requests]
    assert len(sent) == (2 if is_mixed else 3)
    assert "refold_search" in json.dumps(sent[-1]), "what was said inside goes up again"
