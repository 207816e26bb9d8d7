"""The ladder runs strategies until the target is met, and says what each of them did."""

from __future__ import annotations

import pytest

import refold
from refold.core.shortened import text_of
from refold.strategies import registry
from tests.scripted import heard_by
from tests.turns import names, opened_in_characters, talk


def test_a_size_that_was_asked_for_is_met_by_the_last_rung_too():
    """C-32, G-14: the last rung is spared behind a summary only, and not where the caller named
    a size."""
    context = opened_in_characters(window=200_000)
    talk(context, 40)
    assert context.plan("dedup", "hide", target=6_000).reached
    assert context.compact(target=3_000).reached


def test_strategies_run_in_order_until_the_target_is_met():
    """G-14: from the call or from the configuration."""
    context = opened_in_characters(window=200_000, config={"ladder": ("dedup", "window", "gist")})
    talk(context, 40)

    def ran(*ladder, target):
        return [step.strategy for step in context.plan(*ladder, target=target, keep=30).steps]

    size = context.stats().current
    assert ran("window", "gist", target=size - 1) == ["window"]
    assert ran("window", "gist", target=100) == ["window", "gist"]
    assert ran("gist", "window", target=size - 1) == ["gist"]
    assert ran(target=size - 1) == ["dedup", "window"]


@pytest.fixture
def failing():
    def bad(brief):
        raise RuntimeError("no idea")

    registry.register("bad", bad)
    yield "bad"
    registry.forget("bad")


def test_a_strategy_that_raises_is_left_out_and_said(failing):
    """C-36"""
    context = opened_in_characters(config={"ladder": (failing, "gist", "hide")})
    heard = heard_by(context)
    talk(context, 60)
    context.request("openai_chat")
    failed = [notice for notice in heard if notice.name == "compaction-failed"]
    assert [(notice.strategy, notice.reason) for notice in failed] == [
        (failing, "failed: RuntimeError: no idea")
    ]
    assert "compaction-complete" in names(heard)


def _chars(context: refold.Context) -> int:
    blocks = (block for slot in context.view.slots for block in slot.message.blocks)
    return sum(len(text_of(block)) for block in blocks)


def test_every_rung_says_what_it_did_and_how_long_it_took():
    """C-37: the sums are the difference of the pages."""
    context = opened_in_characters(window=200_000)
    talk(context, 40)
    before = _chars(context)
    receipt = context.compact("dedup", "gist", target=8_000)
    assert sum(s.tokens_before - s.tokens_after for s in receipt.steps) == receipt.saved_tokens
    after = _chars(context)
    assert sum(step.chars_saved for step in receipt.steps) == before - after > 0
    assert all(step.cpu_ms >= 0 for step in receipt.steps)
