"""A caller's own strategies, writers, hooks, counters, embedders and judges may raise and give back
anything: a request stays valid and fits, and a notice says what was wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import refold
from refold import dialects
from refold.core.model import Hide, Replace, Span, Summarize
from refold.core.plan import Ask
from refold.errors import Invalid, NotFound, RefoldError
from refold.strategies import registry
from refold.types import Answer, Brief

WINDOW = 4_000


class Unshowable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


RAISING = [
    raising(error)
    for error in (
        ValueError("x"),
        Unshowable(),
        RecursionError(),
        Invalid("\ud800"),
        StopIteration(),
    )
]
ANYTHING: list[Any] = [
    None,
    7,
    True,
    float("nan"),
    "",
    "\ud800",
    b"x",
    [],
    {},
    object(),
    int,
    [None],
]
ANYTHING += [10**400, [7], ["x"], {"a": 1}, (), "x" * 100_000, Answer(text=7), iter("x")]  # type: ignore[arg-type]


def talked(**given: Any) -> refold.Context:
    """A conversation whose next request has to make room."""
    context = refold.open("work", **{"store": "memory:", "window": WINDOW, **given})
    for number in range(60):
        context.append({"role": "user", "content": f"question {number}: " + "why is it so? " * 12})
        context.append({"role": "assistant", "content": f"answer {number}: " + "it is so. " * 14})
    context.append({"role": "user", "content": "go on"})
    return context


def check_request(context: refold.Context) -> None:
    """The next request is valid and fits; so is the one after it."""
    for _ in range(2):
        request = context.request("openai_chat")
        assert dialects.dialect("openai_chat").check(request) == []
        assert context.stats().current <= context.budget.input_max
        context.append({"role": "assistant", "content": "ok"})
        context.append({"role": "user", "content": "more"})


def heard(context: refold.Context) -> list[refold.Notice]:
    notices: list[refold.Notice] = []
    context.on("*", notices.append)
    return notices


@pytest.fixture(autouse=True)
def mine() -> Iterator[None]:
    yield
    registry.forget("mine")


# --- strategies ---


def wrong_edits(brief: Brief) -> list[Any]:
    """Edits of the right classes that cannot be."""
    first, batch = brief.slots[0].seq, brief.batch
    span: Any = Span(first, first + 3)
    return [
        Hide(batch=batch, span=(1, 2)),  # type: ignore[arg-type]
        Hide(batch=batch, span=Span("a", None)),  # type: ignore[arg-type]
        Hide(batch="another", span=span),
        Hide(batch=batch, span=span, reason=5),  # type: ignore[arg-type]
        Hide(batch=batch, span=span, notice="\ud800"),
        Hide(batch=batch, span=Span(9, 2)),
        Hide(batch=batch, span=Span(-(10**30), 10**30)),
        Hide(batch=batch, span=Span(1, brief.view.head)),
        Hide(batch=batch, span=Span(1, brief.view.head + 1)),
        Summarize(batch=batch, span=span, text="\udfff"),
        Summarize(batch=batch, span=span, text="x", notes={"a": object()}),
        Summarize(batch=batch, span=span, text=None),  # type: ignore[arg-type]
        Replace(batch=batch, seq=first, block=-7, text=""),
        Replace(batch=batch, seq=first, block="0", text=""),  # type: ignore[arg-type]
        Replace(batch=batch, seq=10**9, block=0, text=""),
        Ask(span=span, draft="x"),  # type: ignore[arg-type]
        Ask(span=span, draft=Summarize(batch=batch, span=span, text="x"), instructions=5),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("given", [*ANYTHING, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_a_strategy_that_gives_anything_leaves_the_next_rung_to_work(given):
    function = given if given in RAISING else lambda brief: given
    refold.register.strategy("mine", function)
    context = talked(config={"ladder": ["mine", "gist", "hide"]})
    notices = heard(context)
    check_request(context)
    failed = [one.strategy for one in notices if one.name == "compaction-failed"]
    assert failed == ([] if given in ([], ()) else ["mine"])


@pytest.mark.parametrize("number", range(17))
def test_an_edit_that_cannot_be_leaves_the_next_rung_to_work(number):
    refold.register.strategy("mine", lambda brief: [wrong_edits(brief)[number]])
    store = refold.open_store("memory:")
    check_request(talked(store=store, config={"ladder": ["mine", "gist", "hide"]}))
    assert not refold.conversations.verify(store).problems


def test_a_strategy_by_hand_says_which_one_failed_and_why():
    refold.register.strategy("mine", lambda brief: None)
    [step, *_] = talked().compact("mine").steps
    assert step.strategy == "mine" and "it returned NoneType, not a list of edits" in step.note


def test_a_wrong_setting_of_a_call_is_still_the_callers_mistake():
    def choosy(brief: Brief) -> list[Any]:
        brief.setting("size", 7)
        return []

    refold.register.strategy("mine", choosy)
    with pytest.raises(Invalid):
        talked().compact("mine", size="x")


@pytest.mark.parametrize("name", ["", " ", "a b", "a+b", "\ud800", "a\n", "x" * 200])
def test_a_name_that_no_strategy_can_have_is_refused(name):
    with pytest.raises(Invalid):
        refold.register.strategy(name, lambda brief: [])


def test_a_table_for_a_strategy_that_nobody_registered_is_told():
    context = refold.open("work", store="memory:", config={"strategy": {"zebra-9": {"a": 1}}})
    notices = heard(context)
    context.append({"role": "user", "content": "go"})
    assert any("strategy.zebra-9" in one.reason for one in notices)


# --- writers, hooks ---

WINDOWS: list[Any] = ["x", None, -5, 0, 10**400, float("nan"), True]
ANSWERS: list[Any] = [
    *ANYTHING,
    Answer(text="Goal: x\ud800"),
    Answer(text="Goal: x", finished=None),  # type: ignore[arg-type]
    Answer(text="Goal: x", usage=None),  # type: ignore[arg-type]
    Answer(text="Goal: x", reasoning=7),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("given", [*ANSWERS, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_a_writer_that_gives_anything_leaves_what_code_made(given):
    context = talked(writer=given if given in RAISING else lambda request: given)
    notices = heard(context)
    check_request(context)
    failed = [one for one in notices if one.name == "compaction-failed"]
    assert failed and all(one.reason for one in failed)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda one: f"{one!r:.20}")
def test_a_writer_may_say_anything_of_its_window(window):
    writer = refold.testing.ScriptedWriter("Goal: to go on.", window=window)
    check_request(talked(writer=writer))
    assert writer.requests


@pytest.mark.parametrize("given", [*ANYTHING, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_a_hook_that_gives_anything_blocks_nothing(given):
    context = talked(writer=refold.testing.ScriptedWriter("Goal: to go on."))
    context.on("before-compaction", given if given in RAISING else lambda plan: given)
    notices = heard(context)
    check_request(context)
    told = [one for one in notices if one.name == "hook-failed"]
    assert bool(told) == (given is not None and not isinstance(given, str))


def test_a_veto_with_anything_for_a_reason_is_a_veto():
    context = talked(config={"auto": False})
    context.on("before-compaction", lambda plan: refold.types.Veto(reason=object()))  # type: ignore[arg-type]
    assert context.compact().reason == "hook"


# --- embedders, judges ---

VECTORS: list[Any] = [*ANYTHING, [[]], [[float("nan")]], [[float("inf")]], [["x"]], [[1e400]]]


@pytest.mark.parametrize("given", [*VECTORS, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_an_embedder_that_gives_anything_leaves_the_words_to_find(given):
    embedder = given if given in RAISING else lambda texts: given
    context = talked(embedder=embedder)
    assert context.search("question 7")
    context.artifacts.put("the report of the day", name="report.txt")
    assert context.artifacts.select("report", embedder=embedder)
    context.close()


@pytest.mark.parametrize("wrong", [5, "x", [], b"x", object()])
def test_what_is_no_embedder_writer_or_counter_is_refused_when_it_is_given(wrong):
    for name in ("embedder", "writer", "counter"):
        if (name, wrong) != ("counter", "x"):
            with pytest.raises(Invalid, match=f"^{name} is "):
                refold.open("work", store="memory:", **{name: wrong})


@pytest.mark.parametrize("given", [*ANYTHING, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_a_judge_that_gives_anything_leaves_the_ranking(given):
    context = talked()
    context.artifacts.put("the report of the day", name="report.txt")
    judge = given if given in RAISING else lambda query, candidates: given
    context.artifacts.select("report", judge=judge)


@pytest.mark.parametrize("given", [*ANYTHING, *RAISING], ids=lambda one: f"{one!r:.20}")
def test_a_counter_that_gives_anything_is_said_and_breaks_nothing(given):
    counter = given if given in RAISING else lambda text: given
    context = refold.open("work", store="memory:", window=WINDOW, counter=counter)
    try:
        context.append({"role": "user", "content": "go"})
    except RefoldError as error:
        assert "counter" in str(error) and context.view.head == 0
    else:
        with contextlib.suppress(RefoldError):
            context.request()


def test_an_error_of_the_store_is_not_taken_for_a_fault_of_the_strategy():
    refold.register.strategy("mine", raising(NotFound("gone")))
    with pytest.raises(NotFound):
        talked(config={"ladder": ["mine"]}).request()
