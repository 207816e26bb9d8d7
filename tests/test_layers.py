"""Doors open one way: errors, config → core → rooms → engine floor → edges. Rooms on one floor stay apart."""

from __future__ import annotations

import ast
from pathlib import Path

import refold

ROOT = Path(refold.__file__).parent
ROOMS = {"tokens", "strategies", "dialects", "stores", "search", "memory"}


def floor_of(module: str) -> int:
    part = module.split(".")[1] if "." in module else ""
    if part in ("errors", "config"):
        return 0
    if part == "core":
        return 1
    if part in ROOMS:
        return 2
    return 4 if part == "edges" else 3


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("refold"):
            found += [f"{node.module}.{name.name}" if node.module == "refold" else node.module for name in node.names]
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.startswith("refold.")]
    return found


def modules() -> list[tuple[str, Path]]:
    paths = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    return [("refold." + ".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in paths]


def test_imports_point_down_only():
    wrong = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imports(path)
        if floor_of(other) > floor_of(name)
    ]
    assert wrong == []


def test_rooms_on_one_floor_do_not_import_each_other():
    wrong = [
        f"{name} imports {other}"
        for name, path in modules()
        for other in imports(path)
        if floor_of(name) == floor_of(other) == 2 and name.split(".")[1] != other.split(".")[1]
    ]
    assert wrong == []


def test_the_core_is_pure():
    """No clock, file, socket, randomness or environment."""
    banned = {"os", "time", "random", "secrets", "socket", "pathlib", "io", "threading", "datetime", "subprocess"}
    for path in (ROOT / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not {name.name.split(".")[0] for name in node.names} & banned, path.name
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in banned, path.name


def test_the_core_can_be_read_in_one_sitting():
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "core").glob("*.py")) < 1_500


def test_importing_refold_loads_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, refold; print([m for m in ('apsw', 'httpx', 'rich', 'click', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
