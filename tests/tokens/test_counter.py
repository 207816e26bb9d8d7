"""Counting messages, system prompts and tools, with the estimate and with a caller's own
counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import (
    Block,
    Media,
    Message,
    Opaque,
    Replace,
    Span,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import edited
from refold.errors import Invalid
from refold.tokens.counter import (
    ESTIMATE,
    MESSAGE_TOKENS,
    count_block,
    count_message,
    count_system,
    count_tools,
    custom,
)


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    "block",
    [
        Text("hello"),
        Thinking("let me see"),
        Thinking(data="c2VhbGVk"),
        ToolCall("1", "read"),
        ToolCall("1", "read", '{"path": "a.py"}'),
        ToolCall("1", "read", "not even json {"),
        ToolCall("1", "read", {"path": "a.py", "lines": [1, 2]}),
        ToolResult("1", (Text("done"),)),
        ToolResult("1", (Media("image"),)),
        Media("image"),
        Opaque(raw={"type": "new_block", "value": 1}),
        Opaque(data="\ud800".encode("utf-8", "surrogatepass")),
        Opaque(text="shown"),
    ],
)
def test_a_block_with_content_counts(block: Block) -> None:
    """Y-02: text, image, tool_use, tool_result, thinking: each above 0."""
    assert count_block(block, ESTIMATE) > 0


@pytest.mark.parametrize(
    "block",
    [
        Text(""),
        Thinking(),
        ToolCall("1", ""),
        ToolCall("1", "", {}),
        ToolResult("1"),
        ToolResult("1", (Text(""),)),
        Opaque(),
    ],
)
def test_an_empty_block_counts_nothing_and_its_message_the_frame(block: Block) -> None:
    """Y-02: 0 for empty, plus the overhead of a message."""
    assert count_block(block, ESTIMATE) == 0
    assert count_message(Message(role="user", blocks=(block,)), ESTIMATE) == MESSAGE_TOKENS == 4


def test_a_message_is_its_blocks_and_its_frame() -> None:
    """Y-02: the sum of the blocks, and four."""
    blocks = (
        Text("a word or two"),
        ToolCall("1", "run shell", "x y z"),
        ToolResult("1", (Text("p q"), Media("image"))),
    )
    assert count_message(Message(role="assistant", blocks=blocks), words) == 4 + 4 + (2 + 3) + (
        2 + 1600
    )
    assert count_message(Message(role="user"), words) == 4


def test_arguments_count_as_json_and_never_less_than_their_lines() -> None:
    """Y-02: name and JSON input; for a counter of words the lines are the longer form."""
    arguments = {"path": "a.py", "text": "one two three"}
    assert count_block(ToolCall("1", "write", arguments), len) == 5 + len(
        '{"path":"a.py","text":"one two three"}'
    )
    assert count_block(ToolCall("1", "write", arguments), words) == 1 + (2 + 4)


VALUES = st.text('ab \n"é', max_size=30) | st.integers() | st.booleans()


@given(st.dictionaries(st.text("abcdef_", min_size=1, max_size=8), VALUES, max_size=4))
def test_keeping_every_line_of_the_arguments_never_counts_more_than_the_call(
    arguments: dict[str, Any],
) -> None:
    """Y-09: an edit that shortens nothing must not seem to cost words."""
    call = ToolCall("1", "write", arguments)
    lines = sum(words(f"{key}: {value}") for key, value in arguments.items())
    assert count_block(call, words) >= 1 + lines


def test_sealed_thinking_counts_as_the_text_that_it_seals() -> None:
    """Y-02: a summary beside it is not what is billed."""
    assert count_block(Thinking("short", data="A" * 1600), ESTIMATE) == 300
    assert count_block(Thinking("word " * 100, data="A" * 16), words) == 100


def test_a_shortened_message_counts_less() -> None:
    """Y-09: what an edit removes is the difference of two counts."""
    message = Message(role="tool", blocks=(ToolResult("1", (Text("line\n" * 500),)),))
    short = edited(message, Replace(batch="b", seq=1, block=0, keep=(Span(1, 3),)))
    assert count_message(short, ESTIMATE) < count_message(message, ESTIMATE) / 10


def test_values_that_json_cannot_hold_are_still_counted() -> None:
    """Y-02: lone surrogates and foreign objects come in from callers; nothing raises."""
    assert count_block(ToolCall("1", "write", {"text": "\ud800 and more"}), ESTIMATE) > 3
    assert count_block(Opaque(raw=object()), ESTIMATE) > 0


@pytest.mark.parametrize(
    ("system", "tokens"),
    [
        (None, 0),
        ("", 0),
        ([], 0),
        ("be brief", 4 + 2),
        ([{"type": "text", "text": "be brief"}, "and kind"], 4 + 4),
        ({"text": "be brief"}, 4 + 2),
        ({"parts": [{"text": "be brief"}]}, 4 + 2),
    ],
)
def test_a_system_prompt_counts_in_every_shape(system: object, tokens: int) -> None:
    """Y-10: the system prompt is a part of the breakdown."""
    assert count_system(system, words) == tokens


def test_tools_count_as_their_json() -> None:
    """Y-10: so are the tools."""
    tool = {"name": "read", "input_schema": {"type": "object"}}
    assert count_tools([tool, tool], len) == 2 * len(
        '{"name":"read","input_schema":{"type":"object"}}'
    )
    assert count_tools(None, len) == count_tools([], len) == 0


def test_a_custom_counter_has_the_name_of_its_function() -> None:
    """Y-04: a counter plugged in is used, and says so."""
    counter = custom(words)
    assert (counter.name, counter("a b c")) == ("custom:words", 3)
    assert ESTIMATE.name == "estimate"
    assert custom(Callable_()).name == "custom:Callable_"


class Callable_:
    def __call__(self, text: str) -> int:
        return 1


def _raises(text: str) -> int:
    raise KeyError("vocabulary")


@pytest.mark.parametrize(
    "function",
    [
        lambda text: -1,
        lambda text: 1.5,
        lambda text: None,
        lambda text: True,
        lambda text: "3",
        _raises,
    ],
)
def test_a_custom_counter_that_gives_no_count_is_named(function: Callable[[str], int]) -> None:
    """Y-04: negative, float, nothing, an error: Invalid, with the counter's name and a hint."""
    with pytest.raises(Invalid, match="custom:") as caught:
        count_message(Message(role="user", blocks=(Text("hello"),)), custom(function))
    assert caught.value.hint


def test_what_is_not_callable_is_no_counter() -> None:
    """Y-04: said at once, not at the first message."""
    with pytest.raises(Invalid, match="callable"):
        custom(3)  # type: ignore[arg-type]


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())), max_size=4))
def test_every_message_has_a_count(texts: list[str]) -> None:
    """Y-02: never below the frame, never an error, always the same."""
    message = Message(role="user", blocks=tuple(Text(text) for text in texts))
    assert count_message(message, ESTIMATE) == count_message(message, ESTIMATE) >= MESSAGE_TOKENS
