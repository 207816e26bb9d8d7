"""Search over stores: what is found, where, and what no query can break (G-44, G-51)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import refold
from refold.errors import Invalid
from tests.search.talks import DAY_MS, full_text, memory, seqs, talk


def test_an_identifier_is_found_first_and_a_filter_never_gives_another_conversation():
    """G-44"""
    store = memory()
    talk(store, "a", ["an error 42 came", "ERR 4242", "it raised ERR_42 again", "42 errors"])
    talk(store, "b", ["ERR_42 in b"])
    searcher = full_text(store)
    assert searcher.search("ERR_42", conversation="a")[0].seq == 3
    assert {hit.conversation for hit in searcher.search("ERR_42", conversation="b")} == {"b"}
    assert {hit.conversation for hit in searcher.search("ERR_42")} == {"a", "b"}


def test_words_are_found_in_other_forms_in_names_and_in_paths():
    """T-12, for whole conversations"""
    store = memory()
    talk(
        store,
        "a",
        [
            "he fixes things",
            "see updateScore()",
            "open src/auth/login_form.ts",
            "東京タワーに行った",
        ],
    )
    searcher = full_text(store)
    for query, seq in (
        ("fixing", 1),
        ("score", 2),
        ("login", 3),
        ("auth/login_form.ts", 3),
        ("東京", 4),
        ("塔 タワー", 4),
    ):
        assert searcher.search(query)[0].seq == seq, query


def test_a_phrase_alone_must_be_there():
    store = memory()
    talk(store, "a", ["the token has expired", "token expired", "expired token"])
    assert seqs(full_text(store).search('"token expired"')) == [2]


def test_an_answer_is_found_by_the_words_of_its_question():
    store = memory()
    talk(
        store,
        "a",
        [
            "how is the weather",
            "fine",
            "how long have you had the snakes?",
            "assistant|3 years now",
            "ok",
        ],
    )
    assert set(seqs(full_text(store).search("how long snakes", limit=3))) == {3, 4, 5}


def test_filters_narrow_the_search():
    """Role, tool, kind, time."""
    store = memory()
    context = refold.open("work", store=store, config={"offload_tokens": 200})
    context.update(title="The walrus project")
    context.append({"role": "user", "content": "find the walrus"})
    call = {
        "id": "t1",
        "type": "function",
        "function": {"name": "grep", "arguments": '{"pattern": "walrus"}'},
    }
    context.append({"role": "assistant", "content": None, "tool_calls": [call]})
    context.append_result("t1", "walrus.py:1\n" + "walrus line\n" * 500)
    context.checkpoint("before the walrus")
    searcher = full_text(store)
    assert [hit.role for hit in searcher.search("walrus", role="user")] == ["user"]
    assert {hit.tool for hit in searcher.search("walrus", tool="grep")} == {"grep"}
    assert searcher.search("walrus", tool="gre") == []
    assert [hit.kind for hit in searcher.search("walrus", kind="meta")] == ["meta"]
    assert [hit.kind for hit in searcher.search("walrus", kind="checkpoint")] == ["checkpoint"]
    [artifact] = searcher.search("walrus line", kind="artifact")
    assert artifact.artifact.startswith("art-") and artifact.hidden and artifact.line == 1
    now = context.view.updated_ms
    assert searcher.search("walrus", since=now + DAY_MS) == []
    assert searcher.search("walrus", until=datetime.fromtimestamp(now / 1_000, UTC)) != []
    assert searcher.search("walrus", until=now - DAY_MS) == []


def test_summaries_are_found_only_when_they_are_asked_for():
    store = memory()
    context = refold.open("work", store=store)
    for number in range(20):
        context.append(
            {"role": "user", "content": f"the walrus number {number} " + "is heavy " * 40}
        )
    context.compact("gist", target=400)
    searcher = full_text(store)
    assert {hit.kind for hit in searcher.search("walrus", limit=50)} == {"message"}
    assert {hit.kind for hit in searcher.search("walrus", kind="edit")} == {"edit"}


def test_an_artifact_is_found_at_its_line():
    store = memory()
    context = refold.open("work", store=store)
    lines = [f"line {number} of many, nothing to see" for number in range(1, 2_001)]
    lines[1_499] = "here stands the walrus"
    context.artifacts.put("\n".join(lines), name="log.txt", type="file")
    [hit] = full_text(store).search("walrus")
    shown = str(context.unfold(hit.artifact, lines=(hit.line, hit.line + 3)))
    assert "walrus" in shown and "walrus" in hit.snippet


def test_a_fork_finds_what_it_shares_once_and_under_its_own_name(store):
    talk(store, "a", ["one walrus", "two walrus", "three walrus"])
    store.fork("a", 2, "b")
    talk(store, "b", ["four walrus"])
    searcher = full_text(store)
    assert {(hit.conversation, hit.seq) for hit in searcher.search("walrus", conversation="b")} == {
        ("b", 1),
        ("b", 2),
        ("b", 3),
    }
    everywhere = {(hit.conversation, hit.seq) for hit in searcher.search("walrus")}
    assert everywhere == {("a", 1), ("a", 2), ("a", 3), ("b", 3)}
    assert "three" not in " ".join(
        hit.snippet for hit in searcher.search("walrus", conversation="b")
    )
    assert len(searcher.search("walrus", conversation="b", newest=True)) == 3


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ("x", {"limit": -1}),
        ("x", {"limit": 5_000}),
        ("x", {"role": "boss"}),
        ("x", {"kind": "usage"}),
        ("x", {"since": "yesterday"}),
        ("x", {"conversations": "a"}),
    ],
)
def test_bad_input_is_refused_with_a_hint(query, given):
    with pytest.raises(Invalid) as error:
        full_text(memory()).search(query, **given)
    assert error.value.hint


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        '"unbalanced',
        "*",
        "a*",
        "NEAR(a b)",
        "-a",
        "a AND",
        "text:a",
        "^a",
        "(",
        "\0",
        "a\0b",
        "\ud800",
        "'; DROP",
        "a" * 100_000,
        "word " * 20_000,
        "{text parts}: a",
        "a OR NOT b",
        "🙂",
        "…",
    ],
)
def test_no_query_breaks_the_search(query):
    store = memory()
    talk(store, "a", ["a plain walrus", "text near a b or not"])
    searcher = full_text(store)
    for newest in (False, True):
        assert isinstance(searcher.search(query, newest=newest), list)
    assert searcher.said == []


def test_content_that_sqlite_could_misread_is_indexed_as_text():
    store = memory()
    talk(
        store,
        "a",
        [
            "nul\0nul walrus",
            "'; DROP TABLE documents; --",
            "\u202egnp.exe",
            "x" * 300_000 + " walrus",
        ],
    )
    assert set(seqs(full_text(store).search("walrus"))) == {1, 4}
    assert seqs(full_text(store).search("drop documents"))[0] == 2


def test_a_hit_in_parallel_calls_names_the_tool_that_was_asked_for():
    context = refold.open("work", store="memory:")
    context.append({"role": "user", "content": "go"})
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("read_file", "run")
    ]
    context.append({"role": "assistant", "content": "the walrus first", "tool_calls": calls})
    assert [hit.tool for hit in context.search("walrus", tool="run")] == ["run"]
    assert [hit.tool for hit in context.search("walrus")] == ["read_file, run"]


@pytest.mark.parametrize("messages", [0, 1])
@pytest.mark.parametrize(
    "wrong", [{"limit": -1}, {"query": " "}, {"role": "nobody"}, {"since": "x"}, {"newest": 1}]
)
def test_a_wrong_question_is_wrong_also_where_nothing_was_said(messages, wrong):
    with refold.open("a", store="memory:") as context:
        for _ in range(messages):
            context.append({"role": "user", "content": "a word"})
        with pytest.raises(Invalid):
            context.search(**{"query": "word", **wrong})
