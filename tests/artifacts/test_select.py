"""Artifacts are selected for a query, each with a reason."""

from __future__ import annotations

import pytest

from refold.errors import Invalid
from refold.stores import open_store
from tests.toolruns import long, opened, outputs_in, ran


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


def selected(context, query, **given):
    return [one.artifact.artifact.name for one in outputs_in(context).select(query, **given)]


def test_words_are_found_in_paths_and_names(store):
    """T-12."""
    context = opened(store)
    ran(context, long("x"), tool="readFile", arguments='{"path":"/src/auth/login.ts"}')
    ran(context, long("y"), tool="readFile", arguments='{"path":"/src/api/users.ts"}')
    assert selected(context, "login error") == ["readFile: /src/auth/login.ts"]
    assert len(selected(context, "file")) == len(selected(context, "READFILE")) == 2
    ran(context, long("z"), tool="search", arguments='{"query":"authentication"}')
    assert selected(context, "authentication") == [
        "search: authentication",
        "readFile: /src/auth/login.ts",
    ]
    ran(context, long("w"), tool="search", arguments='{"query":"登录失败"}')
    assert selected(context, "登录") == ["search: 登录失败"]


def test_what_the_tool_gave_counts_at_its_beginning_and_its_end(store):
    """T-13: two reads with the same description, one result has the error; T-15: the reason
    names the words."""
    context = opened(store)
    ran(context, long("all is well"))
    failed = ran(context, long("raise TokenExpiredError()"))
    ran(context, long("all is well, too"))
    [best, *_] = outputs_in(context).select("token expired error")
    assert best.artifact.id == failed and best.matched == ("token", "expired", "error")
    assert "in its output" in best.why and 0 < best.score <= 1


def test_the_end_of_a_large_file_is_looked_at(tmp_path):
    """T-13: a command says at its end how it ended."""
    context = opened(open_store(f"sqlite:{tmp_path}/refold.db"))
    ran(context, long("x", 2_000))
    failed = ran(context, long("y", 2_000) + "\nSegmentation fault")
    assert [one.artifact.id for one in outputs_in(context).select("segmentation")] == [failed]


def test_without_a_match_the_newest_that_fit_are_taken(store):
    """T-14: outputs of 10,000 tokens, room for 50,000, no match: the 5 newest, in the order they
    were kept."""
    context = opened(store)
    ids = [ran(context, f"{n:04}" + "x" * 39_996) for n in range(20)]
    outputs = outputs_in(context)
    assert [
        one.artifact.id for one in outputs.select("zzzz", limit=None, tokens_max=50_000)
    ] == ids[-5:]
    assert [one.artifact.id for one in outputs.select("zzzz", limit=3)] == ids[-3:]
    assert "newest" in outputs.select("zzzz")[0].why
    assert outputs.select("zzzz", score_min=0.1) == []
    for query in ("zzzz", "", "   "):  # T-11: without bounds, all
        assert [one.artifact.id for one in outputs.select(query, limit=None)] == ids


def test_a_selection_is_bounded_by_number_score_and_tokens(store):
    """T-14."""
    context = opened(store)
    for n in range(6):
        ran(context, long("needle " * (n + 1)))
    outputs = outputs_in(context)
    every = outputs.select("needle")
    assert len(every) == 6 and [one.score for one in every] == sorted(
        (one.score for one in every), reverse=True
    )
    assert outputs.select("needle", limit=2) == every[:2]
    assert outputs.select("needle", score_min=every[2].score) == every[:3]
    room = every[0].artifact.tokens + every[1].artifact.tokens
    assert sum(one.artifact.tokens for one in outputs.select("needle", tokens_max=room)) <= room
    assert outputs.select("needle", tokens_max=0) == []
    with pytest.raises(Invalid):
        outputs.select("needle", limit=-1)


def test_a_judge_chooses_and_one_that_fails_leaves_the_ranking(store):
    """T-13: the judge is a callable; a failure, or an id that nobody gave it, falls back to the
    score."""
    context = opened(store)
    first, second = ran(context, long("needle one")), ran(context, long("needle two"))
    outputs = outputs_in(context)
    by_score = [one.artifact.id for one in outputs.select("needle")]
    chosen = outputs.select("needle", judge=lambda query, found: [first])
    assert [one.artifact.id for one in chosen] == [first] and "chosen by the judge" in chosen[0].why
    assert outputs.select("needle", judge=lambda query, found: []) == []

    def broken(query, found):
        raise TimeoutError("no answer")

    for judge in (broken, lambda query, found: ["art-unknown"], lambda query, found: None):
        fallen_back = outputs.select("needle", judge=judge)
        assert [one.artifact.id for one in fallen_back] == by_score and set(by_score) == {
            first,
            second,
        }
        assert "the judge failed" in fallen_back[0].why


def test_an_id_that_a_judge_made_up_is_left_out(store):
    """T-41: the good choice is not lost with the bad one."""
    context = opened(store)
    first, second = ran(context, long("needle one")), ran(context, long("needle two"))
    outputs = outputs_in(context)
    chosen = outputs.select("needle", judge=lambda query, found: [first, "art-invented", second])
    assert [one.artifact.id for one in chosen] == [first, second]
    assert all("chosen by the judge" in one.why for one in chosen)


def meaning(texts):
    """Vectors of two numbers: how much a text is about cars, and how much about anything else."""
    return [
        [sum(text.count(word) for word in ("car", "automobile", "engine")), 1.0] for text in texts
    ]


def test_an_embedder_is_named_and_refused_as_for_search(store):
    context = opened(store)
    ran(context, long("rain and wind"))
    outputs = outputs_in(context)
    assert outputs.select("rain", embedder=False)[0].why == outputs.select("rain")[0].why
    assert "does not have config.json" in outputs.select("rain", embedder="bert:nowhere")[0].why
    for wrong in ("no such", 7, [1]):
        with pytest.raises(Invalid, match="embedder"):
            outputs.select("rain", embedder=wrong)


def test_an_embedder_finds_what_says_the_same_in_other_words(store):
    """T-13: fused with the words; both have a part in the score, and the reason says which."""
    context = opened(store)
    weather = ran(context, long("rain and wind"))
    engines = ran(context, long("automobile automobile with an engine"))
    ran(context, long("sun and snow"))
    outputs = outputs_in(context)
    assert "newest" in outputs.select("car")[0].why
    [best] = outputs.select("car", embedder=meaning)
    assert (
        best.artifact.id == engines
        and "alike in meaning" in best.why
        and 0 < best.score <= 1
        and not best.matched
    )
    both = outputs.select("rain car", embedder=meaning)
    assert {one.artifact.id for one in both} == {weather, engines}
    by_words = next(one for one in both if one.artifact.id == weather)
    assert by_words.matched == ("rain",) and "in its output" in by_words.why
    assert outputs.select("car", embedder=meaning, score_min=0.99) == []
    assert (
        outputs.select("car", embedder=meaning, judge=lambda query, found: [found[0].artifact.id])[
            0
        ].score
        == best.score
    )


def test_an_embedder_that_fails_leaves_the_ranking(store):
    """T-13."""
    context = opened(store)
    needle = ran(context, long("needle"))
    ran(context, long("hay"))
    outputs = outputs_in(context)

    def broken(texts):
        raise TimeoutError("no answer")

    for embedder in (
        broken,
        lambda texts: [[1.0]],
        lambda texts: [[float("nan")]] * len(texts),
        lambda texts: None,
    ):
        [found] = outputs.select("needle", embedder=embedder)
        assert found.artifact.id == needle and "the embedder failed" in found.why
        assert found.score == outputs.select("needle")[0].score
