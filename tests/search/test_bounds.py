"""A search never hangs, never raises what is not ours, and never answers with its own answers."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Invalid, Unavailable
from refold.search import searcher as searcher_room
from refold.search import upkeep
from refold.search.searcher import Searcher
from refold.stores import open_store
from tests.waiting import LONG_S


def talking(*texts: str, store="memory:") -> refold.Context:
    context = refold.open("talk", store=store, embedder=False)
    for text in texts:
        context.append({"role": "user", "content": text})
    return context


# --- time ---


@pytest.mark.parametrize(
    "query",
    ["1;" * 10_000, '"' + "1 " * 9_000 + '"', "a-" * 10_000, "x1" * 10_000, "漢" * 20_000, '"漢" ' * 900,
     '"1 1 1" ' * 2_000, "_".join(["one"] * 4_000)],
)  # fmt: skip
@pytest.mark.parametrize("newest", [False, True])
def test_no_phrase_makes_a_search_slow(query, newest, monkeypatch):
    # It is the work that is bounded here: others may have the processor meanwhile.
    monkeypatch.setattr(searcher_room, "SEARCH_WAIT_S", LONG_S)
    said = ["1;" * 50_000, "a-" * 50_000, "x1" * 50_000, "漢" * 100_000, "one_" * 25_000]
    with talking(*said) as context:
        context.search("warm")
        start = time.process_time()
        context.search(query, newest=newest)
        answer = context.toolbox.call("refold_search", {"query": query})
        assert time.process_time() - start < 8.0
        assert isinstance(answer, str)


def test_a_long_name_and_a_long_phrase_are_still_found():
    name = "/".join(f"part{n}" for n in range(30))
    said = " ".join(f"word{n}" for n in range(200))
    with talking(f"see {name} here", said, "something else") as context:
        assert [hit.seq for hit in context.search(name)][:1] == [1]
        assert [hit.seq for hit in context.search(f'"{said}"')] == [2]


def test_a_search_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(searcher_room, "SEARCH_WAIT_S", -1.0)
    monkeypatch.setattr("refold.search.database.STEPS_BETWEEN_LOOKS", 1)
    with talking(*(f"the walrus number {n}" for n in range(200))) as context:
        with pytest.raises(Unavailable, match="took more than"):
            context.search("walrus number")
        with pytest.raises(Unavailable, match="took more than"):
            context.search("walrus number", newest=True)
        assert context.toolbox.call("refold_search", {"query": "walrus"}).startswith("Error: ")
        monkeypatch.setattr(searcher_room, "SEARCH_WAIT_S", 5.0)
        assert len(context.search("walrus")) == 10


# --- filters ---

WRONG = {
    "role": ["usr", 7, ["user"], "\ud800", b"user"],
    "tool": [7, "\ud800", b"bash", ["bash"]],
    "kind": ["massage", 7, {}],
    "since": [2**64, -(2**64), "yesterday", 1.5, float("nan"), True],
    "until": [2**63, "now"],
    "newest": [1, "yes", None],
    "limit": [-1, 2**64, "ten", 1.5, True, None],
    "everywhere": [1, "yes"],
}


@pytest.mark.parametrize(("name", "value"), [(name, one) for name in WRONG for one in WRONG[name]])
def test_a_wrong_filter_is_refused_by_its_name(name, value):
    with talking("the fox") as context:
        with pytest.raises(Invalid) as error:
            context.search("fox", **{name: value})
        assert name in str(error.value)


@pytest.mark.parametrize("value", [datetime.min, datetime.max])
def test_the_ends_of_the_calendar_are_times_or_refused(value):
    """What they are in milliseconds depends on the place."""
    with talking("the fox") as context:
        try:
            context.search("fox", since=value, until=value)
        except Invalid as error:
            assert "since" in str(error)


def test_a_filter_that_there_is_not_is_refused_with_the_nearest():
    with talking("the fox") as context:
        with pytest.raises(Invalid, match="rol") as error:
            context.search("fox", rol="user")
        assert "did you mean role?" in error.value.hint
    empty = refold.open("empty", store="memory:", embedder=False)
    with pytest.raises(Invalid, match="tols"):
        empty.search("fox", tols="bash")


@pytest.mark.parametrize("value", ["a", 7, [7], ["\ud800"]])
def test_conversations_are_a_list_of_ids(value):
    store = open_store("memory:")
    with talking("the fox", store=store), pytest.raises(Invalid, match="conversation"):
        Searcher(store, embedder=False).search("fox", conversations=value)


@pytest.mark.parametrize("query", [7, None, b"fox", "", "  ", ["fox"]])
def test_a_query_that_is_none_is_refused(query):
    with talking("the fox") as context, pytest.raises(Invalid):
        context.search(query)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)  # fmt: skip
NAMES = ["refold_search", "refold_unfold", "refold_grep", "refold_artifacts"]


class Odd:
    def __bool__(self) -> bool:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES) | ANYTHING, ANYTHING, st.text())
def test_a_tool_answers_in_text_whatever_it_is_given(name, arguments, query):
    with talking("the fox", "a second") as context:
        for given_arguments in (
            arguments,
            {"query": query},
            {"query": arguments, "limit": arguments},
        ):
            answer = context.toolbox.call(name, given_arguments)
            assert isinstance(answer, str) and answer.encode()


def test_a_tool_answers_in_text_also_to_odd_objects():
    with talking("the fox") as context:
        for name in ("refold_search", Odd(), None, ["x"]):
            assert context.toolbox.call(name, Odd()).startswith("Error: ")


# --- our own answers ---


def with_echoes(store) -> refold.Context:
    """A model that asked for the same thing with our tools again and again."""
    context = talking("the port is 8443", store=store)
    for n in range(40):
        call = {"id": f"s{n}", "type": "function",
                "function": {"name": "refold_search", "arguments": '{"query": "port is 8443"}'}}  # fmt: skip
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        answer = context.toolbox.call("refold_search", {"query": "port is 8443"})
        context.append_result(f"s{n}", answer, name="refold_search")
    context.append({"role": "user", "content": "go on"})
    return context


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("query", ["port 8443", '"port is 8443"', "8443"])
def test_answers_of_our_own_tools_are_not_found(query, newest):
    store = open_store("memory:")
    with with_echoes(store) as context:
        assert [hit.seq for hit in context.search(query, limit=3, newest=newest)] == [1]
        hits = Searcher(store, embedder=False).search(query, newest=newest)
        assert [hit.seq for hit in hits] == [1]


def test_answers_of_our_own_tools_are_found_when_they_are_asked_for():
    with with_echoes("memory:") as context:
        hits = context.search("port 8443", tool="refold_search", limit=5)
        assert len(hits) == 5 and {hit.tool for hit in hits} == {"refold_search"}


def test_what_an_agent_says_beside_a_call_of_ours_is_found():
    with talking("hello") as context:
        function = {"name": "refold_search", "arguments": '{"query": "walrus"}'}
        call = {"id": "s", "type": "function", "function": function}
        said = {"role": "assistant", "content": "I look for zebras", "tool_calls": [call]}
        context.append(said)
        assert [hit.seq for hit in context.search("zebras")] == [2]
        assert context.search("walrus") == []


# --- an index that is behind, or damaged ---


def test_a_search_that_has_not_read_all_says_so(monkeypatch):
    monkeypatch.setattr(upkeep, "SEARCH_EVENTS", 50)
    heard: list[str] = []
    with talking("first walrus", *(f"words {n}" for n in range(100)), "last walrus") as context:
        context.on("index-behind", lambda notice: heard.append(notice.name))
        first = context.search("walrus")
        assert len(first) == 2 or heard
        while heard:
            heard.clear()
            last = context.search("walrus")
        assert {hit.seq for hit in last} == {1, 102}


def test_everything_of_a_bulk_append_is_found_at_once():
    texts = [f"line {n} of the bulk" for n in range(2_000)]
    texts[7] = texts[1_990] = "the walrus"
    with talking(*texts) as context:
        assert {hit.seq for hit in context.search("walrus")} == {8, 1_991}


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe" * 2_000, b"", b"SQLite format 3\0" + b"\x83" * 5_000]
)
def test_garbage_in_the_place_of_an_index_costs_a_new_one(tmp_path, garbage):
    place = f"sqlite:{tmp_path / 'refold.db'}"
    with talking("the fox", store=place) as context:
        assert context.search("fox")
        path = str(tmp_path / "index.db")
    for damaged in range(0, 60_000, 3_001):
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(min(damaged, len(content)))
            file.write(b"\x83\xff" * 40)
        with refold.open("talk", store=place, embedder=False) as context:
            context.search("fox", since=datetime(2020, 1, 1, tzinfo=UTC))
    with open(path, "wb") as file:
        file.write(garbage)
    with refold.open("talk", store=place, embedder=False) as context:
        assert [hit.seq for hit in context.search("fox")] == [1]
