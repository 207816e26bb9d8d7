"""A conversation that goes for good leaves nothing: not in the store, not among the contents,
not in the index."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest

import refold
from refold.conversations.deleter import delete
from refold.errors import NotFound
from refold.log.stored_logs import conversations
from refold.search.index import Index
from refold.search.upkeep import index_path
from refold.stores import open_store
from tests.damage import spoil
from tests.edges.cli.conftest import alone  # noqa: F401 - a fixture
from tests.edges.cli.rooms import as_json, run
from tests.toolruns import long, opened, outputs_in, ran

MARKER = "kukulkan"  # an index may leave out its first letter, which the term before has already


@pytest.fixture(params=["sqlite", "files"])
def url(request, tmp_path):
    return f"sqlite:{tmp_path}/s/refold.db" if request.param == "sqlite" else f"files:{tmp_path}/s"


@pytest.fixture
def store(url):
    store = open_store(url)
    yield store
    store.close()


def seeded(url: str) -> None:
    """Two conversations that share one content; one of them says the marker everywhere, and both
    are in the index."""
    for id, word in (("gone", MARKER), ("stays", "pterodactyl")):
        with refold.open(id, store=url, window=24_000, config={"offload_tokens": 50}) as context:
            context.update(title=f"About the {word}")
            context.append({"role": "user", "content": f"where does the {word} live?"})
            ran(context, long(f"only here: {word}"))
            ran(context, long("said in both"))
            context.compact("hide", target=1)
            context.search(word, everywhere=True)


def places(folder, text: str) -> list[str]:
    """The files that hold a text, or are named by it."""
    found = []
    for root, folders, files in os.walk(folder):
        found += [os.path.join(root, name) for name in [*folders, *files] if text in name]
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                if text.encode() in file.read():
                    found.append(os.path.join(root, name))
    return found


@pytest.mark.parametrize("command", [("delete", "gone"), ("delete", "--keep", "1")])
@pytest.mark.usefixtures("alone")
def test_no_byte_of_a_deleted_conversation_is_left(url, tmp_path, command):
    """X-54: grep of a marker finds nothing, at once and without another search."""
    seeded(url)
    assert len(places(tmp_path, MARKER[1:])) >= 3, "log, content and index"
    told = as_json(*command, "--yes", "--store", url)
    assert told["removed"] == ["gone"] and told["contents"] == 1 and not told["notes"]
    assert places(tmp_path, MARKER[1:]) == []
    index = Index(index_path(open_store(url)))
    assert index.mark("gone") is None and index.mark("stays") is not None
    index.close()
    with refold.open("stays", store=url) as context:
        assert all(context.unfold(one.id).content for one in context.artifacts.list())
        assert [hit.conversation for hit in context.search("pterodactyl")]
    assert run("verify", "--store", url).exit_code == 0


def test_a_content_that_another_conversation_names_stays(store):
    """T-16, X-54."""
    one, two = opened(store, "one"), opened(store, "two")
    shared, own = ran(one, long("the same")), ran(one, long("only here"))
    assert ran(two, long("the same")) == shared
    digests = {output.id: output.artifact.digest for output in outputs_in(one).list()}
    assert delete(store, ["one"]).contents == 1
    assert two.unfold(shared).content
    with pytest.raises(NotFound):
        list(store.get(digests[own]))
    assert delete(store, ["two"]).contents == 1
    with pytest.raises(NotFound):
        list(store.get(digests[shared]))


def test_a_parent_goes_with_its_forks_and_stays_for_those_that_stay(store):
    one = opened(store, "one")
    ran(one, long("of the parent"))
    for fork in ("a", "b"):
        store.fork("one", one.view.head, fork)
    done = delete(store, ["one", "a"])
    assert done.removed == ("a",) and list(done.left) == ["one"] and done.contents == 0
    done = delete(store, ["one", "b"])
    assert set(done.removed) == {"one", "b"} and done.contents == 1


@pytest.mark.usefixtures("alone")
def test_delete_says_what_has_to_stay(url):
    seeded(url)
    store = open_store(url)
    store.fork("gone", 2, "fork")
    store.close()
    told = run("delete", "gone", "--yes", "--store", url)
    assert told.exit_code == 4 and "gone stays: " in told.stdout
    assert run("delete", "gone", "fork", "--yes", "--store", url).exit_code == 0


def test_contents_stay_while_a_damaged_log_may_name_them(store, tmp_path):
    one, two = opened(store, "one"), opened(store, "two")
    id = ran(one, long("the same"))
    ran(two, long("the same"))
    two.close()
    spoil(store.url, "two", 3)
    done = delete(store, ["one"])
    assert done.removed == ("one",) and done.contents == 0
    assert "two is damaged, and may name them" in done.notes[0]
    assert id in " ".join(os.listdir(tmp_path / "s" / "artifacts"))


def test_a_damaged_conversation_can_be_deleted(store, tmp_path):
    ran(opened(store, "one"), long(f"only {MARKER}"))
    spoil(store.url, "one", 1)
    time.sleep(0.005)  # what came in the same millisecond may be in use
    assert delete(store, ["one"]).removed == ("one",)
    assert [about.id for about in conversations(store)] == []
    assert places(tmp_path / "s" / "artifacts", MARKER) == []


def test_what_was_put_and_is_not_named_yet_survives_a_delete(url, store, monkeypatch):
    """The delete comes between the put of a content and the event that names it."""
    for id in ("old", "new"):
        with refold.open(id, store=url, window=24_000, config={"offload_tokens": 50}) as context:
            context.append({"role": "user", "content": "run it"})
            if id == "old":
                ran(context, long("the same output"))
    time.sleep(0.005)
    real, other = store.append, open_store(url)

    def append(conversation, events, *, expect):
        if any(event.kind == "artifact" for event in events) and conversation == "new":
            delete(other, ["old"])
        real(conversation, events, expect=expect)

    monkeypatch.setattr(store, "append", append)
    config = refold.Config(offload_tokens=50)
    context = refold.Context(store, "new", window=24_000, config=config)
    ran(context, long("the same output"))
    [stored] = context.artifacts.list()
    assert b"the same output" in b"".join(store.get(stored.artifact.digest))
    other.close()


def test_a_delete_goes_on_while_others_delete(url, store):
    for id in ("a", "b", "c"):
        with refold.open(id, store=url, window=24_000, config={"offload_tokens": 50}) as context:
            context.append({"role": "user", "content": "run it"})
            ran(context, long(f"output of {id}"))
    real, other = store.read, open_store(url)

    def read(conversation, **bounds):
        if conversation == "b":
            with suppress(NotFound):
                other.delete("b")
        return real(conversation, **bounds)

    store.read = read
    assert delete(store, ["a"]).removed == ("a",)
    assert [about.id for about in conversations(other)] == ["c"]
    store.read = real
    other.close()
