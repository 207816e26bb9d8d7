"""A store that we may read and not write, for real: as another user where we are root, else by the
modes of its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.edges.cli.rooms import WAIT_S

NOBODY = 65_534
# Root may write anywhere, whatever the modes say.
_OTHER_USER = (
    ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if os.geteuid() == 0
    else ()
)
READING = (
    ("list",),
    ("show", "fix-login"),
    ("search", "port"),
    ("search", "port", "--in", "@1", "--full-text"),
    ("context", "fix-login"),
    ("context", "search", "fix-login", "port"),
    ("show", "fix-login", "--page"),
    ("stats", "fix-login"),
    ("replay", "fix-login"),
    ("replay", "fix-login", "--html", "-elsewhere-"),
    ("export", "fix-login", "-"),
    ("verify",),
)
# What makes a store: by a process of its own, because one that ends in the middle leaves a WAL.
MAKE = """
import os, sys
import refold
url, how = sys.argv[1:]
context = refold.open("fix-login", store=url, model="claude-sonnet-4-5", window=24_000)
context.append({"role": "user", "content": "Fix the login test. The port is 8443."})
for n in range(20):
    call = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"part_{n}.py"}}
    context.append({"role": "assistant", "content": [call]})
    context.append_result(f"t{n}", f"def part_{n}(port=8443):\\n    return {n}\\n" * 50)
context.compact()
context.artifacts.put("the port of the login\\n", name="notes.txt", type="file")
if "index" in how:
    assert context.search("port")
context.append({"role": "user", "content": "And now the port of the proxy."})
if "wal" in how:
    os._exit(0)
context.close()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user can reach, and files whose modes can be changed back."""
    folder = Path(tempfile.mkdtemp(prefix="refold-"))
    folder.chmod(0o755)
    yield folder
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):  # before they are entered
            Path(root, name).chmod(0o700)
    shutil.rmtree(folder)


def made(place: Path, kind: str, how: str = "") -> str:
    """A store that nobody may write, with or without an index and a WAL."""
    home = place / "store"
    url = f"sqlite:{home / 'refold.db'}" if kind == "sqlite" else f"files:{home}"
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(place),
    }
    subprocess.run(
        (sys.executable, "-c", MAKE, url, how), env=environ, cwd=place, check=True, timeout=WAIT_S
    )
    assert ("wal" in how) == (home / "refold.db-wal").exists()
    for path in (home, *home.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return url


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


# Runs one command line after another in one process, which is started only once; each has its
# streams to itself.
READ = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from refold.edges.cli.app import outcome
done = []
for words in json.load(sys.stdin):
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        status = outcome(words)
    done.append((status, *(stream.buffer.getvalue().decode() for stream in streams)))
json.dump(done, sys.stdout)
"""


def as_a_reader(place: Path, url: str, *lines: Sequence[str]) -> list[Done]:
    """How each command line ends on a store for somebody who has no right to write there."""
    elsewhere = place / "elsewhere"
    if not elsewhere.exists():
        elsewhere.mkdir()
        elsewhere.chmod(0o777)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(elsewhere),
        "LANG": "C.UTF-8",
    }
    page = str(elsewhere / "page.html")
    given = [
        [page if word == "-elsewhere-" else word for word in (*words, "--store", url)]
        for words in lines
    ]
    ended = subprocess.run(
        (*_OTHER_USER, sys.executable, "-c", READ),
        env=environ,
        cwd=elsewhere,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return [Done(*one) for one in json.loads(ended.stdout)]


def traces(home: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything in a folder, with times and bytes."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes())
        if path.is_file()
        else (path.stat().st_mtime_ns, path.stat().st_mode, b"")
        for path in (home, *sorted(home.rglob("*")))
    }


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *(("sqlite", how) for how in ("", "index", "wal", "index wal")),
        *(("files", how) for how in ("", "index")),
    ],
)
def test_what_only_reads_works_and_leaves_no_trace(kind: str, how: str, place: Path) -> None:
    url = made(place, kind, how)
    before = traces(place / "store")
    *answers, found = as_a_reader(place, url, *READING, ("search", "port of the proxy"))
    for words, done in zip(READING, answers, strict=True):
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
        assert "login" in done.stdout or words[0] == "verify"
    assert "And now the port of the proxy." in found.stdout
    assert traces(place / "store") == before


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_what_writes_is_refused_in_words(kind: str, place: Path) -> None:
    url = made(place, kind)
    lines = (("undo", "fix-login"), ("pin", "fix-login", "3"), ("search", "--reindex"))
    for words, done in zip(lines, as_a_reader(place, url, *lines), strict=True):
        assert done.returncode == 7, (words, done.stderr)
        assert "owner and" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("part", ["refold.db", "refold.db-wal", "refold.db-shm"])
def test_a_file_of_a_database_that_may_not_be_read_is_named(part: str, place: Path) -> None:
    url = made(place, "sqlite", "wal")
    (place / "store" / part).chmod(0o000)
    for done in as_a_reader(place, url, ("list",), ("search", "port"), ("show", "fix-login")):
        assert done.returncode == 7
        assert f"{place / 'store' / part} may not be read" in done.stderr


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_folder_that_may_not_be_entered_is_not_called_missing(kind: str, place: Path) -> None:
    url = made(place, kind)
    (place / "store").chmod(0o000)
    for done in as_a_reader(place, url, ("list",), ("search", "port"), ("show", "fix-login")):
        assert done.returncode == 7 and str(place / "store") in done.stderr
        assert "there is no store" not in done.stderr


def test_a_log_that_may_not_be_read_is_named(place: Path) -> None:
    url = made(place, "files")
    log = place / "store" / "conversations" / "fix-login" / "messages.jsonl"
    log.chmod(0o000)
    for done in as_a_reader(place, url, ("show", "fix-login"), ("search", "port")):
        assert done.returncode == 7 and "messages.jsonl" in done.stderr


def test_commits_without_a_shm_file_are_said_to_be_the_writers_to_put_in_place(
    place: Path,
) -> None:
    url = made(place, "sqlite", "wal")
    (place / "store").chmod(0o755)
    (place / "store" / "refold.db-shm").unlink()
    (place / "store").chmod(0o555)
    for done in as_a_reader(place, url, ("list",), ("show", "fix-login")):
        assert done.returncode == 8
        assert "whoever may write there" in done.stderr
    [found] = as_a_reader(place, url, ("search", "port"))
    assert "cannot be read without its -shm file" in found.stderr
