"""`refold export --to`: from store to store, in words, as JSON, on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import refold
from refold.errors import OUTCOMES
from refold.stores import open_store
from refold.stores.contract.kit import grown
from tests.edges.cli.rooms import PROGRAM, as_json, on_terminal, program, run, seeded
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("alone")


def test_copy_says_what_it_wrote_and_the_second_time_that_all_is_there(
    url: str, tmp_path: Path
) -> None:
    with refold.open("fix-login", store=url) as context:
        context.fork("branch", at=9)
    first = run("export", "--to", "files:tree", "--store", url)
    assert first.exit_code == 0 and first.stdout.isascii()
    assert (
        "copied" in first.stdout
        and "2 conversations in files:" in first.stdout
        and "1 artifact written" in first.stdout
    )
    again = run("export", "--to", "files:tree", "--store", url)
    assert "there already" in again.stdout and "0 events and 0 artifacts written" in again.stdout
    here, there = open_store(url), open_store("files:tree")
    assert there.conversations() == here.conversations()
    assert run("verify", "--store", "files:tree").exit_code == 0
    assert run("list", "--store", "files:tree").stdout == run("list", "--store", url).stdout


def test_copy_as_json(url: str) -> None:
    found = as_json("export", "fix-login", "--to", "files:tree", "--store", url)
    [row] = found["conversations"]
    assert found["to"].startswith("files:") and row["problems"] == []
    assert (row["id"], row["state"], row["artifacts"]) == ("fix-login", "copied", 1) and row[
        "events"
    ] == row["head"] > 0
    assert (
        as_json("export", "@1", "--to", "files:tree", "--store", url)["conversations"][0]["state"]
        == "same"
    )


def test_copy_reports_conflicts_missing_conversations_and_bad_stores(url: str) -> None:
    store = open_store("files:tree")
    grown(store, "fix-login", 2)
    store.close()
    conflict = run("export", "--to", "files:tree", "--store", url)
    assert (
        conflict.exit_code == OUTCOMES["conflict"][1] and "nothing was written" in conflict.stderr
    )
    assert (
        run("export", "nobody", "--to", "files:tree", "--store", url).exit_code
        == OUTCOMES["not-found"][1]
    )
    for wrong in (
        ("export", "--to", "nowhere", "--store", url),
        ("export", "--to", url, "--store", url),
        ("copy", url),
        ("export", "--to", "files:", "--store", url),
    ):
        assert run(*wrong).exit_code == OUTCOMES["invalid"][1], wrong
    missing = run("export", "--to", "files:other", "--store", "sqlite:none.db")
    assert missing.exit_code == OUTCOMES["not-found"][1] and "none.db" in missing.stderr
    assert not os.path.exists("none.db") and not os.path.exists("other")


def test_content_that_is_lost_here_is_an_exit_status_of_its_own(url: str, tmp_path: Path) -> None:
    next((tmp_path / ".refold" / "artifacts").glob("art-*")).unlink()
    result = run("export", "--to", "files:tree", "--store", url)
    assert result.exit_code == OUTCOMES["corrupt"][1] and "its content is missing" in result.stdout
    assert as_json("export", "--to", "files:tree", "--store", url)["conversations"][0]["problems"]


def test_a_bar_on_a_terminal_and_none_in_a_pipe(url: str, tmp_path: Path) -> None:
    status, shown = on_terminal("export", "--to", "files:one", "--store", url, cwd=tmp_path)
    assert status == 0 and "\x1b[?25l" in shown and "fix-login" in shown
    status, plain = on_terminal(
        "export", "--to", "files:two", "--store", url, cwd=tmp_path, NO_COLOR="1"
    )
    assert status == 0 and "\x1b[?25l" in plain and not re.search(r"\x1b\[[0-9;]*m", plain)
    status, dumb = on_terminal(
        "export", "--to", "files:four", "--store", url, cwd=tmp_path, TERM="dumb"
    )
    assert status == 0 and "\x1b" not in dumb
    piped = program(
        "export",
        "--to",
        f"files:{tmp_path}/three",
        "--store",
        url,
        LANG="C.UTF-8",
        TERM="xterm-256color",
    )
    assert piped.returncode == 0 and b"\x1b" not in piped.stdout and piped.stderr == b""


def kill_a_copy_after(copied: int) -> None:
    """Begins to copy, and ends it once there are so many conversations."""
    command = (*PROGRAM, "export", "--to", "files:tree", "--store", "sqlite:many.db")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        logs = Path("tree/conversations")
        until(lambda: process.poll() is not None or len([*logs.glob("*")]) >= copied)
        process.kill()


def test_a_copy_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    for n in range(30):
        seeded("sqlite:many.db", f"c{n}")
    source = open_store("sqlite:many.db")
    for copied in (1, 6, 12, 20):
        kill_a_copy_after(copied)
    found = json.loads(
        run("export", "--to", "files:tree", "--store", "sqlite:many.db", "--json").stdout
    )
    assert len(found["conversations"]) == 30
    target = open_store("files:tree")
    assert target.conversations() == source.conversations()
    assert all(target.read(f"c{n}") == source.read(f"c{n}") for n in range(30))
