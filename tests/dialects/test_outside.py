"""What may come in, what is refused and how it is said; which dialect a name, a model or a
message means."""

from __future__ import annotations

from collections import UserDict
from enum import StrEnum
from itertools import count, repeat
from types import MappingProxyType
from typing import Any

import pytest

import refold
from refold.core.model import Text
from refold.dialects import DIALECTS, dialect, dialect_of, parse, streams
from refold.dialects.input import plain
from refold.dialects.wire import plain_id
from refold.engine import recorder
from refold.errors import Invalid

BOTH = pytest.mark.parametrize("name", list(DIALECTS))


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (b"bytes", "bytes"),
        ((1, 2.5, None, True), [1, 2.5, None, True]),
        (MappingProxyType({"a": (b"x",)}), {"a": ["x"]}),
        (UserDict(a=1), {"a": 1}),
        (Colour.RED, "red"),
        (Text("t"), {"type": "text", "text": "t"}),
    ],
)
def test_outside_values_become_plain(value: Any, made: Any) -> None:
    result = plain(value)
    assert result == made
    assert type(result) is type(made)


@pytest.mark.parametrize(
    "value", [b"\xff", float("nan"), float("inf"), {1: 2}, object(), {"a": {3}}, print, iter([])]
)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        plain({"value": value})


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(Invalid, match="64 levels"):
        parse({"role": "user", "content": deep})


@BOTH
@pytest.mark.parametrize("content", [3, 1.5, True, {"text": "x"}])
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_odd_content_is_refused_with_its_value(name: str, role: str, content: Any) -> None:
    with pytest.raises(Invalid) as error:
        dialect(name).parse({"role": role, "content": content})
    assert repr(content) in str(error.value)
    assert "text or a list" in error.value.hint


@BOTH
def test_no_content_is_refused(name: str) -> None:
    for wire in ({"role": "user", "content": None}, {"role": "user"}, {"role": "system", "x": 1}):
        with pytest.raises(Invalid, match="None"):
            dialect(name).parse(wire)


@BOTH
@pytest.mark.parametrize("part", ["text", None, 3, {"text": "no type"}, {"type": 3}])
def test_odd_parts_are_refused(name: str, part: Any) -> None:
    with pytest.raises(Invalid):
        dialect(name).parse({"role": "user", "content": [part]})


@BOTH
def test_an_unknown_role_is_refused_with_the_known_ones(name: str) -> None:  # M-02
    with pytest.raises(Invalid, match=r"'robot' \(str\) is not a role") as error:
        dialect(name).parse({"role": "robot", "content": "x"})
    assert "user, assistant" in error.value.hint


@BOTH
@pytest.mark.parametrize(
    "message", ["hi", None, 3, ["hi"], [], {"content": "hi"}, {"role": None, "content": "hi"}, {}]
)
def test_what_is_no_message_is_refused(name: str, message: Any) -> None:
    for door in (dialect(name).parse, parse):
        with pytest.raises(Invalid):
            door(message)


@BOTH
def test_bytes_are_read_as_text(name: str) -> None:
    assert dialect(name).parse({"role": "user", "content": b"hi"})[0].blocks == (Text("hi"),)
    with pytest.raises(Invalid, match="UTF-8"):
        dialect(name).parse({"role": "user", "content": b"\xff"})


@pytest.mark.parametrize(
    "call",
    [
        3,
        {},
        {"id": "a"},
        {"id": "", "name": "f"},
        {"id": 3, "name": "f"},
        {"name": "f", "arguments": {}},
        {"id": "a", "type": "function", "function": {"arguments": "{}"}},
        {"id": "a", "name": "f", "arguments": [1]},
    ],
)
def test_odd_openai_calls_are_refused(call: Any) -> None:
    with pytest.raises(Invalid):
        dialect("openai_chat").parse({"role": "assistant", "content": None, "tool_calls": [call]})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "a", "name": "f"},
        {"type": "tool_use", "id": "a", "name": "f", "input": [1]},
        {"type": "tool_use", "name": "f", "input": {}},
        {"type": "tool_result", "content": "x"},
        {"type": "tool_result", "tool_use_id": "a", "content": 3},
        {"type": "tool_result", "tool_use_id": "a", "content": ["x"]},
    ],
)
def test_odd_anthropic_blocks_are_refused(block: Any) -> None:
    with pytest.raises(Invalid):
        dialect("anthropic").parse({"role": "user", "content": [block]})


