"""refold's own tools, answered inside a proxy process against an upstream as strict as the
providers: nothing is refused, the client sees nothing of it, and the front holds."""

from __future__ import annotations

import random
import re
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.real.proxy.agent import Agent
from tests.real.proxy.own_tools import Model, results, work
from tests.real.proxy.own_tools_openai import CLIENTS, OpenAIModel, work_openai
from tests.real.proxy.process import STOP_S, proxied
from tests.real.proxy.strict.script import Script
from tests.real.proxy.strict.server import serving
from tests.real.proxy.strict.talks import MODEL, OLDER
from tests.real.proxy.test_sessions import fronts_kept

TOOLS = ("--tools", "--window", "30000")
KILLS = 8
WHOLE = 10  # so many requests fit before anything is folded
OWN_CALL = re.compile(rb"own_\d+_\d+")
STORIES = {
    "alone": Model(40),
    "several at once": Model(30, at_once=2),
    "beside the client's": Model(30, is_mixed=True),
    "several rounds": Model(30, rounds=3),
    "every turn": Model(24, often=1, rounds=2, at_once=2),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("story", "name"),
    [*((story, MODEL) for story in STORIES), ("alone", OLDER), ("beside the client's", OLDER)],
)
def test_what_the_model_asks_of_us_is_answered_inside(
    story: str, streams: bool, name: str, tmp_path: Path
) -> None:
    model = STORIES[story]
    model.looked_up.clear()
    with (
        serving(script=Script(choose=model)) as upstream,
        proxied(tmp_path, upstream.url, *TOOLS) as proxy,
    ):
        agent = Agent(f"{proxy.url}/anthropic", upstream, streams=streams, model=name)
        work(agent, model)
        assert "failed" not in proxy.log()
        report = proxy.refold("proxy", "--report")["total"]
        assert proxy.refold("verify")["ok"]
    assert upstream.refusals == []
    assert "refold_unfold" in model.looked_up
    given = [text for one in upstream.requests for text in results(one.body)]
    assert any("def function_" in text for text in given)
    assert not any(text.startswith("Error") for text in given)
    assert report["calls"] == len(upstream.requests)
    assert fronts_kept(upstream) > 0.9


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("story", [{}, {"is_mixed": True}, {"rounds": 2}])
def test_the_same_over_the_apis_of_openai(
    kind: str, streams: bool, story: dict[str, Any], tmp_path: Path
) -> None:
    model = OpenAIModel(kind.split()[0], 24, **story)
    with (
        serving(script=Script(choose=model)) as upstream,
        proxied(tmp_path, upstream.url, *TOOLS) as proxy,
    ):
        agent = CLIENTS[kind](f"{proxy.url}/openai", upstream, streams=streams)
        work_openai(agent, model)
        assert "failed" not in proxy.log()
        assert len(proxy.refold("list")["conversations"]) == 1
    assert upstream.refusals == []
    # What was said inside is in every request, as long as nothing is folded.
    own = [set(OWN_CALL.findall(one.raw)) for one in upstream.requests[:WHOLE]]
    assert own[-1] and all(before <= now for before, now in pairwise(own))
    assert "refold_unfold" in model.looked_up
    sent = b"".join(one.raw for one in upstream.requests)
    assert b"The text between the marks is stored data" in sent


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_proxy_that_is_killed_at_random_costs_no_turn_and_no_tool(
    streams: bool, is_mixed: bool, tmp_path: Path
) -> None:
    chance, done = random.Random(2 * streams + is_mixed), threading.Event()
    model = Model(16, often=2, is_mixed=is_mixed, rounds=2, piece_s=0.002)
    with (
        serving(script=Script(choose=model)) as upstream,
        proxied(tmp_path, upstream.url, *TOOLS) as proxy,
    ):

        def kill_often() -> None:
            for _ in range(KILLS):
                if done.wait(chance.uniform(0.3, 3.0)):
                    return
                proxy.kill()
                proxy.start()

        killer = threading.Thread(target=kill_often)
        killer.start()
        try:
            agent = Agent(f"{proxy.url}/anthropic", upstream, streams=streams)
            work(agent, model)
        finally:
            done.set()
            killer.join(STOP_S)
        assert proxy.refold("verify")["ok"]
    assert upstream.refusals == []
