"""The page is folded for the request that is sent: with the caller's own system prompt, tools and
limit of the answer, whichever dialect has them where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.config import Config
from refold.dialects import DIALECTS, dialect
from refold.errors import Invalid, RefoldError

WINDOW = 20_000
MODELS = {
    "anthropic": "claude-opus-5", "openai_chat": "gpt-5", "openai_responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
}  # fmt: skip
LIMITS = {
    "anthropic": "max_tokens", "openai_chat": "max_completion_tokens",
    "openai_responses": "max_output_tokens", "gemini": "max_output_tokens",
}  # fmt: skip
Wire = dict[str, Any]


def opened(name: str, **more: Any) -> refold.Context:
    # A model outside the table: its window is a limit, and not a wish.
    context = refold.open(
        "c", store="memory:", model="a-model", window=WINDOW, counter="estimate", **more
    )
    for number in range(40):
        context.append({"role": "user", "content": f"question {number}\n" + "some words\n" * 90})
        context.append({"role": "assistant", "content": f"answer {number}\n" + "as such\n" * 90})
    context.append({"role": "user", "content": "go"})
    return context


def options_of(name: str, system: int, answer: int) -> Wire:
    text = "a rule of the house\n" * system
    own: Wire = {LIMITS[name]: answer} if answer else {}
    if name == "gemini":
        return {"config": own | ({"system_instruction": text} if text else {})}
    key = "instructions" if name == "openai_responses" else "system"
    return own | ({key: text} if text and name != "openai_chat" else {})


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*DIALECTS]), st.integers(0, 1_500), st.integers(0, 9_000))
def test_what_is_sent_fits_with_its_answer(name, system, answer):
    with opened(name) as context:
        try:
            request = context.request(name, **options_of(name, system, answer))
        except RefoldError as error:
            assert error.hint
            assert system * 5 + answer > WINDOW // 3  # there was hardly any room
            return
        sent = context.count(json.dumps(request, ensure_ascii=False))
        assert sent * 0.9 + answer <= WINDOW


@pytest.mark.parametrize("asked", [1_000, 500_000])
def test_the_configured_length_of_an_answer_is_capped_by_the_model(asked):
    config = Config(output_tokens=asked)
    with refold.open(
        "c", store="memory:", model="claude-3-5-haiku-latest", config=config
    ) as context:
        context.append({"role": "user", "content": "go"})
        assert context.request()["max_tokens"] == min(asked, 8_192)


TOOLS = [{"name": "run", "input_schema": {"type": "object"}}]


def test_a_config_for_gemini_joins_the_conversations():
    with refold.open(
        "c", store="memory:", model="gemini-2.5-pro", system="S", tools=TOOLS
    ) as context:
        context.append({"role": "user", "content": "go"})
        own = context.request()["config"]
        assert context.request(config={"temperature": 0.5})["config"] == {**own, "temperature": 0.5}
        assert context.request(config=None)["config"] == own
        for key in ("system_instruction", "systemInstruction", "tools"):
            with pytest.raises(Invalid, match="config has") as refusal:
                context.request(config={key: "x"})
            assert "context.update(" in (refusal.value.hint or "")
        with pytest.raises(Invalid, match="cached_content"):
            context.request(config={"cachedContent": "caches/1"})


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("system", [None, "S"])
def test_a_page_without_a_message_is_refused_in_every_dialect(name, system):
    with refold.open("c", store="memory:", model=MODELS[name], system=system) as context:
        context.append({"role": "user", "content": "go"})
        context.append({"role": "system", "content": "a note"})
        context.clear()
        with pytest.raises(Invalid, match="no message") as refusal:
            context.request(name)
        assert refusal.value.hint == "append a user message"
        context.append({"role": "user", "content": "again"})
        assert dialect(name).check(context.request(name)) == []


def test_a_short_answer_may_use_the_room_of_an_assumed_one():
    with refold.open(
        "c", store="memory:", model="a-model", window=2_000, counter="estimate"
    ) as context:
        context.append({"role": "user", "content": "a word " * 1_450})
        assert context.budget.input_max < context.stats().current < 1_900
        whole = context.request(max_completion_tokens=50)
        assert len(str(context.request(max_completion_tokens=900))) < len(str(whole))
        assert context.stats().current <= 1_100
