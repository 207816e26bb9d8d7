"""References to artifacts in texts: found by one grammar, and reported where they lead nowhere."""

from __future__ import annotations

import pytest

import refold
from refold.conversations.verifier import verify
from refold.errors import NotFound
from refold.log.unfold import references
from refold.stores import open_store
from refold.stores.memory import MemoryStore
from tests.toolruns import long, opened, outputs_in, ran


def test_references_are_found_by_one_grammar():
    """M-04."""
    assert references("see artifact://art-7k2, and (artifact://art-9)") == ["art-7k2", "art-9"]
    assert references(
        "art-ynj5mh35oxmq and artifact://art-ynj5mh35oxmq. Then art-7k2aaaaaaaaa!"
    ) == [
        "art-ynj5mh35oxmq",
        "art-7k2aaaaaaaaa",
    ]
    for text in (
        "",
        "art-",
        "artifact://",
        "start-ynj5mh35oxmq",
        "art-ynj5mh35oxmqx",
        "an art-form",
        "art-YNJ5MH35OXMQ",
    ):
        assert references(text) == []


def test_a_reference_that_leads_nowhere_is_a_remark_and_no_damage():
    """M-04: reported as dangling, not an exception."""
    store = MemoryStore()
    context = opened(store)
    id = ran(context, long("an output"))
    context.append(
        {"role": "user", "content": f"compare artifact://{id} with artifact://art-nothere"}
    )
    report = verify(store)
    assert report.problems == ()
    [remark] = report.remarks
    assert (
        "art-nothere" in remark.what
        and remark.seq == context.view.head
        and remark.conversation == "work"
    )


@pytest.fixture(params=["memory", "sqlite", "files"])
def store(request, tmp_path):
    places = {
        "memory": "memory:",
        "sqlite": f"sqlite:{tmp_path}/s/refold.db",
        "files": f"files:{tmp_path}/s",
    }
    store = open_store(places[request.param])
    yield store
    store.close()


def test_one_output_is_removed_by_hand(store):
    """M-20: delete lowers the count and removes the bytes; twice is NotFound."""
    context = opened(store)
    one, two = ran(context, long("first")), ran(context, long("second"))
    digest = context.artifacts.list()[0].artifact.digest
    done = context.artifacts.remove(f"artifact://{one}")
    assert (done.artifact.id, done.why) == (one, "its bytes are gone")
    assert context._reader.count() == 1 and [
        bool(o.cleaned_ms) for o in context.artifacts.list()
    ] == [True, False]
    with pytest.raises(NotFound):
        list(store.get(digest))
    assert store.location(digest) is None
    with pytest.raises(NotFound, match="cleaned up on"):
        context.unfold(one)
    with pytest.raises(NotFound, match="removed already"):
        context.artifacts.remove(one)
    with pytest.raises(NotFound, match="not in work"):
        context.artifacts.remove("art-nothing")
    assert context.unfold(two).content and verify(store).problems == ()
    assert ran(context, long("first")) == one and context.unfold(one).content


def test_bytes_stay_while_another_conversation_has_them(store):
    """M-20."""
    context, other = opened(store), opened(store, "other")
    id = ran(context, long("the same"))
    assert ran(other, long("the same")) == id
    assert context.artifacts.remove(id).why == "its bytes stay: other also has it"
    assert context._reader.count() == 0 and other.unfold(id).content
    assert outputs_in(other).remove(id).why == "its bytes are gone"


def test_what_a_fork_shares_stays_for_it(store):
    context = opened(store)
    id = ran(context, long("shared"))
    fork = context.fork("fork")
    context.artifacts.remove(id)
    assert fork.unfold(id).content and refold.Context(store, "fork").unfold(id).content
