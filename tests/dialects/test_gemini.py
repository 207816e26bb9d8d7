"""Gemini: both spellings come back exactly, calls without ids find their results, other
providers' pages are valid."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.laws import units
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
from refold.dialects import anthropic, dialect, gemini, openai_chat, parse
from refold.dialects.gemini.render import UNSIGNED, answering
from refold.errors import Invalid
from tests.dialects import shapes
from tests.dialects.gemini_shapes import gemini_lists, snaked
from tests.dialects.test_golden import lawful, stored
from tests.dialects.test_reply import Model

RELAXED = settings(deadline=None, max_examples=60)
CALL = {"functionCall": {"name": "read", "args": {"path": "a"}}}
SIGNED = {**CALL, "thoughtSignature": "c2ln"}
U = {"role": "user", "parts": [{"text": "hi"}]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def answered(name: str = "read", **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response or {"output": "x"}}}


def parsed(wires: list[dict[str, Any]], name: str = "gemini") -> list[Message]:
    return [message for wire in wires for message in dialect(name).parse(wire)]


def requested(messages: list[Message], lost: list[str] | None = None) -> dict[str, Any]:
    lost = [] if lost is None else lost
    return gemini.request(
        gemini.render(messages, lost), system=None, tools=None, marks=[0], lost=lost
    )


# --- there and back ---


@RELAXED
@given(gemini_lists)
def test_contents_come_back_byte_for_byte_through_the_log(
    wires: list[dict[str, Any]],
) -> None:  # X-01
    rendered = gemini.render([stored(message) for message in parsed(wires)], [])
    assert json.dumps(rendered) == json.dumps(wires)


@RELAXED
@given(gemini_lists.filter(bool))
def test_contents_are_valid_for_the_others(wires: list[dict[str, Any]]) -> None:
    for other in (openai_chat, anthropic):
        rendered = other.render(parsed(wires), [])
        assert (
            other.check(other.request(rendered, system=None, tools=None, marks=[], lost=[])) == []
        )


@RELAXED
@given(
    st.tuples(st.just("openai_chat"), shapes.openai_lists.filter(bool))
    | st.tuples(st.just("anthropic"), shapes.anthropic_lists.filter(bool))
)
def test_others_messages_are_valid_contents(given: tuple[str, list[dict[str, Any]]]) -> None:
    assert gemini.check(requested(lawful(parsed(given[1], given[0])))) == []


@RELAXED
@given(gemini_lists, st.data())
def test_every_edit_shows_once(wires: list[dict[str, Any]], data: st.DataObject) -> None:
    messages = parsed(wires)
    notices = []
    for index, message in enumerate(messages):
        block = data.draw(st.integers(0, len(message.blocks) - 1))
        messages[index] = edited(
            message, Replace(batch="b", seq=1, block=block, text=f"[cleared #{index}]")
        )
        if not isinstance(message.blocks[block], Thinking):
            notices.append(f"[cleared #{index}]")
    for speaker in (gemini, openai_chat, anthropic):
        rendered = json.dumps(speaker.render(messages, []))
        assert [rendered.count(notice) for notice in notices] == [1] * len(notices)
    known = [wire for wire in requested(messages)["contents"] if "x_" not in json.dumps(wire)]
    assert [
        fault
        for fault in gemini.check({"contents": known})
        if "no parts" in fault or "text is" in fault
    ] == []


@RELAXED
@given(gemini_lists)
def test_units_rendered_apart_are_the_page_rendered_whole(wires: list[dict[str, Any]]) -> None:
    slots = [Slot(seq, seq, message, 0) for seq, message in enumerate(parsed(wires), 1)]
    apart = [gemini.render([slots[at].message for at in unit], []) for unit in units(slots)]
    assert [wire for part in apart for wire in part] == gemini.render(
        [slot.message for slot in slots], []
    )


@pytest.mark.parametrize(
    "wire",
    [
        model(
            {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "a", "thoughtSignature": "c2ln"},
        ),
        model({"text": "", "thought_signature": "c2ln"}),
        model({"thoughtSignature": "c2ln"}),
        model({"functionCall": {"name": "now"}}),
        model(
            {
                "function_call": {"id": None, "name": "now", "args": None, "will_continue": None},
                "text": None,
            }
        ),
        user({"functionResponse": {"name": "f", "response": {}}}),
        user(
            {
                "functionResponse": {
                    "name": "f",
                    "response": {"a": 1.0, "b": [True, None], "$": {"$": 0}},
                }
            }
        ),
        user(
            {
                "functionResponse": {
                    "name": "f",
                    "response": {"output": '{"a": 1}'},
                    "scheduling": "SILENT",
                }
            }
        ),
        user({"functionResponse": {"name": "f", "response": {"output": "x", "error": "y"}}}),
        {**U, "x": {"$": "text"}},
    ],
)
def test_unusual_contents_come_back_exactly(wire: dict[str, Any]) -> None:
    assert json.dumps(
        gemini.render([stored(message) for message in gemini.parse(wire)], [])
    ) == json.dumps([wire])


def test_plain_contents_need_no_form() -> None:
    wires = [U, model({"text": "a"}, CALL), user(answered())]
    assert [message.form for message in parsed(wires)] == [None, None, None]
    assert [message.role for message in parsed(wires)] == ["user", "assistant", "tool"]


def test_large_texts_and_bytes_are_stored_once() -> None:
    image = {"inline_data": {"mime_type": "image/png", "data": "QUJDREVG"}}
    answer = {"name": "f", "response": {"stdout": "many\nlines", "code": 0}, "parts": [image]}
    wires = [user(image), user({"function_response": answer}), user(answered(result="many lines"))]
    for wire, text in zip(wires, ("QUJDREVG", "lines", "many lines")):
        [message] = gemini.parse(wire)
        assert refold.core.codec.encode(message).decode().count(text) == 1


# --- signatures ---


def test_a_signature_comes_back_whatever_becomes_of_its_call() -> None:  # P9
    for wire in (
        model(SIGNED, CALL),
        snaked(model(SIGNED)),
        model({"functionCall": {"name": "f"}, **{"thoughtSignature": "c2ln"}}),
    ):
        [message] = gemini.parse(wire)
        shortened = edited(message, Replace(batch="b", seq=1, block=0, text="[cleared]"))
        [rendered] = gemini.render([shortened], [])
        first = rendered["parts"][0]
        assert "[cleared]" in json.dumps(first, ensure_ascii=False)
        assert (first.get("thoughtSignature") or first.get("thought_signature")) == "c2ln"


def test_thinking_taken_out_leaves_the_signature_of_the_call() -> None:
    [message] = gemini.parse(model({"text": "hm", "thought": True}, SIGNED))
    gone = Message(
        role="assistant",
        blocks=(Thinking(), *message.blocks[1:]),
        dialect="gemini",
        form=message.form,
    )
    assert gemini.render([gone], []) == [model(SIGNED)]


def test_calls_of_other_models_carry_the_documented_signature() -> None:
    answer = Message(
        role="assistant",
        blocks=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")),
        dialect="openai_chat",
    )
    results = [Message(role="tool", blocks=(ToolResult(id, (Text(id),)),)) for id in ("b", "a")]
    request = requested([*gemini.parse(U), answer, *results])
    assert [part.get("thoughtSignature") for part in request["contents"][1]["parts"]] == [
        UNSIGNED,
        None,
    ]
    assert request["contents"][2] == user(answered("f", output="a"), answered("f", output="b"))
    assert gemini.check(request) == []
    unsigned = requested(parsed([U, model(CALL), user(answered())]))
    assert "thoughtSignature" not in json.dumps(unsigned)


# --- calls and results ---


def test_calls_without_ids_get_stable_ones_that_are_not_sent() -> None:
    other = {"functionCall": {"name": "run", "args": {}}}
    [message] = gemini.parse(model(CALL, other, CALL))
    assert [block.id for block in message.blocks if isinstance(block, ToolCall)] == [
        "gemini:read:1",
        "gemini:run:1",
        "gemini:read:2",
    ]
    [results] = gemini.parse(user(answered(), answered(), answered("run")))
    assert [block.call for block in results.blocks if isinstance(block, ToolResult)] == [
        "gemini:read:1",
        "gemini:read:2",
        "gemini:run:1",
    ]
    assert "gemini:" not in json.dumps(gemini.render([message, results], []))


def test_results_that_come_one_by_one_go_back_in_one_content_in_the_order_of_the_calls() -> (
    None
):  # P8
    messages = parsed(
        [U, model(SIGNED, CALL, {"functionCall": {"id": "c", "name": "run", "args": {}}})]
    )
    for id, text in (("c", "C"), ("gemini:read:2", "B"), ("gemini:read:1", "A")):
        messages.append(Message(role="tool", blocks=(ToolResult(id, (Text(text),)),)))
    request = requested(messages)
    run = {"functionResponse": {"id": "c", "name": "run", "response": {"output": "C"}}}
    assert request["contents"][2] == user(answered(output="A"), answered(output="B"), run)
    assert gemini.check(request) == []


def test_results_of_both_kinds_join_and_what_else_is_said_follows() -> None:
    messages = parsed([U, model(CALL, CALL)])
    messages.append(Message(role="tool", blocks=(ToolResult("gemini:read:2", (Text("B"),)),)))
    messages += gemini.parse(user(answered(result="A"), {"text": "and then"}))
    assert requested(messages)["contents"][2]["parts"] == [
        answered(result="A"),
        answered(output="B"),
        {"text": "and then"},
    ]


def test_results_without_ids_answer_calls_that_have_them() -> None:
    """The SDK's `Part.from_function_response` takes no id, and Gemini 3 gives every call one."""
    [asked] = gemini.parse(
        model(*({"functionCall": {"id": id, "name": "read", "args": {}}} for id in ("x", "y")))
    )
    [results] = gemini.parse(user(answered(result="X"), answered(result="Y"), answered("other")))
    made = answering(results, lambda: asked)
    assert [block.call for block in made.blocks if isinstance(block, ToolResult)] == [
        "x",
        "y",
        "gemini:other:1",
    ]
    rendered = gemini.render([asked, made], [])[1]
    assert rendered["parts"][0] == {
        "functionResponse": {"name": "read", "response": {"result": "X"}}
    }
    [calling] = gemini.parse(model(CALL, CALL))
    assert answering(results, lambda: calling) == results
    assert answering(gemini.parse(U)[0], lambda: asked) == gemini.parse(U)[0]


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "a\nb"}, "a\nb", False),
        ({"result": "a"}, "a", False),
        ({"error": "no such file"}, "no such file", True),
        ({"error": {"code": 5}}, '{"error": {"code": 5}}', True),
        ({"stdout": "é", "code": 0}, '{"stdout": "é", "code": 0}', False),
        ({"result": ["a"]}, '{"result": ["a"]}', False),
    ],
)
def test_a_response_reads_as_what_the_tool_said(
    response: dict[str, Any], text: str, failed: bool
) -> None:
    [block] = gemini.parse(user(answered(**response)))[0].blocks
    assert block == ToolResult("gemini:read:1", (Text(text),), is_error=failed, name="read")


