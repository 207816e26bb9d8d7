"""A sentence that holds what a question asks for is the likelier answer, and never a worse one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.memory.ranking import KIND_BONUS, OWN_BONUS, Fitness


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Who looks after the firmware?", "Mikael Thorn maintains it", "It is written in rust"),
        ("When is the retro?", "The retro is on Fridays", "The retro is fun"),
        ("What time is lunch?", "Lunch is at 12:15", "Lunch is soup"),
        ("How deep is the well?", "The well is sixty metres deep", "The well is old"),
        ("Why no Kubernetes?", "Not used because we are few", "Kubernetes is not used"),
        ("When is my birthday?", "I was born on 9 May", "Tom's birthday is 9 May"),
        ("Where do we sing?", "Our choir is at Visby", "The choir of Oslo is at Visby"),
    ],
)
def test_what_holds_the_asked_kind_fits_better(question: str, answer: str, other: str) -> None:
    fitness = Fitness(question)
    assert fitness.of(answer) > fitness.of(other)


@given(st.text(), st.text())
def test_fitness_never_lowers_and_is_bounded(question: str, content: str) -> None:
    assert 1.0 <= Fitness(question).of(content) <= 1.0 + KIND_BONUS + OWN_BONUS


@given(st.text())
def test_a_question_without_a_question_word_prefers_nothing(content: str) -> None:
    assert Fitness("datenbank anschluss").of(content) == 1.0
