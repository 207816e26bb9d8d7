"""The model table: names, windows, prices."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.model import Usage
from refold.dialects.anthropic.parse import reply
from refold.dialects.streams import assemble
from refold.dialects.usage import read_usage
from refold.errors import Invalid
from refold.tokens import models
from refold.tokens.models import (
    Model,
    Prices,
    beyond,
    cost,
    dollars,
    input_price,
    model_info,
    register_models,
    retirement,
    table,
    together,
)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-turbo", 128_000),
        ("gpt-4o", 128_000),
        ("claude-3-opus", 200_000),
        ("claude-3-sonnet", 200_000),
        ("claude-3-haiku", 200_000),
        ("gemini-1.5-pro", 2_000_000),
        ("gemini-1.5-flash", 1_000_000),
        ("claude-sonnet-4-5", 200_000),
    ],
)
def test_the_windows_of_the_source_table_hold(name: str, window: int) -> None:
    """Y-05: all source values."""
    found = model_info(name)
    assert (found.name, found.window, found.known) == (name, window, True)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("GPT-4o", "gpt-4o"),
        ("  gpt-4o ", "gpt-4o"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4-turbo-preview", "gpt-4-turbo"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("ft:gpt-4o-2024-08-06:acme::id", "gpt-4o"),
        ("openai:gpt-5", "gpt-5"),
        ("anthropic/claude-3-opus", "claude-3-opus"),
        ("claude-3-opus-20240229", "claude-3-opus"),
        ("vertex_ai/claude-3-opus@20240229", "claude-3-opus"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/eu.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("models/gemini-1.5-pro-002", "gemini-1.5-pro"),
        ("xai/grok-4.5-latest", "grok-4.5"),
    ],
)
def test_a_name_finds_its_model(name: str, found: str) -> None:
    """Y-05: provider stripped, longest prefix at a boundary, case ignored."""
    assert model_info(name).name == found


@pytest.mark.parametrize("name", ["gpt-4omega", "gpt-4.9", "o12", "claude-3", "acme-1", "", None])
def test_an_unknown_name_gets_a_window_and_says_so(name: str | None) -> None:
    """Y-05: unknown is 128,000, to be warned of; `gpt-4` is matched neither by `gpt-4o` nor by
    `gpt-4.9`."""
    found = model_info(name)
    assert (found.window, found.known, found.prices, found.output) == (128_000, False, None, None)


@pytest.mark.parametrize(
    "name", ["deepseek-r1", "together_ai/deepseek-ai/DeepSeek-V3", "my-deepseek-finetune"]
)
def test_a_deepseek_model_has_the_window_of_the_rule(name: str) -> None:
    """C-02: the rule is data, and an override wins."""
    assert (model_info(name).window, model_info(name).known) == (128_000, True)
    opened = refold.open("talk", store="memory:", model=name, window=64_000)
    assert opened.budget.window == 64_000
    assert any(pattern.contains == "deepseek" for pattern in table().patterns)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openai_chat"),
        ("gpt-5", "openai_chat"),
        ("gemini-2.5-pro", "gemini"),
        ("claude-of-tomorrow", "anthropic"),
        ("acme-1", ""),
    ],
)
def test_a_model_speaks_the_dialect_of_its_provider(name: str, dialect: str) -> None:
    """Y-05: a gateway speaks its own, whichever model it passes on."""
    assert model_info(name).dialect == dialect


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("claude-fable-5-1", True),
        ("claude-mythos-5-1", True),
        ("claude-opus-5-5", True),
        ("claude-sonnet-5-5", True),
        ("claude-haiku-5-5", True),
        ("claude-fable-5", False),
        ("claude-opus-5", False),
        ("claude-sonnet-4-5", False),
        ("gpt-5", False),
    ],
)
def test_the_models_that_bind_their_thinking_are_marked(name: str, bound: bool) -> None:
    """T2 of the wire reference: the prefix before a thinking block must stay."""
    assert model_info(name).thinking_bound is bound


def test_an_input_limit_below_the_window_is_told() -> None:
    """X-10: a reported maximum input wins, so that it must be known apart from the window."""
    found = model_info("gpt-5")
    assert (found.window, found.input_max, found.output) == (400_000, 272_000, 128_000)
    assert model_info("gpt-4o").input_max is None


@pytest.mark.parametrize(("name", "window"), [("acme-1", 64_000), ("gpt-5", 500_000)])
def test_what_the_user_says_wins(name: str, window: int) -> None:
    """Y-05: the window of the caller, and no input limit that was known of another window."""
    opened = refold.open("talk", store="memory:", model=name, window=window)
    assert opened.budget.window == window
    assert opened.budget.critical_at > window * 0.9
    notices: list[str] = []
    opened.on("*", lambda notice: notices.append(notice.name))
    opened.append({"role": "user", "content": "hello"})
    opened.request()
    assert notices == []


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(models, "_registered", {})
    yield
    models.register_models({})  # forgets looked-up names


@pytest.mark.usefixtures("added")
def test_rows_are_added_to_the_table() -> None:
    """Y-05: the table is data, loadable; a row of the user's wins over ours, and matches by
    prefix like ours."""
    assert not model_info("acme-2-large").known
    register_models(
        {"Acme-2": {"provider": "openai", "window": 64_000, "prices": {"input": 1, "output": 2}}}
    )
    register_models({"gpt-4o": {"provider": "openai", "window": 99_000}})
    found = model_info("my-host/acme-2-large")
    assert (found.name, found.window, found.known, found.dialect) == (
        "acme-2",
        64_000,
        True,
        "openai_chat",
    )
    assert model_info("gpt-4o-2024-08-06").window == 99_000


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    "row",
    [
        {},
        {"window": "many"},
        {"window": 0},
        {"window": 5, "output": -1},
        {"window": 5, "prices": {}},
    ],
)
def test_a_row_that_is_none_is_refused(row: dict[str, Any]) -> None:
    """Bad input: nothing of it is kept."""
    with pytest.raises(Invalid):
        register_models({"acme-2": {"window": 5}, "acme-3": row})
    assert not model_info("acme-2").known


@pytest.mark.parametrize("window", [0, -1, -200_000])
def test_a_limit_of_nothing_is_refused(window: int) -> None:
    """C-01: a negative window is an error."""
    with pytest.raises(Invalid, match=r"window"):
        refold.open("talk", store="memory:", model="gpt-4o", window=window)
    with pytest.raises(Invalid, match="above 0"):
        register_models({"acme-4": {"window": window}})
    with pytest.raises(Invalid, match="above 0"):
        register_models({"acme-4": {"window": 5, "output": window}})


FULL = Prices(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
BARE = Prices(input=2.0, output=8.0)


@pytest.mark.parametrize(
    ("prices", "usage", "shown"),
    [
        (FULL, Usage(input=1_000_000), "$3.0000"),
        (FULL, Usage(output=1_000_000), "$15.0000"),
        (FULL, Usage(input=600, cache_read=580), "$0.0002"),
        (FULL, Usage(input=10_000, cache_read=2_000, cache_write=4_000, output=1_440), "$0.0492"),
        (FULL, Usage(input=12_067, output=1_000), "$0.0512"),
        (BARE, Usage(input=1_000_000, cache_read=500_000, cache_write=250_000), "$2.0000"),
        # A provider that reports more cached than read must not earn money.
        (FULL, Usage(input=0, cache_read=1_000_000), "$0.3000"),
        (FULL, Usage(), "$0.0000"),
        (None, Usage(input=1_000), "n/a"),
    ],
)
def test_a_call_costs_its_uncached_cached_and_written_parts(
    prices: Prices | None, usage: Usage, shown: str
) -> None:
    """M-65, X-11: four decimals; without prices `n/a`, not $0."""
    assert dollars(cost(Model(window=1, prices=prices), usage)) == shown


def test_a_token_of_input_has_a_price_where_the_model_has() -> None:
    """M-65: what a plan's price in dollars is made of."""
    assert input_price(Model(window=1, prices=FULL)) == 3e-6
    assert input_price(model_info("acme-1")) is None


