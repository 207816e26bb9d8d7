"""The real SDKs understand what the strict upstream answers: wholes, streams, typed errors. Otherwise
it would be strict about something that no client of the providers sees."""

from __future__ import annotations

import anthropic
import openai
import pytest
from google import genai

from tests.real.proxy.strict.server import serving
from tests.real.proxy.strict.talks import call, result, text, thought

ASK = {"role": "user", "content": "Read it."}
CLAUDE = {"model": "claude-opus-5-5", "max_tokens": 1_000}
KEY = "not-a-key"


@pytest.fixture
def upstream():
    with serving() as running:
        yield running


def test_anthropic_goes_on_with_what_it_streamed(upstream):
    upstream.script.add(
        [thought("Hm."), text("I read."), call("toolu_1", path="a")], [text("Done.")]
    )
    with anthropic.Anthropic(base_url=upstream.url, api_key=KEY, max_retries=0) as client:
        with client.messages.stream(messages=[ASK], **CLAUDE) as stream:
            first = stream.get_final_message()
        said = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
        messages = [ASK, said, {"role": "user", "content": [result("toolu_1")]}]
        second = client.messages.create(messages=messages, **CLAUDE)
        counted = client.messages.count_tokens(messages=messages, model=CLAUDE["model"])
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
    assert second.content[0].text == "Done."
    assert counted.input_tokens == second.usage.input_tokens
    assert upstream.refusals == []


def test_anthropics_typed_errors_are_those_of_the_sdk(upstream):
    with anthropic.Anthropic(base_url=upstream.url, api_key=KEY, max_retries=0) as client:
        asked = {**CLAUDE, "betas": ["compact-2026-09-04"]}
        answer = client.beta.messages.create(
            messages=[ASK], compaction={"type": "summarize"}, **asked
        )
        assert answer.stop_reason == "compaction"
        block = {"role": "assistant", "content": [answer.content[0].to_dict()]}
        client.beta.messages.create(messages=[block, ASK], **asked)
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.beta.messages.create(messages=[ASK, block, ASK], **asked)
    assert "CompactionBlockMisplaced" in type(refused.value).__name__


def test_openai_goes_on_with_what_it_streamed(upstream):
    reasoning = {"type": "reasoning", "summary": []}
    calling = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
    upstream.script.add([reasoning, calling])
    asked = {"model": "gpt-5", "store": False}
    with openai.OpenAI(base_url=f"{upstream.url}/v1", api_key=KEY, max_retries=0) as client:
        with client.responses.stream(input="Read it.", **asked) as stream:
            stream.until_done()
            first = stream.get_final_response()
        output = {"type": "function_call_output", "call_id": "a", "output": "fine"}
        items = [ASK, *(item.to_dict() for item in first.output), output]
        assert client.responses.create(input=items, **asked).output_text == "Done."
        with client.chat.completions.stream(model="gpt-5", messages=[ASK]) as chat:
            assert chat.get_final_completion().choices[0].message.content == "Done."
    assert upstream.refusals == []


def test_gemini_goes_on_with_what_it_was_told(upstream):
    upstream.script.add([{"functionCall": {"name": "read", "args": {"path": "a"}}}])
    client = genai.Client(api_key=KEY, http_options={"base_url": upstream.url})
    types = genai.types
    asked = types.Content(role="user", parts=[types.Part(text="Read it.")])
    first = client.models.generate_content(model="gemini-3-pro", contents=[asked])
    response = types.FunctionResponse(name="read", response={"output": "fine"})
    answer = types.Content(role="user", parts=[types.Part(function_response=response)])
    contents = [asked, first.candidates[0].content, answer]
    chunks = client.models.generate_content_stream(model="gemini-3-pro", contents=contents)
    assert "".join(chunk.text for chunk in chunks) == "Done."
    client.close()
    assert upstream.refusals == []
