"""A window given by hand is kept with the model it was given for, in the log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from refold.stores import open_store

MODELS = ("gpt-4o", "claude-sonnet-4-5", "gpt-5", "somebody/unknown")


def opened(store: Any, **given: Any) -> refold.Context:
    return refold.open("talk", store=store, embedder=False, **given)


@pytest.mark.parametrize("killed", [False, True])
def test_the_window_is_known_after_a_reopen(tmp_path: Any, killed: bool) -> None:
    """Newcomer 7: it used to be forgotten."""
    store = open_store(f"sqlite:{tmp_path}/kept.db")
    context = opened(store, model="gpt-4o", window=16_000)
    context.append({"role": "user", "content": "hello"})
    assert context.fork("twin").budget.window == 16_000
    if not killed:
        context.close()
    assert opened(store).budget == context.budget
    assert opened(store, model="gpt-4o").budget.window == 16_000
    assert refold.open("twin", store=store, embedder=False).budget.window == 16_000


def test_another_model_has_its_own_window() -> None:
    context = opened("memory:", model="gpt-4o", window=16_000)
    context.append({"role": "user", "content": "hello"})
    context.update(model="claude-sonnet-4-5")
    assert context.budget.window == 200_000
    context.update(model="gpt-4o")
    assert context.budget.window == 16_000
    assert context.spawn("child", task="go", model="claude-sonnet-4-5").budget.window == 200_000
    assert context.spawn("other", task="go").budget.window == 16_000


def test_a_restore_takes_the_window_back() -> None:
    context = opened("memory:", model="gpt-4o")
    context.append({"role": "user", "content": "hello"})
    seq = context.view.head
    context.update(window=16_000)
    context.append({"role": "user", "content": "more"})
    assert context.budget.window == 16_000
    context.restore(seq)
    assert context.budget.window == 128_000
    context.undo()
    assert context.budget.window == 16_000


@pytest.mark.parametrize("window", [0, -1])
def test_an_impossible_window_is_refused_and_the_context_goes_on(window: int) -> None:
    context = opened("memory:", model="gpt-4o", window=16_000)
    with pytest.raises(Invalid):
        context.update(window=window)
    context.append({"role": "user", "content": "hello"})
    assert context.budget.window == 16_000


@pytest.mark.parametrize("killed", [False, True])
def test_a_window_without_a_model_is_in_the_log(tmp_path: Any, killed: bool) -> None:
    store = open_store(f"sqlite:{tmp_path}/kept.db")
    context = opened(store, window=50_000)
    context.append({"role": "user", "content": "hello"})
    assert context.fork("twin").budget.window == 50_000
    assert context.spawn("child", task="go").budget.window == 50_000
    if not killed:
        context.close()
    assert opened(store).budget == context.budget
    assert opened(store).budget.window == 50_000
    assert opened(store, model="gpt-4o").budget.window == 128_000
    assert refold.open("child", store=store, embedder=False).budget.window == 50_000


def test_a_restore_to_the_beginning_takes_a_window_without_a_model_back() -> None:
    store = open_store("memory:")
    context = opened(store, window=50_000)
    context.append({"role": "user", "content": "hello"})
    context.clear()
    assert context.budget.window == opened(store).budget.window == 50_000
    context.restore(0)
    assert context.budget == opened(store).budget
    context.undo()
    assert context.budget.window == opened(store).budget.window == 50_000


steps = st.lists(
    st.tuples(
        st.sampled_from(["update", "append", "restore", "undo", "redo", "clear", "checkpoint"]),
        st.sampled_from([None, *MODELS]),
        st.none() | st.integers(2_000, 2_000_000),
    ),
    max_size=8,
)


@given(st.sampled_from([None, *MODELS]), st.none() | st.integers(2_000, 2_000_000), steps)
def test_live_and_reopened_contexts_have_the_same_budget(
    first_model: str | None,
    first_window: int | None,
    steps: list[tuple[str, str | None, int | None]],
) -> None:
    store = open_store("memory:")
    context = opened(store, model=first_model, window=first_window)
    context.append({"role": "user", "content": "hello"})
    for what, model, window in steps:
        match what:
            case "update":
                context.update(model=model, window=window)
            case "restore":
                context.restore((window or 0) % (context.view.head + 1))
            case "undo":
                context.undo()
            case "redo":
                context.redo()
            case "clear":
                context.clear()
            case "checkpoint":
                context.checkpoint()
        if what != "restore":
            context.append({"role": "user", "content": "hello"})
        context.flush()
        assert opened(store).budget == context.budget
