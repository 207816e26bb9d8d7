"""Rewinds, resumes and folds in any order: what a run was asked for holds in every fork that its
calls are recorded in, beside an upstream as strict as the provider."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.config import Config
from refold.edges.cli.screen import Screen
from refold.edges.commands.proxy import Spent, spent
from refold.edges.proxy.savings import sums
from refold.log.log import now_ms
from refold.settings.sources import noted_limits
from tests.edges.proxy.kit import Running, with_proxy
from tests.edges.proxy.test_native import SYSTEM, TOOLS, Strict, chosen
from tests.real.proxy.agent import marked
from tests.real.proxy.strict.talks import HEADERS

WINDOW = 60_000
MODEL = "claude-opus-5-5"
Json = dict[str, Any]
Ran = tuple[list[str], Spent]


class Agent:
    """One agent and its talk, over several runs with the same store."""

    def __init__(self, store: str) -> None:
        self.store, self.talk, self.calls = store, list[Json](), 0

    def run(self, *parts: tuple[int, int], window: int | None) -> Ran:
        """A run that cuts the talk to so many messages, then makes so many calls, and so on; it
        folds if it has a window. The conversations of its calls, and what its end says."""
        provider, began_ms = Strict(), now_ms()
        provider.upstream.settings.window = WINDOW if window else 1_000_000

        async def work(running: Running) -> None:
            for length, calls in parts:
                self.rewind(length)
                for _ in range(calls):
                    await self.call(running, provider)

        folds = window is not None
        with_proxy(work, folds=folds, window=window, store=self.store, provider=provider)
        assert provider.upstream.refusals == []
        with closing(refold.open_store(self.store)) as store:
            ids = [one.conversation for one in sums(store, began_ms)]
            made = set[str]()
            for id in ids:
                with refold.open(id, store=store, read_only=True) as context:
                    assert not folds or context.budget.window == WINDOW
                    assert not folds or noted_limits(context.view.metadata)
                    batches = context.log.batches()
                    made |= {one.id for one in batches if one.at_ms >= began_ms and one.live}
            ended = spent(store, Config(), began_ms, window, folds=folds)
        assert ended is not None and ended.calls == sum(calls for _, calls in parts)
        assert ended.folded == folds
        assert not folds or ended.compactions == len(made)
        return ids, ended

    def rewind(self, length: int) -> None:
        """Cuts the talk after something that the user or a tool said, and says something else."""
        text = [{"type": "text", "text": f"Now look elsewhere, after {self.calls} calls."}]
        kept = self.talk[:length]
        if kept and kept[-1]["role"] == "assistant":
            del kept[-1]
        self.talk = [*kept, {"role": "user", "content": text}]

    async def call(self, running: Running, provider: Strict) -> None:
        """Asks, and reads one more file."""
        self.calls += 1
        number, id = self.calls, f"toolu_{self.calls:04d}"
        use = {"type": "tool_use", "id": id, "name": "Read", "input": {"path": f"f{number}.py"}}
        thought = {"type": "thinking", "thinking": f"I look at file {number}."}
        provider.upstream.settings.script.choose = chosen([thought, use])
        body = {"model": MODEL, "max_tokens": 4_000, "system": SYSTEM, "tools": TOOLS}
        shown = [*self.talk[:-1], marked(self.talk[-1])]
        response = await running.client.post(
            "/anthropic/v1/messages", json={**body, "messages": shown}, headers=HEADERS
        )
        await running.settled()
        assert response.status_code == 200, response.text[:400]
        text = f"file {number}\n" + f"def function_{number}(): return {number}\n" * 200
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        self.talk += [
            {"role": "assistant", "content": response.json()["content"]},
            {"role": "user", "content": [result]},
        ]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(f"sqlite:{tmp_path / 'rewinds.db'}")


def test_a_run_with_a_fold_folds_the_fork_that_its_first_call_makes(agent: Agent) -> None:
    [first], recorded = agent.run((0, 50), window=None)
    assert "would have saved" in recorded.sentence(Screen())
    [fork], short = agent.run((20, 2), window=WINDOW)
    assert fork != first
    assert short.sentence(Screen()).endswith(" sent; nothing was due to be folded")
    [fork], ended = agent.run((10_000, 40), window=WINDOW)
    assert ended.compactions and f"refold undo {fork}" in ended.sentence(Screen())


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_rewound_the_run_has_the_window_that_it_was_asked_for(
    agent: Agent, seed: int
) -> None:
    chance = random.Random(seed)
    agent.run((0, chance.randint(25, 45)), window=None)
    for _ in range(2):
        parts = [
            (chance.choice([10_000, chance.randint(4, len(agent.talk))]), chance.randint(1, 30))
            for _ in range(chance.randint(1, 3))
        ]
        agent.run(*parts, window=WINDOW)
