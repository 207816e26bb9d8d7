"""A text is a text: whoever says it, in whichever part, it is shown, found and exported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import dialects
from refold.conversations.markdown import markdown_chunks
from refold.core.shortened import text_of
from refold.stores.in_memory import MemoryStore

MODELS = ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "gpt-5-codex")
PARTS = {
    "user": ("text", "input_text", "some_new_part"),
    "system": ("text", "input_text", "some_new_part"),
    "developer": ("text", "input_text", "some_new_part"),
    "assistant": ("text", "output_text", "refusal", "some_new_part"),
}
WORDS = st.from_regex(r"[a-z]{4,12}", fullmatch=True)


def part_of(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


@st.composite
def said(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """A message of any role, with several parts of text, and its words."""
    role = draw(st.sampled_from(sorted(PARTS)))
    words = draw(st.lists(WORDS, min_size=1, max_size=4))
    kinds = [draw(st.sampled_from(PARTS[role])) for _ in words]
    message = {"role": role, "content": [part_of(*pair) for pair in zip(kinds, words)]}
    return ({"type": "message", **message} if draw(st.booleans()) else message), words


@settings(deadline=None, max_examples=200)
@given(said(), st.sampled_from(sorted(dialects.DIALECTS)))
def test_every_text_of_every_role_is_the_text_of_a_block(
    given_: tuple[dict[str, Any], list[str]], preferred: str
) -> None:
    message, words = given_
    parsed = dialects.parse(message, preferred)
    assert [text_of(block) for each in parsed for block in each.blocks] == words


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("role", sorted(PARTS))
@pytest.mark.parametrize("typed", [True, False])
def test_it_is_shown_found_and_exported(model: str, role: str, typed: bool) -> None:
    store = MemoryStore()
    for kind in PARTS[role]:
        context = refold.open(f"c-{kind}", store=store, model=model, embedder=False)
        context.append({"role": "user", "content": "hello"})
        message = {"role": role, "content": [part_of(kind, "zebra"), part_of(kind, "quokka")]}
        [event] = context.append({"type": "message", **message} if typed else message)
        shown = context.unfold(event.seq).text
        assert "zebra" in shown and "quokka" in shown, kind
        assert [hit.seq for hit in context.search("quokka")] == [event.seq], kind
        exported = b"".join(markdown_chunks(store, context.id)).decode()
        assert "zebra" in exported and "quokka" in exported, kind
