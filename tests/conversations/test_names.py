"""Free names beside ids, and what a list says of a conversation: any text finds its conversation
again, and a list agrees with the page without folding logs."""

from __future__ import annotations

import json
import multiprocessing
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.conversations import listing
from refold.conversations import listing as names
from refold.core.ids import conversation_checked
from refold.edges.cli.app import Commands
from refold.errors import Denied, Invalid, NotFound
from refold.log.log import Log
from refold.stores import Store, open_store

STRANGE = "2026-05-01T10:11:12.123Z/abc:def é"
NAMES = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=names.CHARS_MAX
).filter(str.strip)
VALUES = st.dictionaries(st.text("abc", max_size=3), st.integers() | st.text("é/ "), max_size=3)


def say(context: refold.Context, words: str = "hello") -> None:
    context.append({"role": "user", "content": words})


def made(store: Store, id: str, *called: str) -> None:
    with refold.open(id, store=store) as context:
        context.update(names=called)
        say(context)


@settings(max_examples=200)
@given(name=NAMES)
def test_any_text_names_a_conversation_and_finds_it_again(name: str) -> None:
    store = open_store("memory:")
    with refold.open(name=name, store=store) as context:
        say(context)
        id = conversation_checked(context.id)
    with refold.open(name=name, store=store) as context:
        assert (context.id, len(context.view.slots)) == (id, 1)
    assert refold.conversations.find(store, id).names == (name,)
    if not name.startswith("@"):
        assert refold.conversations.find(store, name).id == id


@pytest.mark.parametrize("url", ["sqlite:{}/x.db", "files:{}/tree"])
@pytest.mark.parametrize(
    "name", [STRANGE, "x" * names.CHARS_MAX, "日本語", "a/../../b", "CON", "-"]
)
def test_the_reported_names_in_every_store(tmp_path, url, name):
    place = url.format(tmp_path)
    for number in (1, 2):
        with refold.open(name=name, store=place) as context:
            say(context)
            assert len(context.view.slots) == number
    with refold.open(name=name, store=place, read_only=True) as context:
        assert context.view.names == (name,)
    assert [about.names for about in refold.conversations.list(place)] == [(name,)]


@pytest.mark.parametrize("name", ["", " ", "x" * (names.CHARS_MAX + 1), "\ud800", 5, b"x", [["x"]]])
def test_what_is_no_name_is_refused_and_nothing_is_written(name: Any) -> None:
    store = open_store("memory:")
    with pytest.raises(Invalid):
        refold.open(name=name, store=store)
    with refold.open("a", store=store) as context:
        say(context)
        for wrong in ([name], name):
            with pytest.raises(Invalid):
                context.update(names=wrong)
        with pytest.raises(Invalid):
            context.update(names=[f"{number}" for number in range(names.NAMES_MAX + 1)])
    assert refold.conversations.find(store, "a").names == ()


def test_an_id_comes_before_a_name_and_a_name_of_two_is_refused_with_their_ids() -> None:
    store = open_store("memory:")
    made(store, "a", "b", "both", "mine")
    made(store, "b", "both")
    assert listing.id_of(store, "b") == "b"
    assert listing.id_of(store, "mine") == "a"
    for look in (listing.id_of, names.id_by_name, refold.conversations.find):
        with pytest.raises(Invalid, match=r"2 conversations .*both.*: a, b"):
            look(store, "both")
    with pytest.raises(Invalid, match="a, b"):
        refold.open(name="both", store=store)


def test_a_name_that_nobody_has() -> None:
    store = open_store("memory:")
    made(store, "a", "mine")
    with pytest.raises(NotFound, match="no conversation is called"):
        refold.conversations.find(store, STRANGE)
    with pytest.raises(NotFound):
        refold.conversations.find(store, "plain")
    with pytest.raises(NotFound):
        refold.open(name=STRANGE, store=store, read_only=True)
    with pytest.raises(Invalid):
        refold.open(store=store)
    assert [about.id for about in store.conversations()] == ["a"]


def test_an_id_and_a_name_give_the_conversation_that_name() -> None:
    store = open_store("memory:")
    for name in ("first", "second", "first"):
        with refold.open("a", name=name, store=store) as context:
            say(context)
    assert refold.conversations.find(store, "second").names == ("first", "second")
    with pytest.raises(Denied):
        refold.open("a", name="third", store=store, read_only=True)


