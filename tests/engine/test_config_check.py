"""A mistake in a name is said when the name is given, with the nearest one."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.config import Config, Durability
from refold.dialects import DIALECTS
from refold.errors import Invalid
from refold.ledger.facts import ACTION_KINDS
from refold.log.notices import NAMES
from refold.settings.anthropic_edits import EDITS
from refold.settings.magenta import NAME as BLOCK
from refold.settings.magenta import MagentaBlock, SemanticMemory
from refold.stores import open_store
from refold.strategies import clear, hide, importance, window
from refold.strategies.registry import BUILT_IN, CHOICES, forget
from refold.writer.asker import Answer
from tests.misspelt import misspelt


def opened(**given: Any) -> refold.Context:
    return refold.open("talk", store="memory:", embedder=False, **given)


def refused(config: dict[str, Any]) -> Invalid:
    """How a configuration is refused, by every way it can be given."""
    with pytest.raises(Invalid) as caught:
        opened(config=config)
    with pytest.raises(Invalid):
        opened(config=Config(**config))
    with pytest.raises(Invalid):
        refold.Context(open_store("memory:"), "talk", config=Config(**config))
    return caught.value


@given(misspelt(BUILT_IN))
def test_a_misspelt_strategy_in_the_ladder_is_refused_when_it_is_given(name: str) -> None:
    error = refused({"ladder": ["gist", name]})
    assert name in str(error) and "did you mean" in error.hint


@given(misspelt(BUILT_IN))
def test_a_misspelt_table_of_a_strategy_is_refused_when_it_is_given(name: str) -> None:
    assert "did you mean" in refused({"strategy": {name: {}}}).hint


@given(misspelt(DIALECTS))
def test_a_misspelt_dialect_is_refused_when_it_is_given(name: str) -> None:
    assert "did you mean" in refused({"dialect": name}).hint


@given(misspelt(ACTION_KINDS))
def test_a_misspelt_kind_of_a_tool_is_refused_when_it_is_given(name: str) -> None:
    assert "did you mean" in refused({"tool_kinds": {"save": f"{name}:path"}}).hint


@given(misspelt(get_args(Durability)))
def test_a_misspelt_value_of_the_configuration_is_refused_when_it_is_given(name: str) -> None:
    assert "durability" in str(refused({"durability": name}))


NAMED = [(name, setting) for name, table in CHOICES.items() for setting in table]


@given(st.data())
def test_a_misspelt_preset_is_refused_when_it_is_given(data: st.DataObject) -> None:
    strategy, setting = data.draw(st.sampled_from(NAMED))
    value = data.draw(misspelt(CHOICES[strategy][setting]))
    assert "did you mean" in refused({"strategy": {strategy: {setting: value}}}).hint
    with opened() as context:
        for act in (context.plan, context.compact):
            with pytest.raises(Invalid, match=setting):
                act(strategy, **{setting: value})


@given(misspelt(BUILT_IN))
def test_a_misspelt_strategy_of_a_call_is_refused_on_an_empty_page(name: str) -> None:
    with opened() as context:
        for act in (context.plan, context.compact):
            with pytest.raises(Invalid) as caught:
                act(name)
            assert "did you mean" in caught.value.hint


@given(misspelt(NAMES))
def test_a_misspelt_notice_is_refused_when_a_listener_is_given(name: str) -> None:
    with opened() as context, pytest.raises(Invalid) as caught:
        context.on(name, print)
    assert "did you mean" in caught.value.hint


@pytest.mark.parametrize("name", ["compacted", "", "**", None, 7])
def test_what_is_no_notice_is_refused(name: Any) -> None:
    with opened() as context, pytest.raises(Invalid, match=r"there is no notice|^name is "):
        context.on(name, print)


def test_every_notice_can_be_listened_to_and_only_by_a_function() -> None:
    with opened() as context:
        for name in (*NAMES, "*"):
            context.on(name, print)()
        with pytest.raises(Invalid, match=r"^listener is "):
            context.on("*", None)  # type: ignore[arg-type]


def test_a_value_that_is_out_of_bounds_is_refused_in_every_way_it_can_be_given() -> None:
    for wrong in ({"warn_ratio": 2.0}, {"keep_recent": -1}, {"ladder": "gist"}, {"redact": ["x"]}):
        refused(wrong)


BLOCKS = [(MagentaBlock, ()), (SemanticMemory, ("semantic_memory",))]
PLACES = [
    *[(name,) for name in refold.Config.__struct_fields__],
    *[(BLOCK, *path, name) for kind, path in BLOCKS for name in kind.__struct_fields__],
    *[(BLOCK, EDITS), (BLOCK, "\ud800"), ("\ud800",)],
    *[("strategy", name, "preset") for name in CHOICES],
    *[("models", "gpt-5", name) for name in ("tokens_cap", "ladder", "\ud800")],
]
SURROGATES = st.sampled_from(["\ud800", "a\udfffb", ["\ud800"], {"\ud800": 1}, {"x": "\ud800"}])


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ascii(".".join(place)))
@settings(max_examples=10)
@given(value=SURROGATES)
def test_a_text_that_is_not_unicode_is_refused_in_every_setting(
    place: tuple[str, ...], value: Any
) -> None:
    for name in reversed(place):
        value = {name: value}
    with pytest.raises(Invalid) as caught:
        opened(config=value)
    (str(caught.value) + caught.value.hint).encode()


def test_the_choices_are_those_of_the_strategies() -> None:
    assert CHOICES["hide"]["preset"] == ("", *hide.PRESETS)
    assert CHOICES["clear"]["preset"] == tuple(clear.PRESETS)
    assert CHOICES["window"]["by"] == window.WAYS
    assert CHOICES["importance"] == CHOICES["relevance"]
    assert CHOICES["importance"]["rest"] == importance.RESTS


def test_a_strategy_of_ones_own_is_registered_before_it_is_named() -> None:
    with pytest.raises(Invalid, match="'my-own'"):
        opened(config={"ladder": ["my-own"]})
    refold.register.strategy("my-own", lambda brief: [])
    try:
        opened(config={"ladder": ["my-own"]}).close()
    finally:
        forget("my-own")


def test_instructions_without_a_writer_are_refused() -> None:
    with opened() as context, pytest.raises(Invalid, match="there is none") as caught:
        context.compact("summarize", instructions="Focus on test results")
    assert "writer" in caught.value.hint
    with opened(writer=lambda request: Answer(text="x")) as context:
        context.compact("summarize", instructions="Focus on test results")
