"""Outputs: known without being read, selected with a reason, kept as the text they are, named by
id only."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from bench import outputs as bench

import refold
from refold.artifacts.artifacts import artifacts_of
from refold.artifacts.listing import hash_query
from refold.core.model import Erase
from refold.errors import Invalid, NotFound
from refold.log.log import Draft, Log
from refold.stores import open_store
from tests.toolruns import clean, forget_page, long, opened, outputs_in, ran


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


# --- listing ---


def test_a_query_has_one_id_however_it_is_written():
    """T-10."""
    assert hash_query("What is TypeScript?") == "q_62fe08d57c8e4872"
    assert hash_query("") == "q_e3b0c44298fc1c14"
    assert hash_query("  Test Query\n") == hash_query("test query")
    assert hash_query("cafe\u0301") == hash_query("CAF\u00c9")
    assert hash_query("\ud800") == hash_query("\ud800 ")


def test_outputs_are_listed_by_task_query_and_tool(store):
    """T-07: in the order in which they were kept; an unknown task has none."""
    context = opened(store)
    one = ran(context, long("first"), task="t1", query="Why does it fail?")
    two = ran(
        context, long("second"), tool="read", task="t2", query=hash_query("why does it fail?")
    )
    three = ran(context, long("third"), task="t1")
    outputs = outputs_in(context)
    assert [one.id for one in outputs.list()] == [one, two, three]
    assert [one.id for one in outputs.list(task="t1")] == [one, three]
    assert [one.id for one in outputs.list(query="  WHY does it fail? ")] == [one, two]
    assert [one.id for one in outputs.list(query=hash_query("why does it fail?"))] == [one, two]
    assert [one.id for one in outputs.list(tool="read")] == [two]
    assert outputs.list(task="none") == [] and outputs.list(query="") == []


def test_outputs_are_known_again_on_resume_without_reading_a_content(tmp_path, monkeypatch):
    """T-18: 5 outputs, a new process (here: a new store), 5 equal ones, 0 bytes of contents
    read."""
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open("work", store=url, window=24_000, config={"offload_tokens": 50}) as context:
        for n in range(5):
            ran(context, long(f"output {n}"), task=f"t{n}")
        before = outputs_in(context).list()
    store = open_store(url)

    def read(*_):
        raise AssertionError("a content was read")

    monkeypatch.setattr(type(store), "get", read)
    after = artifacts_of(store, "work").list()
    assert after == before and len(after) == 5
    store.close()


@pytest.mark.parametrize("held_max", [10_000, 50])
def test_very_many_outputs_are_known_by_a_few_numbers_each_and_found_all_the_same(
    tmp_path, monkeypatch, held_max
):
    """T-20, small: a list that is too long to be held reads its outputs when they are looked at."""
    count, url = 1_200, f"sqlite:{tmp_path}/refold.db"
    monkeypatch.setattr("refold.artifacts.listing.HELD_MAX", held_max)
    bench.written(url, count)
    for step in bench.MANY_STEPS:
        assert bench.many(url, step, count)["right"], step
    outputs = artifacts_of(open_store(url), "work")
    found = outputs.list()
    assert len(found) == count and [one.seq for one in found[3:9:2]] == [4, 6, 8]
    assert [one.artifact for one in found] == [bench.artifact(n) for n in range(1, count + 1)]
    assert next(reversed(found)).seq == count == found[-1].seq
    newest = outputs.select("nothing like it", limit=3)
    assert [one.artifact.seq for one in newest] == [count - 2, count - 1, count]
    index = outputs._reader._index
    numbers = [index._seqs, index._keys, *index._checksums.values()]
    assert sum(one.itemsize for one in numbers) <= 28 and {len(one) for one in numbers} == {count}


def test_a_list_follows_what_is_kept_cleaned_up_and_erased(store):
    """T-18, T-19: only what came since is read; an erased one is gone."""
    context = opened(store)
    outputs = outputs_in(context)
    one, two = ran(context, long("first")), ran(context, long("second"))
    before = outputs.list()
    three = ran(context, long("third"))
    assert [output.id for output in before] == [one, two]
    assert [output.id for output in outputs.list()] == [
        one,
        two,
        three,
    ] and context._reader.count() == 3
    forget_page(context)
    clean(store, keep_count=1)
    assert [bool(output.cleaned_ms) for output in outputs.list()] == [
        True,
        True,
        False,
    ] and context._reader.count() == 1
    assert context._reader.named(three)[0].id == three
    with pytest.raises(NotFound, match="no artifact 'art-aaaaaaaaaaaa'") as caught:
        context._reader.original("art-aaaaaaaaaaaa")
    assert caught.value.hint
    gone = outputs.list()[0].seq
    context._open.log.append([Draft(body=Erase(seq=gone), by="test")])
    store.erase("work", gone)
    context._open.log.state = Log(store, "work").state
    assert [output.id for output in outputs.list()] == [two, three]


# --- selecting ---


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
    assert "in what it gave" in best.why and 0 < best.score <= 1


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


def meaning(texts):
    """Vectors of two numbers: how much a text is about cars, and how much about anything else."""
    return [
        [sum(text.count(word) for word in ("car", "automobile", "engine")), 1.0] for text in texts
    ]


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
    assert by_words.matched == ("rain",) and "in what it gave" in by_words.why
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


# --- contents and handles ---


def test_a_handle_of_another_conversation_is_not_found(store):
    """T-08: an output is named by id, and only where the log names it."""
    one, two = opened(store, "one"), opened(store, "two")
    id = ran(one, long("secret"))
    for context in (two,):
        with pytest.raises(NotFound, match="in this conversation"):
            context.unfold(id)
    for wrong in (
        "../../x",
        "/etc/passwd",
        "artifact://../../etc/passwd",
        "",
        "art",
        "#0x1",
        "file:///etc/passwd",
    ):
        with pytest.raises(Invalid, match="not a handle"):
            one.unfold(wrong)


def test_bytes_that_are_gone_without_a_cleanup_are_missing(tmp_path):
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    id = ran(context, long("output"))
    for file in os.listdir(tmp_path / "artifacts"):
        os.unlink(tmp_path / "artifacts" / file)
    with pytest.raises(NotFound) as missing:
        context.unfold(id)
    assert "cleaned up" not in str(missing.value)
    there = ran(context, long("output, again"))
    outputs = outputs_in(context)
    assert {one.artifact.id for one in outputs.select("output")} == {there}
    assert {one.artifact.id for one in outputs.select("bash")} == {id, there}
    assert [(one.handle, len(one.grepped.lines)) for one in outputs.grep("output")] == [
        (there, 1),
        (id, 0),
    ]
    with pytest.raises(NotFound):
        outputs.grep("output", id)


def test_a_hundred_outputs_at_once_are_all_kept(store):
    """T-23."""
    context = opened(store)
    outputs = [long(f"output {n}") for n in range(100)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda n: context.append_result(f"c{n}", outputs[n], name="run"), range(100)))
    kept = outputs_in(context).list()
    assert len({one.id for one in kept}) == len(kept) == 100
    assert {context.unfold(one.id).text for one in kept} == set(outputs)


def test_bytes_that_no_event_could_hold_are_kept_as_the_text_they_are(tmp_path):
    """T-04, T-21: 17 MB of UTF-8 as bytes or as plain data are shown by their lines, without
    being decoded whole."""
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    text = "é first line\n" + "a line with a 汉字 in it\n" * 700_000 + "the last line"
    written = json.dumps([text], ensure_ascii=False).encode()
    for output, content, mime in (
        (text.encode(), text.encode(), "text/plain"),
        ([text], written, "application/json"),
    ):
        id = ran(context, output)
        [artifact] = [one.artifact for one in outputs_in(context).list() if one.id == id]
        assert artifact.mime == mime and artifact.size_bytes == len(content) > 16 * 1024 * 1024
        assert (
            artifact.size_chars == len(content.decode()) and context.unfold(id).content == content
        )
        shown = context.view.slots[-1].message.blocks[0].content[0].text
        assert "é first line" in shown and "the last line" in shown and len(shown) <= 2_000
    assert artifact.lines == 1
    binary = ran(context, b"\xff" * 17_000_000)
    assert [one.artifact.size_chars for one in outputs_in(context).list() if one.id == binary] == [
        0
    ]