def test_a_name_that_was_given_away_begins_another_conversation() -> None:
    store = open_store("memory:")
    with refold.open(name=STRANGE, store=store) as first:
        say(first)
        first.update(names=["another"])
    with refold.open(name=STRANGE, store=store) as second:
        say(second)
    assert second.id != first.id
    assert listing.id_of(store, STRANGE) == second.id
    assert listing.id_of(store, "another") == first.id


def test_a_fork_leaves_the_names_to_its_parent() -> None:
    store = open_store("memory:")
    with refold.open(name=STRANGE, store=store) as context:
        say(context)
        context.update(names=["mine"])
        context.flush()
        with context.fork("fork") as fork:
            assert listing.id_of(store, "mine") == context.id
            say(fork)
        assert listing.id_of(store, "mine") == context.id
    assert refold.conversations.find(store, "fork").names == ()


def test_two_processes_that_begin_a_name_at_once_write_one_log(tmp_path) -> None:
    url = f"sqlite:{tmp_path}/x.db"
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_begin, args=(url,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    with refold.open(name=STRANGE, store=url, read_only=True) as context:
        assert len(context.view.slots) == 4
    assert len(refold.conversations.list(url)) == 1


def _begin(url: str) -> None:
    with refold.open(name=STRANGE, store=url) as context:
        say(context)


# --- commands ---


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(Commands(), args)
    return done.exit_code, done.output


def test_commands_take_a_name_wherever_they_take_an_id(tmp_path) -> None:
    url = f"sqlite:{tmp_path}/refold.db"
    with refold.open("a", name=STRANGE, store=url) as context:
        context.update(metadata={"case": 7}, tags=["sea"], title="The lighthouse")
        say(context)
    where = ("--store", url)
    for words in (
        ("show", STRANGE),
        ("stats", STRANGE),
        ("history", STRANGE, "--points"),
        ("edit", STRANGE, "--name", STRANGE, "--name", "sea"),
        ("export", "sea", str(tmp_path / "out.json")),
        ("checkpoint", "sea", "here"),
    ):
        status, said = run(*words, *where)
        assert status == 0, (words, said)
    [row] = json.loads(run("list", "--json", *where)[1])["conversations"]
    given = {name: row[name] for name in ("names", "metadata", "tags", "title")}
    assert given == {
        "names": [STRANGE, "sea"],
        "metadata": {"case": 7},
        "tags": ["sea"],
        "title": "The lighthouse",
    }
    assert STRANGE in run("list", *where)[1]
    assert run("show", "of nobody", *where)[0] == 3
    assert run("delete", "sea", "--yes", *where)[0] == 0


# --- what a list says ---


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("metadata"), VALUES),
        st.tuples(st.just("names"), st.lists(NAMES, max_size=3)),
        st.tuples(st.just("tags"), st.lists(st.text("ab", min_size=1), max_size=3)),
        st.tuples(st.just("say"), st.just(None)),
        st.tuples(st.just("close"), st.just(None)),
        st.tuples(st.just("restore"), st.integers(0, 5)),
        st.tuples(st.just("undo"), st.just(None)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_a_list_says_what_the_page_says_after_any_story(steps) -> None:
    store = open_store("memory:")
    context = refold.open("a", store=store)
    say(context)
    for step, value in steps:
        match step:
            case "say":
                say(context)
            case "close":
                context.close()
                context = refold.open("a", store=store)
            case "restore":
                context.restore(min(value, context.view.head))
            case "undo":
                context.undo()
            case _:
                context.update(**{step: value})
        context.flush()
        [about] = refold.conversations.list(store)
        view = context.view
        shown = about.tags, about.metadata, about.names
        assert shown == (view.tags, view.metadata, view.names)


def test_a_list_of_many_folds_none(monkeypatch, tmp_path) -> None:
    store = open_store(f"sqlite:{tmp_path}/x.db")
    for number in range(30):
        context = refold.open(f"c{number}", store=store)
        context.update(metadata={"number": number}, names=[f"name {number}"])
        say(context)
        if number % 2:
            context.close()
            context = refold.open(f"c{number}", store=store)
        say(context)  # behind the bookmark, or without one
    monkeypatch.setattr(Log, "__init__", None)
    listed = refold.conversations.list(store)
    assert {about.id: about.metadata["number"] for about in listed} == {
        f"c{number}": number for number in range(30)
    }
    assert listing.id_of(store, "name 7") == "c7"
