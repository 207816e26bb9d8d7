"""Whoever moves a half-written end of a log aside says so, once."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.log.notices import Notice
from tests.edges.cli.rooms import run, seeded

pytestmark = pytest.mark.usefixtures("alone")
READING = (
    ("show", "fix-login"),
    ("stats", "fix-login"),
    ("list",),
    ("verify",),
    ("export", "fix-login", "out.json"),
    ("show", "fix-login", "--json"),
)
WRITING = (
    ("verify", "fix-login", "--repair"),
    ("compact", "fix-login", "--dry-run"),
    ("search", "login", "--full-text"),
    ("doctor",),
    ("checkpoint", "fix-login", "here"),
)


def torn() -> str:
    seeded("files:tree")
    log = Path("tree/conversations/fix-login/messages.jsonl")
    with log.open("ab") as file:
        file.write(b'{"v":1,"seq":99,')
    return f"{log}.quarantine"


@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words))
def test_a_command_that_only_reads_leaves_a_torn_tail_where_it_is(words: tuple[str, ...]) -> None:
    aside = torn()
    said = run(*words, "--store", "files:tree")
    assert said.exit_code == 0 and "half written" not in said.stderr
    assert not Path(aside).exists()


@pytest.mark.parametrize("words", WRITING, ids=lambda words: " ".join(words))
def test_every_command_that_moves_a_torn_tail_aside_says_so(words: tuple[str, ...]) -> None:
    aside = torn()
    said = run(*words, "--store", "files:tree")
    assert said.stderr.count("16 bytes half written") == 1, said.output
    assert aside in said.stderr.replace("\n", "")
    assert "quarantine" not in said.stdout or "--json" in words
    assert "half written" not in run("show", "fix-login", "--store", "files:tree").stderr


@pytest.mark.parametrize("written", ["before", "after"])
def test_a_context_is_told_of_a_torn_tail_when_it_is_found(written: str) -> None:
    if written == "before":
        torn()
    else:
        seeded("files:tree")
    notices: list[Notice] = []
    with refold.open("fix-login", store="files:tree") as context:
        if written == "after":
            with open("tree/conversations/fix-login/messages.jsonl", "ab") as file:
                file.write(b'{"v":1,"seq":99,')
        context.on("storage-recovered", notices.append)
        context.stats()
        context.request("anthropic")
        context.append({"role": "user", "content": "goes on"})
    [notice] = notices
    assert notice.reason.startswith("16 bytes")
