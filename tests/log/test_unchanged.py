"""What is stored is what was given, or the door refuses it and names the place."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from refold.stores.in_memory import MemoryStore

PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
STRANGE = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        {1},
        frozenset({2}),
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("1.5"),
        UUID(int=1),
        {1: "a"},
        {1.5: "a"},
        {1: "a", "1": "b"},
    ]
)
KEYS = st.text("abc", min_size=1, max_size=3)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(KEYS, inner, max_size=3)
            | st.tuples(inner, inner)
        ),
        max_leaves=6,
    )


def listed(value: Any) -> Any:
    """The value with every tuple as a list."""
    match value:
        case dict():
            return {key: listed(item) for key, item in value.items()}
        case list() | tuple():
            return [listed(item) for item in value]
        case _:
            return value


def is_strange(value: Any) -> bool:
    match value:
        case dict():
            return any(not isinstance(key, str) or is_strange(value[key]) for key in value)
        case list() | tuple():
            return any(map(is_strange, value))
        case float():
            return value != value or abs(value) == float("inf")
        case _:
            return not isinstance(value, str | int | None)


def kept(value: Any, door: str) -> Any:
    """The value as the log has it."""
    store = MemoryStore()
    context = refold.Context(store, "talk", embedder=False)
    if door == "metadata":
        context.update(metadata={"v": value})
    else:
        context.update(tools=[{"name": "a", "input_schema": {"v": value}}])
    context.append({"role": "user", "content": "x"})
    view = refold.Context(store, "talk", embedder=False).view
    if door == "metadata":
        return view.metadata["v"]
    assert view.tools is not None
    return view.tools[0]["input_schema"]["v"]


@pytest.mark.parametrize("door", ["metadata", "tools"])
@given(value=nested(PLAIN | STRANGE))
def test_a_value_is_kept_as_it_was_given_or_refused(door: str, value: Any) -> None:
    if is_strange(value):
        with pytest.raises(Invalid):
            kept(value, door)
    else:
        assert kept(value, door) == listed(value)


@pytest.mark.parametrize(
    "value, place",
    [
        ({"rows": [1, float("nan")]}, "meta.metadata.v.rows[1]: nan"),
        ({7: "a"}, "meta.metadata.v: the key 7"),
        ([{1, 2}], "meta.metadata.v[0]: a set"),
        (b"ab", "meta.metadata.v: a bytes"),
    ],
)
def test_a_refusal_names_the_place(value: Any, place: str) -> None:
    with pytest.raises(Invalid) as caught:
        kept(value, "metadata")
    assert place in str(caught.value)


def test_what_a_tool_gives_is_never_refused_for_a_number() -> None:
    context = refold.Context(MemoryStore(), "talk", embedder=False)
    call = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
    context.append({"role": "assistant", "content": [call]})
    context.append_result("t1", {"mean": float("nan"), "by": {1: "one"}})
    [block] = context.view.slots[-1].message.blocks
    assert '{"$float":"nan"}' in str(block) and '{"$dict":[[1,"one"]]}' in str(block)
