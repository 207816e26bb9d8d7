"""What an append and a request do does not grow with the conversation: lines run are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import refold

SIZES = (60, 600)
# With forms that name their provider, with plain ones, and with no answer at all.
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TURNS: dict[str, list[dict[str, Any]]] = {
    "requests": [{"role": "user", "content": "Go on"}],
    "plain": [{"role": "user", "content": "Go on"}, {"role": "assistant", "content": "Done"}],
    "calls": [
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "It is there"},
    ],
}


def lines_run(act: Callable[[], object]) -> int:
    """The number of lines of Python that a call runs; a generator counts with each of its steps."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", TURNS)
def test_an_append_and_a_request_run_as_many_lines_in_a_long_conversation_as_in_a_short(
    kind: str,
) -> None:
    """Y-110"""
    counts = []
    for size in SIZES:
        config = {"auto": False}
        with refold.open(
            "a", store="memory:", window=1_000_000, embedder=False, config=config
        ) as context:
            for _ in range(size // len(TURNS[kind])):
                for message in TURNS[kind]:
                    context.append(message)
            context.request("openai_chat")
            first = {"role": "user", "content": "And now?"}
            context.append(first)  # what is derived once is there
            context.request("openai_chat")
            counts.append(
                (
                    lines_run(lambda: context.append(first)),  # noqa: B023
                    lines_run(lambda: context.request("openai_chat")),
                )
            )
    for short, long in zip(*counts, strict=True):
        assert long <= 1.1 * short
