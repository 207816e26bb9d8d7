"""Rows T-12 and M-72: what a word is, in code and prose, and what it weighs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.strategies.word_stems import mentioning, mentions, stem, weight, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName", ["get", "user", "nam"]),
        ("user_name user name", ["user", "nam", "user", "nam"]),
        ("getHTTPResponse", ["get", "http", "respons"]),
        ("/src/auth/login.ts", ["src", "auth", "login", "ts"]),
        ("utf8 v2", ["utf", "8", "v", "2"]),
        ("the fix is in this", ["fix"]),
        ("日本語", ["日本", "本語"]),
        ("字", ["字"]),
        ("ÜberGroß", ["über", "groß"]),
        ("auth,", ["auth"]),
        ("", []),
    ],
)
def test_a_text_has_these_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "forms",
    [
        ("fix", "fixes", "fixing", "fixed"),
        ("cache", "caches", "caching", "cached"),
        ("query", "queries"),
        ("run", "runs", "running"),
        ("class", "classes"),
        ("error", "errors"),
        ("file", "files"),
    ],
)
def test_forms_of_one_word_are_alike(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        (
            "this is it",
            "is",
            False,
        ),  # M-72: a stop word has no stem to look for, and `this` does not hold it
        ("LoginError", "login", True),
        ("loginError", "error", True),
        ("terrors", "error", False),
        ("queries", "query", True),
        ("İ login", "login", True),
    ],
)
def test_mentions_finds_whole_words_only(text: str, word: str, expected: bool) -> None:
    assert mentions(text, text.lower(), word) is expected


@given(st.text(max_size=60))
def test_mentions_agrees_with_words(text: str) -> None:
    for word in words(text):
        assert mentions(text, text.lower(), word)


def test_rare_words_weigh_more_and_absent_ones_nothing() -> None:
    texts = ["login error", "error", "error", "something"]
    found = {word: mentioning(word, texts, texts) for word in words("login error parser")}
    assert found == {"login": [0], "error": [0, 1, 2], "parser": []}
    assert weight(1, 4) > weight(3, 4) > weight(0, 4) == 0
