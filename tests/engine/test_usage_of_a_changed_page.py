"""A usage tells how large the page was that was sent, and nothing of one that was changed since."""

from __future__ import annotations

import pytest

import refold

LONG = "one of many lines that were read\n" * 120


def worked() -> refold.Context:
    context = refold.open("c", store="memory:", model="claude-sonnet-5-5", window=40_000)
    context.append({"role": "user", "content": "read all"})
    for n in range(12):
        call = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"{n}.py"}}
        context.append({"role": "assistant", "content": [call]})
        context.append_result(f"t{n}", f"{n}: {LONG}")
    return context


@pytest.mark.parametrize("strategy", ["gist", "hide"])
def test_a_usage_that_comes_after_a_compaction_is_not_tied_to_the_shorter_page(
    strategy: str,
) -> None:
    context = worked()
    context.request()
    sent, head = context.view.tokens, context.view.head
    assert context.compact(strategy, target=4_000).batch
    after = context.stats().current
    context.record(usage={"input_tokens": 2 * sent, "output_tokens": 5}, upto=head)
    assert context.stats().current == after
    assert context.stats().billed.input == 2 * sent


def test_it_is_tied_where_the_page_is_the_one_that_was_sent() -> None:
    context = worked()
    context.request()
    sent, head = context.view.tokens, context.view.head
    context.record(usage={"input_tokens": 2 * sent, "output_tokens": 5}, upto=head)
    assert context.stats().current > 1.5 * sent
