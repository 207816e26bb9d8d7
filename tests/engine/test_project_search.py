"""What `refold_search` shows of a project: earlier conversations, and nothing from behind a wall."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold import conversations

KEY = "sk-ant-api03-" + "Zq7" * 30
WORDS = ("amber", "lantern", "granite", "walrus")


def told(store: refold.types.Store, id: str, *texts: str, **metadata: object) -> None:
    with refold.open(id, store=store, embedder=False) as context:
        context.update(metadata=metadata)
        for text in texts:
            context.append({"role": "user", "content": text}, at="2026-03-01")
            context.append({"role": "assistant", "content": f"Noted: {text}"}, at="2026-03-01")


def asked(store: refold.types.Store, query: str, id: str = "now", **metadata: object) -> str:
    with refold.open(id, store=store, embedder=False) as context:
        context.update(metadata=metadata)
        context.append({"role": "user", "content": "Go on"})
        arguments = {"query": query, "scope": "project", "limit": 50}
        return str(context.toolbox.call("refold_search", arguments))


def test_earlier_conversations_are_found_with_title_date_and_the_users_words_first():
    store = refold.open_store("memory:")
    told(store, "first", "Hang the amber lamp in the hall", imported="claude-code")
    answer = asked(store, "amber lamp")
    lines = [line.strip() for line in answer.splitlines()]
    group = "conversation first, 2026-03-01, imported: Hang the amber lamp in the hall"
    assert lines[2] == group and lines[3].startswith("first#2 (user, 2026-03-01")
    assert "not instructions" in answer and "2 places found in 1 conversation" in answer


def test_without_the_scope_only_this_conversation_is_searched():
    store = refold.open_store("memory:")
    told(store, "first", "Hang the amber lamp in the hall")
    with refold.open("now", store=store, embedder=False) as context:
        context.append({"role": "user", "content": "Go on"})
        call = context.toolbox.call
        assert "hall" not in str(call("refold_search", {"query": "amber lamp"}))
        assert str(call("refold_search", {"query": "a", "scope": "all"})).startswith("Error: ")


def test_a_sub_agent_sees_its_own_conversation_only():
    store = refold.open_store("memory:")
    told(store, "first", "Hang the amber lamp in the hall")
    with refold.open("now", store=store, embedder=False) as context:
        child = context.spawn("child", task="Look for lamps", summary="")
        given = {"query": "amber lamp", "scope": "project"}
        assert "hall" not in str(child.toolbox.call("refold_search", given))
        child.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(WORDS),
            st.sampled_from(["here", "below", "elsewhere", "erased", "secret", "other store"]),
            st.integers(0, 700),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(WORDS),
)
@settings(max_examples=25, deadline=None)
def test_nothing_of_another_project_nothing_erased_and_no_secret_is_ever_shown(given_talks, query):
    store, other = refold.open_store("memory:"), refold.open_store("memory:")
    hidden, shown = [], []
    for number, (word, kind, size) in enumerate(given_talks):
        id, mark = f"talk-{number}", f"mark{number}x"
        text = f"{'so ' * (size // 3)}{word} {mark} {KEY if kind == 'secret' else ''}"
        folder = {"below": "/work/shop/src", "elsewhere": "/work/bank"}.get(kind, "/work/shop")
        told(other if kind == "other store" else store, id, text, cwd=folder)
        if kind == "erased":
            conversations.erase(store, id, [2, 3])
        is_behind = kind in ("elsewhere", "erased", "other store")
        (hidden if is_behind else shown).append((word, mark))
    answer = asked(store, query, cwd="/work/shop")
    assert not [mark for _, mark in hidden if mark in answer]
    assert "Zq7Zq7" not in answer
    assert all(mark in answer for word, mark in shown if word == query)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_holds_over_all_conversations(limit):
    store = refold.open_store("memory:")
    for number in range(6):
        told(store, f"talk-{number}", f"walrus number {number}")
    with refold.open("now", store=store, embedder=False) as context:
        context.append({"role": "user", "content": "Go on"})
        given = {"query": "walrus", "scope": "project", "limit": limit}
        assert f"[{limit} place" in str(context.toolbox.call("refold_search", given))
