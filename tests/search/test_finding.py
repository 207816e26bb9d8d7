"""Questions and their answers: who asks looks for what was answered, in whatever words (T-12,
G-44)."""

from __future__ import annotations

from refold.core.model import Message, Text, ToolCall, ToolResult
from refold.log.draft import Draft
from refold.search.database import MEMORY
from refold.search.searcher import Searcher
from refold.search.upkeep import Upkeep
from tests.search.talks import full_text, memory, seqs, talk

ASKED = "user|How did you two get to know each other?"
ANSWER = "assistant|In a pottery class, and soon we were friends."
OTHERS = (
    "user|Lovely weather today.",
    "assistant|Indeed, the sun is out.",
    "user|I bought bread.",
    "assistant|Good.",
)


def found(texts: tuple[str, ...], query: str) -> list[int]:
    store = memory()
    talk(store, "talk", texts)
    return [hit.seq for hit in Searcher(store, embedder=False).search(query)]


def test_an_answer_is_found_before_the_question_whose_words_it_leaves_out():
    assert found((*OTHERS, ASKED, ANSWER, *OTHERS), "when did they get to know each other")[:2] == [
        6,
        5,
    ]


def test_who_looks_for_a_word_or_two_finds_the_question_that_has_them():
    assert found((*OTHERS, ASKED, ANSWER, *OTHERS), "know") == [5]


def test_a_statement_comes_before_a_question_with_the_same_words():
    said, asked = "user|They know each other from school.", "user|They know each other from school?"
    # Of equal ones the newest would come first.
    assert found((said, *OTHERS, asked), "do they know each other")[0] == 1


def test_only_short_talk_asks_and_nothing_that_has_to_do_with_tools():
    store = memory()
    log = talk(
        store, "talk", ["user|Why?", "user|" + "many words " * 60 + "really?", "user|Because."]
    )
    call = ToolCall("c1", "read", {"path": "why?"})
    result = ToolResult("c1", (Text("who knows?"),), name="read")
    log.append([Draft(body=Message(role="assistant", blocks=(call,)), by="test")])
    log.append([Draft(body=Message(role="tool", blocks=(result,)), by="test")])
    searcher = Searcher(store, embedder=False)
    assert {hit.seq for hit in searcher.search("why")} == {1, 4}
    upkeep = Upkeep(store, MEMORY, tell=lambda name, reason: None)
    upkeep.catch_up(100)
    with upkeep.index() as index:
        assert index.rows("SELECT seq FROM entries WHERE asks") == [(1,)]


def test_a_filter_finds_what_is_not_among_the_best_of_very_many(monkeypatch):
    monkeypatch.setattr("refold.search.index_query.SEEDS_MAX", 10)
    store = memory()
    talk(
        store,
        "a",
        [
            "assistant|one walrus among many other words that are said here",
            *["walrus walrus"] * 100,
        ],
    )
    assert seqs(full_text(store).search("walrus", role="assistant")) == [1]
    assert len(full_text(store).search("walrus", limit=50)) == 10


def test_very_common_terms_are_looked_for_in_the_newest_places_only(monkeypatch):
    monkeypatch.setattr("refold.search.index_query.POSTINGS_MAX", 20)
    monkeypatch.setattr("refold.search.index_query.POSTINGS_MIN", 20)
    store = memory()
    for id in ("a", "b"):
        talk(store, id, [f"walrus {'zebra' if number == 3 else 'again'}" for number in range(50)])
    hits = full_text(store).search("walrus zebra", limit=5)
    assert {(hit.conversation, hit.seq) for hit in hits[:2]} == {("a", 4), ("b", 4)}