def test_odd_openai_results_are_refused() -> None:
    for wire in (
        {"role": "tool", "content": "x"},
        {"role": "tool", "tool_call_id": "a"},
    ):
        with pytest.raises(Invalid):
            dialect("openai_chat").parse(wire)


# --- which dialect ---


@pytest.mark.parametrize(
    ("name", "hint"), [("antropic", "anthropic"), ("openai", "openai_chat"), ("zzz", "known: ")]
)
def test_an_unknown_dialect_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(Invalid) as error:
        dialect(name)
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        ({"role": "user", "content": "hi"}, None),
        ({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, None),
        ({"role": "user", "content": [{"type": "foo", "a": 1}]}, None),
        ({"role": "tool", "tool_call_id": "a", "content": "x"}, "openai_chat"),
        ({"role": "developer", "content": "x"}, "openai_chat"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "openai_chat"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            "openai_chat",
        ),
        (
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]},
            "anthropic",
        ),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "web_search_tool_result"}]}, "anthropic"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]},
            "anthropic",
        ),
        (
            {
                "role": "user",
                "content": [{"type": "text", "text": "x", "prompt_cache_breakpoint": {}}],
            },
            "openai_chat",
        ),
    ],
)
def test_a_message_tells_its_dialect_only_where_it_is_sure(
    message: dict[str, Any], spoken: str | None
) -> None:
    assert dialect_of(message) == spoken
    assert dialect_of(message, "anthropic") == (spoken or "anthropic")
    assert parse(message, "anthropic")[0].dialect == (spoken or "anthropic")


def test_ids_made_plain_stay_distinct() -> None:
    assert plain_id("call_1", 40) == "call_1"
    made = {plain_id(id, 40) for id in ("a b", "a_b", "a:b", "x" * 41, "x" * 42, "")}
    assert len(made) == 6
    assert all(len(id) <= 40 for id in made)


# --- objects that fail, streams without an end, messages of nobody ---


class Failing:
    """An SDK's object whose own method fails."""

    def __init__(self, method: str, error: Exception) -> None:
        self.error = error
        setattr(self, method, self.fail)

    def fail(self, **_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("method", ["model_dump", "to_dict", "dict"])
@pytest.mark.parametrize(
    "error", [ValueError("v"), TypeError("t"), RuntimeError("r"), KeyError("k"), RecursionError()]
)
def test_an_object_that_cannot_give_its_fields_is_refused(method: str, error: Exception) -> None:
    context = refold.open("x", store="memory:", embedder=False)
    for door in (context.append, context.record, context.count, refold.tool_calls):
        with pytest.raises(Invalid, match=f"{method}.. failed") as caught:
            door(Failing(method, error))
        assert caught.value.hint and caught.value.__cause__ is error
    assert context.view.head == 0


def test_a_stream_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNKS_MAX", 1_000)
    monkeypatch.setattr(recorder, "CHUNKS_MAX", 1_000)
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
    for endless in (repeat(chunk), count(), repeat({})):
        context = refold.open("x", store="memory:", embedder=False)
        with pytest.raises(Invalid, match="1,000 chunks"):
            context.record(endless)
        with pytest.raises(Invalid, match="1,000 chunks"):
            for _ in context.stream(endless):
                pass
        assert context.view.head == 0


@pytest.mark.parametrize("kind", ["human", "ai", "system", "tool", "AIMessageChunk"])
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "gpt-5"])
def test_a_message_of_langchain_is_refused_with_what_to_do(kind: str, model: str) -> None:
    class LangChain:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {"type": kind, "content": "hello", "id": None, "additional_kwargs": {}}

    context = refold.open("x", store="memory:", embedder=False, model=model)
    for message in (LangChain(), LangChain().model_dump()):
        for door in (context.append, context.record, refold.tool_calls):
            with pytest.raises(Invalid, match="LangChain") as caught:
                door(message)
            assert "convert_to_openai_messages" in str(caught.value.hint)
