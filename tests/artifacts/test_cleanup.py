"""Cleaning up: the oldest go until the bounds hold, and nothing that anybody needs is lost."""

from __future__ import annotations

import os
import time

import pytest

import refold
from refold.artifacts import cleanup as cleaning
from refold.conversations.exporter import chunks_of
from refold.conversations.importer import import_document
from refold.conversations.verifier import verify
from refold.errors import Invalid, NotFound
from refold.stores import open_store
from tests.toolruns import clean, clock_ms, forget_page, long, opened, outputs_in, ran

MB = 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


def test_the_oldest_go_until_the_quota_holds(store):
    """T-19: quota 10 MB, 20 outputs of 1 MB: the oldest 10 go, are marked, and reading one says
    so."""
    context = opened(store)
    ids = [ran(context, f"{n:02}" + "x" * (MB - 2)) for n in range(20)]
    forget_page(context)
    done = clean(store, keep_bytes=10 * MB, conversation="work")
    assert (
        [item.artifact.id for item in done.removed] == ids[:10]
        and done.size_bytes == 10 * MB
        and done.kept == ()
    )
    outputs = outputs_in(context).list()
    assert [bool(one.cleaned_ms) for one in outputs] == [True] * 10 + [False] * 10
    with pytest.raises(NotFound, match=r"was cleaned up on 20.*1,000,000 bytes of 'bash: ls'"):
        context.unfold(ids[0])
    with pytest.raises(NotFound, match="cleaned up"):
        context.unfold(ids[0], lines=(1, 2))
    with pytest.raises(NotFound, match="cleaned up"):
        outputs_in(context).grep("x", ids[0])
    assert context.unfold(ids[10]).content.startswith(b"10x")
    assert clean(store, keep_bytes=10 * MB).removed == ()


