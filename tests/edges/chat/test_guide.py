"""The conversation that docs/guides/terminal.md shows is held, and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refold.edges.chat.scripted import Scripted
from refold.edges.chat.slash import obey
from tests.edges.chat.rooms import GivenLines, chat_in, seen

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/terminal.md"
SCREEN = re.compile(r"<!-- chat -->\n```text\n(.*?)```", re.DOTALL)
SAID = (
    "read @README.md",
    "write notes.md: The port is 8443.",
    "/restore 10 --files --dry-run",
    "/restore 10 --files --yes",
    "/undo --files --yes",
    "/undoo",
)


def held(folder: Path) -> str:
    """The conversation, as it stands on a screen."""
    (folder / "README.md").write_text("# Sums\n\nReads numbers and adds them up.\n")
    chat = chat_in(folder, Scripted(0), GivenLines(answers=["y"]), id="sums")
    chat.lines.shows_status = True
    for text in SAID:
        chat.shown.screen.line(f"> {text}")
        if text.startswith("/"):
            obey(chat, text)
        else:
            chat.answer(text)
    return "\n".join(line.rstrip() for line in seen(chat).splitlines()) + "\n"


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return held(tmp_path)


def test_the_guide_shows_a_conversation_as_it_is(screen: str) -> None:
    found = SCREEN.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None and found[1] == screen, screen