def test_a_cleared_response_keeps_its_key_and_what_stands_around_it() -> None:
    wire = user(
        {
            "functionResponse": {
                "name": "read",
                "response": {"result": "long"},
                "scheduling": "SILENT",
            }
        }
    )
    [message] = gemini.parse(wire)
    [rendered] = gemini.render(
        [edited(message, Replace(batch="b", seq=1, block=0, text="[cleared]"))], []
    )
    assert json.dumps(rendered) == json.dumps(wire).replace("long", "[cleared]")
    [rest] = gemini.parse(user(answered(a=1, b=2)))
    [rendered] = gemini.render(
        [edited(rest, Replace(batch="b", seq=1, block=0, text="[cleared]"))], []
    )
    assert rendered == user(answered(output="[cleared]"))


def test_failed_results_of_others_are_errors_here() -> None:
    answer = Message(role="assistant", blocks=(ToolCall("a", "f", {}),), dialect="anthropic")
    result = Message(
        role="tool", blocks=(ToolResult("a", (Text("no"),), is_error=True),), dialect="anthropic"
    )
    assert gemini.render([answer, result], [])[1] == user(answered("f", error="no"))


# --- across ---


def test_media_is_translated_and_what_cannot_be_is_named() -> None:
    lost: list[str] = []
    blocks = (
        Media("image", mime="image/png", data="QUJD"),
        Media("image", url="https://example.org/a.png?size=2"),
        Media("image", url="https://example.org/image"),
        Media("document", file="file-1", name="a.pdf"),
        Thinking("hm", "sig"),
        Opaque(raw={"type": "server_tool_use", "id": "s"}),
    )
    [wire] = gemini.render([Message(role="user", blocks=blocks, dialect="anthropic")], lost)
    assert wire["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png?size=2"}},
        {"text": "[image: https://example.org/image]"},
        {"text": "[document a.pdf]"},
    ]
    assert lost == [
        "[image: https://example.org/image] from anthropic is sent as a note: gemini has no form for it",
        "[document a.pdf] from anthropic is sent as a note: gemini has no form for it",
        "thinking from anthropic is not sent to gemini",
        "a block of type 'server_tool_use' from anthropic is not sent",
    ]


