"""Whatever comes to a door is read or refused in words; nothing crashes, and what was read can
be kept and sent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core import codec
from refold.dialects import DIALECTS, anthropic, dialect_of, openai_chat, parse, tool_calls
from refold.errors import Invalid
from tests.dialects.shapes import scalars

KEYS = st.sampled_from((
    "role", "content", "type", "text", "id", "name", "input", "arguments", "function", "custom", "tool_calls",
    "tool_call_id", "tool_use_id", "source", "data", "url", "is_error", "thinking", "signature", "image_url", "file",
    "refusal", "reasoning", "choices", "message", "usage", "cache_control", "metadata", "$",
))  # fmt: skip
WORDS = st.sampled_from((
    "user", "assistant", "system", "tool", "developer", "function", "text", "image", "document", "thinking",
    "redacted_thinking", "tool_use", "tool_result", "image_url", "input_audio", "file", "refusal", "custom", "base64",
    "url", "message", "a", "b",
))  # fmt: skip
anything = st.recursive(
    scalars | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
messages = st.builds(
    lambda rest, role, content: {"role": role, "content": content, **rest},
    st.dictionaries(KEYS.filter(lambda key: key not in ("role", "content")), anything, max_size=3),
    WORDS,
    anything | st.lists(st.dictionaries(KEYS, anything | WORDS, max_size=5), max_size=3),
)


@settings(deadline=None, max_examples=200)
@given(anything | messages)
def test_anything_is_parsed_or_refused_and_comes_back_in_the_same_bytes(value: Any) -> None:
    for door in (
        parse,
        tool_calls,
        openai_chat.parse,
        anthropic.parse,
        openai_chat.reply,
        anthropic.reply,
    ):
        try:
            door(value)
        except Invalid as error:
            assert error.hint
    try:
        [message] = parse(value)
    except Invalid:
        return
    codec.encode(message)
    before = json.dumps([openai_chat.render([message], []), anthropic.render([message], [])])
    assert (
        json.dumps([openai_chat.render([message], []), anthropic.render([message], [])]) == before
    )


@settings(deadline=None, max_examples=200)
@given(st.lists(messages | anything, max_size=4), anything, anything)
def test_the_validators_never_crash(given_messages: list[Any], system: Any, tools: Any) -> None:
    for check in (openai_chat.check, anthropic.check):
        for request in (
            {"messages": given_messages, "system": system, "tools": tools},
            {"messages": system},
            {},
        ):
            assert all(isinstance(fault, str) for fault in check(request))


@settings(deadline=None)
@given(st.dictionaries(KEYS, anything, max_size=5))
def test_asking_for_a_dialect_never_crashes(value: dict[str, Any]) -> None:
    assert dialect_of(value) in (*DIALECTS, None)
