"""Counters in a conversation: the name in each event, and what five reported usages teach."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.tokens.counter import MESSAGE_TOKENS, Counter, counter_for

# Four kinds of text, none like the next: the estimate is off in another direction for each.
TEXTS = (
    "The value that comes back is not what callers expect, because an older release kept it in seconds. ",
    'def merge(self, other: "Ledger") -> None:\n    self.rows[other.key] += other.total * 0.5\n',
    '{"id": "9f86d081884c7d65", "path": "src/ledger/merge.py", "lines": [118, 204], "ok": true}\n',
    "数据库连接超时，请检查配置文件并重新启动服务。",
)


def text_of(number: int) -> str:
    return TEXTS[number % 4] * (number % 5 + 3)


def reply(number: int, tokens: int) -> dict[str, Any]:
    return {
        "id": f"reply-{number}",
        "object": "chat.completion",
        "model": "gpt-4o",
        "usage": {"prompt_tokens": tokens, "completion_tokens": 5},
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
        ],
    }


def opened(counter: Counter) -> refold.Context:
    return refold.open(
        "talk", store="memory:", model="gpt-4o", counter=counter, config={"auto": False}
    )


def test_an_exact_count_is_written_once_with_its_name() -> None:
    """Y-09, section 4 of the design: counted once, at append; the event says by what."""
    with opened(counter_for("exact", "gpt-4o")) as context:
        [event] = context.append({"role": "user", "content": "hello world"})
        assert (event.tokens, event.counter) == (MESSAGE_TOKENS + 2, "o200k")
        assert context.stats().current == MESSAGE_TOKENS + 2


@pytest.mark.parametrize("ratio", [1.0, 1.3, 0.7])
@pytest.mark.parametrize("name", ["estimate", "exact"])
def test_after_five_reports_the_next_request_is_known_within_five_per_cent(
    name: str, ratio: float
) -> None:
    """X-13, G-90: a provider that counts otherwise, five calls, then every later request within
    5 %."""
    true, count = 0.0, counter_for("exact", "gpt-4o")
    with opened(counter_for(name, "gpt-4o")) as context:
        for number in range(40):
            context.append({"role": "user", "content": text_of(number)})
            true += ratio * (count(text_of(number)) + MESSAGE_TOKENS)
            if number >= 5:
                assert context.stats().current == pytest.approx(true, rel=0.05), number
            context.request()
            context.record(reply(number, round(true)))
            true += 5


@pytest.mark.parametrize("ratio", [1.0, 1.3, 0.7])
def test_what_five_reports_taught_holds_without_further_ones(ratio: float) -> None:
    """X-13: the ratio alone, over four times as many messages as it was learnt from."""
    true, count = 0.0, counter_for("exact", "gpt-4o")
    with opened(counter_for("estimate", "gpt-4o")) as context:
        for number in range(25):
            context.append({"role": "user", "content": text_of(number)})
            true += ratio * (count(text_of(number)) + MESSAGE_TOKENS)
            if number < 5:
                context.request()
                context.record(reply(number, round(true)))
                true += 5
        assert context.stats().current == pytest.approx(true, rel=0.05)