def test_media_in_results_of_others_follows_all_results() -> None:
    answer = Message(role="assistant", blocks=(ToolCall("a", "shot", {}), ToolCall("b", "f", {})))
    image = Media("image", mime="image/png", data="QUJD")
    results = [
        Message(role="tool", blocks=(ToolResult("a", (image,)),)),
        Message(role="tool", blocks=(ToolResult("b"),)),
    ]
    lost: list[str] = []
    request = requested([*gemini.parse(U), answer, *results], lost)
    assert [next(iter(part)) for part in request["contents"][2]["parts"]] == [
        "functionResponse",
        "functionResponse",
        "text",
        "inlineData",
    ]
    assert lost == ["media in a result of shot follows it"]
    assert gemini.check(request) == []


def test_images_of_the_sdk_reach_other_providers_in_the_base64_they_read() -> None:
    part = Model({"inline_data": {"mime_type": "image/png", "data": "_-8="}})
    [message] = parse({"role": "user", "parts": [part]})
    assert message.blocks == (Media("image", mime="image/png", data="/+8="),)
    assert anthropic.check({"messages": anthropic.render([message], [])}) == []


def test_bytes_become_base64() -> None:
    image = bytes([0, 255, 254])
    [message] = parse(user({"inline_data": {"mime_type": "image/png", "data": image}}))
    assert message.blocks == (Media("image", mime="image/png", data=b64encode(image).decode()),)
    [signed] = parse(model({"text": "a", "thought_signature": image}))
    assert gemini.render([signed], []) == [model({"text": "a", "thought_signature": "AP/+"})]


