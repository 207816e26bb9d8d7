"""A conversation that a proxy keeps, seen from a shell beside it: the figures are the proxy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.core.budget import Budget
from refold.edges.statusline import conversation_line
from tests.edges.cli.rooms import as_json
from tests.edges.proxy.kit import Running, loop, with_proxy

pytestmark = pytest.mark.usefixtures("alone")
WINDOW = 60_000
TURNS, CHARS = 24, 8_000  # more than fits beside a reserve, less than the window


def kept(store: str, window: int | None = WINDOW, config: dict[str, Any] | None = None) -> Budget:
    """A session behind a proxy, kept in a store; the limits that the proxy has at its end."""

    async def work(running: Running) -> Budget:
        said = loop(TURNS, CHARS)
        await running.messages(said)
        [held] = running.book._held.values()
        return held.context.budget

    return with_proxy(work, folds=True, window=window, store=store, config=config)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / '.refold' / 'refold.db'}"


@pytest.mark.parametrize("window", [None, 30_000, WINDOW, 200_000])
@pytest.mark.parametrize("config", [None, {"compact_ratio": 0.85}, {"tokens_cap": 50_000}])
def test_a_shell_has_the_limits_of_the_proxy(
    window: int | None, config: dict[str, Any] | None, place: str
) -> None:
    budget = kept(place, window, config)
    stats = as_json("stats", "@1")
    assert (stats["window"], stats["warn_at"], stats["compact_at"]) == (
        budget.window,
        budget.warn_at,
        budget.compact_at,
    )
    assert stats["percent"] == budget.percent(stats["current"])


def test_a_conversation_that_fits_the_proxys_window_comes_back_whole(place: str) -> None:
    budget = kept(place)
    undone = as_json("undo", "@1")
    assert (undone["made_room"], undone["tokens_max"]) == ("", budget.input_max)
    assert 28_000 < undone["tokens_after"] < budget.input_max == WINDOW


def test_the_status_line_speaks_of_the_same_trigger(place: str) -> None:
    budget = kept(place)
    id = as_json("list")["conversations"][0]["id"]
    used = as_json("stats", id)["current"]
    shown = conversation_line(id, place, short=False, color=False)
    assert ("refold compact soon" in shown) == (used >= budget.warn_at)


def test_another_proxy_with_another_window_is_followed(place: str) -> None:
    first, second = kept(place), kept(place, 30_000)
    assert first.compact_at != second.compact_at
    assert len(as_json("list")["conversations"]) == 1
    assert as_json("stats", "@1")["compact_at"] == second.compact_at


def test_what_a_user_says_here_stands_alone(place: str, tmp_path: Path) -> None:
    kept(place)
    (tmp_path / "refold.toml").write_text("compact_ratio = 0.85\n", encoding="utf-8")
    id = as_json("list")["conversations"][0]["id"]
    with refold.open(id, store=place, read_only=True) as context:
        assert as_json("stats", "@1")["compact_at"] == context.budget.compact_at


@pytest.mark.parametrize(
    "noted", ["x", {"limits": 5}, {"limits": {"target_ratio": "much"}}, {"limits": {"nosuch": 1}}]
)
def test_a_note_that_makes_no_sense_is_left_alone(noted: object, place: str) -> None:
    with refold.open("fix-login", store=place, window=WINDOW) as context:
        context.append({"role": "user", "content": "Why?"})
        context.update(metadata={"proxy": noted})
        expected = context.budget.compact_at
    assert as_json("stats", "fix-login")["compact_at"] == expected
