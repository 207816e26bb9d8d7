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

from refold.display import one_line
from refold.edges.chat.input import Lines, PlainLines
from refold.edges.chat.remembered_model import history_file, was_told
from refold.errors import install_hint

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
        if not was_told(os.environ):
            screen.line(("dim", f"For completion and lasting history: {install_hint('chat')}"))
        return plain
    from refold.edges.chat.prompt import PromptLines

    return PromptLines(Path.cwd(), history_file(os.environ))


def greeting(model: str, folder: Path) -> str:
    """With whom one talks, about what, and where more is said."""
    return f"{one_line(model)} in {one_line(str(folder))}; /help lists the commands"


def read_ahead(screen: Screen, lines: Lines, given: ChatArguments) -> bool:
    """Greets and reads the first line while the engine is loaded, if it is clear with whom one
    talks: a new conversation, with a model that is named. Says whether it did."""
    from refold.edges.chat.prompt import PromptLines

    is_new = not (given.resume or given.continue_)
    model = given.model or os.environ.get(MODEL_ENV, "")
    if not (is_new and model and isinstance(lines, PromptLines)):
        return False
    screen.line(("dim", greeting(model, Path.cwd())))
    lines.read_ahead(ENGINE)
    return True
