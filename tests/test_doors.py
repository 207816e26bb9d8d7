"""Each room has a floor; imports point down. On one floor, only the doors listed here are open."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold

ROOT = Path(refold.__file__).parent
FLOORS = (
    {"decoding", "patterns"},
    {"errors", "checked", "config", "display", "redaction", "settings", "system"},
    {"core"},
    {"tokens", "dialects", "stores", "ledger", "strategies"},
    {"log"},
    {"artifacts", "search", "writer", "compaction", "memory", "conversations"},
    {"engine", "aio", "types", "register", "testing"},
    {"replay"},
    {"edges"},
    {"__main__"},
)
DOORS = {
    ("config", "display"),
    ("checked", "display"),
    ("checked", "errors"),
    ("checked", "redaction"),
    ("errors", "redaction"),
    ("redaction", "config"),
    ("redaction", "display"),
    ("system", "checked"),
    ("settings", "checked"),
    ("config", "errors"),
    ("system", "display"),
    ("system", "errors"),
    ("settings", "config"),
    ("settings", "display"),
    ("settings", "errors"),
    ("settings", "system"),
    ("strategies", "ledger"),
    ("artifacts", "search"),
    ("compaction", "writer"),
    ("conversations", "artifacts"),
    ("conversations", "search"),
    ("memory", "search"),
    ("aio", "engine"),
    ("types", "engine"),
}
CORE_LINES_MAX = 3_450  # with the parts that make a step back cost what it changes
IMPURE = {
    "os",
    "time",
    "random",
    "secrets",
    "socket",
    "pathlib",
    "io",
    "threading",
    "datetime",
    "subprocess",
}


def room(module: str) -> str:
    return module.split(".")[1]


def floor(module: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room(module) in rooms)


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("refold"):
            found += [
                f"{node.module}.{name.name}" if node.module == "refold" else node.module
                for name in node.names
            ]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("refold.")]
    return [module for module in found if module != "refold.__version__"]


def arrows() -> set[tuple[str, str]]:
    """Every import between two rooms, as (importing module, imported module)."""
    paths = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    named = [
        ("refold." + ".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in paths
    ]
    pairs = {(name, other) for name, path in named for other in imports(path)}
    return {(name, other) for name, other in pairs if room(name) != room(other)}


def test_imports_point_down_and_on_one_floor_only_through_the_doors():
    wrong = [
        f"{name} imports {other}"
        for name, other in arrows()
        if floor(other) >= floor(name) and (room(name), room(other)) not in DOORS
    ]
    assert sorted(wrong) == []


def test_every_door_joins_rooms_of_one_floor():
    for first, second in DOORS:
        assert floor(f"refold.{first}") == floor(f"refold.{second}")


def test_every_room_has_a_floor():
    rooms = {
        path.stem
        for path in ROOT.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - {"__init__"} <= set().union(*FLOORS)


def test_the_core_is_pure():
    """No clock, file, socket, randomness or environment."""
    for path in (ROOT / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {name.name.split(".")[0] for name in node.names} & IMPURE, path.name
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in IMPURE, path.name


def test_the_core_can_be_read_in_one_sitting():
    lines = sum(
        path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "core").glob("*.py")
    )
    assert lines <= CORE_LINES_MAX


def test_importing_refold_loads_nothing_heavy():
    code = "import sys, refold; print([m for m in ('apsw', 'httpx', 'rich', 'click', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What a process starts with, and what it must not load for that: a module that is needed later is
# imported by the call that needs it.
OPENING = "import tempfile, refold; refold.open('x', store=f'sqlite:{tempfile.mkdtemp()}/x.db')"
LISTING = (
    "import tempfile; from refold.edges.cli.app import outcome;"
    "outcome(['list', '--store', f'sqlite:{tempfile.mkdtemp()}/x.db'])"
)
LATER = {
    OPENING: (
        "refold.memory",
        "refold.ledger.ledger",
        "refold.strategies.gist",
        "refold.strategies.hide",
        "refold.compaction.planning",
        "refold.artifacts.grep",
        "refold.artifacts.cleanup",
        "refold.dialects.anthropic",
        "refold.dialects.gemini",
        "refold.search.database",
        "importlib.resources",
        "subprocess",
    ),
    LISTING: (
        "refold.engine",
        "refold.memory",
        "refold.search",
        "refold.ledger",
        "refold.strategies",
        "refold.artifacts",
        "refold.compaction",
        "refold.dialects.openai_chat",
        "importlib.resources",
        "rich",
        "traceback",
    ),
}
MODULES_MAX = {OPENING: 130, LISTING: 90}


@pytest.mark.parametrize("start", LATER, ids=("open", "list"))
def test_a_start_loads_nothing_that_is_needed_later(start):
    loaded = set(started(start, "print(*sys.modules)").split())
    named = {one for one in loaded for late in LATER[start] if f"{one}.".startswith(f"{late}.")}
    assert named == set()
    assert len([one for one in loaded if one.startswith("refold")]) <= MODULES_MAX[start]


@pytest.mark.parametrize("start", LATER, ids=("open", "list"))
def test_a_start_compiles_no_pattern_while_it_imports(start):
    """Outside the dialects and strategies, whose few are cheap."""
    watch = (
        "import re._compiler, sys; first, found = re._compiler.compile, []\n"
        "def compiled(pattern, flags=0):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame.f_code.co_filename.endswith(('/re/__init__.py', '/patterns.py')):\n"
        "        frame = frame.f_back\n"
        "    if frame.f_code.co_name == '<module>':\n"
        "        found.append(frame.f_globals['__name__'])\n"
        "    return first(pattern, flags)\n"
        "re._compiler.compile = compiled\n"
    )
    names = started(watch + start, "print(*found)").split()
    ours = [name for name in names if name.startswith("refold")]
    assert not [name for name in ours if room(name) not in ("dialects", "strategies", "edges")]
    assert len(ours) <= 20


def started(code: str, then: str) -> str:
    """The last line that a new process prints."""
    code = f"import sys\n{code}\n{then}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1] if done.stdout.strip() else ""


def imported_at_once(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports while it is imported, packages included."""
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("refold"):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inner if all(module_file(name) for name in inner) else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("refold")]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def module_file(name: str) -> Path | None:
    place = ROOT.parent.joinpath(*name.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def test_any_module_can_be_imported_first():
    """A circle of imports works or fails by which module comes first."""
    needs: dict[str, set[str]] = {}
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        found = imported_at_once(ast.parse(file.read_text(encoding="utf-8")))
        needs[name] = {one for one in found if not f"{name}.".startswith(f"{one}.")}
    graphlib.TopologicalSorter(needs).prepare()
