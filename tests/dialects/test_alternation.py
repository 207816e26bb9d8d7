"""User and assistant take turns where the server's chat template wants it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "a"}],
    [{"role": "user", "content": [{"type": "text", "text": "b"}]}],
    [{"role": "assistant", "content": "c"}],
    [{"role": "system", "content": "d"}],
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
]


def request(runs: list[list[dict[str, Any]]], **given: Any) -> dict[str, Any]:
    context = refold.open("x", store="memory:", embedder=False, system="s", **given)
    for message in [{"role": "user", "content": "q"}, *(one for run in runs for one in run)]:
        context.append(message)
    return context.request("openai_chat")


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(MESSAGES), max_size=8))
def test_roles_alternate_for_a_model_that_no_table_knows(runs: list[Any]) -> None:
    made = request(runs, model="my-local-gguf")
    roles = [message["role"] for message in made["messages"]]
    assert roles[0] == "system" and "system" not in roles[1:]
    pairs = pairwise(roles[1:])
    assert not any(one == other != "tool" for one, other in pairs)
    assert dialects.dialect("openai_chat").check(made) == []
    said = str(made)
    for message in (one for run in runs for one in run):
        content = message["content"]
        assert (
            content is None or (content if isinstance(content, str) else content[0]["text"]) in said
        )


@pytest.mark.parametrize(
    ("model", "switch", "turns"),
    [
        ("gpt-4o", None, 3),
        ("gpt-4o", True, 2),
        ("my-local-gguf", False, 3),
        ("my-local-gguf", None, 2),
    ],
)
def test_the_setting_decides_before_the_model(model: str, switch: bool | None, turns: int) -> None:
    config = refold.Config(alternate_roles=switch)
    assert len(request([MESSAGES[0]], model=model, config=config)["messages"]) == turns


@pytest.mark.parametrize("settings", [{"preset": "half"}, {"preset": "quarter"}, {"fraction": 0.5}])
def test_roles_alternate_after_a_cut_where_a_template_wants_it(settings: dict[str, Any]) -> None:
    """C-43, C-47: the notice is joined with what stands beside it."""
    context = refold.open("x", store="memory:", model="my-local-gguf", embedder=False)
    for n in range(20):
        role = "assistant" if n % 2 else "user"
        context.append({"role": role, "content": f"message {n} " + "word " * 20})
    assert context.compact("hide", target=0, **settings).messages_hidden
    roles = [message["role"] for message in context.request("openai_chat")["messages"]]
    assert all(one != other for one, other in pairwise(roles))
