"""What a later sentence changes stands before what it changed; nothing else is moved by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

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


# --- the later of two that answer alike ---

SUCCEEDED = (
    (
        "Our neighbour Gunilla keeps the spare key",
        "The spare key to the house is with Omar next door",
        "Who has our spare key?",
    ),
    (
        "Choir rehearsal is Wednesday evening at 18:30",
        "Choir rehearses on Tuesday evenings",
        "Which evening is choir?",
    ),
    (
        "Mira gets 50 kronor pocket money a week",
        "Mira negotiated well, her weekly pocket money is 80 kronor",
        "How much pocket money does Mira get?",
    ),
)
OF_OTHERS = (
    ("The port of Heron is 4100", "The port of Osprey is 4200", "Which port has Heron?"),
    ("Rui can't eat shellfish", "I eat shellfish again", "What can't Rui eat?"),
    (
        "Our book club meets on the last Sunday",
        "The book club has seven members",
        "When does the book club meet?",
    ),
)


@pytest.mark.parametrize(("before", "after", "question"), SUCCEEDED)
def test_of_two_that_answer_a_question_alike_the_later_stands_first(
    before: str, after: str, question: str
) -> None:
    with _memory(before, *NOISE, after) as memory:
        assert memory.retrieve(question)[0].content == after
        then = memory.retrieve(question, as_of=BEGIN + timedelta(days=1))
        assert then[0].content == before


@pytest.mark.parametrize(("before", "after", "question"), OF_OTHERS)
def test_what_does_not_hold_what_was_asked_for_succeeds_nothing(
    before: str, after: str, question: str
) -> None:
    with _memory(before, *NOISE, after) as memory:
        assert memory.retrieve(question)[0].content == before


@given(
    st.lists(st.sampled_from(["Heron", "Osprey", "Egret", "Bittern"]), unique=True, min_size=2),
    st.sampled_from(("port", "owner", "budget", "deadline")),
)
def test_a_later_sentence_of_another_name_never_succeeds(names: list[str], attribute: str) -> None:
    with _memory(
        *(f"The {attribute} of {name} is {at + 41}" for at, name in enumerate(names))
    ) as memory:
        for at, name in enumerate(names):
            found = memory.retrieve(f"What is the {attribute} of {name}?")
            assert found[0].content == f"The {attribute} of {name} is {at + 41}"


def test_vectors_show_that_two_sentences_speak_of_the_same() -> None:
    def embedder(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "desk" in text or "seat" in text else [0.0, 1.0] for text in texts]

    embedder.threshold = 0.3  # type: ignore[attr-defined]
    contents = ("My desk is near the window", *NOISE, "I got a seat at the door, desk 7")
    for embedded, first in ((embedder, contents[-1]), (False, contents[0])):
        with SemanticMemory(MemoryStore(), embedder=embedded, user=MemoryStore) as memory:
            for days, content in enumerate(contents):
                memory.store(content, at=BEGIN + timedelta(days=days))
            assert memory.retrieve("Where is my desk?")[0].content == first


def test_a_change_of_the_same_thing_that_answers_worse_stands_behind() -> None:
    """What two sentences share is the subject; the question says which of its sides is meant."""

    def embedder(texts: list[str]) -> list[list[float]]:
        sides = {"reads": [1.0, 0.5], "do": [1.0, 0.0], "handed": [0.1, 1.0]}
        return [
            next((side for word, side in sides.items() if word in text), [-0.5, 0.5])
            for text in texts
        ]

    embedder.threshold = 0.3  # type: ignore[attr-defined]
    contents = ("The Kelp pipeline reads sensors", *NOISE, "The Kelp pipeline was handed to Ed")
    with SemanticMemory(MemoryStore(), embedder=embedder, user=MemoryStore) as memory:
        for days, content in enumerate(contents):
            memory.store(content, at=BEGIN + timedelta(days=days))
        assert memory.retrieve("What does the Kelp pipeline do?")[0].content == contents[0]
