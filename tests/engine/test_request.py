"""`request()` is the whole call: the model, the limit of the answer, the caller's own arguments."""

from __future__ import annotations

import pytest

import refold
from refold import dialects
from refold.tokens.models import table

NAMES = sorted(table().models)


def asked(dialect: str | None = None, **given) -> dict:
    context = refold.open("work", store="memory:", **given)
    context.append({"role": "user", "content": "hello"})
    return context.request(dialect)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_is_called_by_the_name_it_was_given(name):
    spelt = name.upper() if name.islower() else name
    request = asked(model=spelt)
    assert request["model"] == spelt
    if "max_tokens" in request:
        info = refold.model_info(spelt)
        assert 1 <= request["max_tokens"] <= min(8_192, info.output or 8_192)


@pytest.mark.parametrize("dialect", dialects.DIALECTS)
def test_another_providers_format_leaves_the_model_out(dialect):
    own = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}.get(dialect, "gpt-4o")
    other = "gpt-4o" if dialect == "anthropic" else "claude-sonnet-4-5"
    assert asked(dialect, model=own)["model"] == own
    assert "model" not in asked(dialect, model=other)
    assert asked(dialect, model="nobody-knows-it")["model"] == "nobody-knows-it"
    assert "model" not in asked(dialect)
    assert ("max_tokens" in asked(dialect)) == (dialect == "anthropic")


@pytest.mark.parametrize("window, reserve", [(1_000, None), (8_000, 2_000), (200_000, 100)])
def test_the_answer_is_never_longer_than_the_reserve(window, reserve):
    config = refold.Config(reserve_tokens=reserve)
    request = asked("anthropic", window=window, config=config)
    context = refold.open("work", store="memory:", window=window, config=config)
    assert request["max_tokens"] <= context.budget.reserve


def test_arguments_of_the_caller_come_last():
    context = refold.open("work", store="memory:", config={"output_tokens": 77})
    context.append({"role": "user", "content": "hello"})
    request = context.request("anthropic", temperature=0, model="mine")
    assert (request["temperature"], request["model"], request["max_tokens"]) == (0, "mine", 77)
    assert context.request("anthropic", max_tokens=5)["max_tokens"] == 5


def chunks_of(text: str) -> list[dict]:
    parts = [{"role": "assistant", "content": ""}, *({"content": word} for word in text.split(" "))]
    frame = {"id": "r1", "object": "chat.completion.chunk", "model": "gpt-4o"}
    made = [{**frame, "choices": [{"index": 0, "delta": part}]} for part in parts]
    return [*made, {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def test_a_stream_is_handed_on_and_recorded():
    context = refold.open("work", store="memory:", model="gpt-4o")
    context.append({"role": "user", "content": "hello"})
    context.request()
    chunks = chunks_of("well met")
    assert list(context.stream(iter(chunks))) == chunks
    assert context.view.slots[-1].message.blocks[0].text == "wellmet"


def test_a_stream_that_breaks_is_recorded_as_far_as_it_came():
    def broken():
        yield from chunks_of("well met")[:2]
        raise ConnectionError("gone")

    context = refold.open("work", store="memory:", model="gpt-4o")
    context.append({"role": "user", "content": "hello"})
    context.request()
    with pytest.raises(ConnectionError):
        list(context.stream(broken()))
    assert context.view.slots[-1].message.blocks[0].text == "well"
    assert context.request()["messages"][-1]["content"] == "well"


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", None])
@pytest.mark.parametrize("dialect", dialects.DIALECTS)
def test_a_page_is_in_the_dialect_of_the_last_request(dialect, model, is_raw):
    context = refold.open("work", store="memory:", model=model)
    context.append({"role": "user", "content": "hello"})
    context.append(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            ],
        }
    )
    context.append_result("c1", "a line")
    usual = context.page()
    for settle in (True, False):
        context.request(dialect, raw=is_raw)
        assert context.page(settle=settle) == context.page(dialect, settle=settle)
        assert context.page(at=context.view.head) == context.page(dialect)
        context.request()
        assert context.page() == usual
    context.request(dialect)
    context.update(model="gpt-4o")  # of another model there was no request yet
    assert context.page() == context.page("openai_chat")
