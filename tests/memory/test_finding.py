"""Which entries answer, in which order, and why: by words, by what means the same, by vectors."""

from __future__ import annotations

import random

import pytest

import refold
from refold.memory import ranking
from refold.memory.claim import claim_of
from refold.memory.semantic import SemanticMemory
from refold.stores.in_memory import MemoryStore

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


def opened(**given) -> SemanticMemory:
    return SemanticMemory(MemoryStore(), user=MemoryStore, **{"embedder": False, **given})


def answers(memory, query, **given) -> list[str]:
    return [entry.content for entry in memory.retrieve(query, **given)]


# --- words that mean the same ---


@pytest.mark.parametrize(
    "fact, question",
    [
        ("My manager is Helena", "Who is my boss?"),
        ("Mira works at the harbour", "What is Mira's job?"),
        ("Ana moved to Porto", "Where does she live?"),
        ("She is married to Rui", "Who is her husband?"),
        ("I am allergic to walnuts", "Which allergies do I have?"),
        ("We release on Tuesdays", "When do we deploy?"),
        ("Sold everything but the old Skoda", "Which car do we have?"),
        ("Tickets live in YouTrack", "Which issue tracker is it?"),
        ("Everything builds on GitLab CI", "What about continuous integration?"),
        ("Ravi owns the SLA", "Who wrote the service level agreement?"),
    ],
)
def test_a_question_finds_what_is_said_in_other_words(fact, question):
    """G-44."""
    memory = opened()
    memory.store("The printer is out of paper")
    memory.store(fact)
    [found] = memory.retrieve(question, 1)
    assert found.content == fact and "like " in found.why


def test_what_something_is_does_not_stand_for_another_of_its_kind():
    memory = opened()
    memory.store("The Skoda is in the garage")
    assert answers(memory, "Volvo") == []
    assert answers(memory, "our car") == ["The Skoda is in the garage"]


def test_initials_that_are_a_word_stand_for_nothing():
    memory = opened()
    memory.store("Go to the harbour at noon")
    memory.store("We do it on Mondays")
    assert answers(memory, "What about garden ornaments and daily oats?") == []


def test_the_very_word_stands_above_one_that_means_the_same():
    memory = opened()
    memory.store("My boss is Rui")
    memory.store("Her manager is Helena")
    assert answers(memory, "boss") == ["My boss is Rui", "Her manager is Helena"]


# --- equal hits ---


def test_of_equal_hits_the_one_that_became_true_later_stands_first():
    """G-49."""
    memory = opened()
    memory.store("Rent went up to 900, says the letter", at=START_MS + 90 * DAY_MS)
    memory.store("Rent is what we talked about yesterday evening at length", at=START_MS)
    assert answers(memory, "rent")[0].startswith("Rent went up")


def test_use_makes_an_entry_younger_but_not_for_ever():
    memory = opened()
    memory.store("lamp alpha flickers", at=START_MS)
    memory.store("lamp omega flickers", at=START_MS + 30 * DAY_MS)
    for _ in range(6):
        memory.retrieve("alpha")
    assert answers(memory, "lamp flickers")[0] == "lamp alpha flickers"
    memory.store("lamp sigma flickers", at=START_MS + 200 * DAY_MS)
    for _ in range(50):
        memory.retrieve("alpha")
    assert answers(memory, "lamp flickers")[0] == "lamp sigma flickers"


def test_rivals_do_not_stand_above_what_answers_better():
    memory = opened()
    for number in range(30):
        memory.store(f"I prefer {named(number)} from the card")
    memory.store("I prefer coffee")
    assert answers(memory, f"{named(7)} from the card", limit=1) == [
        f"I prefer {named(7)} from the card"
    ]
    [first, *_] = memory.retrieve("prefer from the card")
    assert len(first.rivals) == 30 and len(first.why) < 300


@pytest.mark.parametrize(
    "said", ["Caroline: I moved to Boston", "Caroline: had a wicked day out with the gang downtown"]
)
def test_who_speaks_is_no_value(said):
    assert not claim_of(said).about.endswith(" is")


# --- how near is near enough ---


class Cone:
    """An embedder whose vectors all lean one way: the more, the nearer is what means nothing."""

    def __init__(self, lean: float, size: int = 64) -> None:
        self.lean, self.size, self.name = lean, size, f"cone-{lean}"
        self.calls = 0

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        chance = random.Random(text)
        row = [chance.gauss(0, 1) for _ in range(self.size)]
        row[0] += self.lean * self.size**0.5
        return row


def named(number: int) -> str:
    return "".join("bcdfghjklm"[int(digit)] + "o" for digit in str(number))


@pytest.mark.parametrize("lean", [0.0, 0.5, 1.0, 2.0])
def test_of_twenty_questions_without_an_answer_nineteen_find_nothing(lean):
    """G-42."""
    memory = opened(embedder=Cone(lean))
    for number in range(200):
        memory.store(f"the {named(number)} holds {named(number + 5_000)}")
    asked = (f"where is {named(number)}" for number in range(9_000, 9_060))
    found = sum(bool(memory.retrieve(question)) for question in asked)
    assert found <= 6


def test_a_threshold_is_measured_once_and_kept(tmp_path):
    """G-42."""
    url = f"sqlite:{tmp_path / 'refold.db'}"
    calls = []
    for _ in range(2):
        embedder = Cone(0.5)
        with refold.open_memory("project", store=url, embedder=embedder) as memory:
            memory.store("The lantern is green")
            memory.retrieve("lantern")
            memory.retrieve("green")
        calls.append(embedder.calls)
    assert calls[1] < calls[0]


@pytest.mark.parametrize("unknown", [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
def test_an_embedder_that_knows_none_of_our_sentences_gets_the_usual_threshold(unknown):
    """G-42: cosines of .9, .71 and .69 are two hits; one vector for all else measures nothing."""
    known = {"q": 1.0, "nine": 0.9, "above": 0.71, "below": 0.69}

    def embedder(texts):
        turned = (known.get(text.strip()) for text in texts)
        return [unknown if x is None else [x, (1 - x * x) ** 0.5] for x in turned]

    assert ranking.measured(embedder) == ranking.USUAL
    with refold.open("talk", store="memory:", embedder=embedder) as context:
        for word in ("nine", "above", "below"):
            context.memory.store(word)
        assert [one.content for one in context.memory.retrieve("q")] == ["nine", "above"]
        assert len(context.memory.retrieve("q", 1)) == 1
        assert context.memory.retrieve("q", 0) == []


def test_every_hit_says_why():
    memory = opened(embedder=Cone(0.0))
    memory.store("The lantern is green", tags=["garden"])
    [hit] = memory.retrieve("green lantern")
    assert "words: green, lantern" in hit.why and "cosine" in hit.why and "from today" in hit.why
