"""Whose lines a chat reads, decided before anything large is loaded: the first prompt stands at
once, and the engine is loaded while the first line is typed.

Neighbours: `lines` and `prompt` read, `start` opens the conversation.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from refold.edges.chat.lines import Lines, PlainLines
from refold.edges.chat.remembered import history_file

if TYPE_CHECKING:
    from refold.edges.commands.chat import ChatArguments
    from refold.edges.commands.command import Screen

MODEL_ENV = "REFOLD_CHAT_MODEL"
ENGINE = "refold.edges.chat.start"


def lines_for(screen: Screen, stdin: BinaryIO | None) -> Lines:
    """Lines with history and completion, where the terminal and the installation have them; the
    given input, where nobody sits there."""
    if screen.json_output or not (sys.stdin.isatty() and sys.stdout.isatty()):
        # What is no text is shown as such, and never ends the chat.
        text = io.TextIOWrapper(stdin or io.BytesIO(), encoding="utf-8", errors="replace")
        return PlainLines(text, is_terminal=False)
    plain = PlainLines(sys.stdin, is_terminal=True)
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        return plain
    if find_spec("prompt_toolkit") is None:
        screen.line(("dim", "For completion and lasting history: pip install 'refold[chat]'"))
        return plain
    from refold.edges.chat.prompt import PromptLines

    return PromptLines(Path.cwd(), history_file(os.environ))


def read_ahead(lines: Lines, given: ChatArguments) -> None:
    """Reads the first line while the engine is loaded, if it is clear with whom one talks: a new
    conversation, with a model that is named."""
    from refold.edges.chat.prompt import PromptLines

    is_new = not (given.resume or given.continue_)
    if is_new and (given.model or os.environ.get(MODEL_ENV)) and isinstance(lines, PromptLines):
        lines.read_ahead(ENGINE)