def test_the_table_is_small_whole_and_says_where_it_is_from() -> None:
    """Y-05: the table is data."""
    rows = table()
    assert "litellm" in rows.source and rows.as_of
    assert {row.provider for row in rows.models.values()} == set(rows.dialects)
    for name, row in rows.models.items():
        assert name == name.lower() and row.window >= (row.input_max or 0) > -1
        assert row.prices is None or row.prices.output > 0 < row.prices.input


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """Section 7: import light; no third package, no file."""
    code = (
        "import sys, refold.tokens.counter, refold.tokens.models as m;"
        "print(m.table.cache_info().currsize, 'tiktoken' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == ["0", "False"]


@given(st.text(max_size=40))
def test_any_name_has_an_answer(name: str) -> None:
    """Y-05: never an error, always a window."""
    assert model_info(name).window > 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude-opus-4.1", "anthropic"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic"),
        ("gpt-5", "openai_chat"),
        ("openai/gpt-4o-mini", "openai_chat"),
        ("o3-mini", "openai_chat"),
        ("openrouter/anthropic/claude-sonnet-4-5", "openai_chat"),
        ("openai/some-new-model", "openai_chat"),
        ("chatgpt-4o-latest", "openai_chat"),
        ("gemini-2.5-pro", "gemini"),
        ("models/gemini-2.5-flash", "gemini"),
        ("vertex_ai/gemini-3-pro-preview", "gemini"),
        ("google/some-new-model", "gemini"),
        ("vertex_ai/claude-sonnet-4-5", "anthropic"),
        ("claude-of-tomorrow", "anthropic"),
        ("azure/my-deployment", "openai_chat"),
        ("anthropic/some-new-model", "anthropic"),
        ("llama-3", ""),
        ("", ""),
    ],
)
def test_model_names_tell_their_dialect(model: str, name: str) -> None:
    """Also of models that the table does not know: their window is assumed, their wire format is
    not."""
    assert model_info(model).dialect == name


