"""Two readings of the providers' rules agree: refold's checks, and the strict upstream of
`tests/real/proxy/strict`, which was written apart from them.

Requests are generated, broken in up to three places, and given to both. What one side refuses and
the other takes is listed below with its reason, or a fault of one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import dialects
from tests.dialects import gemini_shapes, responses_shapes, shapes
from tests.real.proxy.strict import chat_service, gemini_service, responses_items
from tests.real.proxy.strict.anthropic_shape import check_list, check_shape
from tests.real.proxy.strict.anthropic_thinking import Front, Reader, judge
from tests.real.proxy.strict.wire import Refusal

Json = dict[str, Any]
CLAUDES = ["claude-opus-5-5", "claude-opus-4-1", "claude-3-5-haiku-20241022", "claude-sonnet-4-8"]


def anthropic_refusal(request: Json) -> None:
    check_shape(request)
    check_list(request)


def responses_refusal(request: Json) -> None:
    items = request["input"]
    for index, item in enumerate(items):
        responses_items.check_item(f"input[{index}]", item)
    responses_items.check_ids(
        [item for item in items if responses_items.kind_of(item) != "item_reference"]
    )
    responses_items.check_pairs(items)
    responses_items.check_answers(items)
    responses_items.check_reasoning(items, {})


def gemini_refusal(request: Json) -> None:
    gemini_service.check(request, request["model"])


def refusal(judge_it: Callable[[Json], None], request: Json) -> str:
    """Why the strict reading refuses a request; empty if it does not."""
    try:
        judge_it(request)
    except Refusal as refused:
        return refused.message
    return ""


# --- breaking a request ---

VALUES = st.sampled_from([None, "", " ", [], {}, 7, "x", True, ["x"], [{}], {"type": "text"}])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value, outermost first."""
    inside: list[Any] = []
    if isinstance(value, list):
        inside = list(enumerate(value))
    elif isinstance(value, dict):
        inside = list(value.items())
    found = [(*path, key) for key, _ in inside]
    for key, one in inside:
        found += places(one, (*path, key))
    return found


@st.composite
def broken(draw: st.DrawFn, lists: st.SearchStrategy[list[Json]]) -> list[Json]:
    """A list of messages with up to three edits anywhere in it."""
    value: Any = copy.deepcopy(draw(lists))
    for _ in range(draw(st.integers(0, 3))):
        found = places(value)
        if not found:
            break
        path = draw(st.sampled_from(found))
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        edit = draw(st.sampled_from(["delete", "set", "repeat", "swap"]))
        key = path[-1]
        if edit == "delete":
            del holder[key]
        elif edit == "set":
            holder[key] = draw(VALUES)
        elif isinstance(holder, list) and edit == "repeat":
            holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[key]))
        elif isinstance(holder, list):
            other = draw(st.integers(0, len(holder) - 1))
            holder[key], holder[other] = holder[other], holder[key]
    return value


# --- both readings ---


def compare(dialect: str, request: Json, judge_it: Callable[[Json], None], known: tuple[str, ...]):
    faults = dialects.by_name(dialect).check(request)
    unknown = [fault for fault in faults if not any(words in fault for words in known)]
    refused = refusal(judge_it, request)
    if refused:
        assert faults, f"refold takes what is refused: {refused}"
    assert refused or not unknown, f"refold refuses what is taken: {unknown}"


@given(broken(shapes.anthropic_lists), st.sampled_from(CLAUDES))
@settings(max_examples=600, deadline=None)
def test_anthropic(messages, model):
    request = {"model": model, "max_tokens": 100, "messages": messages}
    compare("anthropic", request, anthropic_refusal, ())


@given(broken(shapes.openai_lists))
@settings(max_examples=600, deadline=None)
def test_openai_chat(messages):
    """refold wants a user before the model speaks: some servers of this format demand it."""
    request = {"model": "gpt-5", "messages": messages}
    known = ("an assistant message before any user message",)
    compare("openai_chat", request, chat_service.check, known)


@given(broken(responses_shapes.lists))
@settings(max_examples=600, deadline=None)
def test_openai_responses(items):
    compare("openai_responses", {"model": "gpt-5", "input": items}, responses_refusal, ())


@given(broken(gemini_shapes.gemini_lists))
@settings(max_examples=600, deadline=None)
def test_gemini(contents):
    """refold wants user and model to take turns: older models demand it."""
    request = {"model": "gemini-2.5-pro", "contents": contents}
    compare("gemini", request, gemini_refusal, ("the model speaks twice in a row",))
