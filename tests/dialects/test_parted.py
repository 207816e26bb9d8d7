"""An item that is parted from its reasoning has no id: by it the provider would ask for the
reasoning."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.dialects.openai_responses.check import parted_faults
from refold.strategies.registry import BUILT_IN

THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
SAID: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "content": "a"}
STRATEGIES = [name for name in BUILT_IN if name != "relevance"]  # which must be given a size
ASKED: dict[str, Any] = {"role": "user", "content": "q"}


@pytest.mark.parametrize(
    ("items", "is_parted"),
    [
        ([THOUGHT, SAID], False),
        ([ASKED, SAID], True),
        ([{**THOUGHT, "id": "rs_2"}, SAID], True),
        ([THOUGHT, ASKED, SAID], True),
        ([{key: SAID[key] for key in SAID if key != "id"}], False),
    ],
)
def test_an_item_without_its_reasoning_is_found_by_its_id(
    items: list[Any], is_parted: bool
) -> None:
    assert bool(parted_faults({"input": items}, {"input": [ASKED, THOUGHT, SAID]})) is is_parted


def answer(n: int, chance: Random) -> list[dict[str, Any]]:
    """What a model may answer: with or without reasoning, words, one call or two."""
    text = {"type": "output_text", "text": f"Reading f{n}.py.", "annotations": []}
    said = {**SAID, "id": f"msg_{n}", "status": "completed", "content": [text]}
    calls = [
        {"type": "function_call", "id": f"fc_{n}_{k}", "call_id": f"c{n}_{k}", "name": "read",
         "arguments": f'{{"path": "f{n}_{k}.py"}}'}
        for k in range(chance.choice((1, 2)))
    ]  # fmt: skip
    thought = {**THOUGHT, "id": f"rs_{n}", "encrypted_content": f"seal{n}"}
    items = [thought] if chance.random() < 0.7 else []
    return items + ([said] if chance.random() < 0.6 else []) + calls


def take(context: refold.Context, items: list[dict[str, Any]], way: str) -> None:
    """Records or appends an answer, in one of the ways in which callers do."""
    if way == "recorded":
        context.record({"object": "response", "status": "completed", "output": items})
    elif way == "listed":
        context.append({"input": items})
    else:
        for item in items:
            context.append(item)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["recorded", "listed", "one by one"]),
    st.sampled_from([*STRATEGIES, ""]),
)
def test_whatever_is_compacted_no_item_with_an_id_lacks_its_reasoning(
    seed: int, way: str, strategy: str
) -> None:
    chance = Random(seed)
    config = {"dialect": "openai_responses", "keep_recent": 2}
    context = refold.open(
        "x", store="memory:", model="gpt-5", window=8_000, embedder=False, config=config
    )
    came: list[dict[str, Any]] = []
    for n in range(8):
        if n % 3 == 0:
            context.append({"role": "user", "content": f"go on {n}"})
            came.append(ASKED)
        items = answer(n, chance)
        came += items
        take(context, items, way)
        for item in items:
            if "call_id" in item:
                context.append_result(item["call_id"], f"def f{n}(x): ...\n" * 60)
        came.append(ASKED)
        if chance.random() < 0.4:
            context.compact(*([strategy] if strategy else []), target=0)
        if chance.random() < 0.2:
            context.undo()
        request = context.request()
        assert dialects.dialect("openai_responses").check(request) == []
        assert parted_faults(request, {"input": came}) == []
