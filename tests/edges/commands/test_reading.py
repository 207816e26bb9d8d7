"""Commands that read leave every byte of the store as it was: no bookmark, no index, no event.

The guide `docs/guides/commands.md` names them; the table here is the same."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

import refold
from refold.edges.commands import COMMANDS, load
from tests.edges.cli.rooms import run, seeded

pytestmark = pytest.mark.usefixtures("alone")
ROOT = Path(__file__).parents[3]

READING: dict[str, tuple[tuple[str, ...], ...]] = {
    "statusline": (("work",), ("work", "--short", "--color")),
    "list": ((), ("--tag", "x")),
    "show": (
        ("work",),
        ("work", "--all"),
        ("work", "2"),
        ("work", "#4"),
        ("work", "#4-6"),
        ("work", "5", "--level", "line"),
        ("work", "4", "--why"),
        ("work", "7", "--why"),
        ("work", "--page"),
        ("work", "--list", "--role", "tool"),
        ("work", "--summary"),
        ("work", "--summary", "--format", "plain"),
        ("work", "--follow", "--seconds", "0"),
    ),
    "handover": ((), ("work", "--since", "2w", "--tokens", "300")),
    "stats": (
        ("work",),
        ("work", "--window", "9000"),
        ("work", "--cost"),
        ("work", "--tools"),
        ("work", "--debug"),
        ("work", "--format", "box"),
    ),
    "history": (
        ("work",),
        ("work", "--points"),
        ("work", "--points", "--every", "1"),
        ("work", "4", "--diff"),
        ("work", "4", "9", "--diff"),
    ),
    "artifact list": (("work",), ("work", "--match", "login")),
    "artifact show": (("work", "ARTIFACT"), ("work", "ARTIFACT", "--lines", "2")),
    "artifact grep": (("work", "login"),),
    "memory list": ((), ("--ended", "--scope", "user")),
    "memory search": (("login",), ("port", "--scope", "project")),
    "memory log": (("MEMORY",), (), ("--scope", "user", "--limit", "3")),
    "scan": (("--all",),),
    "verify": ((), ("work",)),
    "doctor": ((),),
    "proxy": (("--report",), ("--report", "--limit", "1")),
    "replay": (("work",), ("work", "--window", "1000")),
    "export": (("work", "-"), ("work", "../out.json", "--force")),
}
DRY = (
    ("compact", "work", "--dry-run"),
    ("compact", "work", "--strategy", "hide", "--target", "60", "--dry-run"),
    ("restore", "work", "9", "--dry-run"),
    ("restore", "work"),
    ("condense", "work"),
    ("delete", "--keep", "0", "--dry-run"),
    ("delete", "work", "--dry-run"),
    ("artifact", "remove", "work", "--keep-count", "0"),
)
REFUSED = (
    ("pin", "work", "99"),
    ("pin", "work", "x", "--off"),
    ("restore", "work", "99"),
    ("fork", "work", "work"),
    ("undo", "work", "x"),
    ("checkpoint", "work", "7"),
)


def contents(place: Path) -> dict[str, bytes]:
    """Every file of a store with its bytes. A lock, and what SQLite keeps while a database is
    open, hold no data."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", "-wal", "-shm"))
    }


@pytest.fixture(params=["sqlite:.refold/refold.db", "files:.refold/tree"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose newest events no bookmark has yet, with a compaction and an undone one."""
    inner = tmp_path / "project"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.setenv("REFOLD_STORE", request.param)
    seeded(request.param, "work")
    store = refold.open_store(request.param)
    context = refold.Context(store, "work")
    for _ in range(2):
        context.compact("hide", target=60)
        context.undo()
    context.compact("hide", target=60)
    context.append({"role": "user", "content": "no bookmark of this yet"})
    context.memory.store("The port is 6432")
    store.close()
    return inner / ".refold"


def test_reading_commands_leave_every_byte_as_it_was(place: Path) -> None:
    [artifact] = re.findall(r"art-\w+", run("artifact", "list", "work").stdout)[:1]
    [memory] = re.findall(r"mem-\w+", run("memory", "list").stdout)
    before = contents(place)
    assert before
    for name, cases in READING.items():
        for case in cases:
            named = [word.replace("ARTIFACT", artifact) for word in (*name.split(), *case)]
            words = [word.replace("MEMORY", memory) for word in named]
            result = run(*words)
            assert result.exit_code == 0, (words, result.output)
            assert contents(place) == before, words


def test_the_store_of_a_reading_command_refuses_every_write() -> None:
    # `doctor` looks whether the folder can be written to; `ui` serves until it is stopped.
    assert {name for name in COMMANDS if load(name).reads} == (READING.keys() - {"doctor"}) | {"ui"}


def everything(place: Path) -> dict[str, tuple[int, bytes]]:
    """Every name with its time and its bytes."""
    return {
        str(path.relative_to(place)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(place.rglob("*"))
    }


def test_reading_beside_a_killed_writer_moves_nothing(place: Path) -> None:
    """Commits stay in the -wal file of SQLite, and a torn tail at the end of its log."""
    context = refold.open("work", store=os.environ["REFOLD_STORE"])
    context.append({"role": "user", "content": "not yet in the database"})
    left = place.parent / "left"
    shutil.copytree(place, left)
    context.close()
    shutil.rmtree(place)
    left.rename(place)
    for log in place.glob("tree/conversations/work/messages.jsonl"):
        log.write_bytes(log.read_bytes() + b'{"v":1,"seq":99')
    before = everything(place)
    for name, cases in READING.items():
        for case in cases:
            if name != "doctor" and not {"ARTIFACT", "MEMORY"} & {*case}:
                result = run(*name.split(), *case)
                assert result.exit_code == 0, (name, case, result.output)
                assert everything(place) == before, (name, case)


@pytest.mark.parametrize("words", DRY, ids=" ".join)
def test_a_dry_run_leaves_every_byte_as_it_was(place: Path, words: tuple[str, ...]) -> None:
    before = contents(place)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert contents(place) == before


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_refused_leaves_every_byte_as_it_was(place: Path, words: tuple[str, ...]) -> None:
    before = contents(place)
    assert run(*words).exit_code in (2, 3, 4)
    assert contents(place) == before


def test_a_search_writes_only_its_index(place: Path) -> None:
    before = contents(place)
    assert run("search", "login", "--full-text").exit_code == 0
    after = contents(place)
    assert {name: after.get(name) for name in before} == before
    assert all("index" in name or "search" in name for name in after.keys() - before.keys())


def test_the_guide_names_the_same_commands() -> None:
    guide = (ROOT / "docs/guides/commands.md").read_text(encoding="utf-8")
    [told] = re.findall(r"^Nothing: (.+?) and every `--dry-run`", guide, re.MULTILINE | re.DOTALL)
    named = {name.partition(" --")[0] for name in re.findall(r"`([^`]+)`", told)}
    assert named == READING.keys() <= COMMANDS.keys()
