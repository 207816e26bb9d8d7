"""Cache marks: refold's, the caller's or nobody's; never more than the provider takes, and none
that lives longer than one before it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.core.model import Message, Text
from refold.dialects.page import Page
from refold.dialects.protocol import CacheMarks

CLAUDE = "claude-sonnet-4-5"
HOUR = {"type": "ephemeral", "ttl": "1h"}
SHORT = {"type": "ephemeral"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def text(said: str, mark: Any = None) -> dict[str, Any]:
    block = {"type": "text", "text": said}
    return {**block, "cache_control": mark} if mark else block


def asked(said: str, mark: Any = None) -> dict[str, Any]:
    return {"role": "user", "content": [text(said, mark)]}


def opened(messages: list[Any], *, model: str = CLAUDE, **given: Any) -> refold.Context:
    config = {name: given.pop(name) for name in list(given) if name.startswith("cache")}
    context = refold.open("x", store="memory:", model=model, embedder=False, config=config, **given)
    for message in messages:
        context.append(message)
    return context


def marks(value: Any) -> list[Any]:
    """Every mark in a value, in its order."""
    if isinstance(value, list):
        return [mark for item in value for mark in marks(item)]
    if not isinstance(value, dict):
        return []
    own = [value["cache_control"]] if "cache_control" in value else []
    return own + [
        mark for key, item in value.items() if key != "cache_control" for mark in marks(item)
    ]


def test_refolds_marks_live_as_long_as_the_mark_on_a_message() -> None:
    request = opened([asked("a", HOUR)], system="s").request()
    assert marks(request) == [HOUR, HOUR]


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_a_configured_time_to_live_wins(ttl: str) -> None:
    request = opened([asked("a", HOUR)], system="s", cache=ttl).request()
    assert marks(request) == [{"type": "ephemeral", "ttl": ttl}] * 2


@pytest.mark.parametrize("most", range(6))
def test_there_are_at_most_as_many_marks_as_allowed(most: int) -> None:
    view = opened([asked("a"), asked("b")], system="s").view
    page = Page(dialects.dialect("anthropic"), bound=False, caching=CacheMarks(most=most))
    assert len(marks(page.render(view).request)) == min(most, 2)


def test_the_callers_marks_go_back_where_they_came_and_none_of_refolds() -> None:
    messages = [asked("a", HOUR), asked("b"), asked("c", SHORT)]
    context = opened(messages, system=[text("s", HOUR)], tools=[TOOL], cache="caller")
    request = context.request()
    assert request["messages"] == messages
    assert request["system"] == [text("s", HOUR)]
    assert len(marks(request)) == 3


def test_the_callers_marks_come_back_after_reopening(tmp_path: Any) -> None:
    given: dict[str, Any] = {
        "store": f"files:{tmp_path}",
        "model": CLAUDE,
        "config": {"cache": "caller"},
    }
    with refold.open("x", embedder=False, **given) as context:
        context.append(asked("a", HOUR))
        before = context.request()
    with refold.open("x", embedder=False, **given) as context:
        assert context.request() == before and marks(before) == [HOUR]


def test_nobodys_marks_are_none() -> None:
    given = {"system": [text("s", HOUR)], "tools": [{**TOOL, "cache_control": HOUR}]}
    assert marks(opened([asked("a", HOUR)], cache=False, **given).request()) == []


def test_marks_of_claude_go_to_no_other_provider() -> None:
    context = opened([asked("a", HOUR)], cache="caller")
    for name in dialects.DIALECTS:
        if name != "anthropic":
            assert "ephemeral" not in json.dumps(context.request(name))


def test_a_mark_of_the_whole_call_is_counted() -> None:
    messages = [asked(str(n), SHORT) for n in range(6)]
    for cache in (True, "caller"):
        request = opened(messages, system="s", cache=cache).request(cache_control=HOUR)
        assert len(marks(request)) <= 4
        assert dialects.dialect("anthropic").check(request) == []


def test_messages_of_the_callers_own_are_handed_on() -> None:
    context = opened([asked("a")])
    for messages in (None, [], "x", [1], [{}]):
        assert context.request(cache_control=HOUR, messages=messages)["messages"] == messages


@pytest.mark.parametrize("odd", [5, "x", [[0, HOUR], 5, [[], 1], ["a", HOUR], [9, HOUR]], {}])
def test_marks_that_nobody_made_stop_no_request(odd: Any) -> None:
    message = Message(
        role="user", blocks=(Text("a"),), dialect="anthropic", metadata={"$marks": odd}
    )
    for cache in (True, False, "caller"):
        request = opened([message], cache=cache).request()
        assert dialects.dialect("anthropic").check(request) == []


given_marks = st.sampled_from([None, SHORT, {"type": "ephemeral", "ttl": "5m"}, HOUR])


@settings(deadline=None, max_examples=80)
@given(
    st.lists(given_marks, min_size=1, max_size=7),
    st.lists(given_marks, max_size=3),
    st.lists(given_marks, max_size=2),
    st.sampled_from([True, False, "caller", "5m", "1h"]),
)
def test_whatever_is_marked_the_provider_takes_it(
    said: list[Any], prompt: list[Any], tools: list[Any], cache: Any
) -> None:
    system = [text(f"s{n}", mark) for n, mark in enumerate(prompt)]
    defined = [
        {**TOOL, "name": f"f{n}", **({"cache_control": mark} if mark else {})}
        for n, mark in enumerate(tools)
    ]
    messages = [asked(f"m{n}", mark) for n, mark in enumerate(said)]
    context = opened(messages, system=system, tools=defined, cache=cache)
    request = context.request()
    assert dialects.dialect("anthropic").check(request) == []
    assert len(marks(request)) <= 4
