"""What the Responses API would refuse, each with the words of its fault; requests made, and
responses taken apart."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core import codec
from refold.core.model import Text, ToolCall, Usage
from refold.dialects import anthropic, openai_chat, tool_calls
from refold.dialects import openai_responses as responses
from refold.dialects.openai_responses import check
from refold.errors import Invalid
from tests.dialects.responses_shapes import RESPONSE, function_call, message, reasoning, response
from tests.dialects.shapes import scalars
from tests.dialects.test_reply import Model
from tests.dialects.test_request import CLAUDE_TOOL, EPHEMERAL, OPENAI_TOOL, SCHEMA

U: dict[str, Any] = {"role": "user", "content": "hi"}


def called(call: Any = "a", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call, "name": "f", "arguments": "{}", **more}


def out(id: Any = "a", output: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output, **more}


def says(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


FAULTS: list[tuple[str, Any, str]] = [
    ("no input", [], "at least one item"),
    ("no text", "", "at least one item"),
    ("not an object", ["hi"], "not an object"),
    ("unknown item", [{"type": "foo"}], "an item of type 'foo'"),
    ("no type", [{"text": "x"}], "an item of type None"),
    ("unknown role", [{"role": "tool", "content": "x"}], "unknown role 'tool'"),
    ("number as content", [{"role": "user", "content": 3}], "content is int"),
    ("A2 empty content", [{"role": "user", "content": ""}], "empty content"),
    ("A2 empty list", [says("user")], "empty content"),
    ("A2 empty text", [says("user", {"type": "input_text", "text": ""})], "an empty input_text"),
    ("part of the model", [says("user", {"type": "output_text", "text": "x"})], "'output_text' in a user message"),
    ("part of a user", [U, says("assistant", {"type": "input_text", "text": "x"})], "'input_text' in a assistant"),
    ("part of chat", [says("user", {"type": "text", "text": "x"})], "type 'text'"),
    ("image without source", [says("user", {"type": "input_image"})], "an empty input_image"),
    ("P4 no output", [U, called("a"), called("b"), out("a")], "the call 'b' has no output"),
    ("P4 output before its call", [U, out("a"), called("a")], "a stray output for 'a'"),
    ("P4 second output", [U, called(), out(), out()], "a second output for 'a'"),
    ("P4 output of another type", [U, {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": ""}, out()],
     "a call of another type"),
    ("P4 stray approval", [U, {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}],
     "a stray mcp_approval_response"),
    ("P4 stray program output", [U, {"type": "program_output", "call_id": "p"}], "a stray program_output"),
    ("two calls, one id", [U, called(), out(), called(), out()], "a second call with the call_id 'a'"),
    ("call id not text", [U, called(3), out("a")], "call_id is 3"),
    ("call id too long", [U, called("x" * 65), out("x" * 65)], "call_id has 65 characters"),
    ("odd name", [U, called(name="a b"), out()], "name is 'a b'"),
    ("no name", [U, called(name=None), out()], "name is NoneType"),
    ("arguments as object", [U, called(arguments={}), out()], "arguments is dict"),
    ("number as output", [U, called(), out(output=3)], "output is int"),
    ("empty list as output", [U, called(), out(output=[])], "an empty list as output"),
    ("odd part in an output", [U, called(), out(output=[{"type": "output_text", "text": "x"}])], "in an output"),
    ("screenshot as text", [U, {"type": "computer_call", "call_id": "a"}, {
        "type": "computer_call_output", "call_id": "a", "output": "x"}], "output is str"),
    ("P5 reasoning last", [U, reasoning(1)], "reasoning without its following item"),
    ("P5 reasoning before a user", [U, reasoning(1), U], "reasoning without its following item"),
    ("P5 reasoning before an output", [U, called(), reasoning(1), out()], "reasoning without its following item"),
    ("reasoning without summary", [U, {"type": "reasoning", "id": "rs_1"}, message(1, "x")], "without a summary"),
    ("reasoning with status", [U, {**reasoning(1), "status": None}, message(1, "x")], "status is not taken back"),
    ("nameless reasoning", [U, {"type": "reasoning", "summary": []}, message(1, "x")], "neither id nor"),
    ("id of a message", [U, {**message(1, "x"), "id": "item_1"}], "does not begin with 'msg'"),
    ("id of a call", [U, called(id="call_1"), out()], "does not begin with 'fc'"),
    ("empty id", [U, called(id=""), out()], "id is ''"),
    ("same id twice", [U, message(1, "x"), message(1, "y")], "2 items with the id 'msg_1'"),
    ("compaction", [U, {"type": "compaction"}], "without its encrypted_content"),
    ("trigger", [U, {"type": "compaction_trigger"}, U], "not the last item"),
    ("reference", [U, {"type": "item_reference"}], "a reference without an id"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("items", "fault"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_faults_are_found(items: Any, fault: str) -> None:
    assert any(fault in found for found in check({"input": items}))


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"tools": []}, "tools: not a list"),
        ({"tools": [OPENAI_TOOL]}, "name is None"),
        ({"tools": [CLAUDE_TOOL]}, "a tool of type None"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "name is 'a b'"),
        (
            {"tools": [{"type": "function", "name": "a", "parameters": []}]},
            "not the schema of an object",
        ),
        ({"instructions": ["x"]}, "instructions: not text"),
        (
            {"store": False, "input": [U, reasoning(1, sealed=False), message(1, "x")]},
            "was not stored, without",
        ),
        (
            {"store": False, "input": [U, {"type": "item_reference", "id": "msg_1"}]},
            "that was not stored",
        ),
    ],
)
def test_faults_beside_the_input_are_found(request_: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in check({"input": [U], **request_}))


def test_sound_requests_have_no_faults() -> None:
    answer = [reasoning(1), message(1, "Reading."), function_call(1, "call_1"), called("b")]
    items = [
        U,
        *answer,
        out("b"),
        out("call_1"),
        {"type": "compaction", "encrypted_content": "x"},
        U,
    ]
    tools = [{"type": "function", "name": "f", "parameters": None}, {"type": "web_search"}]
    assert check({"input": items, "tools": tools, "store": False, "instructions": "s"}) == []
    assert check({"input": "hi"}) == []


# --- request ---


def made(
    items: Any = None, system: Any = None, tools: Any = None, lost: list[str] | None = None
) -> dict[str, Any]:
    lost = [] if lost is None else lost
    return responses.request(items or [U], system=system, tools=tools, marks=[0], lost=lost)


@pytest.mark.parametrize(
    ("system", "instructions"),
    [
        (None, None),
        (" ", None),
        ([], None),
        ("be brief", "be brief"),
        ([{"type": "text", "text": "a", "cache_control": EPHEMERAL}, "b"], "a\n\nb"),
        ({"role": "developer", "content": "a"}, "a"),
    ],
)
def test_the_system_prompt_is_instructions(system: Any, instructions: str | None) -> None:
    assert made(system=system) == {
        "input": [U],
        **({"instructions": instructions} if instructions else {}),
    }


FLAT = {
    "type": "function",
    "strict": False,
    "name": "read",
    "description": "Reads a file",
    "parameters": SCHEMA,
}


@pytest.mark.parametrize(
    "tool", [CLAUDE_TOOL, OPENAI_TOOL, FLAT, {**CLAUDE_TOOL, "cache_control": EPHEMERAL}]
)
def test_tools_are_flat_whatever_they_were(tool: dict[str, Any]) -> None:
    before = copy.deepcopy(tool)
    assert made(tools=[tool])["tools"] == [FLAT]
    assert check(made(tools=[tool])) == []
    assert tool == before


def test_flat_tools_go_to_the_others_in_their_shape() -> None:
    chat = openai_chat.request([U], system=None, tools=[FLAT], marks=[], lost=[])
    assert chat["tools"] == [
        {"type": "function", "function": {**OPENAI_TOOL["function"], "strict": False}}
    ]  # type: ignore[dict-item]
    claude = anthropic.request([U], system=None, tools=[FLAT], marks=[], lost=[])
    assert claude["tools"] == [{**CLAUDE_TOOL, "strict": False}]


def test_a_providers_own_tools_stay_with_it() -> None:
    grammar = {"syntax": "lark", "definition": "start: WORD"}
    chat = {
        "type": "custom",
        "custom": {"name": "run", "format": {"type": "grammar", "grammar": grammar}},
    }
    own = [
        {"type": "web_search"},
        {"type": "custom", "name": "sh"},
        {"type": "mcp", "server_label": "s"},
    ]
    lost: list[str] = []
    tools = made(tools=[*own, chat, {"type": "memory_20250818", "name": "memory"}], lost=lost)[
        "tools"
    ]
    assert tools == [
        *own,
        {"type": "custom", "name": "run", "format": {"type": "grammar", **grammar}},
    ]
    assert lost == ["the tool 'memory' of type 'memory_20250818' is not sent to openai_responses"]


@pytest.mark.parametrize("tool", [3, "read", {"description": "nameless"}])
def test_an_odd_tool_is_refused(tool: Any) -> None:
    with pytest.raises(Invalid, match="tool"):
        made(tools=[tool])


def test_a_call_id_of_an_earlier_turn_is_not_used_again() -> None:
    items = [U, called(), out(), called(), out(), called("b"), out("b")]
    before = copy.deepcopy(items)
    sent = made(items)["input"]
    ids = [item["call_id"] for item in sent[1:]]
    assert ids[0] == ids[1] == "a" and ids[2] == ids[3] != "a" and ids[4:] == ["b", "b"]
    assert check({"input": sent}) == [] and items == before
    assert made([*items, U])["input"][: len(sent)] == sent, "the front stays as it was"


def test_what_was_recorded_twice_is_said_again_as_another_item() -> None:
    twice = [U, reasoning(1), message(1, "x"), U, reasoning(1), message(1, "x")]
    assert check(made(twice)) == []


def test_what_lost_its_other_half_is_left_out_and_reported() -> None:
    lost: list[str] = []
    approval = {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}
    items = [
        U,
        out("gone"),
        approval,
        {"type": "compaction_trigger"},
        reasoning(1),
        reasoning(2),
        U,
    ]
    assert made(items, lost=lost) == {"input": [U, U]}
    assert len(lost) == 4


# --- reply ---


def test_a_reply_says_what_was_billed_and_how_it_ended() -> None:
    reply = responses.reply(RESPONSE)
    assert reply.usage == Usage(
        response="resp_1",
        model="gpt-5",
        input=600,
        output=50,
        cache_read=580,
        cache_write=7,
        reasoning=30,
    )
    assert reply.finished == "completed"
    cut = {
        **RESPONSE,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    assert responses.reply(cut).finished == "max_output_tokens"


def test_the_event_that_ends_a_stream_is_its_response() -> None:
    event = {"type": "response.completed", "sequence_number": 9, "response": RESPONSE}
    assert responses.is_response(event)
    assert responses.reply(event) == responses.reply(RESPONSE)


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_that_has_not_ended_is_refused(status: str) -> None:
    with pytest.raises(Invalid, match=status):
        responses.reply({**RESPONSE, "status": status})


def test_a_response_that_says_nothing_is_recorded_all_the_same() -> None:
    reply = responses.reply({**RESPONSE, "output": [], "usage": None})
    assert (reply.message.blocks, reply.usage) == ((), None)
    assert responses.reply(message(1, "done")).message.blocks == (Text("done"),)


def test_what_only_an_sdks_classes_add_does_not_go_back() -> None:
    dressed = copy.deepcopy(RESPONSE)
    dressed["output"][0]["status"] = None
    dressed["output"][1]["content"][0]["parsed"] = None
    dressed["output"][2]["parsed_arguments"] = {"path": "a"}
    rendered = responses.render([responses.reply(Model(dressed)).message], [])
    assert json.dumps(rendered) == json.dumps(RESPONSE["output"])
    as_json = responses.render([responses.reply(dressed).message], [])
    assert json.dumps(as_json) == json.dumps(RESPONSE["output"]), "a dump of them, too"


def test_tool_calls_are_read_from_every_kind_of_item() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "ls -l"}
    computer = {"type": "computer_call", "call_id": "d", "action": {"type": "wait"}}
    assert tool_calls(response(1, function_call(1, "b"), custom, computer)) == [
        ToolCall("b", "read", {"path": "a"}),
        ToolCall("c", "run", "ls -l"),
        ToolCall("d", "computer", {"type": "wait"}),
    ]
    assert tool_calls(function_call(1, "b")) == [ToolCall("b", "read", {"path": "a"})]


# --- whatever comes ---

KEYS = st.sampled_from((
    "role", "content", "type", "text", "id", "call_id", "name", "input", "output", "arguments", "action", "operation",
    "summary", "encrypted_content", "status", "image_url", "file_data", "file_id", "refusal", "object", "response",
    "usage", "metadata", "stdout", "stderr", "approval_request_id", "$",
))  # fmt: skip
WORDS = st.sampled_from((
    "user", "assistant", "developer", "message", "reasoning", "function_call", "function_call_output", "input_text",
    "custom_tool_call", "custom_tool_call_output", "computer_call", "computer_call_output", "shell_call", "refusal",
    "shell_call_output", "local_shell_call_output", "apply_patch_call_output", "foo_call", "foo_call_output", "a",
    "compaction_trigger", "output_text", "input_image", "input_file", "response.completed", "program_output",
    "mcp_approval_request", "mcp_approval_response", "item_reference", "function", "custom", "b",
))  # fmt: skip
anything = st.recursive(
    scalars | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
items = st.builds(
    lambda rest, kind: {**rest, "type": kind}, st.dictionaries(KEYS, anything, max_size=6), WORDS
)
messages = st.builds(
    lambda rest, role: {**rest, "role": role}, st.dictionaries(KEYS, anything, max_size=4), WORDS
)
several = st.lists(items | messages, max_size=4)
whole = several.map(lambda given: {"object": "response", "output": given}) | several.map(
    lambda given: {"input": given}
)


@settings(deadline=None, max_examples=200)
@given(anything | items | messages | whole)
def test_anything_is_parsed_or_refused_and_comes_back_in_the_same_bytes(value: Any) -> None:
    try:
        parsed = responses.parse(value)
        tool_calls(value)
    except Invalid as error:
        assert error.hint
        return
    for one in parsed:
        codec.encode(one)
    before = json.dumps(made(responses.render(parsed, [])))
    assert json.dumps(made(responses.render(parsed, []))) == before


@settings(deadline=None, max_examples=200)
@given(several | st.lists(anything, max_size=3), anything, anything)
def test_the_validator_never_crashes(given_items: list[Any], system: Any, tools: Any) -> None:
    request = {"input": given_items, "instructions": system, "tools": tools, "store": False}
    for asked in (request, {"input": system}, {}):
        assert all(isinstance(fault, str) for fault in check(asked))
