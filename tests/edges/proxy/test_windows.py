"""When a compaction comes, and how far it goes, where the window that the user chose is smaller than
the model's."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import refold
from refold.compaction.limits import WISH_FROM, WISHED
from refold.core.budget import Budget
from refold.settings.sources import NAMES
from tests.edges.proxy.kit import MODEL, Provider, Running, call, loop, result, with_proxy


def budget_of(
    window: int | None, model: str = MODEL, config: dict[str, Any] | None = None
) -> Budget:
    async def work(running: Running) -> Budget:
        await running.messages(loop(2), model=model)
        [held] = running.book._held.values()
        return replace(held.context.budget, factor=1.0)

    return with_proxy(work, folds=True, window=window, config=config)


def test_the_page_may_fill_a_window_below_the_models_and_is_compacted_before() -> None:
    budget = budget_of(60_000)
    assert (budget.input_max, budget.compact_at, budget.target_ratio) == (60_000, 27_000, 0.38)


@pytest.mark.parametrize(
    ("window", "model"),
    [
        (None, MODEL),  # the model's own
        (WISH_FROM - 1, MODEL),  # small
        (990_000, MODEL),  # no room for an answer above it
        (60_000, "a-model-that-no-table-knows"),
    ],
)
def test_a_window_that_is_a_limit_keeps_room_for_the_answer(window: int | None, model: str) -> None:
    budget = budget_of(window, model)
    assert budget.reserve > 0
    assert budget.target_ratio == 0.5


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_the_user_says_of_it_stands_alone(name: str) -> None:
    ratios = {"warn_ratio": 0.7, "compact_ratio": 0.85, "critical_ratio": 0.97}
    value = {**WISHED, **ratios, "tokens_cap": 30_000}[name]
    said = {name: value}
    with refold.open("alone", store="memory:", model=MODEL, window=60_000, config=said) as context:
        assert budget_of(60_000, config=said) == context.budget
    with refold.open(
        "alone", store="memory:", model=MODEL, window=60_000, config={"models": {MODEL: said}}
    ) as context:
        assert budget_of(60_000, config={"models": {MODEL: said}}) == context.budget


def test_a_setting_in_a_file_stands_alone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refold.toml").write_text("compact_ratio = 0.85\n", encoding="utf-8")
    assert budget_of(60_000).target_ratio == 0.5


def changed_fronts(chars: int, config: dict[str, Any] | None) -> int:
    """How often a front was changed in a session that reads so much in each of its turns."""
    provider = Provider()

    async def work(running: Running) -> None:
        messages = loop(1)
        for number in range(2, 26):
            text = "".join(f"{number} line {at} of file_{at}.py\n" for at in range(chars // 24))
            messages += [call(number, path=f"f{number}.py"), result(number, text)]
            await running.messages(messages)

    with_proxy(work, folds=True, window=60_000, config=config, provider=provider)
    lists = [json.loads(body)["messages"] for body in provider.bodies]
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(lists))


@pytest.mark.parametrize("chars", [20_000, 50_000])
def test_an_agent_that_reads_much_at_once_keeps_its_front_longer(chars: int) -> None:
    assert changed_fronts(chars, None) < changed_fronts(chars, {"target_ratio": 0.5})
