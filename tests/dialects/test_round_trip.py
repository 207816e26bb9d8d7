"""parse, then render, is the identity for every provider, and edits keep what they do not touch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Message, Opaque, Replace, Text, Thinking, ToolCall, ToolResult
from refold.core.shortened import edited
from refold.dialects import anthropic, dialect, openai_chat
from tests.dialects import shapes
from tests.dialects.test_golden import lawful, stored

RELAXED = settings(deadline=None, max_examples=60)


def parsed(name: str, wires: list[dict[str, Any]]) -> list[Message]:
    return [message for wire in wires for message in dialect(name).parse(wire)]


def once(name: str, wire: dict[str, Any]) -> dict[str, Any]:
    """The message rendered alone."""
    [rendered] = dialect(name).render(parsed(name, [wire]), [])
    return rendered


@RELAXED
@given(shapes.openai_lists)
def test_openai_messages_come_back_byte_for_byte(wires: list[dict[str, Any]]) -> None:
    rendered = openai_chat.render([stored(m) for m in parsed("openai_chat", wires)], [])
    assert json.dumps(rendered) == json.dumps(wires)


@RELAXED
@given(shapes.anthropic_lists)
def test_anthropic_messages_come_back_byte_for_byte(wires: list[dict[str, Any]]) -> None:
    rendered = anthropic.render([stored(m) for m in parsed("anthropic", wires)], [])
    assert json.dumps(rendered) == json.dumps(wires)


@RELAXED
@given(shapes.openai_lists.filter(bool))
def test_openai_messages_are_valid_for_anthropic(wires: list[dict[str, Any]]) -> None:
    rendered = anthropic.render(lawful(parsed("openai_chat", wires)), [])
    assert (
        anthropic.check(anthropic.request(rendered, system=None, tools=None, marks=[], lost=[]))
        == []
    )


@RELAXED
@given(shapes.anthropic_lists.filter(bool))
def test_anthropic_messages_are_valid_for_openai(wires: list[dict[str, Any]]) -> None:
    request = {"messages": openai_chat.render(parsed("anthropic", wires), [])}
    assert openai_chat.check(request) == []


anyone = st.tuples(st.just("openai_chat"), shapes.openai_lists) | st.tuples(
    st.just("anthropic"), shapes.anthropic_lists
)


@RELAXED
@given(anyone, st.data())
def test_every_edit_shows_once_in_either_dialect(
    given: tuple[str, list[dict[str, Any]]], data: st.DataObject
) -> None:
    messages = parsed(*given)
    notices = []
    for index, message in enumerate(messages):
        if message.blocks and data.draw(st.booleans()):
            block = data.draw(st.integers(0, len(message.blocks) - 1))
            messages[index] = edited(
                message, Replace(batch="b", seq=1, block=block, text=f"[cleared #{index}]")
            )
            if not isinstance(message.blocks[block], Thinking):
                notices.append(f"[cleared #{index}]")
    for speaker in (openai_chat, anthropic):
        rendered = json.dumps(speaker.render(messages, []))
        assert [rendered.count(notice) for notice in notices] == [1] * len(notices)
        if messages:
            assert [
                fault
                for fault in speaker.check({"messages": json.loads(rendered)})
                if "empty" in fault
            ] == []


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "openai_responses"])
def test_an_unknown_block_survives(name: str) -> None:
    wire = {"role": "user", "content": [{"type": "foo", "a": 1}]}
    assert once(name, wire) == wire


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("openai_chat", {"role": "user", "content": "hi", "name": "ann"}),
        (
            "openai_chat",
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": "long",
                "name": "read",
                "x": {"$": "text"},
            },
        ),
        (
            "openai_chat",
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [{"type": "text", "text": "long", "x": 1}],
            },
        ),
        (
            "anthropic",
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "x": 1, "content": "long"}],
            },
        ),
    ],
)
def test_an_edited_block_keeps_the_unknown_keys_around_it(name: str, wire: dict[str, Any]) -> None:
    [message] = dialect(name).parse(wire)
    [rendered] = dialect(name).render(
        [edited(message, Replace(batch="b", seq=1, block=0, text="[cleared]"))], []
    )
    text = json.dumps(wire).replace('"long"', '"[cleared]"').replace('"hi"', '"[cleared]"')
    assert json.dumps(rendered) == text


@pytest.mark.parametrize(
    "content", [None, [], [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "x": 1}]]
)
def test_a_result_cleared_to_a_notice_shows_it_whatever_it_was(content: Any) -> None:
    [message] = anthropic.parse(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}],
        }
    )
    [rendered] = anthropic.render(
        [edited(message, Replace(batch="b", seq=1, block=0, text="[cleared]"))], []
    )
    shown = rendered["content"][0]["content"]
    assert shown in ("[cleared]", [{"type": "text", "text": "[cleared]"}])


def test_an_image_replaced_by_a_notice_leaves_the_other_parts_as_they_came() -> None:
    wire = {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "x": 1}},
            {"type": "text", "text": "what?", "y": 2},
        ],
    }
    [message] = openai_chat.parse(wire)
    [rendered] = openai_chat.render(
        [edited(message, Replace(batch="b", seq=1, block=0, text="[image]"))], []
    )
    assert rendered["content"] == [
        {"type": "text", "text": "[image]"},
        {"type": "text", "text": "what?", "y": 2},
    ]


def test_a_message_that_lost_a_block_no_longer_fits_its_form() -> None:
    wire = {
        "role": "assistant",
        "content": "a",
        "x": 1,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    [message] = openai_chat.parse(wire)
    fewer = Message(
        role="assistant", blocks=message.blocks[:2], dialect=message.dialect, form=message.form
    )
    assert openai_chat.render([fewer], []) == [
        {"role": "assistant", "content": "a", "tool_calls": wire["tool_calls"][:1]}  # type: ignore[index]
    ]


@pytest.mark.parametrize(
    ("name", "wire", "left"),
    [
        (
            "openai_chat",
            {"role": "assistant", "content": "a", "reasoning": "r"},
            {"role": "assistant", "content": "a"},
        ),
        (
            "anthropic",
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "r", "signature": "s", "x": 1},
                    {"type": "text", "text": "a"},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        ),
    ],
)
def test_removed_thinking_leaves_nothing_behind(
    name: str, wire: dict[str, Any], left: dict[str, Any]
) -> None:
    [message] = dialect(name).parse(wire)
    lost: list[str] = []
    blocks = (Thinking(), *message.blocks[1:])
    gone = Message(role="assistant", blocks=blocks, dialect=name, form=message.form)
    assert dialect(name).render([gone], lost) == [left]
    assert not any("thinking" in line for line in lost)


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "openai_responses"])
def test_cache_marks_are_not_content(name: str) -> None:
    marks = {
        "cache_control": {"type": "ephemeral"},
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }
    marked = {"role": "user", "content": [{"type": "text", "text": "hi", **marks}], **marks}
    plain = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    [one], [other] = dialect(name).parse(marked), dialect(name).parse(plain)
    assert (one.blocks, one.form) == (other.blocks, other.form)


def test_a_cache_mark_inside_arguments_is_content() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"cache_control": 1}}
    wire = {"role": "assistant", "content": [call]}
    assert once("anthropic", wire) == wire


def test_marks_inside_results_are_taken_off() -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    [message] = anthropic.parse(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [part]}],
        }
    )
    [shown] = anthropic.render([message], [])[0]["content"]
    assert "cache_control" not in json.dumps(shown["content"])
    assert shown["cache_control"] == {"type": "ephemeral"}, "it counts for the result"


def test_lone_surrogates_show_as_replacement_characters() -> None:
    [message] = openai_chat.parse({"role": "user", "content": "a\ud800b"})
    kept = stored(message)
    assert isinstance(kept.blocks[0], Opaque)
    assert openai_chat.render([kept], []) == [{"role": "user", "content": "a\ufffdb"}]
    assert anthropic.render([kept], []) == [{"role": "user", "content": "a\ufffdb"}]
    result = stored(
        openai_chat.parse({"role": "tool", "tool_call_id": "c", "content": "a\ud800b"})[0]
    )
    assert openai_chat.render([result], []) == [
        {"role": "tool", "tool_call_id": "c", "content": "a\ufffdb"}
    ]


def test_metadata_is_ours_and_not_sent() -> None:
    [message] = openai_chat.parse({"role": "user", "content": "hi", "metadata": {"importance": 3}})
    assert message == Message(
        role="user", blocks=(Text("hi"),), dialect="openai_chat", metadata={"importance": 3}
    )
    assert openai_chat.render([message], []) == [{"role": "user", "content": "hi"}]


def test_plain_messages_need_no_form() -> None:
    wires = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "name": "f", "arguments": {}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]
    assert [message.form for message in parsed("openai_chat", wires)] == [None, None, None]
    assert parsed("openai_chat", wires)[1].blocks == (ToolCall("c", "f", {}),)
    assert parsed("openai_chat", wires)[2].blocks == (ToolResult("c", (Text("x"),)),)
