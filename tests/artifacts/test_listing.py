"""Artifacts are known and listed without their contents being read."""

from __future__ import annotations

import pytest
from bench import outputs as bench

import refold
from refold.artifacts.artifacts import artifacts_of
from refold.artifacts.listing import hash_query
from refold.core.model import Erase
from refold.errors import NotFound
from refold.log.draft import Draft
from refold.log.log import Log
from refold.stores import open_store
from tests import turns
from tests.toolruns import clean, forget_page, long, opened, outputs_in, ran


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


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
    assert {len(one) for one in numbers} == {count}
    # With what the fold has, and a list that is held, a million are 37 MB.
    beside = (outputs._open.state.artifacts.itemsize, index.listing()._seqs.itemsize)
    assert sum(one.itemsize for one in numbers) + sum(beside) <= 40


def test_a_list_follows_what_is_kept_cleaned_up_and_erased(store):
    """T-18, T-19: only what came since is read; an erased one is gone."""
    context = opened(store)
    outputs = outputs_in(context)
    one, two = ran(context, long("first")), ran(context, long("second"))
    before = outputs.list()
    three = ran(context, long("third"))
    assert [output.id for output in before] == [one, two]
    assert [output.id for output in outputs.list()] == [one, two, three]
    assert context.stats().artifacts == 3
    forget_page(context)
    clean(store, keep_count=1)
    assert [bool(output.cleaned_ms) for output in outputs.list()] == [True, True, False]
    assert context.stats().artifacts == 1
    assert context.unfold(three).content == long("third").encode()
    with pytest.raises(NotFound, match="no artifact 'art-aaaaaaaaaaaa'") as caught:
        context.unfold("art-aaaaaaaaaaaa")
    assert caught.value.hint
    gone = outputs.list()[0].seq
    context._open.log.append([Draft(body=Erase(seq=gone), by="test")])
    store.erase("work", gone)
    context._open.log.state = Log(store, "work").state
    assert [output.id for output in outputs.list()] == [two, three]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("task", [3, "3"])
def test_small_outputs_are_listed_selected_and_searched_like_large_ones(url, large, task):
    """T-01, T-07: a task is as good as its number, and none at all is fine."""
    config = {"offload_tokens": 5 if large else 8_000}
    context = refold.open("work", store=url, window=64_000, config=config)
    texts = {
        "login": "the token has expired\n" * 8,
        "users": "twelve users\n" * 8,
        "none": "x\n" * 90,
    }
    for name, text in texts.items():
        given = {} if name == "none" else {"task": task, "query": "Why does the login fail?"}
        context.append(turns.call(name, "readFile", f'{{"path": "/src/{name}.ts"}}'))
        context.append_result(f"c{name}", text, **({"task": None} | given))
    again = [] if url == "memory:" else [refold.open("work", store=url)]
    for view in (context, *again):
        listed = view.artifacts.list(task="3")
        assert view.artifacts.list(task=3) == listed
        assert [one.artifact.name for one in listed] == [
            "readFile: /src/login.ts",
            "readFile: /src/users.ts",
        ]
        assert view.artifacts.list(query=" why DOES the login fail?") == listed
        assert view.artifacts.list(tool="readFile")[:2] == listed
        assert view.artifacts.list(task="4") == []
        assert [view.artifacts.value(one.id) for one in listed] == [texts["login"], texts["users"]]
        assert view.artifacts.select("token", limit=1)[0].artifact == listed[0]
        assert {one.handle for one in view.artifacts.grep("twelve users")} == {listed[1].id}
        assert str(view.unfold(listed[0].id, lines=(1, 1))) == "the token has expired"
        assert view.stats().artifacts == (3 if large else 0)
        view.close()
