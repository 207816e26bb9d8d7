"""A question is answered by a word or its letter, and asked again where it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.edges.displays.phrases import ANSWERS_MAX, chosen


def asked(*answers: str) -> tuple[str, list[str]]:
    given_answers, questions = list(answers), []

    def ask(question: str) -> str:
        questions.append(question)
        return given_answers.pop(0) if given_answers else ""

    return chosen(ask, "Really?", ("yes", "no", "always")), questions


@pytest.mark.parametrize(
    ("answers", "meant"),
    [
        (("y",), "yes"),
        (("YES ",), "yes"),
        (("n",), "no"),
        (("",), "no"),
        (("always",), "always"),
        (("what?", "a"), "always"),
        (("ja", "oui", "si", "y"), "no"),
    ],
)
def test_what_is_meant(answers: tuple[str, ...], meant: str) -> None:
    assert asked(*answers)[0] == meant


def test_what_is_no_answer_is_told_what_would_be_one() -> None:
    _, questions = asked("perhaps", "y")
    assert questions == [
        "Really? [y]es, [n]o, [a]lways:",
        "Please answer y, n or a. Really? [y]es, [n]o, [a]lways:",
    ]


@given(st.lists(st.text(max_size=8), max_size=10))
def test_it_ends(answers: list[str]) -> None:
    meant, questions = asked(*answers)
    assert meant in ("yes", "no", "always") and len(questions) <= ANSWERS_MAX
