"""A wrong value at any argument of a public function is refused by name, and does no harm. The
functions are read from the public lists of names: a new one without the check fails here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold import aio, conversations, register
from refold.artifacts import stub
from refold.checked import NUMBER_MAX, _hint, checked, is_of
from refold.errors import Invalid, RefoldError
from refold.stores.in_memory import MemoryStore
from refold.strategies import registry
from refold.tokens import counter, models

WRONG = [None, True, 7, -1, 2**64, 10**400, 1.5, float("nan"), float("inf"), b"bytes", "", "\ud800"]
WRONG += ["a\0b", [], [7], {}, {"a": 1}, {7: 7}, (1,), ("a", "b"), object(), lambda: None, int, ...]
WRONG += ["x" * 70_000, ["x"], [None], {"x": None}, "\udcff", iter(()), MemoryStore]


def worked() -> refold.Context:
    context = refold.open("work", store="memory:", window=24_000)
    context.append({"role": "user", "content": "go"})
    function = {"name": "bash", "arguments": "{}"}
    calls = [{"id": "t1", "type": "function", "function": function}]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    return context


# --- the public surface ---

ROOMS = {
    "": refold.Context,
    "log.": refold.LogReader,
    "artifacts.": refold.Artifacts,
    "files.": refold.FileVersions,
    "memory.": refold.SemanticMemory,
    "toolbox.": refold.Toolbox,
}
# Answers a model, which can do nothing with an exception: tests/engine/test_toolbox.py.
NEVER_RAISES = {"toolbox.call"}


def surface() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and method that takes an argument, by the name of its place."""
    for prefix, room in ROOMS.items():
        for name, value in vars(room).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                yield prefix + name, value
    yield "Context", refold.Context.__init__
    for place in (refold, conversations, register):
        for name in place.__all__:
            value = getattr(place, name)
            if inspect.isfunction(value):
                yield f"{place.__name__}.{name}", value


