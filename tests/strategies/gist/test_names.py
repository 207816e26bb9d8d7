"""Names in text, and how likely each is needed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.strategies.gist.names import Needs, names_of


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("see src/auth/login.py:41 and README.md", ("src/auth/login.py", "README.md")),
        ("cd /testbed && go test ./terminal/...", ("testbed", "terminal")),
        ("call parse_args() of ArgParser, not argParse", ("parse_args", "ArgParser", "argParse")),
        ("run 40221 of job9x failed at commit 3fa9c1d", ("40221", "job9x", "3fa9c1d")),
        ("The quick Brown fox jumps over LAZY dogs", ()),
        ("parse_args parse_args", ("parse_args",)),
        ("", ()),
    ],
)
def test_names_are_the_specific_things_on_a_line(line: str, names: tuple[str, ...]) -> None:
    assert names_of(line) == names


@given(st.text(max_size=400))
def test_every_name_stands_on_its_line(line: str) -> None:
    assert all(name in line and 4 <= len(name) <= 120 for name in names_of(line))


def test_what_the_agent_names_itself_is_needed_more_than_what_it_saw() -> None:
    needs = Needs()
    for role, name in [
        ("tool", "seen_once"),
        ("assistant", "own_name"),
        ("tool", "other"),
        ("assistant", "own_name"),
    ]:
        needs.observe(role, [(name,)])
    odds = needs.odds(["seen_once", "own_name", "never"])
    assert odds["own_name"] > odds["seen_once"] > odds["never"] == 0.0


def test_what_a_gist_noted_counts_for_the_next() -> None:
    first, second = Needs(), Needs()
    for _ in range(5):
        first.observe("assistant", [("own_name",)])
    second.recall(first.now, first.noted(["own_name", "never"]))
    assert second.odds(["own_name"]) == first.odds(["own_name"])


NAMES = st.sampled_from(["own_name", "load_user", "a.py"])


MESSAGES = st.tuples(
    st.sampled_from(["user", "assistant", "tool"]), st.lists(st.tuples(NAMES, NAMES), max_size=4)
)


@given(st.lists(MESSAGES, max_size=8), st.sets(NAMES))
def test_what_is_known_of_some_names_is_what_is_known_of_all_without_the_others(
    messages: list[tuple[str, list[tuple[str, ...]]]], only: set[str]
) -> None:
    every, some = Needs(), Needs(only)
    for role, names in messages:
        every.observe(role, names)
        some.observe(role, names)
    noted = {"own_name": [1, 9, 9, 1, 1, 0], "a.py": [0, 1, 1, 1, 5, 1]}
    every.recall(9, noted)
    some.recall(9, noted)
    assert (some.now, some.noted(sorted(every.rows))) == (every.now, every.noted(sorted(only)))