def test_what_the_page_shows_or_names_stays(store):
    """T-19: a slot of the page, a name in a visible text, a pin, the system prompt."""
    context = opened(store)
    slot, gone, pinned, named, in_system = (ran(context, long(f"output {n}")) for n in range(5))
    pin = context.view.slots[5].seq
    context.pin(pin)
    hidden = {1: gone, 3: named, 4: in_system}
    batch = [s for n, s in enumerate(context.view.slots) if n // 2 in hidden]
    assert len(batch) == 6
    for s in batch[::2]:
        context.hide(s.seq)  # the call, with its result
    context.append({"role": "user", "content": f"look at artifact://{named}"})
    context.update(system=f"See {in_system}")
    context.request()
    done = clean(store, keep_count=0)
    assert [item.artifact.id for item in done.removed] == [gone]
    assert {item.artifact.id for item in done.kept} == {slot, pinned, named, in_system}
    assert all("the page of work names it" in item.why for item in done.kept)
    for id in (slot, pinned, named, in_system):
        assert context.unfold(id).content


@pytest.mark.parametrize("has_artifacts", [False, True])
@pytest.mark.parametrize("place", ["text", "system", "result", "hidden"])
@pytest.mark.parametrize("scope", [None, "work"])
def test_what_the_page_of_another_conversation_names_stays(store, has_artifacts, place, scope):
    """T-19: by its text alone; what its page names no longer can go."""
    context, other = opened(store), opened(store, "other")
    id, gone = ran(context, long("named")), ran(context, long("not named"))
    forget_page(context)
    if has_artifacts:
        ran(other, long("its own"))
    if place == "system":
        other.update(system=f"See artifact://{id}")
        other.append({"role": "user", "content": "begin"})
    elif place == "result":
        call = {"id": "c9", "name": "bash", "arguments": {}}
        other.append({"role": "assistant", "tool_calls": [call]})
        other.append_result("c9", f"it is in {id} now")
    else:
        other.append({"role": "user", "content": f"compare it with artifact://{id}"})
    if place == "hidden":
        other.append({"role": "user", "content": "and then"})
        other.clear()
    other.flush()
    done = clean(store, keep_count=0, conversation=scope)
    removed = {item.artifact.id for item in done.removed}
    assert gone in removed and (id in removed) == (place == "hidden")
    if place != "hidden":
        assert context.unfold(id).content
        [kept] = [item for item in done.kept if item.artifact.id == id]
        assert "the page of other names it" in kept.why


def test_what_another_conversation_has_stays(store):
    """T-16: two conversations in one store; cleaning one leaves the other's, though contents are
    kept once."""
    one, two = opened(store, "one"), opened(store, "two")
    shared = ran(one, long("the same"))
    own = ran(one, long("only here"))
    assert ran(two, long("the same")) == shared
    for context in (one, two):
        forget_page(context)
    done = clean(store, keep_count=0, conversation="one")
    assert [item.artifact.id for item in done.removed] == [own]
    assert [(item.artifact.id, "two also has it" in item.why) for item in done.kept] == [
        (shared, True)
    ]
    assert two.unfold(shared).content
    assert [item.conversations for item in clean(store, keep_count=0).removed] == [("one", "two")]
    for context in (one, two):
        with pytest.raises(NotFound, match="cleaned up"):
            context.unfold(shared)


def test_a_fork_has_the_outputs_of_its_parent(store):
    context = opened(store)
    id = ran(context, long("output"))
    twin = context.fork("twin")
    forget_page(context)
    assert clean(store, keep_count=0, conversation="work").removed == ()
    assert twin.unfold(id).content
    assert "page of twin names it" in clean(store, keep_count=0).kept[0].why


def test_what_a_user_stored_and_what_is_new_stays(store):
    """T-19: a content is put before the event that names it, so a new one is left alone."""
    context = opened(store)
    stored = context.artifacts.put("a plan", name="plan").id
    ran(context, long("output"))
    forget_page(context)
    done = clean(store, keep_count=0, grace_s=3_600)
    assert done.removed == () and [item.why.partition(", but ")[2] for item in done.kept] == [
        "it was stored by user and is not a tool's output",
        "it was kept less than 3,600 seconds ago",
    ]
    assert context.unfold(stored).content == b"a plan"
    assert outputs_in(context).clean(keep_count=0).removed == ()


def test_age_counts_from_the_last_time_an_output_was_kept(store):
    """T-19."""
    context = opened(store)
    clock = [clock_ms() - 10 * HOUR_MS]
    context._open.log.clock = lambda: clock[0]
    old, again = ran(context, long("old")), ran(context, long("again"))
    clock[0] += 9 * HOUR_MS
    assert ran(context, long("again")) == again
    forget_page(context)
    done = clean(store, older_than_s=2 * 3_600)
    assert [item.artifact.id for item in done.removed] == [old] and "too old" in done.removed[0].why


def test_an_output_that_comes_again_is_there_again(store):
    context = opened(store)
    id = ran(context, long("output"))
    forget_page(context)
    assert clean(store, keep_count=0).removed
    assert ran(context, long("output")) == id
    assert [one.cleaned_ms for one in outputs_in(context).list()] == [0, 0]
    assert context.unfold(id).content == long("output").encode()


def test_content_that_is_put_again_while_cleaning_is_not_lost(store, monkeypatch):
    """T-19, T-23: another writer keeps the same content between the survey and the removal."""
    context, other = opened(store), opened(store, "other")
    id = ran(context, long("output"))
    forget_page(context)
    ask_the_rest = cleaning._Contents.ask_the_rest

    def asked_then_put(*given):
        ask_the_rest(*given)
        time.sleep(0.02)
        assert ran(other, long("output")) == id

    monkeypatch.setattr(cleaning._Contents, "ask_the_rest", asked_then_put)
    time.sleep(0.02)
    assert clean(store, now_ms=clock_ms(), keep_count=0).removed == ()
    monkeypatch.undo()
    assert other.unfold(id).content == context.unfold(id).content == long("output").encode()
    assert not any(one.cleaned_ms for one in outputs_in(context).list())


def test_a_dry_run_changes_nothing(store):
    context = opened(store)
    id = ran(context, long("output"))
    forget_page(context)
    head = context.view.head
    assert [item.artifact.id for item in clean(store, keep_count=0, dry_run=True).removed] == [id]
    assert context.view.head == head and context.unfold(id).content


def test_bounds_of_a_cleanup_are_checked(store):
    for wrong in ({}, {"keep_bytes": -1}, {"older_than_s": float("nan")}):
        with pytest.raises(Invalid):
            clean(store, **wrong)
    with pytest.raises(NotFound):
        clean(store, keep_count=0, conversation="nobody")
    assert clean(store, keep_count=0).removed == ()
    assert outputs_in(opened(store, "new")).clean(keep_count=0).removed == ()


@pytest.fixture
def cleaned_up(tmp_path):
    """A store with a conversation of two outputs, the first of them cleaned up."""
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    gone = ran(context, long("first"))
    forget_page(context)
    kept = ran(context, long("second"))
    assert [item.artifact.id for item in clean(store, keep_count=0).removed] == [gone]
    yield store, context, gone, kept
    store.close()


def test_a_cleanup_is_no_damage(cleaned_up):
    """T-19: verify knows it; what is missing without one is still reported."""
    store, context, gone, kept = cleaned_up
    assert [artifact.id for artifact in context.artifacts.list()] == [gone, kept]
    assert verify(store).problems == ()
    os.unlink(store.location(context.artifacts.list()[1].artifact.digest))
    assert [(problem.part, kept in problem.what) for problem in verify(store).problems] == [
        ("artifact", True)
    ]


def test_an_export_goes_without_what_was_cleaned_up(cleaned_up, tmp_path):
    store, _, gone, kept = cleaned_up
    document = b"".join(chunks_of(store, "work", "json"))
    other = open_store(f"sqlite:{tmp_path}/other/refold.db")
    import_document(other, document)
    assert verify(other).problems == ()
    twin = refold.Context(other, "work")
    assert twin.unfold(kept).content == long("second").encode()
    with pytest.raises(NotFound, match="was cleaned up on"):
        twin.unfold(gone)
    assert "Cleaned up on 20" in b"".join(chunks_of(store, "work", "markdown")).decode()
    other.close()


@pytest.fixture(params=["memory", "sqlite", "files"])
def any_store(request, tmp_path):
    places = {
        "memory": "memory:",
        "sqlite": f"sqlite:{tmp_path}/s/refold.db",
        "files": f"files:{tmp_path}/s",
    }
    store = open_store(places[request.param])
    yield store
    store.close()


def test_one_output_is_removed_by_hand(any_store):
    """M-20: delete lowers the count and removes the bytes; twice is NotFound."""
    context = opened(any_store)
    one, two = ran(context, long("first")), ran(context, long("second"))
    digest = context.artifacts.list()[0].artifact.digest
    done = context.artifacts.remove(f"artifact://{one}")
    assert (done.artifact.id, done.why) == (one, "its bytes are gone")
    assert context.stats().artifacts == 1
    assert [bool(o.cleaned_ms) for o in context.artifacts.list()] == [True, False]
    with pytest.raises(NotFound):
        list(any_store.get(digest))
    assert any_store.location(digest) is None
    with pytest.raises(NotFound, match="cleaned up on"):
        context.unfold(one)
    with pytest.raises(NotFound, match="removed already"):
        context.artifacts.remove(one)
    with pytest.raises(NotFound, match="not in work"):
        context.artifacts.remove("art-nothing")
    assert context.unfold(two).content and verify(any_store).problems == ()
    assert ran(context, long("first")) == one and context.unfold(one).content


@pytest.mark.parametrize("count", [0, 1, 5])
def test_all_outputs_of_a_conversation_are_removed_in_one_call(any_store, count):
    context, other = opened(any_store), opened(any_store, "other")
    ids = [ran(context, long(f"output {at}")) for at in range(count)]
    kept = ran(other, long("output 0"))
    if ids:
        ran(context, long("output 0"))  # the same content again
        context.artifacts.put("a note", name="note.txt")
    removed = [item.artifact.id for item in context.artifacts.remove_all()]
    assert set(ids) <= set(removed) and len(removed) == len(set(removed)) == count + bool(count)
    assert context.stats().artifacts == 0 and context.artifacts.remove_all() == []
    assert all(one.cleaned_ms for one in context.artifacts.list())
    for id in set(removed) - {kept}:
        with pytest.raises(NotFound, match="cleaned up on"):
            context.unfold(id)
    assert other.unfold(kept).content and verify(any_store).problems == ()


def test_bytes_stay_while_another_conversation_has_them(any_store):
    """M-20."""
    context, other = opened(any_store), opened(any_store, "other")
    id = ran(context, long("the same"))
    assert ran(other, long("the same")) == id
    assert context.artifacts.remove(id).why == "its bytes stay: other also has it"
    assert context.stats().artifacts == 0 and other.unfold(id).content
    assert outputs_in(other).remove(id).why == "its bytes are gone"


def test_what_a_fork_shares_stays_for_it(any_store):
    context = opened(any_store)
    id = ran(context, long("shared"))
    fork = context.fork("fork")
    context.artifacts.remove(id)
    assert fork.unfold(id).content and refold.Context(any_store, "fork").unfold(id).content