def typed_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that are more than "anything"."""
    found = inspect.signature(function).parameters.values()
    return [one for one in found if one.annotation not in (inspect.Parameter.empty, "Any", Any)]


SURFACE = dict(surface())
TYPED = [name for name, value in SURFACE.items() if typed_parameters(value)]


@pytest.mark.parametrize("name", sorted({*TYPED} - NEVER_RAISES))
def test_every_public_function_checks_its_arguments(name):
    function = SURFACE[name]
    assert function.__code__ is checked(lambda: None).__code__, f"{name} is not @checked"
    for one in typed_parameters(function):
        if one.kind is not inspect.Parameter.VAR_KEYWORD:
            hint = _hint(one.annotation, inspect.unwrap(function))
            assert hint is not Any, f"{name}: the type of {one.name} is not known when it is called"


def test_async_callers_have_the_same_checks():
    wrapped = {
        aio.AsyncContext: refold.Context,
        aio.AsyncLogReader: refold.LogReader,
        aio.AsyncArtifacts: refold.Artifacts,
        aio.AsyncMemory: refold.SemanticMemory,
        aio.AsyncToolbox: refold.Toolbox,
    }
    for wrapper, room in wrapped.items():
        for name, value in vars(wrapper).items():
            if inspect.iscoroutinefunction(value) and not name.startswith("_"):
                assert inspect.unwrap(value) is inspect.unwrap(vars(room)[name]), name
                assert value.__wrapped__ is vars(room)[name], name


# --- wrong values ---

# What a right call of each function looks like.
CALLS: dict[str, dict[str, Any]] = {
    "update": {"title": "t"},
    "append": {"message": {"role": "user", "content": "x"}},
    "append_result": {"call": "t1", "output": "x"},
    "record": {"response": {"role": "assistant", "content": "x"}},
    "stream": {"response": []},
    "mirror": {"messages": [{"role": "user", "content": "x"}]},
    "note": {"kind": "state"},
    "page": {},
    "hide": {"first": 1},
    "request": {},
    "count": {"message": {"role": "user", "content": "x"}},
    "plan": {},
    "compact": {},
    "recover": {"error": ValueError("no")},
    "checkpoint": {},
    "undo": {},
    "redo": {},
    "restore": {"to": 1},
    "clear": {},
    "pin": {"seq": 1},
    "unfold": {"handle": "#1"},
    "search": {"query": "go"},
    "on": {"name": "*", "listener": lambda notice: None},
    "fork": {"id": "twin"},
    "handover": {"tokens": 900, "show": False},
    "spawn": {"id": "child", "task": "t"},
    "log.events": {},
    "log.scores": {"task": "x"},
    "files.refresh": {"root": "."},
    "log.points": {},
    "log.diff": {"first": 1},
    "log.notes": {},
    "log.states": {},
    "log.why": {"seq": 1},
    "log.export": {"path": "x.json"},
    "log.exported": {},
    "artifacts.put": {"content": "x", "name": "x.txt"},
    "artifacts.list": {},
    "artifacts.select": {"query": "x"},
    "artifacts.value": {"handle": "#1"},
    "artifacts.lines": {"handle": "#1", "first": 1},
    "artifacts.grep": {"pattern": "x"},
    "files.keep": {"path": "x"},
    "files.diff": {"first": 1},
    "files.changes": {"seq": 1},
    "files.put_back": {"seq": 1},
    "artifacts.clean": {},
    "artifacts.remove": {"handle": "art-aaaaaaaaaaaa"},
    "memory.store": {"content": "x"},
    "memory.retrieve": {"query": "x"},
    "memory.update": {"id": "mem-0"},
    "memory.forget": {"id": "mem-0"},
    "memory.take": {"taken": [], "waits": True},
    "memory.accept": {"id": "mem-0"},
    "memory.reject": {"id": "mem-0"},
    "memory.ids": {"beginning": "mem-"},
    "memory.near": {"id": "mem-0"},
    "memory.known_of": {"sentences": ["x"]},
    "memory.list": {},
    "memory.history": {"id": "mem-0"},
    "memory.reindex": {},
    "memory.log": {},
    "memory.revert": {"seq": 1},
    "memory.export": {},
    "memory.import_lines": {"lines": [b""]},
    "toolbox.tools": {},
    "toolbox.add_memory": {"files": refold.memory.MemoryFiles(folder="x")},
    "toolbox.call": {"name": "refold_search", "arguments": {"query": "go"}},
    "Context": {"conversation": "other"},
    "refold.open": {"conversation": "other", "store": "memory:"},
    "refold.open_memory": {"store": "memory:"},
    "refold.open_store": {"url": "memory:"},
    "refold.model_info": {"name": "gpt-4o"},
    "refold.tool_calls": {"response": {"role": "assistant", "content": "x"}},
    "refold.endpoint": {"url": "http://127.0.0.1:9", "model": "m"},
    "refold.conversations.list": {},
    "refold.conversations.find": {"name": "work"},
    "refold.conversations.recognise": {"messages": []},
    "refold.conversations.copy": {"source": "memory:", "target": "memory:"},
    "refold.conversations.export": {"name": "work", "path": "y.json"},
    "refold.conversations.import_": {"source": b"{}"},
    "refold.conversations.verify": {},
    "refold.conversations.repair": {"name": "work"},
    "refold.conversations.scan": {},
    "refold.conversations.erase": {"name": "work", "seqs": [1]},
    "refold.conversations.delete": {"names": ["nobody"]},
    "refold.register.strategy": {"name": "mine", "function": lambda brief: []},
    "refold.count_messages": {"messages": []},
    "refold.register.kind": {"name": "mine", "fits": lambda lines: False, "telling": list},
    "refold.register.tool": {"name": "mine"},
    "refold.register.vector_store": {"name": "mine", "opener": list},
    "refold.register.counter": {"model": "mine-1", "function": len},
    "refold.register.models": {"rows": {"mine-1": {"window": 9_000}}},
}
WITH_STORE = {"Context", *(name for name in SURFACE if name.startswith("refold.conversations."))}


@pytest.fixture(autouse=True)
def registers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    for place in (registry, stub, counter, models):
        monkeypatch.setattr(place, "_registered", dict(place._registered))
    yield
    models.register_models({})  # forgets looked-up names


def called(context: refold.Context, name: str, given: dict[str, Any]) -> Any:
    """The function of that name, called with this."""
    if name in WITH_STORE and "source" not in CALLS[name]:
        given = {"store": context._open.store, **given}
    if name == "refold.conversations.import_":
        given = {"store": "memory:", **given}
    if name == "Context" or name.startswith("refold."):
        found: Any = refold.Context if name == "Context" else SURFACE[name]
        return found(**given)
    found = context
    for part in name.split("."):
        found = getattr(found, part)
    result = found(**given)
    return list(result) if name == "stream" else result


def arguments_of(name: str) -> list[str]:
    parameters = inspect.signature(SURFACE[name]).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.kind in kinds and one.name != "self"]


def test_a_right_call_is_known_of_every_public_function():
    assert {*CALLS} == {name for name in SURFACE if arguments_of(name)} | {"request"}


CASES = [(name, argument) for name in CALLS for argument in arguments_of(name)]


@pytest.mark.parametrize("name, argument", CASES, ids=[f"{n}-{a}" for n, a in CASES])
def test_a_wrong_argument_does_no_harm(name, argument, tmp_path, monkeypatch):
    """Whatever is given: the call works or says why not, and the log can be read and goes on."""
    monkeypatch.chdir(tmp_path)
    context = worked()
    # What a listener raises is for the caller: that is how it ends a long walk.
    wrongs = [one for one in WRONG if argument != "progress" or not callable(one)]
    for wrong in wrongs:
        head = context.view.head
        try:
            called(context, name, {**CALLS[name], argument: wrong})
        except Invalid:
            assert context.view.head == head, f"{argument}={wrong!r:.40} was refused and written"
        except RefoldError:
            pass
    context.append({"role": "user", "content": "more"})
    again = refold.Context(context._open.store, "work", window=24_000)
    assert again.view.slots[-1].message.blocks[0].text == "more"


def test_the_error_names_the_argument():
    context = worked()
    for call, name in (
        (lambda: context.append_result(None, "x"), "call"),
        (lambda: context.append_result("t1", "x", is_error=2), "is_error"),
        (lambda: context.checkpoint(7), "name"),
        (lambda: context.update(title=7), "title"),
        (lambda: context.update(tags=[7]), "tags"),
        (lambda: context.update(metadata="x"), "metadata"),
        (lambda: context.update(tools={"bash": {}}), "tools"),
        (lambda: context.restore(True), "to"),
    ):
        with pytest.raises(Invalid, match=f"^{name} is "):
            call()


def test_a_filter_that_does_not_exist_is_named_with_its_nearest():
    with pytest.raises(Invalid, match="rle") as caught:
        worked().search("go", rle="user")
    assert "role" in str(caught.value.hint)


TYPES = [int, str, bool, float, list[int], dict[str, int], tuple[int, int], int | None]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
)


@given(value=VALUES, hint=st.sampled_from(TYPES))
def test_a_value_is_of_its_own_type_and_a_truth_value_is_not_a_number(value, hint):
    if isinstance(hint, type) and hint is not float and is_of(value, hint):
        assert type(value) is hint
    is_number = type(value) in (int, float)
    assert is_of(value, type(value)) == (not is_number or abs(value) <= NUMBER_MAX)
    assert not is_of(True, int) and not is_of(True, float) and is_of(1, float)


def test_a_decorated_method_keeps_its_signature_and_its_docstring():
    def method(self: object, at: int, *, name: str = "") -> str:
        """Says where."""
        return f"{name}{at}"

    wrapped = checked(method)
    assert inspect.signature(wrapped) == inspect.signature(method)
    assert wrapped.__doc__ == "Says where." and wrapped(object(), 1, name="n") == "n1"


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_value_that_cannot_be_shown_is_refused_like_any_other():
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    for wrong in (Unshowable(), deep, 10**5_000):
        with pytest.raises(Invalid, match=r"^title is "):
            worked().update(title=wrong)


@pytest.mark.parametrize("given", [{"model": 7}, {"window": "x"}, {"store": 5}, {"store": ...}])
def test_opening_with_a_wrong_value_is_refused_by_name(given):
    [name] = given
    with pytest.raises(Invalid, match=f"^{name} is "):
        refold.open("work", **{"store": "memory:", **given})


def test_an_author_that_is_not_a_text_is_refused():
    with pytest.raises(Invalid):
        worked().append({"role": "user", "content": "hi"}, by=7)


@pytest.mark.parametrize("output, reasoning", [(24_000, 0), (18_000, 17_990), (10**9, 5)])
def test_reasoning_and_absurd_output_do_not_fill_the_page(output, reasoning):
    context = refold.open("work", store="memory:", model="gpt-4o", window=24_000)
    context.append({"role": "user", "content": "hello"})
    context.request()
    usage = {"prompt_tokens": 30, "completion_tokens": output, "total_tokens": output + 30}
    usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    reply = {"role": "assistant", "content": "hi"}
    choices = [{"index": 0, "finish_reason": "stop", "message": reply}]
    response = {"id": "r", "object": "chat.completion", "model": "gpt-4o", "choices": choices}
    context.record({**response, "usage": usage})
    context.append({"role": "user", "content": "more"})
    assert context.stats().current < 300 and context.request()


class Word(str):
    """A text of a class of the caller's."""


