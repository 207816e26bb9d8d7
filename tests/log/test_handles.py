"""Handles: found in texts by one grammar, and each leads back to the originals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Text, ToolResult
from refold.errors import Invalid, NotFound
from refold.log.handles import references
from tests import turns


def test_references_are_found_by_one_grammar():
    """M-04."""
    assert references("see artifact://art-7k2, and (artifact://art-9)") == ["art-7k2", "art-9"]
    assert references(
        "art-ynj5mh35oxmq and artifact://art-ynj5mh35oxmq. Then art-7k2aaaaaaaaa!"
    ) == [
        "art-ynj5mh35oxmq",
        "art-7k2aaaaaaaaa",
    ]
    for text in (
        "",
        "art-",
        "artifact://",
        "start-ynj5mh35oxmq",
        "art-ynj5mh35oxmqx",
        "an art-form",
        "art-YNJ5MH35OXMQ",
    ):
        assert references(text) == []


def test_a_summary_is_unfolded_to_a_line_a_paragraph_or_all_of_it():
    """G-13."""
    context = turns.opened(window=100_000)
    turns.talk(context, 40)
    context.compact("gist", target=2_000)
    [summary] = [str(slot.span) for slot in context.view.slots if slot.standin]
    line, paragraph, full = (
        context.unfold(summary, level=level).text for level in ("line", "paragraph", "full")
    )
    assert "\n" not in line
    assert 0 < len(line) < len(paragraph) < len(full)
    assert "answer 3 " in full


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=600),
    space=st.sampled_from([" ", "\n", "\n\n"]),
)
@settings(deadline=None, max_examples=30)
def test_a_message_has_levels_without_a_summary_too(words: list[str], space: str) -> None:
    """G-13: a long one is shortened at whole words, and says how long it is."""
    context = turns.opened()
    text = space.join(words)
    context.append({"role": "user", "content": text})
    found = [context.unfold("#2", level=level) for level in ("line", "paragraph", "full")]
    line, paragraph, full = (one.text for one in found)
    assert [one.level for one in found] == ["line", "paragraph", "full"]
    assert full == text and len(line) <= 200 and "\n" not in line and len(paragraph) <= 1_000
    for short in (line, paragraph):
        begun, left, size = short.partition(" … (")
        assert words[: len(begun.split())] == begun.split()
        assert size == f"{len(text):,} characters)" if left else begun.split() == words


def test_every_handle_on_the_page_leads_back_to_the_originals():
    """X-22, T-22."""
    context = turns.opened()
    context.append({"role": "user", "content": "go"})
    turns.work(context, 60)
    [summary] = [slot for slot in context.view.slots if slot.standin][:1]
    whole = context.unfold(str(summary.span))
    assert whole.messages
    assert "turn 3\n" in whole.text
    assert (
        context.unfold(str(summary.span), level="paragraph").text == summary.message.blocks[0].text
    )
    assert len(context.unfold(str(summary.span), level="line").text) < 300
    result = next(m for m in whole.messages if isinstance(m.blocks[0], ToolResult))
    assert isinstance(result.blocks[0].content[0], Text)
    for bad, error in (("#99999", NotFound), ("art-nope", NotFound), ("what?", Invalid)):
        with pytest.raises(error):
            context.unfold(bad)
