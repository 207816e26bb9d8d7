"""The public surface: one list of names, and every type that a public signature shows is public."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import types
import typing
from pathlib import Path

import msgspec
import pytest

import refold
from refold import aio, conversations, memory, register, testing
from refold import types as brought
from refold.edges.commands import command as result
from refold.engine.context import Context

SOURCE = Path(refold.__file__)
# Public packages that a value may also come from.
PLACES = (refold, brought, conversations, memory, register, testing, aio)
ROOMS = {
    aio.AsyncContext: Context,
    aio.AsyncLogReader: refold.LogReader,
    aio.AsyncArtifacts: refold.Artifacts,
    aio.AsyncFileVersions: refold.FileVersions,
    aio.AsyncMemory: refold.SemanticMemory,
    aio.AsyncToolbox: refold.Toolbox,
}


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    return {alias.asname or alias.name for node in block.body for alias in node.names}


def test_the_lists_of_public_names_agree():
    assert set(refold.__all__) == set(dir(refold))
    assert set(refold.__all__) - {"__version__"} == names_for_type_checkers()
    assert len(refold.__all__) == len(set(refold.__all__))


@pytest.mark.parametrize("name", refold.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(refold, name) is not None


def test_the_surface_stays_small():
    methods = [name for name in dir(Context) if not name.startswith("_")]
    assert len(methods) <= 35 and len(refold.__all__) <= 45


def test_a_type_that_is_asked_of_the_wrong_module_names_the_right_one():
    with pytest.raises(AttributeError, match=r"refold\.types\.Point"):
        refold.Point  # noqa: B018
    with pytest.raises(AttributeError, match="'points'"):
        refold.points  # noqa: B018


def test_the_types_of_a_caller_are_one_short_file():
    assert len(Path(brought.__file__).read_text(encoding="utf-8").splitlines()) <= 120
    assert all(hasattr(brought, name) for name in brought.__all__)


def public_methods(owner: type) -> list[tuple[str, typing.Any]]:
    found = []
    for name, value in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            found.append((f"{owner.__name__}.{name}", value.fget))
        elif inspect.isfunction(value):
            found.append((f"{owner.__name__}.{name}", value))
    return found


def public_functions(module: types.ModuleType) -> list[tuple[str, typing.Any]]:
    values = {name: getattr(module, name) for name in module.__all__}
    return [(f"{module.__name__}.{n}", v) for n, v in values.items() if inspect.isfunction(v)]


def leaves(hint: typing.Any) -> set[type]:
    """The classes that an annotation is made of."""
    parts = typing.get_args(hint)
    own = {hint} if isinstance(hint, type) else set()
    return own.union(*(leaves(part) for part in parts if not isinstance(part, str)))


def resolved(function: typing.Any) -> dict[str, typing.Any]:
    """The annotations of a function; what it imports for type checkers only is looked up in the
    public places."""
    values = {name: getattr(place, name) for place in PLACES for name in place.__all__}
    known = {name: value for name, value in values.items() if not inspect.isfunction(value)}
    return typing.get_type_hints(function, localns={**known, **vars(typing)})


SURFACE = [
    *(pair for owner in (*ROOMS.values(), memory.MemoryFiles) for pair in public_methods(owner)),
    *(pair for place in (conversations, register) for pair in public_functions(place)),
    ("refold.open", refold.open),
    ("refold.open_memory", refold.open_memory),
    ("refold.open_store", refold.open_store),
]


@pytest.mark.parametrize("name, function", SURFACE, ids=[name for name, _ in SURFACE])
def test_every_type_in_a_public_signature_is_exported(name, function):
    exported = {id(getattr(place, name)) for place in PLACES for name in place.__all__}
    for hint in resolved(function).values():
        for leaf in leaves(hint):
            if leaf.__module__.startswith("refold"):
                assert id(leaf) in exported, f"{name} shows {leaf.__module__}.{leaf.__name__}"


@pytest.mark.parametrize("wrapper", ROOMS, ids=lambda one: one.__name__)
def test_async_callers_have_every_method_with_its_signature(wrapper):
    for name, _ in public_methods(ROOMS[wrapper]):
        method = name.split(".")[1]
        assert hasattr(wrapper, method), method
        plain = getattr(ROOMS[wrapper], method)
        # Awaited streams and iterators have other types.
        if not isinstance(plain, property) and method not in ("stream", "events"):
            assert inspect.signature(plain) == inspect.signature(getattr(wrapper, method))


# Signatures with a number that cuts the result, and how a caller learns of it. Anything else that
# lists gives all by default.
THE_BEST = {  # a ranking: its caller asks for the best of them, and the docstring says so
    "Context.search",
    "Artifacts.select",
    "SemanticMemory.retrieve",
    "SemanticMemory.near",
    "SemanticMemory.known_of",
    "FileVersions.refresh",
}
SAYS_MORE = {"Artifacts.grep", "Artifacts.lines"}  # `ended` and `cut` of the result
THINNED = {"LogReader.points"}  # the docstring says which; any other seq can be restored
BOUNDS = re.compile(r"limit|keep|count|top|most|(?:^|_)max$|^every$")


def bounded_by_default(pairs: list[tuple[str, typing.Any]]) -> set[str]:
    """The functions with an optional number that cuts their result."""
    return {
        name
        for name, function in pairs
        for one in inspect.signature(function).parameters.values()
        if BOUNDS.search(one.name) and isinstance(one.default, int) and one.default is not False
    }


def test_no_public_call_is_cut_at_a_number_by_default():
    found = bounded_by_default(SURFACE)
    assert found == THE_BEST | SAYS_MORE | THINNED
    functions = dict(SURFACE)
    for name in THE_BEST:
        assert re.search(r"\b(best|nearest|up to|most)\b", functions[name].__doc__.lower()), name


def test_every_command_with_a_limit_says_whether_there_is_more():
    """The result has a field for it; the replay of all sessions has them all in its JSON."""
    fields = {"more", "total", "ended", "limit"}
    silent = set()
    for path in (SOURCE.parent / "edges/commands").glob("*.py"):
        module = importlib.import_module(f"refold.edges.commands.{path.stem}")
        for name, function in vars(module).items():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            limit = inspect.signature(function).parameters.get("limit")
            if limit is None or not isinstance(limit.default, int):
                continue
            results = leaves(typing.get_type_hints(function)["return"]) - {result.Result}
            if results and not any(fields & set(one.__struct_fields__) for one in results):
                silent.add(f"{path.stem}.{name}")
    assert silent == set()


ASYNC_PROGRAM = """
import refold
from refold import aio

