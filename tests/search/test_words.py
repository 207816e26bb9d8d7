"""How text becomes terms: code, English, Chinese and Japanese, and queries that mean harm (T-12,
G-44)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.search import words
from refold.search import words as forms
from refold.search.index import Index

STEMS = Index().stems


def terms(text: str) -> list[str]:
    return [term.text for term in words.query_of(text, STEMS).terms]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("updateScore", "update Score"),
        ("HTTPServer", "HTTP Server"),
        ("utf8", "utf 8"),
        ("Sentence words here", ""),
        ("snake_case", ""),  # SQLite's tokenizer splits it by itself
        ("a1b2c3d4e5f6a7b8", ""),  # a hash has no parts
    ],
)
def test_names_are_taken_apart_for_the_second_column(text, parts):
    assert words.columns(text)[1] == parts


def test_chinese_and_japanese_are_written_as_pairs_of_signs():
    assert words.columns("在東京の塔")[0].split() == ["在東", "東京", "京の", "の塔", "塔"]
    assert [term.match for term in words.query_of("東京 塔", STEMS).terms] == ['"東京"', '"塔" *']


def test_a_path_is_looked_for_as_a_whole_and_in_parts():
    assert terms("src/auth/loginForm.ts") == [
        "src",
        "auth",
        "loginForm",
        "ts",
        "login",
        "Form",
        "src auth loginForm ts",
    ]


def test_stop_words_leave_a_query_unless_there_is_nothing_else():
    assert terms("what is the login error") == ["login", "error"]
    assert terms("to be or not to be") == ["to", "be", "or", "not"]


def test_forms_of_one_word_are_one_term():
    assert terms("fix fixes fixing fixed") == ["fix"]


def test_forms_that_the_stemmer_does_not_know_are_looked_for_together_as_one_term():
    assert words.query_of("they met", STEMS).terms == (words.Term('("meet" OR "met")', "met"),)
    assert terms("meet met meeting") == terms("meeting meet met") == ["met"]
    index = Index()
    index.connection.execute(
        "INSERT INTO documents(rowid, text, parts) VALUES (1, 'We met twice and will meet', '')"
    )
    [term] = words.query_of("meet", index.stems).terms
    found = "SELECT rowid, occurrences(documents) FROM documents WHERE documents MATCH ?"
    assert index.rows(found, (term.match,)) == [(1, 2)]


def test_a_capital_may_be_a_name_and_what_is_quoted_has_no_other_forms():
    assert [term.match for term in words.query_of("Rose rises", STEMS).terms] == [
        '"Rose"',
        '"rises"',
    ]
    assert [term.match for term in words.query_of('"met"', STEMS).required] == ['"met"']
    beside = words.query_of('where we "met" Ann', STEMS).terms
    assert [(term.match, term.weight) for term in beside] == [
        ('"met"', words.PHRASE_WEIGHT),
        ('"Ann"', 1.0),
    ]


def test_every_irregular_form_leads_to_all_forms_of_one_word():
    for form, group in forms._FORMS.items():
        assert form in group and forms.forms_of(form) == group and len(group) > 1
        assert group[0] not in words.STOP
    assert sum(map(len, set(forms._FORMS.values()))) == len(forms._FORMS)  # no form is of two words


def test_phrases_alone_are_required_and_beside_words_they_count_more():
    alone = words.query_of('"token expired"', STEMS)
    assert [term.text for term in alone.required] == ["token expired"]
    beside = words.query_of('why "token expired" here', STEMS)
    assert not beside.required
    assert beside.terms[0].text == "token expired" and beside.terms[0].weight > 1


@given(st.text(max_size=300))
def test_no_query_is_an_error_and_none_is_read_as_a_search_language(text):
    index = Index()
    query = words.query_of(text, index.stems)
    for term in (*query.terms, *query.required):
        index.connection.execute(
            "SELECT rowid FROM documents WHERE documents MATCH ?", (term.match,)
        ).fetchall()


@pytest.mark.parametrize(
    "text", ["How long?", 'He asked "why?" twice', "Really?! Yes", "(is it?)", "本当？", "?"]
)
def test_a_question_is_seen_by_its_mark(text):
    assert words.is_question(text)


@pytest.mark.parametrize(
    "text", ["Three years now.", "see http://host/path?page=2", "value?.name", "a?b:c", ""]
)
def test_a_mark_inside_a_word_asks_nothing(text):
    assert not words.is_question(text)


def test_a_huge_query_is_bounded():
    query = words.query_of(" ".join(f"word{number}" for number in range(100_000)), STEMS)
    assert len(query.terms) <= words.TERMS_MAX


def test_a_word_in_color_is_indexed_as_the_word():
    assert words.columns("\x1b[31mFAILED\x1b[0m to log\x1b[1min\x1b[0m")[0] == "FAILED to login"