@pytest.mark.parametrize("sign", ["-", "/", ".", ":", "x", "claude.", "gpt-4o-", "a/-"])
@pytest.mark.parametrize("length", [20_000, 40_000])
def test_a_name_of_any_length_costs_little(sign: str, length: int) -> None:
    """Hostile F13: 5.8 s of processor for 20,000 characters, growing by their square."""
    name = (sign * length)[:length]
    started = time.process_time()
    model_info(name)
    assert time.process_time() - started < 0.2
    assert model_info(f"openrouter/anthropic/claude-sonnet-4.5-{name}").window == 200_000


def test_the_table_knows_when_models_end() -> None:
    model = model_info("claude-sonnet-4-5-20250929")
    assert model.retires == "2026-11-30"
    assert retirement(model, date(2026, 11, 17)) == "soon"
    assert retirement(model, date(2026, 11, 30)) == "soon"
    assert retirement(model, date(2026, 12, 1)) == "retired"
    assert retirement(model, date(2026, 1, 1)) == ""
    assert retirement(model_info("gpt-4o"), date(2026, 11, 17)) == ""
    for row in table().models.values():
        assert not row.retires or date.fromisoformat(row.retires)


def test_current_models_are_known() -> None:
    for name in ("claude-sonnet-5-5", "gpt-6.1-terra", "gpt-6.1-sol"):
        assert model_info(name).known and not model_info(name).retires


def test_a_day_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid, match="retires"):
        register_models({"acme-1": {"window": 1_000, "retires": "soon"}})


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.booleans())
def test_a_cache_write_for_an_hour_costs_twice_the_input(
    new: int, short: int, long: int, is_streamed: bool
) -> None:
    """In every door through which Anthropic's usage comes."""
    wire = {
        "input_tokens": new,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
    }
    alone = read_usage(wire, "anthropic")
    parts = [{"type": "message_start", "message": {"id": "m", "content": [], "usage": wire}}]
    parts.append({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 0}})
    whole = assemble(parts) if is_streamed else {"content": [], "usage": wire, "role": "assistant"}
    answered = reply({**whole, "type": "message"}).usage
    assert answered is not None
    for usage in (alone, answered):
        assert (usage.cache_write, usage.cache_write_1h) == (short + long, long)
        paid = cost(model_info("claude-sonnet-4-5"), usage)
        assert paid == pytest.approx((3.0 * new + 3.75 * short + 6.0 * long) / 1e6)
    both = together(alone, alone)
    assert cost(model_info("claude-sonnet-4-5"), both) == pytest.approx(2 * paid)
    assert beyond(both, alone).cache_write_1h == long
