"""A wrong value at any argument of a public method is refused by name, and does no harm."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.checked import checked, is_of
from refold.errors import Invalid, RefoldError

WRONG = [None, True, 7, -1, 2**64, 1.5, float("nan"), b"bytes", "", "\ud800", "a\0b", [], [7]]
WRONG += [{}, {"a": 1}, {7: 7}, (1,), ("a", "b"), object(), lambda: None, int, ..., "x" * 70_000]


def worked() -> refold.Context:
    context = refold.open("work", store="memory:", window=24_000)
    context.append({"role": "user", "content": "go"})
    function = {"name": "bash", "arguments": "{}"}
    calls = [{"id": "t1", "type": "function", "function": function}]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    return context


# What a right call of each method looks like.
CALLS: dict[str, dict[str, Any]] = {
    "update": {"title": "t"},
    "append_result": {"call": "t1", "output": "x"},
    "request": {},
    "render": {},
    "plan": {},
    "compact": {},
    "refresh": {"root": "."},
    "revert": {"batch": "b"},
    "checkpoint": {},
    "restore": {"to": 1},
    "pin": {"seq": 1},
    "unpin": {"seq": 1},
    "unfold": {"handle": "#1"},
    "search": {"query": "go"},
    "fork": {"id": "twin"},
    "spawn": {"id": "child", "task": "t"},
    "log.events": {},
    "log.points": {},
    "log.diff": {"first": 1},
    "log.why": {"seq": 1},
    "artifacts.put": {"content": "x", "name": "x.txt"},
    "artifacts.list": {},
    "artifacts.select": {"query": "x"},
    "artifacts.value": {"handle": "#1"},
    "artifacts.lines": {"handle": "#1", "first": 1},
    "artifacts.grep": {"pattern": "x"},
    "artifacts.clean": {},
    "artifacts.remove": {"handle": "art-aaaaaaaaaaaa"},
}


def method_of(context: refold.Context, name: str) -> Callable[..., Any]:
    found: Any = context
    for part in name.split("."):
        found = getattr(found, part)
    return found


def arguments_of(name: str) -> list[str]:
    parameters = inspect.signature(method_of(worked(), name)).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.kind in kinds]


CASES = [(name, argument) for name in CALLS for argument in arguments_of(name)]


@pytest.mark.parametrize("name, argument", CASES, ids=[f"{n}-{a}" for n, a in CASES])
def test_a_wrong_argument_does_no_harm(name, argument, tmp_path, monkeypatch):
    """Whatever is given: the call works or says why not, and the log can be read and goes on."""
    monkeypatch.chdir(tmp_path)
    context = worked()
    for wrong in WRONG:
        head = context.view.head
        try:
            method_of(context, name)(**{**CALLS[name], argument: wrong})
        except Invalid:
            assert context.view.head == head, f"{argument}={wrong!r:.40} was refused and written"
        except RefoldError:
            pass
    context.append({"role": "user", "content": "more"})
    again = refold.Context(context._open.store, "work", window=24_000)
    assert again.view.slots[-1].message.blocks[0].text == "more"


def test_the_error_names_the_argument():
    context = worked()
    for call, name in (
        (lambda: context.append_result(None, "x"), "call"),
        (lambda: context.append_result("t1", "x", is_error=2), "is_error"),
        (lambda: context.checkpoint(7), "name"),
        (lambda: context.update(title=7), "title"),
        (lambda: context.update(tags=[7]), "tags"),
        (lambda: context.update(metadata="x"), "metadata"),
        (lambda: context.update(tools={"bash": {}}), "tools"),
        (lambda: context.restore(True), "to"),
    ):
        with pytest.raises(Invalid, match=f"^{name} is "):
            call()


def test_a_filter_that_does_not_exist_is_named_with_its_nearest():
    with pytest.raises(Invalid, match="rle") as caught:
        worked().search("go", rle="user")
    assert "role" in str(caught.value.hint)


TYPES = [int, str, bool, float, list[int], dict[str, int], tuple[int, int], int | None]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
)


@given(value=VALUES, hint=st.sampled_from(TYPES))
def test_a_value_is_of_its_own_type_and_a_truth_value_is_not_a_number(value, hint):
    if isinstance(hint, type) and hint is not float and is_of(value, hint):
        assert type(value) is hint
    assert is_of(value, type(value))
    assert not is_of(True, int) and not is_of(True, float) and is_of(1, float)


def test_a_decorated_method_keeps_its_signature_and_its_docstring():
    def method(self: object, at: int, *, name: str = "") -> str:
        """Says where."""
        return f"{name}{at}"

    wrapped = checked(method)
    assert inspect.signature(wrapped) == inspect.signature(method)
    assert wrapped.__doc__ == "Says where." and wrapped(object(), 1, name="n") == "n1"


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_value_that_cannot_be_shown_is_refused_like_any_other():
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    for wrong in (Unshowable(), deep, 10**5_000):
        with pytest.raises(Invalid, match=r"^title is "):
            worked().update(title=wrong)


@pytest.mark.parametrize("given", [{"model": 7}, {"window": "x"}, {"store": 5}, {"store": ...}])
def test_opening_with_a_wrong_value_is_refused_by_name(given):
    [name] = given
    with pytest.raises(Invalid, match=f"^{name} is "):
        refold.open("work", **{"store": "memory:", **given})


def test_an_author_that_is_not_a_text_is_refused():
    with pytest.raises(Invalid):
        worked().append({"role": "user", "content": "hi"}, by=7)


@pytest.mark.parametrize("output, reasoning", [(24_000, 0), (18_000, 17_990), (10**9, 5)])
def test_reasoning_and_absurd_output_do_not_fill_the_page(output, reasoning):
    context = refold.open("work", store="memory:", model="gpt-4o", window=24_000)
    context.append({"role": "user", "content": "hello"})
    context.request()
    usage = {"prompt_tokens": 30, "completion_tokens": output, "total_tokens": output + 30}
    usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    reply = {"role": "assistant", "content": "hi"}
    choices = [{"index": 0, "finish_reason": "stop", "message": reply}]
    response = {"id": "r", "object": "chat.completion", "model": "gpt-4o", "choices": choices}
    context.record({**response, "usage": usage})
    context.append({"role": "user", "content": "more"})
    assert context.stats().current < 300 and context.request()
