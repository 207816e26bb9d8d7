"""The validator of Gemini: a table of requests that generateContent would refuse, each with the
words of its fault."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.dialects import gemini
from tests.dialects.test_fuzz import anything

U: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}
M: dict[str, Any] = {"role": "model", "parts": [{"text": "hello"}]}


def says(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def calls(*names: str, signed: bool = False) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": {}}} for name in names]
    if signed:
        parts[0]["thoughtSignature"] = "c2ln"
    return {"role": "model", "parts": parts}


def answer(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **more}}


def called(id: str, name: str = "f") -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": name, "args": {}}}


FAULTS: list[tuple[str, Any, str]] = [
    ("no contents", [], "at least one content"),
    ("text as contents", "hi", "at least one content"),
    ("not an object", ["hi"], "not an object"),
    ("unknown role", [says("assistant", {"text": "x"})], "unknown role 'assistant'"),
    ("A2 no parts", [says("user")], "no parts"),
    ("parts not a list", [{"role": "user", "parts": {"text": "x"}}], "no parts"),
    ("part not an object", [says("user", "x")], "parts[0]: not an object"),
    ("A2 empty part", [says("user", {})], "holds nothing"),
    ("A2 null part", [says("user", {"text": None, "thought": None})], "holds nothing"),
    ("A2 empty text", [says("user", {"text": ""})], "text is ''"),
    ("text not text", [says("user", {"text": 3})], "text is 3"),
    ("two fields", [says("user", {"text": "x", "inlineData": {}})], "text and inlineData"),
    ("two spellings", [says("user", {"fileData": {}, "file_data": {}})], "fileData and fileData"),
    ("unknown field", [says("user", {"text": "x", "type": "text"})], "unknown field 'type'"),
    ("first is the model", [M, U], "the first content is the model's"),
    ("model twice", [U, M, M, U], "twice in a row"),
    ("call of a user", [says("user", called("a"))], "a functionCall in a user content"),
    (
        "response of the model",
        [U, says("model", answer())],
        "a functionResponse in a model content",
    ),
    (
        "thought of a user",
        [says("user", {"text": "x", "thought": True})],
        "a thought in a user content",
    ),
    (
        "signature of a user",
        [says("user", {"text": "x", "thoughtSignature": "c2ln"})],
        "a thought in a user content",
    ),
    ("odd signature", [U, says("model", {"text": "x", "thoughtSignature": "§"})], "not base64"),
    ("empty signature", [U, says("model", {"text": "x", "thought_signature": ""})], "not base64"),
    ("call without name", [U, says("model", {"functionCall": {"args": {}}})], "name is None"),
    (
        "args as text",
        [U, says("model", {"functionCall": {"name": "f", "args": "{}"}})],
        "args is str",
    ),
    ("id not text", [U, says("model", {"functionCall": {"name": "f", "id": 3}})], "id is 3"),
    ("call not an object", [U, says("model", {"functionCall": "f"})], "functionCall is str"),
    ("response as text", [U, calls("f"), says("user", answer(response="x"))], "response is str"),
    ("no response", [U, calls("f"), says("user", answer(response=None))], "response is NoneType"),
    (
        "I1 no bytes",
        [says("user", {"inlineData": {"mimeType": "image/png", "data": ""}})],
        "without base64",
    ),
    (
        "I1 data url",
        [says("user", {"inlineData": {"mimeType": "a/b", "data": "data:x;y"}})],
        "without base64",
    ),
    ("I1 no type", [says("user", {"inline_data": {"data": "QUJD"}})], "mimeType is None"),
    ("file without uri", [says("user", {"fileData": {"mimeType": "a/b"}})], "without fileUri"),
    ("P8 nothing after", [U, calls("f")], "'f' has no response"),
    (
        "P8 too few",
        [U, calls("f", "f"), says("user", answer())],
        "1 function responses for 2 calls",
    ),
    (
        "P8 too many",
        [U, calls("f"), says("user", answer(), answer())],
        "2 function responses for 1 calls",
    ),
    ("P8 too late", [U, calls("f"), U, says("user", answer())], "0 function responses for 1 calls"),
    (
        "P8 apart",
        [U, calls("f", "f"), says("user", answer()), says("user", answer())],
        "1 function responses for 2",
    ),
    ("P8 stray", [U, M, says("user", answer())], "1 function responses for 0 calls"),
    (
        "P8 another name",
        [U, calls("f"), says("user", answer("g"))],
        "no response for the call of 'f'",
    ),
    (
        "P8 another id",
        [U, says("model", called("a")), says("user", answer(id="b"))],
        "'b', which is no such call",
    ),
    (
        "P8 second response",
        [U, says("model", called("a"), called("b")), says("user", answer(id="a"), answer(id="a"))],
        "a second response for 'a'",
    ),
    (
        "P9 second step unsigned",
        [U, calls("f", signed=True), says("user", answer()), calls("f"), says("user", answer())],
        "contents[3]: the first call has no thoughtSignature",
    ),
]
BESIDE: list[tuple[dict[str, Any], str]] = [
    ({"config": []}, "config: not an object"),
    ({"config": {"system_instruction": {}}}, "system_instruction: neither"),
    ({"config": {"systemInstruction": {"parts": [{"text": ""}]}}}, "parts[0]: not a text"),
    ({"config": {"system_instruction": ""}}, "system_instruction: neither"),
    ({"config": {"tools": {}}}, "tools: not a list"),
    ({"config": {"tools": []}}, "tools: not a list"),
    (
        {"config": {"tools": [{"name": "f", "input_schema": {}}]}},
        "tools[0]: not a tool of this provider",
    ),
    ({"config": {"tools": [{"functionDeclarations": []}]}}, "functionDeclarations is not a list"),
    ({"config": {"tools": [{"function_declarations": [{"name": "a b"}]}]}}, "name is 'a b'"),
    (
        {
            "config": {
                "tools": [
                    {
                        "functionDeclarations": [
                            {"name": "f", "parameters": {}, "parametersJsonSchema": {}}
                        ]
                    }
                ]
            }
        },
        "has both",
    ),
]


@pytest.mark.parametrize(
    ("contents", "fault"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_faults_are_found(contents: Any, fault: str) -> None:
    assert any(fault in found for found in gemini.check({"contents": contents}))


@pytest.mark.parametrize(("request_", "fault"), BESIDE)
def test_faults_beside_the_contents_are_found(request_: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in gemini.check({"contents": [U], **request_}))


@pytest.mark.parametrize(
    "contents",
    [
        [U],
        [U, U, M, U],
        [U, calls("f", "g"), says("user", answer("g"), answer("f"), {"text": "and"}), M, U],
        [U, calls("f"), says("user", answer()), U, calls("f", signed=True), says("user", answer())],
        [
            U,
            says("model", called("a"), called("b", "g")),
            says("user", answer("g", id="b"), answer(id="a")),
        ],
        [U, says("model", called("a")), says("user", answer())],
        [
            U,
            says("model", {"text": "", "thoughtSignature": "c2ln"}, {"thought_signature": "_-8="}),
            U,
        ],
        [U, says("model", {"text": "hm", "thought": True}, {"executableCode": {"code": "1"}}), U],
        [
            says("user", {"inline_data": {"mime_type": "image/png", "data": "_-8="}, "text": None}),
            M,
            U,
        ],
    ],
)
def test_sound_contents_have_no_faults(contents: list[Any]) -> None:
    assert (
        gemini.check(
            {
                "contents": contents,
                "config": {"system_instruction": "s", "tools": [{"googleSearch": {}}]},
            }
        )
        == []
    )


KEYS = st.sampled_from((
    "role", "parts", "text", "functionCall", "function_call", "functionResponse", "function_response", "name", "args",
    "id", "response", "inlineData", "inline_data", "data", "mimeType", "fileData", "fileUri", "thought",
    "thoughtSignature", "thought_signature", "executableCode", "candidates", "content", "usageMetadata", "finishReason",
))  # fmt: skip
WORDS = st.sampled_from(("user", "model", "function", "system", "image/png", "QUJD", "a"))
parts = st.dictionaries(
    KEYS, anything | WORDS | st.dictionaries(KEYS, anything | WORDS, max_size=4), max_size=4
)
contents = st.fixed_dictionaries(
    {"role": WORDS, "parts": st.lists(parts, max_size=3)}
) | st.dictionaries(KEYS, anything)


@settings(deadline=None, max_examples=200)
@given(st.lists(contents, max_size=4), anything, anything)
def test_the_validator_never_crashes(given: list[Any], system: Any, tools: Any) -> None:
    config = {"system_instruction": system, "tools": tools}
    for request in ({"contents": given, "config": config}, {"contents": system, "config": tools}):
        assert all(isinstance(fault, str) for fault in gemini.check(request))