@pytest.mark.parametrize("kind", ["memory:", "sqlite:{}/x.db", "files:{}/x"])
def test_a_text_of_a_class_of_its_own_is_a_text(kind, tmp_path):
    store = refold.open_store(Word(kind.format(tmp_path)))
    context = refold.open(Word("work"), store=store, model=Word("gpt-4o"), system=Word("s"))
    context.update(title=Word("t"), tags=[Word("a")], metadata={Word("k"): Word("v")})
    context.append({"role": Word("user"), "content": Word("go")}, by=Word("me"))
    context.checkpoint(Word("here"))
    context.fork(Word("twin")).close()
    context.close()
    again = refold.open("work", store=store)
    assert again.view.title == "t"
    assert refold.conversations.find(store, Word("twin")).id == "twin"
    assert again.request()["messages"][-1]["content"] == "go"


@pytest.mark.parametrize("path", ["\ud800.json", "a\0.json"])
def test_a_path_that_no_file_can_have_is_refused(path, tmp_path):
    context = worked()
    with pytest.raises(Invalid):
        context.log.export(f"{tmp_path}/{path}")
    with pytest.raises(Invalid):
        refold.conversations.import_("memory:", f"{tmp_path}/{path}")


@pytest.mark.parametrize("given", [{"dialect": "\ud800"}, {"tool_kinds": {"\ud800": "read:path"}}])
@pytest.mark.parametrize("made", [dict, lambda given: refold.Config(**given)])
def test_a_setting_that_cannot_be_written_is_refused(given, made):
    with pytest.raises(Invalid):
        refold.open("work", store="memory:", config=made(given))


@pytest.mark.parametrize("rows", [{"": {"window": 1}}, {"\ud800": {"window": 1}}, {"m": range(3)}])
def test_a_model_that_nobody_can_name_is_refused(rows):
    with pytest.raises(Invalid):
        refold.register.models(rows)


@pytest.mark.parametrize("argument", ["window", "target"])
def test_a_number_beyond_all_bounds_is_refused_by_name(argument):
    context = worked()
    call = context.update if argument == "window" else context.plan
    with pytest.raises(Invalid, match=f"^{argument} is ") as caught:
        call(**{argument: 10**400})
    assert "2**53" in caught.value.hint