async def run() -> None:
    context = await aio.open("work", store="memory:", window=24_000)
    events: list[refold.Event] = await context.append({"role": "user", "content": "go"})
    request: dict[str, object] = await context.request()
    hits: list[refold.Hit] = await context.search("go", role="user")
    view: refold.View = await context.view
    kept: refold.Artifact = await context.artifacts.put("x", name="x.txt")
    points: list[refold.types.Point] = await context.log.points()
    answer: str = await context.toolbox.call("refold_search", {"query": "go"})
    twin: aio.AsyncContext = await context.fork("twin", at=1)
    await twin.close()
"""


def test_an_async_program_passes_strict_type_checking(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(ASYNC_PROGRAM)
    bad.write_text(ASYNC_PROGRAM.replace("at=1", "at=1.5").replace('role="user"', "rle=1"))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(good), str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "good.py" not in done.stdout, done.stdout
    assert done.stdout.count("error:") == 2, done.stdout


def test_values_that_are_given_back_are_frozen():
    for name in refold.__all__ + brought.__all__:
        value = getattr(refold, name, None) or getattr(brought, name)
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            assert value.__struct_config__.frozen, name


def test_a_writer_that_plays_answers_and_a_clock_that_stands_still():
    writer = testing.ScriptedWriter("one", ValueError("two"), lambda request: request.prompt)
    assert writer(brought.Request(prompt="p")) == "one"
    with pytest.raises(ValueError, match="two"):
        writer(brought.Request(prompt="p"))
    assert [writer(brought.Request(prompt=p)) for p in "ab"] == ["a", "b"]
    with testing.fixed_clock(1_700_000_000_000) as clock:
        context = refold.open("work", store="memory:")
        [first] = context.append({"role": "user", "content": "go"})
        clock.advance(hours=1)
        [second] = context.append({"role": "user", "content": "on"})
    assert (first.at_ms, second.at_ms - first.at_ms) == (1_700_000_000_000, 3_600_000)
    [after] = refold.open("other", store="memory:").append({"role": "user", "content": "go"})
    assert after.at_ms > second.at_ms
