"""Rows Y-30 to Y-33 and X-21, X-22: what is cleared in place, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from refold.config import Config
from refold.core.laws import broken
from refold.core.model import Body, Message, Pin, Text, Thinking, ToolCall
from refold.errors import Invalid
from refold.strategies.clear import CLEARED, clear
from refold.strategies.ladder import Climb
from tests.strategies.talks import answered, brief_of, climbed, log_of, said, shown, state_of, used


def work(uses: int, size: int = 4_000, tools: dict[int, str] | None = None) -> list[Body]:
    """A request and this many tool uses, numbered from 1, with results of `size` signs."""
    parts: list[Body] = [said("user", "go")]
    for number in range(1, uses + 1):
        parts += used(
            f"u{number}", f"{number} ".ljust(size, "."), tool=(tools or {}).get(number, "run")
        )
    return parts


def cleared(climb: Climb) -> list[int]:
    """The numbers of the uses whose results are cleared."""
    results = [slot for slot in climb.state.view().slots if slot.message.role == "tool"]
    return [number for number, slot in enumerate(results, 1) if shown(slot)[0].startswith(CLEARED)]


def cleared_in(log: Any, **settings: Any) -> list[int]:
    return cleared(climbed(log, clear, window=500_000, **settings))


def test_prune_protects_the_newest_forty_thousand_tokens() -> None:
    log = log_of(work(12, 40_000))  # Y-30: results of 10,000 tokens
    done = climbed(log, clear, preset="prune", window=500_000)
    assert cleared(done) == [1, 2, 3, 4, 5, 6, 7, 8]
    before, after = state_of(log).view(), done.state.view()
    assert [slot.seq for slot in after.slots] == [slot.seq for slot in before.slots]
    assert not climbed(log, clear, state=done.state, preset="prune", window=500_000).proposals


def test_prune_leaves_a_small_conversation_alone() -> None:
    assert (
        cleared_in(log_of(work(12, 6_000)), preset="prune", protect_tokens=100) == []
    )  # Y-30: below 20,000
    assert cleared_in(log_of(work(12, 8_000)), preset="prune", protect_tokens=100) == list(
        range(1, 12)
    )


def test_clear_tool_uses_keeps_the_newest_and_the_excluded() -> None:
    log = log_of(work(10, 44_000, {1: "memory", 5: "memory"}))
    assert cleared_in(log, preset="clear_tool_uses") == [2, 3, 4, 6, 7]  # Y-31, Y-32


def test_more_tools_can_be_excluded() -> None:
    log = log_of(work(6, tools={2: "read", 3: "memory"}))
    assert cleared_in(log, exclude_tools=["read"]) == [1]
    assert cleared_in(log, exclude_tools=["read"], config=Config(exclude_tools=())) == [1, 3]


def test_nothing_is_cleared_below_the_trigger() -> None:
    log = log_of(work(10))
    assert cleared_in(log, preset="clear_tool_uses") == []
    assert cleared_in(log, preset="clear_tool_uses", trigger_tokens=10_000) == [1, 2, 3, 4, 5, 6, 7]
    assert cleared_in(log, trigger_uses=10) == []
    assert cleared_in(log, trigger_uses=9) == [1, 2, 3, 4, 5, 6, 7]


def test_clear_at_least_is_all_or_nothing() -> None:
    log = log_of(work(7, 4_000))
    assert cleared_in(log, clear_at_least=5_000) == []  # Y-31: four results of 1,000 could go
    assert cleared_in(log, clear_at_least=3_900) == [1, 2, 3, 4]


def test_by_itself_it_stops_at_the_target() -> None:
    log = log_of(work(10))
    before = state_of(log).view().tokens
    assert cleared_in(log, target=before - 1_500) == [1, 2]
    assert climbed(log, clear, target=before - 1_500).state.view().tokens <= before - 1_500


@pytest.mark.parametrize("inputs", [False, True])
def test_the_target_is_met_by_many_small_results_too(inputs: bool) -> None:
    log = log_of(work(300, 160))
    target = state_of(log).view().tokens - 4_000
    assert climbed(log, clear, target=target, clear_inputs=inputs).state.view().tokens <= target


@pytest.mark.parametrize(
    ("inputs", "expected"), [(False, 0), (True, 7), (["read"], 1), (["other"], 0)]
)
def test_inputs_are_cleared_only_when_asked(inputs: Any, expected: int) -> None:
    parts: list[Body] = [said("user", "go")]
    for number in range(1, 11):
        parts += used(
            f"u{number}", "out " * 500, tool="read" if number == 2 else "run", body="b" * 400
        )
    done = climbed(log_of(parts), clear, clear_inputs=inputs)
    calls = [slot for slot in done.state.view().slots if slot.message.role == "assistant"]
    assert sum(CLEARED in shown(slot)[0] for slot in calls) == expected
    assert len(cleared(done)) == 7
    assert not climbed(log_of(parts), clear, state=done.state, clear_inputs=inputs).proposals


def test_the_placeholder_names_the_handle_and_the_artifact() -> None:
    parts = [*work(4), *used("z", "x" * 400)]
    stub = (
        Message(role="assistant", blocks=(ToolCall("s", "run", {}),)),
        answered("s", "s" * 400, artifact="art-12"),
    )
    log = log_of([parts[0], *stub, *parts[1:]])
    done = climbed(log, clear, keep=0)
    texts = [shown(slot)[0] for slot in done.state.view().slots if slot.message.role == "tool"]
    assert texts[:2] == [
        "[cleared: #3 or art-12]",
        "[cleared: #5]",
    ]


def test_a_pair_in_progress_is_not_touched() -> None:
    both = Message(role="assistant", blocks=(ToolCall("a", "run", {}), ToolCall("b", "run", {})))
    log = log_of([said("user", "go"), both, answered("a", "x" * 4_000)])
    assert not climbed(log, clear, keep=0).proposals  # Y-33
    whole = log_of(
        [said("user", "go"), both, answered("a", "x" * 4_000), answered("b", "y" * 4_000)]
    )
    assert cleared_in(whole, keep=0) == [1, 2]


def test_a_pinned_use_stays() -> None:
    log = log_of([*work(6), Pin(seq=2)])
    assert cleared_in(log, keep=0) == [2, 3, 4, 5, 6]


def thoughts(*texts: str) -> list[Body]:
    parts: list[Body] = []
    for number, text in enumerate(texts):
        thought = Message(
            role="assistant", blocks=(Thinking(text, "sig"), Text(f"answer {number}"))
        )
        parts += [said("user", f"ask {number}"), thought]
    return parts


def test_thinking_of_older_turns_is_removed_whole() -> None:
    log = log_of(thoughts("a" * 400, "b" * 400, "c" * 400))
    done = climbed(log, clear, thinking=1)
    found = [slot.message.blocks[0] for slot in done.state.view().slots[1::2]]
    assert found == [Thinking(), Thinking(), Thinking("c" * 400, "sig")]
    assert not climbed(log, clear).proposals, "off by default"
    assert not climbed(log, clear, thinking=1, state=done.state).proposals


def test_a_message_of_thinking_alone_keeps_it() -> None:
    alone = Message(role="assistant", blocks=(Thinking("a" * 400, "sig"),))
    log = log_of([said("user", "go"), alone, *thoughts("b" * 400, "c" * 400)])
    done = climbed(log, clear, thinking=1)
    assert done.state.view().slots[1].message == alone
    assert not broken(done.state.view()) and len(done.proposals) == 1


def test_settings_are_checked() -> None:
    log = log_of(work(3))
    for settings in ({"preset": "all"}, {"keep": "3"}, {"exclude_tools": "memory"}):
        with pytest.raises(Invalid):
            clear(brief_of(log, **settings))
