"""The system prompt and the tools are kept once, by what they say: going back to one that the log
has said before costs a few bytes, whatever happened since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.core.bookmark import kept, read
from refold.core.codec import decode
from refold.core.fold import CONTENTS_KEPT, fold
from refold.core.model import Meta
from refold.stores import Store, open_store

SYSTEM = {letter: f"You are {letter}. " + letter * 5_000 for letter in "ABCD"}
TOOLS = {
    letter: [
        {"type": "function", "function": {"name": f"tool_{letter}", "description": letter * 5_000}}
    ]
    for letter in "ABCD"
}
REFERENCE_BYTES = 60


def say(context: refold.Context) -> None:
    context.append({"role": "user", "content": "hello"})


def metas(store: Store) -> list[bytes]:
    return [event.body for event in store.read("a") if event.kind == "meta"]


def page(context: refold.Context) -> tuple[Any, Any, int, int]:
    view = context.view
    return view.system, view.tools, view.system_tokens, view.tools_tokens


@pytest.mark.parametrize("name", ["system", "tools"])
@pytest.mark.parametrize("reopened", [False, True])
def test_going_back_and_forth_costs_references(name, reopened):
    contents: dict[str, Any] = SYSTEM if name == "system" else TOOLS
    store = open_store("memory:")
    context = refold.open("a", store=store)
    for letter in "ABABBCABCA":
        context.update(**{name: contents[letter]})
        say(context)
        assert getattr(context.view, name) == contents[letter]
        if reopened:
            context.close()
            context = refold.open("a", store=store)
            assert getattr(context.view, name) == contents[letter]
    sizes = sorted(map(len, metas(store)))
    assert len(sizes) == 9, "nothing is written for what is unchanged"
    assert [size > 5_000 for size in sizes] == [False] * 6 + [True] * 3
    assert sizes[5] < REFERENCE_BYTES


def test_what_was_never_sent_is_not_written():
    store = open_store("memory:")
    context = refold.open("a", store=store, system=SYSTEM["A"], tools=TOOLS["A"])
    say(context)
    for letter in "BCDA":
        context.update(system=SYSTEM[letter], tools=TOOLS[letter])
    say(context)
    assert len(metas(store)) == 2
    context.update(system=SYSTEM["B"])
    context.update(system=SYSTEM["C"])
    say(context)
    assert len(metas(store)) == 3
    assert context.view.system == SYSTEM["C"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([{"name": "a", "strict": 1}], [{"name": "a", "strict": True}]),
        ([{"name": "a", "type": "b"}], [{"type": "b", "name": "a"}]),
        ([{"name": "a", "n": 1}], [{"name": "a", "n": 1.0}]),
    ],
)
def test_contents_that_only_compare_equal_are_two(first, second):
    store = open_store("memory:")
    context = refold.open("a", store=store)
    for tools in (first, second, first):
        context.update(tools=tools)
        say(context)
        assert repr(context.view.tools) == repr(tools)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("system"), st.sampled_from("ABCD")),
        st.tuples(st.just("tools"), st.sampled_from("ABCD")),
        st.tuples(st.just("other writer"), st.sampled_from("ABCD")),
        st.tuples(st.just("many"), st.integers(1, 2 * CONTENTS_KEPT)),
        st.tuples(st.just("restore"), st.integers(0, 40)),
        st.tuples(st.sampled_from(["reopen", "undo", "fork"]), st.just("")),
    ),
    max_size=15,
)


@settings(max_examples=120, deadline=None)
@given(steps=STEPS)
def test_the_page_is_the_same_live_reopened_and_folded_after_any_story(steps):
    store = open_store("memory:")
    context = refold.open("a", store=store, system=SYSTEM["A"], tools=TOOLS["A"])
    say(context)
    for number, (step, value) in enumerate(steps):
        match step:
            case "system":
                context.update(system=SYSTEM[value])
            case "tools":
                context.update(tools=TOOLS[value])
            case "other writer":
                with refold.open(context.id, store=store) as other:
                    other.update(system=SYSTEM[value])
                    say(other)
            case "many":
                for one in range(value):
                    context.update(system=f"Number {one}")
                    context.flush()
            case "restore":
                context.restore(min(value, context.view.head))
            case "undo":
                context.undo()
            case "fork":
                context = context.fork(f"fork-{number}")
            case "reopen":
                context.close()
                context = refold.open(context.id, store=store)
        context.flush()
        say(context)
        live = page(context)
        events = store.read(context.id, limit=10_000)
        view = fold(events)
        assert live == (view.system, view.tools, view.system_tokens, view.tools_tokens)
        store.keep_bookmark(context.id, kept(context._open.state))
        assert page(refold.open(context.id, store=store)) == live
        if step in ("system", "other writer"):
            assert live[0] == SYSTEM[value]
        if step == "tools":
            assert live[1] == TOOLS[value]


def test_only_so_many_are_remembered_and_the_current_one_always():
    store = open_store("memory:")
    context = refold.open("a", store=store, system="the first")
    say(context)
    for number in range(3 * CONTENTS_KEPT):
        context.update(system=f"Number {number}")
        context.flush()
    context.restore(2)
    mark = read(kept(context._open.state))
    assert mark is not None
    assert len(mark.contents[0]) <= CONTENTS_KEPT + 1
    context.close()
    with refold.open("a", store=store) as again:
        assert again.view.system == "the first"


def test_a_content_that_was_erased_is_not_said_by_those_who_name_it():
    store = open_store("memory:")
    context = refold.open("a", store=store)
    for letter in "ABA":
        context.update(system=SYSTEM[letter])
        say(context)
    [first, *_] = [event for event in store.read("a") if event.kind == "meta"]
    bodies = [decode(event) for event in store.read("a")]
    assert [body.system_seq for body in bodies if isinstance(body, Meta)] == [None, None, first.seq]
    store.erase("a", first.seq)
    with refold.open("a", store=store) as again:
        assert again.view.system == SYSTEM["B"]
