"""The extra `semantic-large` with its real weights: what the model's makers publish comes out, and
search finds by meaning with the network cut off."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta

import numpy
import pytest

import refold
from refold.memory.semantic import SemanticMemory
from refold.search import embedders
from refold.search.embedders import Transformer
from refold.search.vector_arithmetic import units
from refold.stores.in_memory import MemoryStore
from tests.real.guides import run_guide

PERSON = "That is a happy person"
# The cosines that the model's page shows for its own example.
PUBLISHED = {
    "That is a happy dog": 0.695,
    "That is a very happy person": 0.943,
    "Today is a sunny day": 0.257,
}
TALK = (
    "My automobile needs new brakes before the trip",
    "Ugh, that sounds expensive. We had pasta and a glass of wine",
    "The physician said that my knee is fine again",
    "Our little one was born on a Tuesday in spring",
    "They let me go last week, so I look for work now",
    "Look at this sunset over the water",
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*given):
        raise OSError("the network is cut off")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def context():
    context = refold.open("talk", store="memory:")
    for text in TALK:
        context.append({"role": "user", "content": text})
    return context


def model() -> Transformer:
    chosen = embedders.chosen(None)
    assert isinstance(chosen, Transformer)
    return chosen


def test_the_vectors_are_those_that_the_model_is_known_for():
    one, *others = units(numpy.array(model()([PERSON, *PUBLISHED])))
    assert [float(one @ other) for other in others] == pytest.approx(
        list(PUBLISHED.values()), abs=2e-3
    )


@pytest.mark.parametrize(
    "query, seq",
    [
        ("car repair", 1),
        ("what did they eat for dinner", 2),
        ("doctor", 3),
        ("baby birth", 4),
        ("lost job", 5),
    ],
)
def test_other_words_find_the_message(context, query, seq):
    assert context.search(query)[0].seq == seq


@pytest.mark.parametrize("query", ["zxqv blorf", "kubernetes ingress", "quantum chromodynamics"])
def test_what_was_never_spoken_of_is_not_found(context, query):
    assert context.search(query) == []


def test_a_message_of_talk_takes_less_than_a_tenth_of_a_second():
    reader = model()
    reader.grouped(["warm"])
    began_s = time.process_time()
    reader.grouped(list(TALK) * 4)
    assert (time.process_time() - began_s) / (4 * len(TALK)) < 0.1


REMEMBERED = (
    "The list of passcodes is in the red folder in the pantry",
    "Malin hopes to become a pilot",
    "The lift inspection costs 4,100 euros a year",
    "Quill is the parser that reads our invoices",
    "Folder thrown out: the list of passcodes is in a vault on the office laptop",
    "Malin thought it over, now she hopes to be a cook",
    "Good news, the travel budget went up to 9,500 euros",
    "Dana handed Quill over to Emre",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where is the list of passcodes kept?", 4),
        ("What does Malin hope to become?", 5),
        ("What does the lift inspection cost?", 2),
        ("What does Quill read?", 3),
        ("Who has Quill now?", 7),
    ],
)
def test_a_change_stands_before_what_it_changed_and_before_nothing_else(question, answer):
    memory = SemanticMemory(MemoryStore(), user=MemoryStore)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    for days, content in enumerate(REMEMBERED):
        memory.store(content, at=start + timedelta(days=days))
    assert memory.retrieve(question)[0].content == REMEMBERED[answer]


@pytest.mark.parametrize("guide", ["memory.md", "search.md"])
def test_what_the_guides_show_works_with_this_embedder(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = run_guide(f"../{guide}")
    assert blocks["__name__"] == "guide"
