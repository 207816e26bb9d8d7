"""Whole sessions through a proxy process against an upstream as strict as the providers: nothing is
refused, nothing of an answer changes, and the front holds."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.real.proxy.agent import Agent, ResponsesAgent, item_turns, tool_loop, turns, unsigned
from tests.real.proxy.process import proxied
from tests.real.proxy.recorded import ABSENT, folder, recorded
from tests.real.proxy.strict.script import Answer
from tests.real.proxy.strict.server import Upstream, serving

SESSIONS_MAX = 3


def play(agent: Agent, messages: list[dict[str, Any]]) -> None:
    each = item_turns if isinstance(agent, ResponsesAgent) else turns
    for said, answer in each(messages):
        assert list(map(unsigned, agent.turn(said, answer))) == answer


def fronts_kept(upstream: Upstream) -> float:
    """The mean share of a request's list that repeats the request before it, by messages as they
    stand there without cache marks."""
    shares = []
    lists = [one.body["messages"] for one in upstream.requests]
    for before, now in pairwise(lists):
        encoded = [
            json.dumps(one).replace(', "cache_control": {"type": "ephemeral"}', "") for one in now
        ]
        earlier = [
            json.dumps(one).replace(', "cache_control": {"type": "ephemeral"}', "")
            for one in before
        ]
        same = 0
        while same < min(len(encoded), len(earlier)) and encoded[same] == earlier[same]:
            same += 1
        if len(before) > 1:
            shares.append(sum(map(len, encoded[:same])) / max(1, sum(map(len, earlier))))
    return sum(shares) / max(1, len(shares))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-4-1"])
def test_a_long_tool_loop_is_folded_and_nothing_is_refused(
    streams: bool, model: str, tmp_path: Path
) -> None:
    with (
        serving() as upstream,
        proxied(tmp_path, upstream.url, "--fold", "--window", "30000") as proxy,
    ):
        agent = Agent(f"{proxy.url}/anthropic", upstream, streams=streams, model=model)
        play(agent, tool_loop(60))
        report = proxy.refold("proxy", "--report")["total"]
    assert upstream.refusals == []
    assert sum(len(one.raw) for one in upstream.requests) < 0.6 * agent.sent_bytes
    assert report["folded"] > 10 and report["saved"] > 0 and report["saved_cost"] > 0
    assert fronts_kept(upstream) > 0.9


@pytest.mark.parametrize("streams", [False, True])
def test_the_provider_compacts_a_long_tool_loop_and_its_thinking_goes_on(
    streams: bool, tmp_path: Path
) -> None:
    options = ("--fold", "--native", "--window", "30000")
    with serving() as upstream, proxied(tmp_path, upstream.url, *options) as proxy:
        upstream.script.choose = summarized
        agent = Agent(f"{proxy.url}/anthropic", upstream, streams=streams)
        play(agent, tool_loop(60))
        report = proxy.refold("proxy", "--report")["total"]
    assert upstream.refusals == []
    asked = [one for one in upstream.requests if "compaction" in one.body]
    assert len(asked) >= 2 and report["calls"] == 61 + len(asked)
    blocks = [block for one in upstream.requests[-1].body["messages"] for block in one["content"]]
    kinds = [block["type"] for block in blocks]
    assert kinds[0] == "compaction" and kinds.count("thinking") == kinds.count("tool_use") > 3


def summarized(request: dict[str, Any]) -> Answer | None:
    """What the upstream says where it is asked for a compaction."""
    return Answer("Files were read.") if "compaction" in request else None


@pytest.mark.parametrize("options", [(), ("--fold", "--window", "30000")])
def test_tools_that_nobody_called_are_left_to_the_provider(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    with serving() as upstream, proxied(tmp_path, upstream.url) as proxy:
        play(Agent(f"{proxy.url}/anthropic", upstream), tool_loop(5))
        all_tools = upstream.requests[-1].body["tools"]
    assert not any(tool.get("defer_loading") for tool in all_tools)
    with serving() as upstream, proxied(tmp_path, upstream.url, "--defer-tools", *options) as proxy:
        first, *rest = tool_loop(40)
        play(Agent(f"{proxy.url}/anthropic", upstream), [{**first, "content": "Again."}, *rest])
    assert upstream.refusals == []
    fronts = [one.body["tools"] for one in upstream.requests]
    assert all(tools == fronts[0] for tools in fronts)
    loaded = [tool["name"] for tool in fronts[0] if not tool.get("defer_loading")]
    assert loaded == ["Read", "tool_search_tool_bm25"] and len(fronts[0]) == len(all_tools) + 1


def test_openai_compacts_a_long_tool_loop(tmp_path: Path) -> None:
    options = ("--fold", "--native", "--window", "30000")
    with serving() as upstream, proxied(tmp_path, upstream.url, *options) as proxy:
        play(ResponsesAgent(f"{proxy.url}/openai", upstream), item_loop(60))
    assert upstream.refusals == []
    paths = [one.path for one in upstream.requests]
    assert any(path.endswith("/responses/compact") for path in paths)


def item_loop(count: int) -> list[dict[str, Any]]:
    """A made-up session with reasoning before every call."""
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "Mend the login."}
    ]
    for number in range(count):
        id = f"call_{number}"
        items.append({"type": "reasoning", "summary": []})
        items.append({"type": "function_call", "call_id": id, "name": "r", "arguments": "{}"})
        output = f"file {number}\n" + "a line of output\n" * 200
        items.append({"type": "function_call_output", "call_id": id, "output": output})
    said = [{"type": "output_text", "text": "Done.", "annotations": []}]
    return [*items, {"type": "message", "role": "assistant", "content": said}]


def test_observing_sends_the_bytes_that_came(tmp_path: Path) -> None:
    with serving() as upstream, proxied(tmp_path, upstream.url) as proxy:
        agent = Agent(f"{proxy.url}/anthropic", upstream)
        play(agent, tool_loop(20))
        report = proxy.refold("proxy", "--report")["total"]
    assert sum(len(one.raw) for one in upstream.requests) == agent.sent_bytes
    assert report["folded"] == 0 and report["calls"] == 21


@pytest.mark.skipif(folder() is None, reason=ABSENT)
@pytest.mark.parametrize(
    ("kind", "base"), [("anthropic", "anthropic"), ("openai_responses", "openai")]
)
@pytest.mark.parametrize("by", [(), ("--native",)])
@pytest.mark.parametrize("window", [30_000, 60_000])
def test_recorded_sessions_are_folded_and_nothing_is_refused(
    kind: str, base: str, window: int, by: tuple[str, ...], tmp_path: Path
) -> None:
    caller = Agent if kind == "anthropic" else ResponsesAgent
    for name, messages in recorded(kind, SESSIONS_MAX):
        place = tmp_path / name
        place.mkdir()
        options = ("--fold", *by, "--window", str(window))
        with serving(window=1_000_000) as upstream, proxied(place, upstream.url, *options) as proxy:
            upstream.script.choose = summarized
            play(caller(f"{proxy.url}/{base}", upstream), messages)
            assert "failed" not in proxy.log()
        assert upstream.refusals == [], name
