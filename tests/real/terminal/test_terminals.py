"""Terminals of every kind: narrow, resized while a reply comes, dumb, without UTF-8, none at all."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from refold.edges.chat.scripted import HELP
from tests.real.terminal.screens import CHAT, WAIT_S, Terminal, chat

HOSTILE = "\x1b[31mred\x1b[2J \x1b]0;title\x07 \u202egnp.exe \u9f8d \u2713\n"


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_forty_columns(folder: Path) -> None:
    with chat(folder, columns=40, rows=30) as terminal:
        terminal.say("read src/part_03.py")
        terminal.say("/context")
        terminal.say("/stats")
        assert widest(terminal.screen()) <= 40
        assert "..." in terminal.all()


@pytest.mark.parametrize("columns", [40, 57, 80])
def test_no_word_is_broken(folder: Path, columns: int) -> None:
    with chat(folder, columns=columns, rows=40) as terminal:
        said = terminal.say("sing")
        words = {word for line in terminal.screen().splitlines() for word in line.split()}
        assert "commands" in words and "/compact" in words and "understand:" in words
        assert " ".join(HELP.split()) in " ".join(said.split())


def test_without_colors_the_picture_stays(folder: Path) -> None:
    with chat(folder, environ={"NO_COLOR": "1"}) as terminal:
        terminal.say("read src/part_03.py")
        shown = terminal.say("/context")
        assert "░" in shown and "OOO" in shown and "O Tool outputs" in shown
        assert "Size over the conversation" in shown or "Largest" in shown


def test_watch_on_a_second_terminal_follows_in_words(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.say("read src/part_03.py")
        program = (*CHAT[:-1], "show", "@1", "--follow")
        with Terminal(folder, *program, columns=80, rows=30) as watching:
            screen = watching.wait("-> read_file src/part_03.py")
            assert "Window " in screen and " user " in screen
            terminal.say("find value_3_7")
            watching.wait("find value_3_7")
            terminal.say("/compact")
            screen = watching.until(lambda text: " compacted " in text)
            assert " -> " in screen and "{" not in screen.partition("compacted")[2][:60]
            watching.key("C-c")
            assert watching.ended() == 130


def test_a_resize_while_a_reply_comes(folder: Path) -> None:
    with chat(folder, columns=100, rows=30) as terminal:
        terminal.type("count to 1500")
        terminal.key("Enter")
        terminal.came(" 105 ")
        terminal.resize(40, 20)
        terminal.resize(70, 24)
        terminal.until(lambda screen: re.search(r"1499\s+1500", screen) is not None)
        terminal.prompt()
        assert "1 2 3" in terminal.say("count to 3")
        counted = [int(word) for word in terminal.all().split() if word.isdigit()]
        assert [n for n in counted if 1200 <= n < 1500] == list(range(1200, 1500))


def test_a_dumb_terminal(folder: Path) -> None:
    with chat(folder, environ={"TERM": "dumb"}) as terminal:
        said = terminal.say("read README.md")
        assert "It reads numbers" in said and " tokens (" in said
        assert "Compacts at" in terminal.say("/stats")
        assert "\x1b" not in terminal.colored()
        terminal.key("C-d")
        assert terminal.ended() == 0


def test_a_locale_without_utf_8(folder: Path) -> None:
    (folder / "odd.txt").write_text(HOSTILE)
    with chat(folder, environ={"LANG": "C", "LC_ALL": "C"}) as terminal:
        terminal.say("read odd.txt")
        terminal.say("/context")
        terminal.say("/compact --dry-run")
        assert terminal.all().isascii()
        assert "\\u9f8d" in terminal.all()


def test_nothing_that_a_file_holds_steers_the_terminal(folder: Path) -> None:
    (folder / "odd.txt").write_text(HOSTILE)
    with chat(folder) as terminal:
        terminal.say("count to 3")
        terminal.say("read odd.txt")
        assert "> count to 3" in terminal.screen(), "the screen was not cleared"
        assert "\\x1b[31mred\\x1b[2J" in terminal.screen()


def test_output_into_a_pipe(folder: Path) -> None:
    with Terminal(
        folder, "sh", "-c", f"{shell(*CHAT)} --model scripted | cat > out.txt"
    ) as terminal:
        terminal.type("count to 3")
        terminal.key("Enter")
        terminal.type("list src")
        terminal.key("Enter")
        terminal.key("C-d")
        terminal.ended()
    text = (folder / "out.txt").read_text()
    assert text.startswith("1 2 3\n") and "\x1b" not in text and "* list_files" not in text


def test_input_from_a_pipe(folder: Path) -> None:
    done = subprocess.run(
        [*CHAT, "--model", "scripted"],
        input=b"count to 3\n\xff\xfe\n/context\n",
        capture_output=True,
        cwd=folder,
        timeout=WAIT_S,
    )
    assert done.returncode == 0 and done.stdout.startswith(b"1 2 3\n")
    assert b"Traceback" not in done.stderr


def shell(*words: str) -> str:
    import shlex

    return shlex.join(words)