def test_code_that_the_provider_ran_is_kept_for_it_and_read_by_others() -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"output": "1"}},
    ]
    [message] = gemini.parse(model(*parts))
    assert gemini.render([message], []) == [model(*parts)]
    assert openai_chat.render([message], [])[0]["content"] == "print(1)\n\n1"


def test_system_messages_join_the_instruction_or_are_said_by_the_user() -> None:
    """X-04: those that lead the page, and those in the middle of it."""
    wires: list[Any] = [
        {"role": "system", "content": "rule"},
        {"role": "system", "parts": [{"text": "new"}]},
    ]
    page = [message for wire in [*wires, U, *wires] for message in parse(wire, "gemini")]
    said = [user({"text": f"<system>\n{text}\n</system>"}) for text in ("rule", "new")]
    request = gemini.request(
        gemini.render(page, []), system="first", tools=None, marks=[0], lost=[]
    )
    assert request["config"] == {
        "system_instruction": {"parts": [{"text": t} for t in ("first", "rule", "new")]}
    }
    assert request["contents"] == [U, *said]
    assert requested(page[:2]) == {"contents": said}


def test_nothing_empty_is_sent() -> None:
    for message in (
        Message(role="user"),
        Message(role="assistant", blocks=(Thinking(),)),
        *gemini.parse(user({"text": ""})),
        *gemini.parse(model({"text": "", "thought": None, "function_call": None})),
        *gemini.parse(model()),
    ):
        assert gemini.render([message], [])[0]["parts"] == [{"text": "(empty)"}]


def test_old_roles_are_sent_as_the_user() -> None:
    assert gemini.render(gemini.parse({"role": "function", "parts": [answered()]}), []) == [
        user(answered())
    ]
    assert gemini.render(gemini.parse({"parts": [{"text": "hi"}]}), []) == [U]


# --- request ---


def test_the_model_never_speaks_twice_in_a_row() -> None:
    wires = [U, model({"text": "thinking about it"}), model(SIGNED), user(answered()), U]
    messages = parsed(wires)
    rendered = gemini.render(messages, [])
    before = copy.deepcopy(rendered)
    request = gemini.request(rendered, system=None, tools=None, marks=[1], lost=[])
    assert request["contents"][1] == model({"text": "thinking about it"}, SIGNED)
    assert gemini.check(request) == []
    assert rendered == before


def test_a_request_never_ends_with_the_model() -> None:
    page = [U, model({"text": "a"})]
    assert gemini.check({"contents": page}) == ["contents[1]: the request ends with the model"]
    assert requested(parsed(page))["contents"] == [*page, user({"text": "(go on)"})]


