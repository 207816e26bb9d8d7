"""When the page is compacted below its trigger: after the provider's cache has expired, and under
conditions that a user names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.compaction.trigger import Moment, cause
from refold.core.active_events import switches
from refold.core.budget import Load
from refold.core.fold import folded
from refold.errors import Invalid
from refold.stores import open_store
from refold.testing import fixed_clock
from tests.scripted import heard_by
from tests.turns import names

AT_MS = 1_700_000_000_000
WORDS = "a line of output that is long enough to count for something "


def told(context: refold.Context, ratio: float) -> None:
    """A conversation that fills so much of the window, and ends with a reply."""
    context.append({"role": "user", "content": "go"})
    while context.stats().current < ratio * context.budget.window:
        context.append({"role": "user", "content": "look at this: " + WORDS * 8})
        context.append({"role": "assistant", "content": "I see. " + WORDS * 8})


def opened(store: Any = "memory:", **given: Any) -> refold.Context:
    given = {"model": "claude-sonnet-4-5", "window": 20_000, "counter": "estimate", **given}
    return refold.open("work", store=store, embedder=False, **given)


@pytest.mark.parametrize(
    ("model", "life_s", "cache"),
    [
        ("claude-sonnet-4-5", 300, True),
        ("claude-sonnet-4-5", 3_600, "1h"),
        ("gpt-4o", 3_600, True),
    ],
)
def test_a_page_that_the_provider_forgot_is_compacted_from_the_warning_level_on(
    model: str, life_s: int, cache: bool | str
) -> None:
    store = open_store("memory:")
    with fixed_clock(AT_MS) as clock:
        context = opened(store, model=model, config={"cache": cache})
        told(context, 0.7)
        assert context.budget.warn_at < context.stats().current < context.budget.compact_at
        clock.advance(ms=life_s * 1_000)
        assert context.stats().due == "none" and not context.plan().price.expired
        clock.advance(ms=1)
        config = {"cache": cache}
        fresh = refold.open("work", store=store, embedder=False, counter="estimate", config=config)
        assert context.stats().due == fresh.stats().due == "compact"
        price = context.plan().price
        assert price.expired and price.rewritten_tokens > 0
        assert (price.cost_tokens, price.break_even_calls) == (0.0, 0.0)
        heard = heard_by(context)
        context.append({"role": "user", "content": "I am back"})
        context.request()
        assert names(heard).count("compaction-complete") == 1
        assert context.stats().current < context.budget.warn_at


def test_a_small_page_is_left_alone_however_long_nobody_came() -> None:
    with fixed_clock(AT_MS) as clock:
        context = opened()
        told(context, 0.4)
        clock.advance(ms=10**9)
        assert context.stats().due == "none"
        assert context.plan().price.expired


def test_before_the_first_reply_nothing_is_forgotten() -> None:
    with fixed_clock(AT_MS) as clock:
        context = opened()
        context.append({"role": "user", "content": WORDS * 1_280})
        assert context.budget.warn_at < context.stats().current < context.budget.compact_at
        clock.advance(ms=10**9)
        assert context.stats().due == "none"


def test_a_page_that_was_just_compacted_is_not_compacted_again_while_nobody_came() -> None:
    with fixed_clock(AT_MS) as clock:
        context = opened()
        told(context, 0.7)
        clock.advance(ms=10**6)
        context.append({"role": "user", "content": "I am back"})
        heard = heard_by(context)
        for _ in range(3):
            context.request()
            clock.advance(ms=10**6)
        assert names(heard).count("compaction-complete") == 1


CONDITIONS = {
    "tokens": st.integers(1, 16_000),
    "ratio": st.floats(0.01, 1.0),
    "messages": st.integers(1, 80),
    "age_s": st.integers(1, 2_000),
    "idle_s": st.integers(1, 2_000),
}
whens = st.lists(
    st.fixed_dictionaries({}, optional=CONDITIONS).filter(bool), min_size=1, max_size=3
)


@given(whens, st.floats(0.05, 0.4), st.integers(0, 2_000), st.integers(0, 2_000))
def test_any_condition_of_which_all_parts_hold_makes_a_compaction_due(
    conditions: list[dict[str, Any]], ratio: float, first_s: int, idle_s: int
) -> None:
    with fixed_clock(AT_MS) as clock:
        context = opened(config={"compact_when": conditions})
        context.append({"role": "user", "content": "go"})
        clock.advance(ms=first_s * 1_000)
        told(context, ratio)
        clock.advance(ms=idle_s * 1_000)
        has = {
            "tokens": context.stats().current,
            "ratio": context.stats().current / context.budget.window,
            "messages": len(context.view.slots),
            "age_s": first_s + idle_s,
            "idle_s": idle_s,
        }
        expected = any(all(has[name] >= least for name, least in one.items()) for one in conditions)
        assert (context.stats().due == "compact") == expected
        events = list(context.log.events())
        ages = {event.seq: clock() - event.at_ms for event in events}
        moment = Moment(
            now_ms=clock(), cache_life_s=3_600, ages=lambda seqs: {seq: ages[seq] for seq in seqs}
        )
        state = folded(events, switches(events))
        load = Load(context.budget, context.stats().current)
        why = cause(state, load, context.config, moment)
        assert why == ("when" if expected else "")


def test_a_condition_runs_the_ladder_once() -> None:
    context = opened(config={"compact_when": [{"tokens": 5_000, "messages": 10}]})
    heard = heard_by(context)
    told(context, 0.4)
    context.append({"role": "user", "content": "go on"})
    context.request()
    context.request()
    assert names(heard).count("compaction-complete") == 1
    assert context.stats().current < 5_000


@pytest.mark.parametrize(
    "wrong",
    [
        [{}],
        [{"tokens": 0}],
        [{"ratio": 1.5}],
        [{"ratio": 0.5, "messages": -1}],
        [{"token": 5}],
        [{"idle_s": "long"}],
        {"tokens": 5},
        5,
    ],
)
def test_a_condition_that_is_none_is_refused_when_it_is_given(wrong: Any) -> None:
    with pytest.raises(Invalid):
        opened(config={"compact_when": wrong})


def test_conditions_come_from_files_and_the_environment(tmp_path: Any) -> None:
    from refold.settings.sources import loaded

    (tmp_path / "refold.toml").write_text(
        "[[compact_when]]\nratio = 0.5\nidle_s = 600\n[[compact_when]]\nmessages = 200\n"
    )
    config, origins = loaded(folder=tmp_path, environ={})
    assert [when.idle_s for when in config.compact_when] == [600, None]
    assert origins["compact_when"] == "refold.toml"
    environ = {"REFOLD_COMPACT_WHEN": '[{"tokens": 9000}]'}
    config, _ = loaded(folder=tmp_path, environ=environ)
    assert [when.tokens for when in config.compact_when] == [9_000]
