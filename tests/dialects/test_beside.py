"""The system prompt and the tools are checked when they are given, not when a page is rendered."""

from __future__ import annotations

import pytest

import refold
from refold.dialects import DIALECTS, dialect
from refold.errors import Invalid
from tests.test_checked import worked

WRONG_BESIDE = [
    *({"system": one} for one in (5, True, 1.5, {}, {"a": 1}, [5], [{}], [{"text": 5}], b"x")),
    *({"system": one} for one in ([{"type": "image"}], {"parts": 5}, object(), "\ud800")),
    *({"tools": [one]} for one in ({}, None, "x", 5, {"a": 1}, {"name": 5}, {"name": ""}, [1])),
    *({"tools": [one]} for one in ({"type": "function"}, {"functionDeclarations": []}, len)),
    {"tools": [{"type": "function", "function": {}}]},
    {"tools": [{"name": "x", "input_schema": 5}]},
    {"tools": [{"name": "x", "description": 5}]},
]


@pytest.mark.parametrize(
    "given", WRONG_BESIDE, ids=lambda given: repr(given).partition(" at 0x")[0]
)
def test_a_system_prompt_or_a_tool_that_no_provider_takes_is_refused_at_once(given):
    context = worked()
    with pytest.raises(Invalid):
        context.update(**given)
    with pytest.raises(Invalid):
        refold.open("other", store="memory:", **given)
    assert context.request()["messages"][0] == {"role": "user", "content": "go"}


RIGHT_BESIDE = [
    *({"system": one} for one in ("", "x", ["x"], {"text": "x"}, {"parts": [{"text": "x"}]}, [])),
    *(
        {"system": one}
        for one in ({"role": "system", "content": "x"}, [{"type": "text", "text": "x"}])
    ),
    # Google's SDK says of whom a system prompt is.
    *(
        {"system": one}
        for role in ("user", "system", "model", None)
        for one in (
            {"parts": [{"text": "x"}], "role": role},
            [{"parts": [{"text": "x"}], "role": role}, {"role": "system", "content": "y"}],
        )
    ),
    *({"tools": [one]} for one in ({"name": "x"}, {"googleSearch": {}}, {"type": "web_search"})),
    {"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": "object"}}}]},
    {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
    {"tools": [{"functionDeclarations": [{"name": "x"}]}]},
]


@pytest.mark.parametrize(
    "given", RIGHT_BESIDE, ids=lambda given: repr(given).partition(" at 0x")[0]
)
def test_a_system_prompt_or_a_tool_of_any_provider_is_taken_and_gives_valid_requests(given):
    context = worked()
    context.append_result("t1", "done")
    context.update(**given)
    for name in DIALECTS:
        assert dialect(name).check(context.request(name)) == []
