"""What a word may become is the same in a shell and in a chat, and never an error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.completion import in_chat, in_shell, shell_lines
from refold.edges.commands.help_and_completion import SCRIPTS
from refold.edges.commands.session import Session
from tests.edges.cli.rooms import PROGRAM, run


def chat(line: str, session: Session | None = None) -> set[str]:
    return {one.text for one in in_chat(line, session, also={"quit": load("help")})}


def test_names_of_commands_are_completed() -> None:
    assert {"context", "compact", "condense"} <= chat("/co") and chat("/q") == {"quit"}
    assert chat("/context me") == {"messages"} and "restore" in chat("/context ")
    assert "serve" not in chat("/se") and "serve" in {one.text for one in in_shell(["se"])}
    assert chat("no command") == set()


def test_options_and_choices_are_completed_once() -> None:
    assert chat("/context messages --r") == {"--role"}
    assert chat("/context messages --role ") == {"assistant", "system", "tool", "user"}
    assert chat("/context messages --role user --r") == set()
    assert "gist" in chat("/compact --strategy ") and "--help" in chat("/undo --")
    assert chat("/help cont") >= {"context", "context messages"}
    assert chat("/edit --model claude-sonnet-4-5") >= {"claude-sonnet-4-5"}


def test_names_of_what_is_there_are_completed(url: str, tmp_path: Path) -> None:
    with refold.open("fix-login", store=url) as context:
        context.checkpoint("good")
        [artifact] = [one.id for one in context.artifacts.list()]
        context.compact("gist", target=60)
        folded = {str(slot.span) for slot in context.view.slots if slot.edits}
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x")
    with Session(store_url=url, conversation="fix-login") as session:
        assert chat("/restore g", session) == {"good"}
        assert chat("/context show art", session) == {artifact}
        assert folded and chat("/show ", session) == folded
        assert chat("/context add sr", session) == {"src/"}
        assert chat("/context add src/", session) == {"src/a.py"}
        assert chat("/add --search x --folder sr", session) == {"src/"}
    assert [one.partition("\t")[0] for one in shell_lines(["context", "stats", "fi"])] == [
        "fix-login"
    ]
    assert [one.partition("\t")[0] for one in shell_lines(["restore", "fix-login", "g"])] == [
        "good"
    ]


@given(st.lists(st.text(max_size=8) | st.sampled_from(sorted(COMMANDS)), max_size=5))
def test_any_words_give_candidates_or_nothing(words: list[str]) -> None:
    for one in shell_lines(words):
        assert "\n" not in one and one.count("\t") == 1
    assert isinstance(in_chat("/" + " ".join(words)), list)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_gets_a_script_that_asks_us(shell: str, alone: None) -> None:
    text = run("completion", shell).stdout
    assert text.startswith("# ") and "REFOLD_COMPLETE=1" in text
    assert run("completion", "csh").exit_code == 2


def test_bash_completes_by_the_script(url: str, tmp_path: Path) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    program = place / "refold"
    program.write_text(f"#!/bin/sh\nexec '{PROGRAM[0]}' -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    script = (
        'eval "$(refold completion bash)"; compopt() { :; };'
        "COMP_WORDS=(refold context mess); COMP_CWORD=2; _refold refold; echo ${COMPREPLY[@]};"
        "COMP_WORDS=(refold undo ''); COMP_CWORD=2; _refold refold; echo ${COMPREPLY[@]}"
    )
    environ = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["messages", "fix-login"], done.stderr
