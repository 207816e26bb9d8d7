"""A conversation through each provider's own SDK: refold's request is accepted, the SDK's objects
are recorded, results are appended, and the next request goes out as it should."""

from __future__ import annotations

import json
from typing import Any

import pytest

import refold
from refold.dialects import dialect
from tests.real.sdks import wire
from tests.real.sdks.providers import PROVIDERS, Provider
from tests.servers import Play, Server, serving

TOOLS = [
    {
        "name": "read",
        "description": "Reads a file",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    }
]
STREAM = {"content_type": "text/event-stream"}
JSON = {"content_type": "application/json"}
each = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


def opened(provider: Provider, **given: Any) -> refold.Context:
    config = refold.Config(dialect=provider.dialect)
    context = refold.open(
        "work",
        store="memory:",
        model=provider.model,
        config=config,
        system="You fix tests.",
        tools=TOOLS,
        **given,
    )
    context.append({"role": "user", "content": "Read a.py and b.py"})
    return context


def request(context: refold.Context, provider: Provider) -> dict[str, Any]:
    asked = context.request(provider.dialect)
    assert dialect(provider.dialect).check(asked) == []
    return asked


def answer_calls(context: refold.Context, response: Any) -> None:
    calls = refold.tool_calls(response)
    assert [(call.name, call.arguments["path"]) for call in calls] == [
        ("read", "a.py"),
        ("read", "b.py"),
    ]
    for call in calls:
        context.append_result(call.id, f"print('{call.arguments['path']}')")


def first_turn(provider: Provider) -> tuple[refold.Context, Any]:
    """A context in which the first turn was recorded from a plain response object."""
    context = opened(provider)
    with serving(Play(provider.body(0), **JSON)) as server:
        response = provider.create(server.url, request(context, provider))
    context.record(response)
    return context, response


def sent(server: Server, field: str) -> Any:
    return server.seen[-1][2][field]


def error_of(provider: Provider, url: str, asked: dict[str, Any]) -> Exception:
    """The SDK's own error."""
    with pytest.raises(provider.error) as raised:
        provider.create(url, asked)
    return raised.value


def field_of(provider: Provider) -> str:
    return {"openai_responses": "input", "gemini": "contents"}.get(provider.dialect, "messages")


@each
def test_a_conversation_of_plain_responses(provider: Provider) -> None:
    context, response = first_turn(provider)
    answer_calls(context, response)
    asked = request(context, provider)
    with serving(Play(provider.body(1), **JSON)) as server:
        response = provider.create(server.url, asked)
        said = json.dumps(sent(server, field_of(provider)))
    assert "print('a.py')" in said and "print('b.py')" in said
    context.record(response)
    assert refold.tool_calls(response) == []
    assert wire.DONE in str(request(context, provider))
    usage = context.stats().billed
    assert (usage.input, usage.output, usage.cache_read) == (400, 40, 80)


@each
def test_a_recorded_object_goes_back_as_its_json_came(provider: Provider) -> None:
    context, response = first_turn(provider)
    by_hand = opened(provider)
    request(by_hand, provider)  # what was sent once is marked for the cache in the next request
    by_hand.record(provider.body(0))
    answer_calls(context, response)
    answer_calls(by_hand, provider.body(0))
    with serving(Play(provider.body(1), **JSON)) as server:
        for one in (context, by_hand):
            provider.create(server.url, request(one, provider))
    [(_, _, from_object), (_, _, from_json)] = server.seen
    assert from_object == from_json
    field = field_of(provider)
    if provider.dialect != "gemini":  # its SDK makes objects of its own from what it is given
        assert from_json[field] == request(by_hand, provider)[field]


@pytest.mark.parametrize(
    "provider",
    [pytest.param(one, id=name) for name, one in PROVIDERS.items() if one.stream],
)
def test_a_finished_stream_says_the_same_as_a_plain_response(provider: Provider) -> None:
    plain, response = first_turn(provider)
    answer_calls(plain, response)
    context = opened(provider)
    with serving(Play(provider.events(0), **STREAM)) as server:
        assert provider.stream is not None
        stream = provider.stream(server.url, request(context, provider))
    context.record(stream)
    answer_calls(context, stream)
    assert request(context, provider) == request(plain, provider)
    assert context.stats().billed == plain.stats().billed


@each
def test_the_pieces_of_a_stream_say_the_same_as_a_plain_response(provider: Provider) -> None:
    plain, response = first_turn(provider)
    answer_calls(plain, response)
    context = opened(provider)
    with serving(Play(provider.events(0), **STREAM)) as server:
        chunks = provider.chunks(server.url, request(context, provider))
    assert len(chunks) > 3
    context.record(chunks)
    answer_calls(context, chunks)
    assert request(context, provider) == request(plain, provider)


@each
def test_a_message_object_of_the_sdk_can_be_appended(provider: Provider) -> None:
    plain, response = first_turn(provider)
    context = opened(provider)
    request(context, provider)
    messages = {
        "openai_chat": lambda: response.choices[0].message,
        "openai_responses": lambda: {"input": response.output},
        "anthropic": lambda: {"role": "assistant", "content": response.content},
        "gemini": lambda: response.candidates[0].content,
    }
    context.append(messages[provider.dialect]())
    assert context.view.slots[-1].message == plain.view.slots[-1].message
    answer_calls(context, response)
    request(context, provider)


@each
def test_a_conversation_goes_on_at_every_other_provider(provider: Provider) -> None:
    context, response = first_turn(provider)
    answer_calls(context, response)
    for other in PROVIDERS.values():
        asked = {**request(context, other), "model": other.model}
        with serving(Play(other.body(1), **JSON)) as server:
            other.create(server.url, asked)
            said = json.dumps(sent(server, field_of(other)))
        assert "print('a.py')" in said and "print('b.py')" in said


@each
def test_a_compacted_conversation_is_accepted(provider: Provider) -> None:
    context, response = first_turn(provider)
    answer_calls(context, response)
    for n in range(40):
        context.append({"role": "assistant", "content": f"Looked at part {n}. " * 20})
        context.append({"role": "user", "content": f"Go on with part {n + 1}"})
    assert context.compact("gist", target=600).batch
    with serving(Play(provider.body(1), **JSON)) as server:
        context.record(provider.create(server.url, request(context, provider)))
        assert len(sent(server, field_of(provider))) < 80


@each
def test_an_overflow_that_the_sdk_raises_is_recovered_from(provider: Provider) -> None:
    context = opened(provider)
    for n in range(40):
        context.append({"role": "assistant", "content": f"Looked at part {n}. " * 100})
        context.append({"role": "user", "content": f"Go on with part {n + 1}"})
    with serving(Play(provider.overflow, 400, **JSON)) as server:
        error = error_of(provider, server.url, request(context, provider))
    before = context.stats().current
    assert context.recover(error)
    assert context.stats().current < before
    with serving(Play(provider.body(1), **JSON)) as server:
        context.record(provider.create(server.url, request(context, provider)))


@each
def test_another_error_of_the_sdk_is_not_an_overflow(provider: Provider) -> None:
    context = opened(provider)
    refusal = {
        "type": "error",
        "error": {"type": "authentication_error", "message": "bad key", "code": 401},
    }
    with serving(Play(refusal, 401, **JSON)) as server:
        error = error_of(provider, server.url, request(context, provider))
    assert context.recover(error) is False
