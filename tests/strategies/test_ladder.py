"""The ladder runs strategies until the target is met, and says what each of them did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import Body, Event, Hide, Span, Summarize
from refold.core.shortened import text_of
from refold.strategies import registry
from refold.strategies.brief import Strategy
from refold.strategies.gist import gist
from refold.strategies.hide import hide
from refold.strategies.hierarchical import hierarchical
from refold.strategies.importance import importance
from refold.strategies.summarize import summarize
from refold.strategies.window import window
from tests.scripted import heard_by
from tests.strategies.talks import climbed, log_of, pages, said, state_of, talks, used
from tests.turns import call, checked, names, opened, opened_in_characters, talk


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


@pytest.fixture
def summarizing(over):
    """A strategy that leaves the page so many tokens above the size at which it is compacted."""

    def summarize(brief):
        going = brief.slots[1:-2]
        room = brief.full + over - brief.view.tokens + sum(slot.tokens for slot in going)
        text = "s" * (room - brief.text_tokens(""))
        span = Span(going[0].seq, going[-1].last)
        return [Summarize(batch=brief.batch, span=span, text=text)]

    registry.register("summarizing", summarize)
    yield "summarizing"
    registry.forget("summarizing")


@pytest.mark.parametrize(("over", "is_spared"), [(-900, True), (-1, True), (0, False)])
def test_what_was_just_summarized_is_hidden_only_where_the_page_would_be_full_again(
    summarizing, is_spared
):
    """Also where it misses the size that would be comfortable by a few tokens."""
    context = opened_in_characters(config={"ladder": (summarizing, "hide")})
    talk(context, 60)
    context.request("openai_chat")
    assert ("hide" not in context.log.batches()[-1].strategy) is is_spared
    assert any(slot.summary is not None for slot in context.view.slots) is is_spared


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1_000, 8_000),
    st.lists(st.tuples(st.integers(1, 18_000), st.integers(10, 200)), min_size=4, max_size=16),
)
def test_a_gist_is_not_lost_to_the_last_resort(opening, outputs):
    """However large the newest output is: it gives way, and the gist stays."""
    config = {"reserve_tokens": 0}
    context = opened(window=5_000, counter=lambda text: len(text) // 4, config=config)
    context.append({"role": "user", "content": "Do it: " + "words " * (opening // 6)})
    for n, (size, width) in enumerate(outputs):
        if n == 3:
            context.append({"role": "user", "content": "And then go on with the values."})
        context.append(call(n))
        lines = [f"{at}: value_{at} of {n}".ljust(width, ".") for at in range(1 + size // width)]
        context.append({"role": "tool", "tool_call_id": f"c{n}", "content": "\n".join(lines)})
        checked(context)
    assert not [one.strategy for one in context.log.batches() if "hide" in one.strategy]


STANDINS: dict[str, tuple[Strategy, dict[str, str]]] = {
    "gist": (gist, {}),
    "summarize": (summarize, {}),
    "hierarchical": (hierarchical, {}),
    "importance": (importance, {"rest": "summarize"}),
    "hide": (hide, {}),
    "window": (window, {}),
}


@pytest.mark.parametrize("name", STANDINS)
@settings(max_examples=20, deadline=None)
@given(log=talks(), target=st.sampled_from([50, 400, 1_000]), room=st.integers(1_500, 8_000))
def test_a_stand_in_is_at_most_four_fifths_of_what_it_stands_for(
    name: str, log: list[Event], target: int, room: int
) -> None:
    """Otherwise the messages themselves are worth their tokens."""
    strategy, options = STANDINS[name]
    climb = climbed(log, strategy, target, window=room, **options)
    for proposal in climb.proposals:
        if isinstance(proposal.edit, Hide | Summarize):
            slots = state_of(log).covered(proposal.edit.span)
            assert proposal.tokens <= 0.8 * sum(slot.tokens for slot in slots)


WORDS = st.lists(st.sampled_from(["amber", "birch", "cedar", "delta", "ember"]), min_size=4)


@pytest.mark.parametrize("name", ["summarize", "hierarchical", "importance", "gist"])
@settings(max_examples=10, deadline=None)
@given(turns=st.lists(st.tuples(WORDS, st.integers(1, 3), WORDS), min_size=8, max_size=14))
def test_a_summary_by_code_has_a_line_for_each_request_and_its_answer(
    name: str, turns: list[tuple[list[str], int, list[str]]]
) -> None:
    """Point 8: without a writer no stand-in says only that it is one."""
    parts: list[Body] = []
    for turn, (asked, calls, answer) in enumerate(turns):
        parts.append(said("user", f"Request {turn}: {' '.join(asked)}"))
        for n in range(calls):
            parts += used(f"c{turn}.{n}", "\n".join(f"amber {k} birch" for k in range(60)))
        parts.append(said("assistant", f"Answer {turn}: {' '.join(answer)}"))
    log = log_of(parts)
    target = state_of(log).view().tokens * 3 // 4
    strategy, options = STANDINS[name]
    page = "\n".join(pages(climbed(log, strategy, target, window=100_000, **options)))
    for turn in range(len(turns)):
        assert f"Request {turn}: " in page and f"Answer {turn}: " in page


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@settings(max_examples=8, deadline=None)
@given(lines=st.integers(100, 3_000), calls=st.integers(0, 25), share=st.floats(0.03, 0.6))
def test_a_target_beside_a_huge_paste_is_met_without_a_bare_notice(
    place: str, lines: int, calls: int, share: float
) -> None:
    """Point 7: the paste is cut, whoever's request it is in, and the rest is told by its lines."""
    context = refold.open("paste", store="memory:", window=200_000, config={"auto": False})
    paste = "\n".join(f"amber birch entry {n} 0.{n * 7919 % 99991:05}" for n in range(lines))
    for turn, name in enumerate(("first", "middle", "last")):
        asked = f"Request {turn}: look after the cedar module"
        asked += f"\n{paste}" if name == place else ""
        context.append({"role": "user", "content": asked})
        for n in range(calls):
            for message in used(f"c{turn}-{n}", "\n".join(f"cedar {k} delta" for k in range(20))):
                context.append(message)
        context.append({"role": "assistant", "content": f"Answer {turn}: the cedar was moved."})
    target = max(1_000, int(share * context.stats().current))
    receipt = context.compact(target=target)
    page = str(context.request("openai_chat")["messages"])
    assert "hidden]" not in page and "Request 2" in page
    assert receipt.tokens_after <= target
