"""What a hit shows: the right part, one line, marks at the right signs."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.search import words
from refold.search.index import Index
from refold.search.snippets import (
    SHORT_CHARS,
    SNIPPET_CHARS,
    USER_CHARS,
    Hit,
    grouped,
    snippet_of,
    wanted_of,
)

INDEX = Index()


def found(text: str, query: str):
    return snippet_of(
        text, wanted_of(words.query_of(query, INDEX.stems), INDEX.tokens), INDEX.tokens
    )


def shown(text: str, query: str) -> tuple[str, list[str]]:
    snippet, marks, _ = found(text, query)
    return snippet, [snippet[start:end] for start, end in marks]


def test_the_part_with_most_of_the_query_is_shown():
    text = "token\n" + "filler " * 500 + "\nthe token was expired by then\n" + "filler " * 500
    snippet, marks = shown(text, "expired tokens")
    assert "the token was expired" in snippet and len(snippet) <= SNIPPET_CHARS + 2
    assert marks == ["token", "expired"]


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from([SNIPPET_CHARS, USER_CHARS]))
def test_what_a_text_repeats_does_not_hide_where_its_terms_meet(before, after, chars):
    """The point follows the terms, so it is in the snippet with them."""
    often = "The importer reads every row of the sheet and writes the ledger. "
    point = "The pump report of the importer goes to Petra. "
    text = often * before + point + often * after
    query = words.query_of("pump report importer ledger", INDEX.stems)
    wanted = wanted_of(query, INDEX.tokens)
    assert point.strip() in snippet_of(text, wanted, INDEX.tokens, chars)[0]


def test_forms_names_and_signs_are_marked_as_they_stand():
    assert shown("He was running", "run")[1] == ["running"]
    assert shown("call updateScore() now", "score")[1] == ["updateScore"]
    assert shown("élan at 東京タワー, naïve", "東京 elan naive")[1] == ["élan", "東京", "naïve"]


def test_the_colors_of_a_terminal_are_no_part_of_a_word():
    text = f"{'x ' * 300}\x1b[32mPASSED\x1b[0m in tests/\x1b[1mlogin.py\x1b[0m"
    snippet, marks = shown(text, "passed login")
    assert marks == ["PASSED", "login"] and "\x1b" not in snippet


def test_a_snippet_is_one_line():
    assert shown("a\n\n  b\tlogin\r\nc", "login")[0] == "a b login c"


@given(st.text(max_size=400), st.text(max_size=40))
def test_marks_always_lie_in_the_snippet_and_apart(text, query):
    snippet, marks, _ = found(text, query)
    assert "\n" not in snippet
    flat = [place for mark in marks for place in mark]
    assert flat == sorted(flat) and all(0 <= place <= len(snippet) for place in flat)
    assert all(start < end for start, end in marks)


@pytest.mark.parametrize("size", [300, 700, 3_000])
def test_a_users_message_is_shown_whole_or_its_best_part(tmp_path, size):
    words = ("filler " * (size // 7))[: size - 60] + " the amber lamp is broken beyond repair"
    with refold.open("talk", store=f"sqlite:{tmp_path}/a.db", embedder=False) as context:
        context.append({"role": "user", "content": words})
        context.append({"role": "assistant", "content": words})
        hits = {hit.role: hit.snippet for hit in context.search("amber lamp")}
    assert "amber lamp is broken" in hits["user"] and len(hits["user"]) <= USER_CHARS + 2
    assert (hits["user"] == words) == (size <= USER_CHARS)
    assert (hits["assistant"] == words) == (size <= SHORT_CHARS)
    assert len(hits["assistant"]) <= max(SNIPPET_CHARS, SHORT_CHARS) + 2


def test_hits_are_grouped_by_conversation_with_the_users_words_first():
    hits = [
        Hit(conversation=conversation, seq=seq, score=1.0, role=role, tool=tool)
        for conversation, seq, role, tool in (
            ("a", 1, "tool", "read"),
            ("b", 2, "assistant", ""),
            ("a", 3, "assistant", ""),
            ("a", 4, "user", ""),
            ("b", 5, "user", ""),
        )
    ]
    assert [[hit.seq for hit in group] for group in grouped(hits)] == [[4, 3, 1], [5, 2]]
    assert [[hit.seq for hit in group] for group in grouped(hits, newest=True)] == [
        [1, 3, 4],
        [2, 5],
    ]


def test_messages_that_show_memories_are_no_hits(tmp_path):
    with refold.open("talk", store=f"sqlite:{tmp_path}/a.db", embedder=False) as context:
        context.memory.store("The amber lamp hangs in the hall")
        context.append({"role": "user", "content": "Where is the amber lamp?"})
        assert "in the hall" in str(context.request())
        assert [hit.role for hit in context.search("amber lamp")] == ["user"]
        assert context.search("hall") == []


@settings(deadline=None, max_examples=30)
@given(before=st.integers(0, 120), after=st.integers(0, 120), seed=st.integers(0, 2**32))
def test_no_part_of_a_secret_is_in_a_snippet(before: int, after: int, seed: int) -> None:
    secret = "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=24))
    text = f"{'harbour ' * before}the pilot has DB_PASSWORD={secret} {'beacon ' * after}"
    for redact, is_shown in ((True, False), (False, True)):
        with refold.open("x", store="memory:", config={"redact": redact}) as context:
            context.append({"role": "user", "content": text})
            hits = [*context.search("pilot"), *context.search("pilot", everywhere=True)]
            parts = [secret[at : at + 8] for at in range(len(secret) - 8)]
            found = [part in hit.snippet for hit in hits for part in parts]
            assert len(hits) == 2 and any(found) == is_shown
            assert secret in context.unfold("#1").text
