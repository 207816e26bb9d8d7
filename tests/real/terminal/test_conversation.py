"""A conversation on a real terminal, as a person would hold it: every slash command, warnings,
compactions, undo, files, a second process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refold.edges.chat.slash import OWN
from refold.edges.commands.command_line import table
from tests.real.terminal.screens import QUESTION, Terminal, chat

# What commands are given that need something; those that are not here are typed alone.
GIVEN = {
    "show": "#{seq}",
    "search": "numbers",
    "restore": "{seq} --dry-run",
    "pin": "{seq}",
    "hide": "{seq} --help",
    "add": "README.md",
    "edit": "--title Measured",
    "export": "context.json",
    "import": "context.json --id second",
    "delete": "second --yes",
    "artifact show": "{artifact}",
    "artifact grep": "value",
    "artifact remove": "{artifact} --help",
    "memory add": "The port is 7000",
    "memory search": "port",
    "memory edit": "--help",
    "memory forget": "--help",
    "scan": "--all",
    "chat": "--help",
}
ASKED_MAX = 3


def filled(name: str, terminal_text: str) -> str:
    """The arguments of a command, with names that the conversation has."""
    artifact = re.findall(r"art-[a-z0-9]{6,}", terminal_text)
    batch = re.findall(r"\b[0-9a-f]{16}\b", terminal_text)
    given = GIVEN.get(name, "")
    return given.format(
        seq=5, artifact=artifact[-1] if artifact else "art-x", batch=batch[-1:] or "x"
    )


def refuse_what_it_asks(terminal: Terminal) -> None:
    for _ in range(ASKED_MAX):
        if QUESTION.search(terminal.screen()):
            terminal.key("n", "Enter")
            terminal.prompt()


def test_a_conversation_through_every_slash_command(folder: Path) -> None:
    """The whole table, on one conversation, at one terminal."""
    with chat(folder, columns=120, rows=50) as terminal:
        terminal.say("read src/part_03.py")
        terminal.say("write notes.txt: one")
        terminal.key("y", "Enter")
        terminal.wait("[Wrote notes.txt, 1 line.]")
        terminal.prompt()
        faults = {}
        for name in table():
            text = terminal.say(f"/{name} {filled(name, terminal.all())}".strip())
            refuse_what_it_asks(terminal)
            if "Traceback" in text or "internal" in text or not text.strip():
                faults[name] = text
        assert faults == {}
        assert "out.md" in terminal.say("/context export out.md")
        for name in sorted(set(OWN) - {"exit", "quit"}):
            assert terminal.say(f"/{name}").strip()
            refuse_what_it_asks(terminal)
        terminal.type("/exit")
        terminal.key("Enter")
        assert terminal.ended() == 0
    assert (folder / "context.json").exists() and (folder / "out.md").exists()


def test_warning_compaction_undo_that_lasts_and_a_second_process(folder: Path) -> None:
    with chat(folder, "--window", "16000", columns=100, rows=50) as terminal:
        terminal.say("read all")
        text = terminal.all()
        before = text.partition("Auto-compacting")[0]
        assert before.count("Context usage at ") == 1, "the warning comes once as a page fills"
        assert "Compaction complete (" in text and re.search(
            r"[\d,]+ -> [\d,]+ tokens; /undo", text
        )
        assert "I have read 13 files." in text
        asked = " ".join(terminal.say("/undo").split())
        assert re.search(r"would go from [\d,]+ to [\d,]+ tokens", asked)
        terminal.key("y", "Enter")
        terminal.wait("Redo with: /redo")
        undone = " ".join(terminal.prompt().split())
        assert "Undone: the compaction" in undone
        assert re.search(r"All of it would be [\d,]+ tokens, and [\d,]+ fit", undone)
        assert "Nothing is lost." in undone and "/edit --window N" in undone
        compacted = text.count("Compaction complete (")
        terminal.say("count to 5")
        terminal.say("count to 6")
        assert terminal.all().count("Compaction complete (") == compacted, (
            "what was undone stays undone"
        )
        numbers = status(terminal)
        terminal.key("C-d")
        assert terminal.ended() == 0
    with chat(folder, "--resume", columns=100, rows=50) as again:
        assert status(again) == numbers, "a new process has the same numbers"
        assert "1 2 3" in again.say("count to 3")


def test_an_undo_that_fits_waits_before_it_compacts_again(folder: Path) -> None:
    (folder / "refold.toml").write_text(
        "compact_ratio = 0.5\nwarn_ratio = 0.4\ntarget_ratio = 0.3\n"
    )
    with chat(folder, "--window", "24000", columns=100, rows=50) as terminal:
        terminal.say("read all")
        compacted = terminal.all().count("Compaction complete (")
        assert compacted >= 1
        undone = " ".join(terminal.say("/undo").split())
        assert "The page is full" in undone and "waits until 2,400 tokens more have come" in undone
        for _ in range(3):
            terminal.say("count to 20")
        assert terminal.all().count("Compaction complete (") == compacted
        terminal.say("read src/part_01.py")
        terminal.say("read src/part_02.py")
        terminal.say("read src/part_03.py")
        assert terminal.all().count("Compaction complete (") > compacted, (
            "it is told when it comes again"
        )


def status(terminal: Terminal) -> str:
    """The line of numbers below the prompt."""
    terminal.prompt()
    return terminal.until(lambda screen: " tokens (" in screen.splitlines()[-1]).splitlines()[-1]


def test_ctrl_c_stops_a_reply_and_a_tool_and_not_the_program(folder: Path) -> None:
    with chat(folder, rows=30) as terminal:
        terminal.type("count to 9000")
        terminal.key("Enter")
        terminal.came("40 41 42")
        terminal.key("C-c")
        terminal.wait("Stopped. The partial reply is kept.")
        terminal.prompt()
        terminal.type("run sleep 600")
        terminal.key("Enter")
        terminal.wait("Run this command?")
        terminal.key("y", "Enter")
        # Before that, the key would be one that was typed to a question.
        terminal.until(lambda _: terminal.runs("sleep", "600"))
        terminal.key("C-c")
        terminal.until(lambda screen: screen.count("Stopped. The partial reply is kept.") == 2)
        terminal.prompt()
        assert "1 2 3" in terminal.say("count to 3")
        terminal.key("C-c")
        terminal.wait("Ctrl-D or /exit leaves.")
        terminal.prompt()
        terminal.key("C-d")
        assert terminal.ended() == 0


def test_files_are_written_after_a_question_and_put_back(folder: Path) -> None:
    with chat(folder, rows=50) as terminal:
        terminal.say("count to 3")
        said = terminal.say("write README.md: other words")
        assert "-# A small project" in said and "+other words" in said
        terminal.key("n", "Enter")
        terminal.wait("did not allow this")
        terminal.prompt()
        assert (folder / "README.md").read_text().startswith("# A small project")
        terminal.say("write README.md: other words")
        terminal.key("y", "Enter")
        terminal.wait("[Wrote README.md, 1 line.]")
        terminal.prompt()
        assert (folder / "README.md").read_text() == "other words\n"
        shown = terminal.say("/restore 7 --files")
        assert "+# A small project" in shown
        terminal.key("y", "Enter")
        terminal.wait("README.md is as it was then")
        terminal.prompt()
        assert (folder / "README.md").read_text().startswith("# A small project")
        assert "+other words" in terminal.say("/undo --files")
        terminal.key("y", "Enter")
        terminal.until(lambda _: (folder / "README.md").read_text() == "other words\n")
        terminal.prompt()


def test_lines_can_be_completed_recalled_and_have_several_lines(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.say("count to 3")
        terminal.type("/sta")
        terminal.key("Tab")
        terminal.wait("> /stats")
        terminal.key("C-u")
        terminal.type("read @READ")
        terminal.key("Tab")
        terminal.wait("> read @README.md")
        terminal.key("C-u")
        (folder / "my notes.txt").write_text("mine\n")
        terminal.type('read @"my n')
        terminal.key("Tab")
        terminal.wait('> read @"my notes.txt"')
        terminal.key("C-u")
        terminal.type("read @READ")
        terminal.key("Tab")
        terminal.wait("> read @README.md")
        terminal.key("Enter")
        terminal.wait("* read_file README.md")
        terminal.prompt()
        terminal.key("Up")
        terminal.wait("> read @README.md")
        terminal.key("C-u")
        terminal.type("write two.txt: first")
        terminal.key("M-Enter")
        terminal.type("second\\")
        terminal.key("Enter")
        terminal.type("third")
        terminal.key("Enter")
        terminal.wait("Create two.txt?")
        terminal.key("y", "Enter")
        terminal.wait("[Wrote two.txt, 3 lines.]")
        assert (folder / "two.txt").read_text() == "first\nsecond\nthird\n"


def test_what_is_typed_during_a_reply_is_the_next_request(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.type("count to 2000")
        terminal.key("Enter")
        terminal.came("40 41 42")
        terminal.type("count to 4")
        terminal.key("Enter")
        terminal.wait("> count to 4\n1 2 3 4")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_without_a_model_the_scripted_agent_is_offered(folder: Path, answer: str) -> None:
    from tests.real.terminal.screens import CHAT

    with Terminal(folder, *CHAT) as terminal:
        screen = terminal.wait("Try the scripted agent now?")
        assert screen.count("\n") <= 4 and "OPENAI_API_KEY" in screen
        terminal.key(answer, "Enter")
        if answer == "y":
            terminal.prompt()
            assert "1 2 3" in terminal.say("count to 3")
        else:
            assert terminal.ended() == 2
