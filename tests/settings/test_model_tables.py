"""Settings for some models: `[models."claude-*"]` overrides any setting, the longest match wins."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.config import Config, config_for, config_from
from refold.errors import Invalid
from refold.settings.sources import loaded
from refold.stores import open_store
from tests.turns import call

NAMES = ("claude-sonnet-4-5", "claude-opus-5-5", "gpt-4o", "gpt-5", "somebody/unknown", "")
PATTERNS = ("*", "claude-*", "claude-opus-*", "gpt-4o", "gpt-*", "Claude-Sonnet*", "*/unknown")
tables = st.dictionaries(
    st.sampled_from(PATTERNS),
    st.fixed_dictionaries(
        {}, optional={"tokens_cap": st.integers(1, 10**6), "keep_recent": st.integers(0, 50)}
    ),
)


@given(tables, st.sampled_from(NAMES))
def test_the_longest_pattern_that_matches_wins_for_each_setting(
    models: dict[str, dict[str, int]], name: str
) -> None:
    config = config_for(config_from({"keep_recent": 7, "models": models}), [name])
    for setting, plain in (("tokens_cap", 256_000), ("keep_recent", 7)):
        found = [
            pattern
            for pattern, table in models.items()
            if setting in table and fnmatchcase(name, pattern.lower())
        ]
        expected = models[max(found, key=len)][setting] if found else plain
        assert getattr(config, setting) == expected


@pytest.mark.parametrize("name", [name for name in Config.__struct_fields__ if name != "models"])
def test_every_setting_can_be_given_for_a_model(name: str) -> None:
    values = {"dialect": "anthropic", "durability": "none", "auto": False, "warn_ratio": 0.5}
    default = getattr(config_from({}), name)
    value = values.get(name, default)
    config = config_for(config_from({"models": {"gpt-*": {name: value}}}), ["gpt-5"])
    assert getattr(config, name) == value


def test_limits_follow_the_model_and_are_the_same_after_a_reopen() -> None:
    config = {"models": {"claude-*": {"compact_ratio": 0.5, "warn_ratio": 0.4, "ladder": ["hide"]}}}
    store = open_store("memory:")
    context = refold.open("c", store=store, model="gpt-4o", window=100_000, config=config)
    context.append({"role": "user", "content": "hi"})
    assert context.budget.compact_at == min(90_000, context.budget.input_max)
    context.update(model="anthropic/claude-sonnet-4-5", window=100_000)
    context.append({"role": "user", "content": "hi"})
    assert context.budget.compact_at == 50_000
    assert {step.strategy for step in context.plan(target=1).steps} == {"hide"}
    assert refold.open("c", store=store, config=config).budget == context.budget
    context.restore(2)
    assert context.budget.compact_at == min(90_000, context.budget.input_max)
    assert refold.open("c", store=store, config=config).budget == context.budget


def test_a_size_from_which_results_are_moved_out_follows_the_model() -> None:
    config = {"offload_tokens": 5_000, "models": {"gpt-*": {"offload_tokens": 50}}}
    context = refold.open("c", store="memory:", model="claude-sonnet-4-5", config=config)
    for n, artifacts in ((1, 0), (2, 1)):
        context.append(call(n))
        context.append_result(f"c{n}", "word " * 200)
        assert len(context.artifacts.list()) == artifacts
        context.update(model="gpt-4o")


def test_a_later_source_wins_over_an_earlier_table(tmp_path: Path) -> None:
    (tmp_path / "refold.toml").write_text(
        'keep_recent = 3\n[models."claude-*"]\nkeep_recent = 5\ntokens_cap = 9000\n'
        '[models."gpt-*"]\nkeep_recent = 6\n'
    )
    config, origins = loaded(folder=tmp_path, environ={})
    assert [config_for(config, [name]).keep_recent for name in NAMES[1:3]] == [5, 6]
    assert origins["models"] == "refold.toml"
    config, _ = loaded({"keep_recent": 8}, folder=tmp_path, environ={})
    assert config_for(config, ["claude-3"]).keep_recent == 8
    assert config_for(config, ["claude-3"]).tokens_cap == 9_000
    given = {"models": {"claude-*": {"tokens_cap": 70}}}
    config, _ = loaded(given, folder=tmp_path, environ={})
    merged = config_for(config, ["claude-3"])
    assert (merged.keep_recent, merged.tokens_cap) == (3, 70)


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        [],
        {"claude-*": 5},
        {"claude-*": {"warn_rato": 0.5}},
        {"claude-*": {"warn_ratio": 5}},
        {"claude-*": {"warn_ratio": 0.95}},
        {"claude-*": {"models": {}}},
        {"claude-*": {"ladder": ["hidee"]}},
        {"claude-*": {"dialect": "latin"}},
        {"claude-*": {"compact_when": [{}]}},
        {5: {}},
    ],
)
def test_a_wrong_table_is_refused_when_it_is_given(wrong: Any) -> None:
    with pytest.raises(Invalid):
        refold.open("c", store="memory:", config={"models": wrong})
