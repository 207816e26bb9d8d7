"""Which counter a conversation gets, and what a provider's framing adds to its counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from refold.errors import Invalid
from refold.tokens import exact
from refold.tokens.counter import ESTIMATE, Counter, counter_for, forget_counter, register_counter


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "PACKAGE", "no_such_package_at_all")


@pytest.fixture
def registered() -> Iterator[None]:
    register_counter("acme-1", words)
    yield
    forget_counter("ACME-1")


@pytest.mark.parametrize(
    ("given", "model", "name"),
    [
        (None, "gpt-4o", "o200k"),
        (None, "openai/gpt-4-0613", "cl100k"),
        (None, "claude-sonnet-4-5", "estimate"),
        (None, "gemini-2.5-pro", "estimate"),
        (None, None, "estimate"),
        ("estimate", "gpt-4o", "estimate"),
        ("exact", "gpt-4", "cl100k"),
        ("exact", "claude-sonnet-4-5", "o200k"),
        ("exact", "gemini-2.5-pro", "gemma"),
        (" Exact ", None, "o200k"),
        ("cl100k", "gpt-4o", "cl100k"),
        (words, "gpt-4o", "custom:words"),
    ],
)
def test_the_counter_follows_the_caller_then_the_model(
    given: Any, model: str | None, name: str
) -> None:
    """Y-04: exact for OpenAI where the extra is installed; whoever asks gets what he asked for."""
    assert counter_for(given, model).name == name


@pytest.mark.usefixtures("without_the_extra")
def test_without_the_extra_the_estimate_counts_and_says_so_where_it_was_asked_for() -> None:
    """Y-04: missing optional package → estimator with one warning, no crash."""
    silent, told = counter_for(None, "gpt-4o"), counter_for("exact", "gpt-4o")
    assert (silent.name, silent.note) == ("estimate", "")
    assert told.name == "estimate" and "refold[exact]" in told.note
    assert told("hello world") == ESTIMATE("hello world")


@pytest.mark.usefixtures("registered")
def test_a_counter_registered_for_a_model_is_used() -> None:
    """Y-04: a fake tokenizer plugged in by model name is used."""
    assert counter_for(None, "acme-1-large")("one two three") == 3
    assert counter_for(None, "acme-2").name == "estimate"
    assert counter_for("estimate", "acme-1").name == "estimate"


@pytest.mark.parametrize(
    ("registered_for", "model", "is_used"),
    [
        ("gpt-4", "gpt-4", True),
        ("gpt-4", "GPT-4-0613", True),
        ("gpt-4", "openai/gpt-4", True),
        ("gpt-4", "gpt-4o", False),
        ("gpt-4", "gpt-4.5", False),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-08-06", True),
        ("gpt-4o-2024-08-06", "gpt-4o", False),
        ("claude-sonnet-4-5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("acme-7", "acme/acme-7-large", True),
        ("acme-7", "acme-70", False),
    ],
)
def test_a_counter_is_for_whole_words_of_a_name(
    registered_for: str, model: str, is_used: bool
) -> None:
    """Y-04"""
    register_counter(registered_for, lambda text: 77)
    try:
        assert (counter_for(None, model)("one") == 77) is is_used
    finally:
        forget_counter(registered_for)


def test_a_forgotten_counter_is_gone() -> None:
    register_counter("acme-3", words)
    forget_counter("acme-3")
    forget_counter("acme-3")
    assert counter_for(None, "acme-3").name == "estimate"


@pytest.mark.parametrize(
    ("given", "near"), [("exakt", "exact"), ("o200", "o200k"), ("zzz", "estimate")]
)
def test_an_unknown_name_is_refused_with_the_nearest(given: str, near: str) -> None:
    """Bad input: what, and what to do next."""
    with pytest.raises(Invalid, match=given) as caught:
        counter_for(given)
    assert near in caught.value.hint


def test_a_counter_is_taken_as_it_is() -> None:
    """A fork is given the counter of its parent."""
    counter = Counter("mine", words)
    assert counter_for(counter, "gpt-4o") is counter


# --- framing: published figures ---


# --- tools as text ---
