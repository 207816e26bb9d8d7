"""The arguments of a tool call, in whatever shape they came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from refold.core.call_arguments import (
    arguments_object,
    arguments_text,
    canonical_arguments,
    decoded,
)
from refold.core.model import ToolCall


def call(arguments: str | dict[str, Any]) -> ToolCall:
    return ToolCall("c", "tool", arguments)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ("[1]", None),
        ("null", None),
        ("{not json", None),
        ('{"a": "\ud800"}', None),
    ],
)
def test_arguments_are_an_object_or_none(arguments: Any, read: dict[str, Any] | None) -> None:
    assert arguments_object(call(arguments)) == read


def test_a_text_that_is_not_json_differs_from_null() -> None:
    assert decoded("null") is None
    assert decoded("nul") is UNSET


def test_canonical_arguments_do_not_depend_on_order_or_shape() -> None:
    shapes = ({"b": 1, "a": 2}, {"a": 2, "b": 1}, '{ "b": 1, "a": 2 }')
    assert {canonical_arguments(call(shape)) for shape in shapes} == {'{"a":2,"b":1}'}
    assert canonical_arguments(call("not json")) == "not json"


def test_text_is_given_as_it_came() -> None:
    assert arguments_text(call('{ "a": 1}')) == '{ "a": 1}'
    assert arguments_text(call({"a": 1})) == '{"a":1}'


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
def test_no_text_raises(text: str) -> None:
    arguments_object(call(text))
    canonical_arguments(call(text))
