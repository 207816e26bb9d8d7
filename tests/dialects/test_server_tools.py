"""Calls that Anthropic runs itself are answered in their turn, continued, or closed.

Random stories of paused answers, results that come later, the caller's own calls and interruptions:
every request is one the provider accepts, and a paused answer goes back exactly as it came.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.dialects import anthropic

MODEL = "claude-opus-4-8"
Wire = dict[str, Any]
KINDS = {
    "web_search": "server_tool_use",
    "code_execution": "server_tool_use",
    "ask": "mcp_tool_use",
}

# Each answer: its server calls (tool, answered at once), number of own calls, whether it says text.
answers = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from([*KINDS]), st.booleans()), max_size=3),
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from(["", "", "say", "note", "hide", "undo", "late"]),
    ),
    min_size=1,
    max_size=8,
)


def result(name: str, id: str) -> Wire:
    kind = "mcp_tool_result" if name == "ask" else f"{name}_tool_result"
    return {"type": kind, "tool_use_id": id, "content": [{"type": "text", "text": "found"}]}


def use(name: str, id: str) -> Wire:
    return {"type": KINDS[name], "id": id, "name": name, "input": {"query": id}}


@pytest.mark.parametrize("options", [{}, {"thinking": {"type": "adaptive"}}])
@settings(max_examples=120, deadline=None)
@given(answers)
def test_every_request_with_server_tools_is_valid(options, story):
    with refold.open("c", store="memory:", model=MODEL) as context:
        context.append({"role": "user", "content": "go"})
        waiting: list[tuple[str, str]] = []
        for number, (server, own, speaks, deed) in enumerate(story):
            blocks: list[Wire] = [{"type": "thinking", "thinking": "hm", "signature": f"s{number}"}]
            if deed != "late":  # results of an earlier answer, some of which were closed since
                blocks += [result(name, id) for name, id in waiting]
                waiting = []
            for at, (name, is_answered) in enumerate(server):
                id = f"srvtoolu_{number}_{at}"
                blocks.append(use(name, id))
                if is_answered:
                    blocks.append(result(name, id))
                else:
                    waiting.append((name, id))
            calls = [f"t{number}_{at}" for at in range(own)]
            blocks += [{"type": "text", "text": "so"}] * speaks
            blocks += [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in calls]
            context.append({"role": "assistant", "content": blocks})
            for id in calls:
                context.append_result(id, "done")
            if deed in ("say", "note"):
                context.append({"role": "user" if deed == "say" else "system", "content": "more"})
            elif deed == "hide" and len(context.view.slots) > 3:
                context.hide(context.view.slots[1].seq)
            elif deed == "undo":
                context.undo()
            request = context.request(**options)
            assert anthropic.check(request) == []


def test_a_paused_answer_goes_back_as_it_came():
    paused = [{"type": "text", "text": "I will look."}, use("web_search", "srvtoolu_1")]
    with refold.open("c", store="memory:", model=MODEL) as context:
        context.append({"role": "user", "content": "go"})
        context.append({"role": "assistant", "content": paused})
        request = context.request()
        del request["messages"][-1]["content"][-1]["cache_control"]
        assert request["messages"][-1] == {"role": "assistant", "content": paused}
        assert anthropic.check(request) == []
        context.append({"role": "user", "content": "stop, something else"})
        rendered = context.request(raw=True)
        closed = '[incomplete call: web_search({"query":"srvtoolu_1"})]'
        assert rendered.request["messages"][1]["content"][1] == {"type": "text", "text": closed}
        assert anthropic.check(rendered.request) == []
        lost = "the call srvtoolu_1 of web_search, which has no result, is sent as text"
        assert rendered.lost == (lost,)


def test_a_server_call_waits_for_results_of_the_callers_tools():
    own = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    with refold.open("c", store="memory:", model=MODEL) as context:
        context.append({"role": "user", "content": "go"})
        first = [use("code_execution", "srvtoolu_1"), own]
        context.append({"role": "assistant", "content": first})
        context.append_result("t1", "done")
        assert context.request()["messages"][1]["content"] == first
        rest = [result("code_execution", "srvtoolu_1"), {"type": "text", "text": "so"}]
        context.append({"role": "assistant", "content": rest})
        context.append({"role": "user", "content": "thanks"})
        request = context.request()
        assert [request["messages"][at]["content"] for at in (1, 3)] == [first, rest]
        assert anthropic.check(request) == []


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ([use("ask", "m1")], "messages[2]: the call 'm1' before it has no result"),
        (
            [result("web_search", "s1")],
            "messages[1]: a web_search_tool_result for 's1' without its call",
        ),
    ],
)
def test_check_refuses_what_the_provider_refuses(answer, fault):
    said = {"role": "user", "content": "go"}
    messages = [said, {"role": "assistant", "content": answer}, said]
    assert anthropic.check({"model": MODEL, "max_tokens": 9, "messages": messages}) == [fault]
