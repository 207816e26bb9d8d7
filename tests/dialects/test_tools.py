"""Tool definitions of every shape, in the shape that each provider takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Message, Opaque, Text
from refold.dialects import DIALECTS, dialect, parse
from refold.dialects.wire import EMPTY, shown_text
from refold.errors import Invalid

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SHAPES: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
    "openai_chat": {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA},
    },
    "openai_responses": {
        "type": "function",
        "strict": False,
        "name": "read",
        "description": "Reads.",
        "parameters": SCHEMA,
    },
    "gemini": {
        "functionDeclarations": [
            {"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}
        ]
    },
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_of_every_shape_is_defined_for_every_provider(name: str, shape: str) -> None:
    lost: list[str] = []
    [made] = dialect(name).definitions([SHAPES[shape]], lost)
    wanted = SHAPES[name]
    if name != "openai_responses" and shape == "openai_responses":
        made = _without_strict(made)
    assert made == wanted
    assert lost == []


def _without_strict(tool: dict[str, Any]) -> dict[str, Any]:
    """Only one provider says that a tool is not strict, and the others are told so."""
    inner = tool.get("function", tool)
    plain = {key: value for key, value in inner.items() if key != "strict"}
    return {**tool, "function": plain} if "function" in tool else plain


@pytest.mark.parametrize("name", DIALECTS)
def test_the_definitions_are_those_of_the_request(name: str) -> None:
    tools = list(SHAPES.values())
    messages = [{"role": "user", "parts": [], "content": "hi"}]
    request = dialect(name).request(messages, system=None, tools=tools, marks=(), lost=[])
    sent = request.get("config", request)["tools"]
    assert sent == dialect(name).definitions(tools, [])


@pytest.mark.parametrize("name", DIALECTS)
def test_what_only_its_own_provider_runs_is_left_out_and_reported(name: str) -> None:
    lost: list[str] = []
    tools = [{"type": "memory_20250818", "name": "memory"}, {"googleSearch": {}}]
    made = dialect(name).definitions(tools, lost)
    own = {"anthropic": tools[:1], "gemini": tools[1:]}.get(name, [])
    assert made == own
    assert len(lost) == 2 - len(own)


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "gemini"])
def test_a_tool_that_is_left_out_without_a_name_is_reported_in_plain_words(name: str) -> None:
    lost: list[str] = []
    assert dialect(name).definitions([{"type": 5}], lost) == []
    assert lost == [f"the tool None of type 5 is not sent to {name}"]


NAME_PARTS = st.sampled_from([*"aZ_-9.:/ <é\n", "x" * 64, "x" * 70])


@given(st.lists(NAME_PARTS, max_size=4).map("".join))
def test_a_tool_name_is_refused_exactly_if_no_provider_takes_it(tool: str) -> None:
    defined = {"name": tool, "input_schema": {"type": "object"}}
    is_taken = False
    for name in DIALECTS if tool else ():
        reader = dialect(name)
        messages = reader.render([Message(role="user", blocks=(Text("q"),))], [])
        request = reader.request(messages, system=None, tools=[defined], marks=(), lost=[])
        is_taken = is_taken or reader.check(request) == []
    context = refold.open("x", store="memory:", embedder=False)
    if is_taken:
        context.update(tools=[defined])
    else:
        with pytest.raises(Invalid, match="the name of a tool is"):
            context.update(tools=[defined])


@given(st.lists(st.sampled_from(["read", "write", "run"]), max_size=4), st.data())
def test_two_tools_of_one_name_are_refused_in_every_shape(names: list[str], data: Any) -> None:
    tools: list[Any] = []
    for name in names:
        shape = data.draw(st.sampled_from(sorted(NAMED)))
        tools.append(NAMED[shape](name))
    context = refold.open("x", store="memory:", embedder=False)
    if len(set(names)) == len(names):
        context.update(tools=tools)
        return
    with pytest.raises(Invalid, match="two tools are called"):
        context.update(tools=tools)
    assert not context.view.tools
    context.mirror([{"role": "user", "content": "q"}], tools=tools)  # the list of another program
    assert context.view.tools == tools


SCHEMA = {"type": "object"}
NAMED: dict[str, Any] = {
    "anthropic": lambda name: {"name": name, "input_schema": SCHEMA},
    "chat": lambda name: {"type": "function", "function": {"name": name, "parameters": SCHEMA}},
    "custom": lambda name: {"type": "custom", "custom": {"name": name}},
    "responses": lambda name: {"type": "function", "name": name, "parameters": SCHEMA},
    "gemini": lambda name: {"functionDeclarations": [{"name": name}, {"name": f"{name}_2"}]},
    "hosted": lambda name: {"type": "memory_20250818", "name": name},
}


KINDS_OF_SCHEMA = st.sampled_from(
    [
        None,
        {},
        [],
        "object",
        5,
        True,
        {"type": "object"},
        {"properties": {"a": {}}},
        {"type": "string"},
        {"type": ["object", "null"]},
        {"type": "array"},
        {"type": None},
    ]
)
KEYED: dict[str, Any] = {
    "input_schema": lambda schema: {"name": "run", "input_schema": schema},
    "parameters": lambda schema: {"name": "run", "parameters": schema},
    "function": lambda schema: {
        "type": "function", "function": {"name": "run", "parameters": schema},
    },
    "flat": lambda schema: {"type": "function", "name": "run", "parameters": schema},
}  # fmt: skip


@given(KINDS_OF_SCHEMA, st.sampled_from(sorted(KEYED)))
def test_a_schema_is_accepted_exactly_if_it_is_of_an_object(schema: Any, key: str) -> None:
    tool = KEYED[key](schema)
    context = refold.open("x", store="memory:", embedder=False)
    context.append({"role": "user", "content": "go"})
    is_object = isinstance(schema, dict) and schema.get("type", "object") == "object"
    if schema is None or is_object:
        context.update(tools=[tool])
        for name in DIALECTS:
            assert dialect(name).check(context.request(name)) == []
    else:
        with pytest.raises(Invalid, match="'run'") as refusal:
            context.update(tools=[tool])
        assert '"type": "object"' in (refusal.value.hint or "")


MISPLACED: list[Any] = [
    {"type": "tool_use", "id": "t", "name": "MARK", "input": {}},
    {"type": "thinking", "thinking": "MARK", "signature": "s"},
    {"type": "redacted_thinking", "data": "MARK"},
    {"type": "image_url", "image_url": {"url": "MARK"}},
    {"type": "image_url", "image_url": {"url": "https://MARK.org/a.png"}},
    {"type": "image", "source": {"type": "url", "url": "a MARK"}},
    {"type": "input_image", "image_url": "/MARK.png"},
    {"type": "text", "text": "MARK"},
    {"type": "refusal", "refusal": "MARK"},
]
BESIDE: list[dict[str, Any]] = [
    {},
    {
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "MARK", "arguments": ""}}
        ]
    },
    {"tool_calls": [{"id": "a", "name": "MARK", "arguments": {}}]},
    {"function_call": {"name": "MARK", "arguments": "{}"}},
    {"name": "MARK"},
    {"name": "MARK and <b>"},
    {"name": "MARK" * 17},
]


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(["user", "system", "developer", "tool"]),
    st.lists(st.sampled_from(MISPLACED), min_size=1, max_size=3),
    st.sampled_from(BESIDE),
    st.sampled_from(["gpt-5", "claude-opus-5"]),
)
def test_a_message_is_taken_whole_or_refused(role, parts, beside, model):
    """Every part is in the request, or the error says what is wrong and what to do."""
    parts = json.loads(json.dumps(parts))
    given = {"role": role, "content": parts, **json.loads(json.dumps(beside))}
    marks = json.dumps(given).count("MARK")
    if role == "tool":
        marks -= given.pop("name", "").count("MARK")  # the name of the tool
        given["tool_call_id"] = "call_1"
    with refold.open("x", store="memory:", model=model, embedder=False) as context:
        context.append({"role": "user", "content": "go"})
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        try:
            context.append(given)
        except Invalid as error:
            assert error.hint
            assert len(context.view.slots) == 2
            return
        rendered = context.request(raw=True)
        sent = json.dumps(rendered.request).count("MARK")
        assert sent >= marks or rendered.lost


KINDS = ["text", "image", "document", "image_url", "input_audio", "file", "input_text"]
KINDS += ["input_image", "input_file", "brand_new"]
FIELDS = ["text", "source", "url", "data", "file_id", "file_data", "image_url", "input_audio"]
FIELDS += ["file", "format", "inlineData", "fileData", "fileUri", "mimeType", "foo"]
VALUES = st.recursive(
    st.sampled_from([None, 5, "", "hi", "aGk=", "!", "https://a.b/c.png", "base64", "image/png"]),
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=4,
)
PARTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=2)
TYPED = st.builds(lambda kind, fields: {"type": kind, **fields}, st.sampled_from(KINDS), PARTS)
PLACED = TYPED.map(lambda part: ("content", part)) | PARTS.map(lambda part: ("parts", part))


def reaches(name: str, message: Message, kind: str) -> bool:
    """Whether a provider is sent the part without a loss, and takes it; a new type may pass."""
    lost: list[str] = []
    reader = dialect(name)
    request = reader.request(
        reader.render([message], lost), system=None, tools=None, marks=(), lost=lost
    )
    is_new = kind == "brand_new" and name == message.dialect
    return not lost and EMPTY not in str(request) and (is_new or not reader.check(request))


@settings(deadline=None, max_examples=300)
@given(PLACED)
def test_a_part_is_refused_exactly_if_no_provider_gets_it(placed: tuple[str, Any]) -> None:
    key, part = placed
    wire = {"role": "user", key: [part]}
    context = refold.open("x", store="memory:", embedder=False)
    try:
        [message] = parse(wire)
    except Invalid:
        return  # it cannot be read at all
    block = message.blocks[0]
    has_text = isinstance(block, Text) or (isinstance(block, Opaque) and shown_text(block))
    is_empty = part.get("type") in ("text", "input_text") and part.get("text") is None
    if (
        has_text
        or is_empty
        or any(reaches(name, message, part.get("type", "")) for name in DIALECTS)
    ):
        context.append(wire)
        assert len(context.view.slots) == 1
    else:
        with pytest.raises(Invalid, match=r"part|content"):
            context.append([{"role": "user", "content": "q"}, wire])
        assert context.view.slots == ()
        context.mirror([wire])  # the list of another program, which its provider judges
        assert len(context.view.slots) == 1
