"""What `make dist` builds: its files, and the first commands of a new user, from an environment that
has only the wheel and what it requires."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "refold"
LONG_S = 600
# Documents for people who read the source.
LEFT_OUT = {".md", ".pyc"}


def ran(*command: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("REFOLD")}
    plain.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env={**plain, **environ}, capture_output=True, text=True, timeout=LONG_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = ran(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def program(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`refold` in an environment of its own."""
    place = tmp_path_factory.mktemp("new") / "venv"
    assert ran(sys.executable, "-m", "venv", place, cwd=dist).returncode == 0
    [wheel] = dist.glob("*.whl")
    pip = (place / "bin" / "python", "-m", "pip", "install", "--quiet")
    installed = ran(*pip, "-r", ROOT / "requirements.txt", wheel, cwd=dist)
    assert installed.returncode == 0, installed.stderr
    return place / "bin" / "refold"


def test_the_wheel_has_every_data_file_and_nothing_of_tests_or_bench(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {
        f"refold/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in LEFT_OUT
    }
    assert there <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"refold"}


def test_the_source_archive_can_be_built_from(dist: Path) -> None:
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = [name.partition("/")[2] for name in opened.getnames()]
    assert {"pyproject.toml", "README.md", "LICENSE", "src/refold/tokens/models.json"} <= {*names}


def test_the_first_commands_of_a_new_user(program: Path, tmp_path: Path) -> None:
    demo = ran(program, "demo", cwd=tmp_path)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    (tmp_path / "said.json").write_text(json.dumps({"model": "gpt-5.5", "messages": said}))
    replayed = ran(program, "replay", "said.json", cwd=tmp_path)
    assert replayed.returncode == 0 and "Not worth it" in replayed.stdout
    code = "import os; print(os.environ['ANTHROPIC_BASE_URL'])"
    agent = ran(program, "run", sys.executable, "-c", code, cwd=tmp_path)
    assert agent.returncode == 0 and agent.stdout.startswith("http://127.0.0.1:"), agent.stderr
