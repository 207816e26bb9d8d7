"""Screens of a fixed conversation, kept as text: at 80 columns, and at 40."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.real.terminal.screens import chat

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("columns", "rows"), [(80, 36), (40, 50)])
def test_the_screen_is_the_golden_one(folder: Path, columns: int, rows: int) -> None:
    """`REFOLD_WRITE_GOLDEN=1` writes them anew."""
    with chat(folder, columns=columns, rows=rows) as terminal:
        terminal.say("read README.md")
        terminal.say("find value_3_7")
        terminal.say("write notes.txt: one")
        terminal.key("y", "Enter")
        terminal.wait("Wrote notes.txt")
        terminal.prompt()
        terminal.say("/undoo")
        terminal.say("/undo")
        screen = terminal.until(lambda text: " tokens (" in text.splitlines()[-1])
    # What stands above says in which folder the chat is, and that has another name each time.
    below = screen[screen.index("> find value_3_7") :]
    shown = re.sub(r"chat-\d{8}-\d{6}", "chat-20261117-100000", below) + "\n"
    place = GOLDEN / f"chat-{columns}.txt"
    if os.environ.get("REFOLD_WRITE_GOLDEN"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(shown, encoding="utf-8")
    assert shown == place.read_text(encoding="utf-8")
