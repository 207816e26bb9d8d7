"""An error that is printed says what to do next, once."""

from __future__ import annotations

import pickle

import pytest

import refold
from refold import errors
from refold.edges.cli.app import outcome
from refold.errors import RefoldError, sentence

FAMILY = [one for one in vars(errors).values() if isinstance(one, type)]
FAMILY = [one for one in FAMILY if issubclass(one, RefoldError)]


@pytest.mark.parametrize("family", FAMILY)
def test_an_error_that_is_printed_names_the_next_step(family):
    error = family("x is 5", hint="give a text")
    assert str(error) == "x is 5; give a text"
    assert (error.message, error.hint, sentence(error)) == ("x is 5", "give a text", "x is 5")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.hint) == (family, str(error), error.hint)


def test_an_error_without_a_hint_says_its_sentence_alone():
    assert str(refold.Invalid("x is 5")) == "x is 5"
    assert sentence(ValueError("no")) == "no"


def test_the_command_line_says_the_hint_once(capsys):
    assert outcome(["show", "nobody", "--store", "memory:"]) == 3
    said = capsys.readouterr().err
    hint = said.split("; ", 1)[1].strip()
    assert hint and said.count(hint) == 1


def test_the_model_is_told_the_hint_once():
    context = refold.open("work", store="memory:")
    said = context.toolbox.call("refold_sarch", "{}")
    assert said.count("refold_search") == 1


def test_a_question_and_what_to_do_next_are_two_sentences(capsys):
    assert outcome(["updat"]) == 2
    assert "did you mean" not in capsys.readouterr().err.split("?", 1)[-1]
    assert str(refold.Invalid("did you mean x?", hint="refold --help")) == (
        "did you mean x? refold --help"
    )
