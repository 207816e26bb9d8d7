"""What a later sentence changes stands before what it changed; nothing else is moved by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.memory.semantic import SemanticMemory
from refold.stores.memory import MemoryStore

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
NOISE = (
    "The ferry to the island leaves at noon",
    "Ingrid plays the violin in an orchestra",
    "The invoice for the printer is overdue",
)
CHANGED = (
    ("My gym is Iron Temple", "Cancelled Iron Temple and joined Riverside", "Which gym am I in?"),
    (
        "We drive a green Skoda",
        "Sold the Skoda, we have a Fiat Panda now",
        "Which car do we drive?",
    ),
    ("The retro is at 10:15", "Retro got pushed to 11:00 by the new intern", "When is the retro?"),
    ("We log with Splunk", "Splunk has been switched off, logs go to Loki", "What do we log with?"),
)


def _memory(*contents: str) -> SemanticMemory:
    memory = SemanticMemory(MemoryStore(), embedder=False, user=MemoryStore)
    for days, content in enumerate(contents):
        memory.store(content, at=BEGIN + timedelta(days=days))
    return memory


@pytest.mark.parametrize(("before", "after", "question"), CHANGED)
def test_what_tells_of_a_change_stands_before_what_it_changed(
    before: str, after: str, question: str
) -> None:
    with _memory(before, *NOISE, after) as memory:
        assert memory.retrieve(question)[0].content == after
        then = memory.retrieve(question, as_of=BEGIN + timedelta(days=1))
        assert then[0].content == before


def test_the_newest_of_several_changes_stands_first() -> None:
    contents = (
        "Standup is at 9:15",
        "Standup got pushed to 9:45 because of the trains",
        "Standup is at 9:30 from this week, a compromise",
    )
    with _memory(*contents, *NOISE) as memory:
        found = memory.retrieve("What time is standup?")
        assert found[0].content == contents[2]
        assert "changes" in found[0].why or "words" in found[0].why


def test_a_change_that_was_forgotten_stands_nowhere() -> None:
    before, after, question = CHANGED[0]
    with _memory(before, *NOISE) as memory:
        memory.forget(memory.store(after, at=BEGIN + timedelta(days=9)).id)
        found = memory.retrieve(question)
        assert found[0].content == before
        assert not any("Riverside" in hit.content for hit in found)


def test_a_change_without_the_wanted_tag_is_no_hit() -> None:
    before, after, question = CHANGED[1]
    with _memory(*NOISE) as memory:
        memory.store(before, tags=["car"], at=BEGIN)
        memory.store(after, at=BEGIN + timedelta(days=9))
        assert [hit.content for hit in memory.retrieve(question, tags=["car"])] == [before]


@given(st.sampled_from(CHANGED), st.permutations(NOISE))
def test_a_change_of_something_else_moves_nothing(
    changed: tuple[str, str, str], others: list[str]
) -> None:
    before, _, question = changed
    with _memory(before, *others, "Greta sold the piano and bought a harp instead") as memory:
        assert memory.retrieve(question)[0].content == before


def test_a_later_sentence_about_the_same_stands_first_if_it_holds_what_is_asked_for() -> None:
    contents = ("Elsa gets 50 euros pocket money", "Elsa's weekly pocket money is 80 euros")
    with _memory(contents[0], *NOISE, contents[1]) as memory:
        found = memory.retrieve("How much pocket money does Elsa get?")
        assert found[0].content == contents[1]


def test_a_shared_weekday_is_not_the_same_subject() -> None:
    with _memory("We release on Wednesdays", *NOISE, "Choir is back on Wednesdays") as memory:
        assert memory.retrieve("When do we release?")[0].content == "We release on Wednesdays"
