"""From which sizes on the proxy acts: its own, unless its user says something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.config import Config, config_from
from refold.core.budget import budget_for
from refold.edges.proxy import sizes
from tests.edges.proxy.kit import Provider, Running, call, loop, result, with_proxy
from tests.edges.proxy.test_folding import raw_messages

WINDOWS = st.integers(1_000, 2_000_000)


@given(WINDOWS)
def test_for_every_window_the_sizes_are_a_configuration(window: int) -> None:
    config = config_from(sizes.settings(window, ()))
    budget = budget_for(config, window=window, output=None)
    assert budget.warn_at <= budget.compact_at <= budget.critical_at
    assert config.offload_tokens is not None and config.offload_tokens >= window // 2


@given(WINDOWS, WINDOWS)
def test_a_larger_window_is_never_compacted_earlier(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert small * sizes.compact_ratio(small) <= large * sizes.compact_ratio(large) + 1


@given(st.integers(1_000, 40_000))
def test_a_small_window_is_compacted_where_it_is_everywhere(window: int) -> None:
    assert sizes.compact_ratio(window) == Config().compact_ratio


@pytest.mark.parametrize("name", sizes.RATIOS)
def test_what_is_said_about_one_ratio_leaves_all_of_them_alone(name: str) -> None:
    assert sizes.settings(60_000, {name}).keys() == {sizes.LARGE}
    assert sizes.LARGE not in sizes.settings(60_000, {sizes.LARGE})


def sent_with_a_result(text: str) -> bytes:
    """What goes upstream for a list that ends in this result."""

    async def work(running: Running) -> None:
        messages = loop(1)
        await running.messages(messages)
        await running.messages([*messages, call(7, path="a.log"), result(7, text)])

    provider = Provider()
    with_proxy(work, folds=True, window=60_000, provider=provider)
    return raw_messages(provider.bodies[-1])


def large_text(lines: int) -> str:
    return "".join(f"line {number} of a long output\n" for number in range(lines))


def test_a_result_that_leaves_room_on_the_page_is_sent_whole() -> None:
    text = large_text(1_500)
    assert b"art-" not in (sent := sent_with_a_result(text))
    assert len(sent) > len(text)


@pytest.mark.parametrize("name", ["refold.toml", "REFOLD_OFFLOAD_TOKENS"])
def test_what_the_user_calls_large_is_large_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.endswith(".toml"):
        (tmp_path / name).write_text("offload_tokens = 2000\n", encoding="utf-8")
    else:
        monkeypatch.setenv(name, "2000")
    assert b"art-" in sent_with_a_result(large_text(1_500))


def test_a_window_of_60_000_is_compacted_at_36_000() -> None:
    given: dict[str, Any] = sizes.settings(60_000, ())
    budget = budget_for(config_from(given), window=60_000, output=8_000)
    assert budget.compact_at == 36_000