@pytest.mark.parametrize(
    ("system", "texts"),
    [
        ("be brief", ["be brief"]),
        (["a", {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}], ["a", "b"]),
        ({"role": "system", "content": "a"}, ["a"]),
        ({"parts": [{"text": "a"}, {"text": "b"}]}, ["a", "b"]),
        ({"role": "user", "parts": [{"text": "a"}]}, ["a"]),
    ],
)
def test_the_system_prompt_is_an_instruction_of_text_parts(system: Any, texts: list[str]) -> None:
    request = gemini.request([U], system=system, tools=None, marks=[], lost=[])
    assert request["config"] == {
        "system_instruction": {"parts": [{"text": text} for text in texts]}
    }
    assert gemini.check(request) == []


@pytest.mark.parametrize("system", [None, "", [], [{"type": "text", "text": ""}]])
def test_nothing_to_configure_is_no_config(system: Any) -> None:
    assert gemini.request([U], system=system, tools=[], marks=[0], lost=[]) == {"contents": [U]}


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "additionalProperties": False,
}
CLAUDE_TOOL = {"name": "read", "description": "Reads a file", "input_schema": SCHEMA}
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Reads a file", "parameters": SCHEMA},
}
DECLARED = {"name": "read", "description": "Reads a file", "parametersJsonSchema": SCHEMA}


@pytest.mark.parametrize(
    "tool", [CLAUDE_TOOL, OPENAI_TOOL, DECLARED, {"type": "function", **CLAUDE_TOOL}]
)
def test_tools_of_either_shape_are_declared_in_one(tool: dict[str, Any]) -> None:
    before = copy.deepcopy(tool)
    request = gemini.request([U], system=None, tools=[tool, {"name": "now"}], marks=[], lost=[])
    nothing = {"type": "object", "properties": {}}
    now = {"name": "now", "parametersJsonSchema": nothing}
    assert request["config"]["tools"] == [{"functionDeclarations": [DECLARED, now]}]
    assert gemini.check(request) == []
    assert tool == before


def test_its_own_tools_stay_with_it_and_its_functions_are_translated() -> None:
    shouted = {"type": "OBJECT", "properties": {"type": {"type": "STRING"}}}
    own = [
        {"function_declarations": [{"name": "read", "parameters": shouted}]},
        {"google_search": {}},
    ]
    memory = {"type": "memory_20250818", "name": "memory"}
    lost: list[str] = []
    assert (
        gemini.request([U], system=None, tools=[*own, memory], marks=[], lost=lost)["config"][
            "tools"
        ]
        == own
    )
    quiet = {"type": "object", "properties": {"type": {"type": "string"}}}
    request = anthropic.request(
        [{"role": "user", "content": "hi"}], system=None, tools=own, marks=[], lost=lost
    )
    assert request["tools"] == [{"name": "read", "input_schema": quiet}]
    assert lost == [
        "the tool 'memory' of type 'memory_20250818' is not sent to gemini",
        "the tool 'google_search' is run by another provider and not sent",
    ]


@pytest.mark.parametrize("tool", [3, "read", {"description": "nameless"}])
def test_an_odd_tool_is_refused(tool: Any) -> None:
    with pytest.raises(Invalid, match="tool"):
        gemini.request([U], system=None, tools=[tool], marks=[], lost=[])


# --- doors ---


@pytest.mark.parametrize(
    "wire",
    [
        user("text"),
        user(3),
        {"role": "user", "parts": {"text": "x"}},
        {"role": "user", "parts": None},
        {"role": "assistant", "parts": []},
        model({"functionCall": {"args": {}}}),
        model({"functionCall": {"name": "f", "args": "{}"}}),
        model({"functionCall": "f"}),
        user({"functionResponse": {"name": "f", "response": "x"}}),
        user({"functionResponse": {"response": {}}}),
        user({"functionResponse": {"name": "f", "response": {}, "parts": [3]}}),
    ],
)
def test_odd_contents_are_refused_in_words(wire: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as error:
        gemini.parse(wire)
    assert error.value.hint


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        (U, True),
        (model(), True),
        ({"role": "user", "parts": [{"type": "text", "text": "of another kind"}]}, False),
        ({"role": "user", "content": "x"}, False),
        ({"role": "user", "parts": "x"}, False),
    ],
)
def test_parts_tell_this_dialect(message: dict[str, Any], spoken: bool) -> None:
    assert gemini.recognizes(message) is spoken
