"""OpenAI Responses: items in and out byte for byte, what edits do to them, and what crosses to
other providers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.laws import settled, without_thinking
from refold.core.model import (
    Media,
    Message,
    Opaque,
    Replace,
    Slot,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import edited
from refold.dialects import anthropic, dialect_of, openai_chat, parse
from refold.dialects import openai_responses as responses
from refold.errors import Invalid
from tests.dialects.responses_shapes import (
    RESPONSE,
    function_call,
    lists,
    message,
    reasoning,
    response,
)
from tests.dialects.test_golden import stored

RELAXED = settings(deadline=None, max_examples=60)
U: dict[str, Any] = {"role": "user", "content": "hi"}


def requested(messages: list[Message], lost: list[str] | None = None) -> dict[str, Any]:
    """The request for messages in lawful order."""
    lost = [] if lost is None else lost
    slots, _ = settled([Slot(seq, seq, one, 0) for seq, one in enumerate(messages, 1)])
    rendered = responses.render([slot.message for slot in slots], lost)
    return responses.request(rendered, system=None, tools=None, marks=[], lost=lost)


def cleared(one: Message, block: int, text: str = "[cleared]") -> Message:
    return edited(one, Replace(batch="b", seq=1, block=block, text=text))


# --- the same provider ---


@RELAXED
@given(lists)
def test_items_come_back_byte_for_byte(items: list[dict[str, Any]]) -> None:
    one_by_one = [stored(parsed) for item in items for parsed in responses.parse(item)]
    together = [stored(parsed) for parsed in responses.parse({"input": items})]
    assert json.dumps(responses.render(one_by_one, [])) == json.dumps(items)
    assert json.dumps(responses.render(together, [])) == json.dumps(items)


@RELAXED
@given(lists)
def test_items_are_valid_for_every_other_provider(items: list[dict[str, Any]]) -> None:
    slots, _ = settled(
        [Slot(n, n, one, 0) for n, one in enumerate(responses.parse({"input": items}), 1)]
    )
    messages = [slot.message for slot in slots]
    for speaker in (openai_chat, anthropic):
        request = speaker.request(
            speaker.render(messages, []), system=None, tools=None, marks=[], lost=[]
        )
        assert speaker.check(request) == []


@RELAXED
@given(lists, st.data())
def test_every_edit_shows_once_and_breaks_no_pair(
    items: list[dict[str, Any]], data: st.DataObject
) -> None:
    messages = responses.parse({"input": items})
    notices = []
    for index, one in enumerate(messages):
        block = data.draw(st.integers(0, len(one.blocks) - 1))
        messages[index] = cleared(one, block, f"[cleared #{index}]")
        notices += [] if isinstance(one.blocks[block], Thinking) else [f"[cleared #{index}]"]
    request = requested(messages)
    text = json.dumps(request)
    assert [text.count(notice) for notice in notices] == [1] * len(notices)
    # Parts that are unknown, and names of calls that are not ours, stay as they came.
    faults = [fault for fault in responses.check(request) if "type 'foo'" not in fault]
    assert faults == []


def test_the_items_of_a_response_are_one_message() -> None:
    [one] = parse(RESPONSE, "openai_responses")
    assert [type(block) for block in one.blocks] == [Thinking, Text, ToolCall]
    assert json.dumps(responses.render([stored(one)], [])) == json.dumps(RESPONSE["output"])


def test_a_list_of_items_is_taken_apart_into_answers_and_what_came_between() -> None:
    items = [
        U,
        *RESPONSE["output"],
        function_call(2, "call_2"),
        {"type": "function_call_output", "call_id": "call_1", "output": "A"},
        {"type": "function_call_output", "call_id": "call_2", "output": "B"},
        message(3, "done"),
    ]
    messages = responses.parse({"input": items})
    assert [one.role for one in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [len(one.blocks) for one in messages] == [1, 4, 1, 1, 1]


def test_no_content_is_stored_twice() -> None:
    sealed = RESPONSE["output"][0]["encrypted_content"]
    kept = json.dumps([stored(one).form for one in responses.parse(RESPONSE)])
    assert not any(text in kept for text in (sealed, "thinking of 1", "Reading.", "path", "call_1"))


def test_a_call_that_the_provider_answered_itself_waits_for_nobody() -> None:
    call = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}}
    ran = {"type": "shell_call_output", "call_id": "c", "output": []}
    [one] = responses.parse(response(1, call, ran, message(1, "done")))
    assert [type(block) for block in one.blocks] == [Opaque, Opaque, Text]
    assert responses.check(requested([*responses.parse(U), one])) == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "brand_new", "text": None},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "tool_search_call", "call_id": None, "arguments": {}},
    ],
)
def test_items_that_we_only_carry_come_back(item: dict[str, Any]) -> None:
    assert json.dumps(
        responses.render([stored(one) for one in responses.parse(item)], [])
    ) == json.dumps([item])


def test_pixels_are_not_counted_as_words() -> None:
    item = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "QUJD" * 1_000,
    }
    [one] = responses.parse({**item, "revised_prompt": "a cat"})
    assert isinstance(one.blocks[0], Opaque)
    assert one.blocks[0].text == "[image: a cat]"


def test_text_in_everybody_elses_words_is_said_in_ours() -> None:
    wire = {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "x": 1}],
    }
    [rendered] = responses.render(responses.parse(wire), [])
    assert rendered["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_text", "text": "b", "x": 1},
    ]
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    assert responses.render(responses.parse(answer), [])[0]["content"] == [
        {"type": "output_text", "text": "a"}
    ]


def test_cache_marks_are_not_content() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    part = {"type": "input_text", "text": "a"}
    marked = {"type": "function_call_output", "call_id": "c", "output": [{**part, **mark}]}
    assert responses.parse(marked) == responses.parse({**marked, "output": [part]})


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "arguments": "{}"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": [1]},
        {"type": "function_call_output", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": ["x"]},
        {"type": "input_text", "text": "a part is no message"},
        {"type": "message", "content": "no role"},
    ],
)
def test_odd_items_are_refused(item: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as error:
        responses.parse(item)
    assert error.value.hint


def test_items_are_told_from_what_looks_like_them() -> None:
    claude = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}],
        "model": "c",
    }
    assert dialect_of(claude) == "anthropic"
    assert {dialect_of(item) for item in RESPONSE["output"]} == {"openai_responses"}
    assert (
        dialect_of({"type": "message", "role": "developer", "content": "x"}) == "openai_responses"
    )
    assert dialect_of({"type": "text", "text": "x"}) is None
    assert dialect_of({"role": "developer", "content": "x"}) == "openai_chat"


# --- edits ---


def test_an_edited_output_keeps_the_unknown_keys_around_it() -> None:
    item = {
        "type": "function_call_output",
        "id": "fc_9",
        "call_id": "c",
        "output": "long",
        "x": {"$": "text"},
    }
    [one] = responses.parse(item)
    assert responses.render([cleared(one, 0)], []) == [{**item, "output": "[cleared]"}]


def test_what_a_shell_gave_can_be_shortened_in_its_own_shape() -> None:
    chunk = {"stdout": "long", "stderr": "", "outcome": {"type": "exit", "exit_code": 3}}
    item = {"type": "shell_call_output", "call_id": "c", "output": [chunk], "max_output_length": 9}
    [one] = responses.parse(item)
    assert responses.render([cleared(one, 0)], []) == [
        {**item, "output": [{**chunk, "stdout": "[cleared]"}]}
    ]


def test_a_screenshot_that_became_a_notice_makes_its_pair_a_function_call() -> None:
    call = {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c",
        "action": {"type": "wait"},
        "status": "completed",
    }
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,QUJD"}
    messages = responses.parse(
        {"input": [U, call, {"type": "computer_call_output", "call_id": "c", "output": shot}]}
    )
    assert requested(messages)["input"][1] == call
    request = requested([*messages[:2], cleared(messages[2], 0)])
    assert request["input"][1:] == [
        {
            "type": "function_call",
            "call_id": "c",
            "name": "computer",
            "arguments": '{"type": "wait"}',
        },
        {"type": "function_call_output", "call_id": "c", "output": "[cleared]"},
    ]
    assert responses.check(request) == []


def test_a_result_without_a_shape_answers_every_kind_of_call() -> None:
    calls = [
        {"type": "custom_tool_call", "call_id": "a", "name": "run", "input": "ls"},
        {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {"command": ["ls"]}},
        {
            "type": "apply_patch_call",
            "call_id": "d",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "brand_new_call", "call_id": "e"},
    ]
    given = [Message(role="tool", blocks=(ToolResult(id, (Text("out"),)),)) for id in "abcde"]
    request = requested([*responses.parse(U), *responses.parse(response(1, *calls)), *given])
    assert [item["type"] for item in request["input"][6:]] == [
        "custom_tool_call_output",
        "shell_call_output",
        "local_shell_call_output",
        "apply_patch_call_output",
        "function_call_output",
    ]
    assert responses.check(request) == []


def test_an_answer_that_lost_its_reasoning_loses_its_item_ids() -> None:  # P5
    slots = [Slot(1, 1, responses.parse(RESPONSE)[0], 0)]
    [slot] = without_thinking(slots, lambda _: False)
    rendered = responses.render([slot.message], [])
    assert [item["type"] for item in rendered] == ["message", "function_call"]
    assert not any("id" in item for item in rendered)
    assert rendered[1]["call_id"] == "call_1"


def test_a_message_that_no_longer_fits_its_form_is_said_in_the_usual_one() -> None:
    [one] = responses.parse(RESPONSE)
    fewer = Message(role="assistant", blocks=one.blocks[:2], dialect=one.dialect, form=one.form)
    assert responses.render([fewer], []) == [
        RESPONSE["output"][0],
        {"role": "assistant", "content": "Reading."},
    ]


# --- across ---


def test_parallel_calls_cross_from_chat_and_back() -> None:
    calls = [
        {
            "id": id,
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"path": "{id}"}}'},
        }
        for id in "ab"
    ]
    wires = [
        U,
        {"role": "assistant", "content": "Reading.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
    ]
    items = responses.render([one for wire in wires for one in openai_chat.parse(wire)], [])
    assert [item.get("type", "message") for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert openai_chat.render(responses.parse({"input": items}), []) == wires


def test_a_result_keeps_its_image() -> None:
    result = ToolResult(
        "a", (Text("seen"), Media("image", mime="image/png", data="QUJD")), is_error=True
    )
    lost: list[str] = []
    [item] = responses.render([Message(role="tool", blocks=(result,))], lost)
    assert item["output"] == [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
    ]
    assert lost == ["openai_responses has no mark for a tool result that is an error"]


@pytest.mark.parametrize(
    ("media", "source", "sent"),
    [
        (
            Media("image", file="file-1"),
            "openai_chat",
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        ),
        (Media("image", file="file-1"), "anthropic", None),
        (Media("audio", mime="audio/mp3", data="QUJD"), "openai_chat", None),
        (
            Media("document", mime="application/pdf", data="QUJD"),
            "anthropic",
            {
                "type": "input_file",
                "filename": "document.pdf",
                "file_data": "data:application/pdf;base64,QUJD",
            },
        ),
        (
            Media("document", url="https://example.org/a"),
            "anthropic",
            {"type": "input_file", "file_url": "https://example.org/a"},
        ),
    ],
)
def test_media_cross_where_they_have_a_form(media: Media, source: str, sent: Any) -> None:
    lost: list[str] = []
    [item] = responses.render(
        [Message(role="user", blocks=(Text("see"), media), dialect=source)], lost
    )
    assert item["content"][1] == sent or (
        sent is None and item["content"][1]["type"] == "input_text"
    )
    assert bool(lost) == (sent is None)


def test_reasoning_of_others_and_odd_names_do_not_cross_unchanged() -> None:
    lost: list[str] = []
    call = ToolCall("x" * 70, "mcp.read file", {"path": "ä"})
    page = [
        Message(role="user", blocks=(Text(""),), dialect="anthropic"),
        Message(role="assistant", blocks=(Thinking("t", "s"), call), dialect="anthropic"),
        Message(role="tool", blocks=(ToolResult("x" * 70),)),
        Message(role="assistant", blocks=(Text(""),), dialect="anthropic"),
    ]
    request = requested(page, lost)
    assert responses.check(request) == []
    user, opening, called, output = request["input"]
    assert user["content"] == "(empty)" and opening["role"] == "user"
    assert called["call_id"] == output["call_id"] != "x" * 70
    assert called["arguments"] == '{"path": "ä"}'
    assert len(lost) == 2


def test_ids_that_are_too_long_are_shortened_alike_for_call_and_output() -> None:
    long = "x" * 70
    page = [
        *responses.parse(function_call(1, long)),
        Message(role="tool", blocks=(ToolResult(long),)),
    ]
    called, output = responses.render(page, [])
    assert called["call_id"] == output["call_id"]
    assert len(called["call_id"]) <= 64


def test_lone_surrogates_show_as_replacement_characters() -> None:
    kept = stored(
        responses.parse({"type": "function_call_output", "call_id": "c", "output": "a\ud800b"})[0]
    )
    assert responses.render([kept], []) == [
        {"type": "function_call_output", "call_id": "c", "output": "a\ufffdb"}
    ]


def test_reasoning_alone_is_kept_but_not_sent() -> None:
    lost: list[str] = []
    messages = [
        *responses.parse(U),
        *responses.parse(response(1, reasoning(1), status="incomplete")),
    ]
    assert requested(messages, lost)["input"] == [U]
    assert lost == ["reasoning is not sent without what it led to"]
