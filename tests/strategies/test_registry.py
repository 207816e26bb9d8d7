"""Which settings a strategy takes: any other is refused, with what is known, before anything is
done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.compaction import planning as compaction
from refold.compaction import summary_text as wording
from refold.errors import Invalid
from refold.strategies import registry
from refold.strategies.brief import Brief
from refold.strategies.registry import BUILT_IN, SHARED, check_settings, forget, register

ROOM = Path(registry.__file__).parent
_LITERAL = re.compile(r"""\.settings?(?:\.get)?\(\s*"(\w+)\"|"(\w+)" (?:not )?in brief\.settings""")


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    yield
    forget("mine")


def talk(**options: Any) -> refold.Context:
    context = refold.open("talk", store="memory:", window=100_000, **options)
    for number in range(20):
        context.append(
            {"role": "assistant" if number % 2 else "user", "content": f"message {number} " * 30}
        )
    return context


def source(module: str) -> str:
    place = ROOM / f"{module}.py"
    return (place if place.exists() else ROOM / module / "__init__.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_a_strategy_asks_for_is_what_it_declares(name: str) -> None:
    module, declared = BUILT_IN[name]
    asked = {one or other for one, other in _LITERAL.findall(source(module))}
    assert asked <= set(declared)
    beside = [Path(str(one.__file__)).read_text(encoding="utf-8") for one in (compaction, wording)]
    everything = source(module) + "".join(beside)
    assert not [setting for setting in declared if f'"{setting}"' not in everything]


@pytest.mark.parametrize(
    ("strategies", "settings", "said"),
    [
        (("hide",), {"presett": "half"}, "did you mean preset"),
        (("window",), {"max_age": 24}, "did you mean max_age_hours"),
        (("hide",), {"colour": 1}, "known: preset, fraction"),
        (("fit",), {"preset": "half"}, "known: keep_recent"),
        (("dedup", "hide"), {"keep": 3}, "known"),
        (("importance",), {"max_tokens": "many"}, "int"),
        (("importance",), {"max_tokens": True}, "int"),
        (("importance",), {"weights": {"role": "high"}}, "numbers"),
        (("clear",), {"exclude_tools": "memory"}, "list or tuple"),
        ((), {"max_tokens": 5}, "known"),
    ],
)
def test_a_setting_that_no_strategy_takes_is_refused(
    strategies: tuple[str, ...], settings: dict[str, Any], said: str
) -> None:
    """As names and values of the configuration are."""
    context = talk()
    for planned in (context.plan, context.compact):
        with pytest.raises(Invalid) as refused:
            planned(*strategies, target=0, **settings)
        assert said in f"{refused.value} {refused.value.hint}"
    assert not context.view.undoable


def test_what_one_of_the_strategies_takes_is_given_to_all() -> None:
    assert (
        talk()
        .plan("dedup", "hide", "window", preset="", keep=2, max_tokens=500, target=0)
        .proposals
    )
    assert talk().plan("hide", fraction=1, target=0).proposals, "a whole number will do"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"hide": {"presett": "half"}}, "strategy.hide has an unknown name 'presett'"),
        ({"window": {"keep": "all"}}, "keep of strategy.window is 'all'"),
        ({"actions": {"cdw": "/w"}}, "strategy.actions has an unknown name 'cdw'"),
        ({"actions": {"ignore_case": "yes"}}, "ignore_case of strategy.actions"),
    ],
)
def test_settings_of_the_configuration_are_checked_when_it_is_opened(
    table: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        talk(config={"strategy": table})


def test_a_strategy_of_ones_own_says_what_it_takes_or_takes_anything() -> None:
    seen: list[dict[str, Any]] = []

    def mine(brief: Brief) -> list[Any]:
        seen.append(dict(brief.settings))
        return []

    register("mine", mine)
    talk().plan("mine", target=0, anything=1)
    talk(config={"strategy": {"mine": {"other": 2}}}).plan("mine", "hide", target=0, presett="x")
    register("mine", mine, settings={"tokens_max": int, "names": (list, tuple)})
    talk().plan("mine", target=0, tokens_max=4, names=["a"])
    assert seen == [
        {"anything": 1},
        {"other": 2, "presett": "x"},
        {"tokens_max": 4, "names": ["a"]},
    ]
    for wrong in ({"tokens_mx": 4}, {"tokens_max": "4"}, {"names": "a"}):
        with pytest.raises(Invalid):
            talk().plan("mine", target=0, **wrong)
    with pytest.raises(Invalid):
        talk(config={"strategy": {"mine": {"other": 2}}})


def test_a_forgotten_strategy_is_not_known_any_more() -> None:
    register("mine", lambda brief: [])
    forget("mine")
    forget("mine")
    with pytest.raises(Invalid, match="there is no strategy 'mine'"):
        talk().plan("mine", target=0)


def test_settings_of_a_strategy_that_is_not_known_here_are_left_alone() -> None:
    assert talk(config={"strategy": {"theirs": {"anything": 1}}})
    check_settings({"anything": 1}, ["theirs"])
    assert set(SHARED).isdisjoint(BUILT_IN)
