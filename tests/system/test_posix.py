"""The library works where POSIX is missing, as far as it can: what only POSIX has is named in one
module. A real Windows was not tried."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from refold.system import posix
from tests.edges.cli.rooms import run

SOURCE = Path(refold.__file__).parent
ROOT = Path(__file__).parents[2]
HIDING = ROOT / "tests" / "system" / "without_posix.py"
# What asks first whether the system has it.
ALLOWED = {
    "system/posix.py": "the one place",
    "system/process_fork.py": "asks whether there are forks",
    "decoding.py": "asks whether there are forks",
    "artifacts/grep_process.py": "limits its memory where there are limits",
}
# The library, its stores, replay and the proxy.
RUN = (
    "tests/engine/test_stats.py",
    "tests/engine/test_update.py",
    "tests/log/test_undo.py",
    "tests/stores/test_contract.py",
    "tests/replay/test_verdict.py",
    "tests/edges/proxy/test_folding.py",
)
WAIT_S = 600


def hidden(name: str) -> tuple[str, ...]:
    """A tuple of names in the plugin, which hides them as soon as it is imported."""
    for node in ast.parse(HIDING.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return tuple(eval(ast.unparse(node.value)))
    raise LookupError(name)


MODULES, NAMES = hidden("MODULES"), hidden("NAMES")


def named_in(path: Path) -> set[str]:
    """What only POSIX has, as far as a file names it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in NAMES:
                found.add(f"os.{name}")
            case ast.Import(names=names):
                found |= {one.name for one in names if one.name in MODULES}
            case ast.ImportFrom(module=str(name)) if name in MODULES:
                found.add(name)
    return found


def test_what_only_posix_has_is_named_in_one_module() -> None:
    found = {path.relative_to(SOURCE).as_posix(): named_in(path) for path in SOURCE.rglob("*.py")}
    assert {place: names for place, names in found.items() if names}.keys() == ALLOWED.keys()


@pytest.mark.parametrize("file", RUN)
def test_the_library_works_without_the_modules(file: str) -> None:
    words = (file, "-q", "-n", "0", "-p", "tests.system.without_posix", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-k", "not files and not postgres"],
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:]


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("refold.open('a', store='files:x')", "use sqlite:PATH"),
        ("from refold.memory import MemoryFiles; MemoryFiles(folder='m')", "context.memory.store"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(code: str, instead: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import tests.system.without_posix, refold; {code}"],
        cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "needs Linux or macOS" in last and instead in last


def test_the_readme_and_doctor_name_the_systems() -> None:
    assert posix.is_posix() and "Linux and macOS" in posix.SYSTEMS
    assert posix.SYSTEMS in run("doctor").output
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "Linux and macOS, tried on Linux" in readme
