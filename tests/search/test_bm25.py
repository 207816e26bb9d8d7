"""What a term is worth."""

from __future__ import annotations

from collections import defaultdict

from refold.search.rank import Formula, add_term, inverse_document_frequency

BM25 = Formula(saturation=1.2, length_share=0.5)


def scores(count: float, length: float = 10.0) -> float:
    out: defaultdict[str, float] = defaultdict(float)
    add_term(out, {"text": count}, {"text": BM25.norm(length, mean=10.0)}, BM25.most(2.0))
    return out["text"]


def test_a_rare_term_says_more_than_a_common_one():
    assert (
        inverse_document_frequency(1, 1_000)
        > inverse_document_frequency(100, 1_000)
        > inverse_document_frequency(1_000, 1_000)
        > 0
    )


def test_each_further_occurrence_adds_less_and_all_together_no_more_than_the_most():
    assert scores(2) - scores(1) > scores(3) - scores(2) > 0
    assert BM25.most(2.0) * 0.99 < scores(1_000) < BM25.most(2.0)


def test_an_occurrence_in_a_long_text_says_less_than_in_a_short_one():
    assert scores(1, length=5.0) > scores(1, length=10.0) > scores(1, length=100.0)


def test_the_scores_of_terms_add_up():
    out: defaultdict[str, float] = defaultdict(float)
    norms = {"a": 1.0, "b": 1.0}
    add_term(out, {"a": 1, "b": 1}, norms, 2.0)
    add_term(out, {"a": 3}, norms, 4.0)
    assert out == {"a": 1.0 + 3.0, "b": 1.0}
