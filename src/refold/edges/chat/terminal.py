"""Whose lines a chat reads, decided before anything large is loaded: the first prompt stands at
once, and the engine is loaded while the first line is typed.

Neighbours: `lines` and `prompt` read, `start` opens the conversation.

Which model a conversation was held with, so that `--continue` goes on with it; and what a user
need not be told again.

It is remembered in the user's own data folder and not in the log: a store may be part of a project
that somebody else wrote, and a project never chooses where a conversation goes. Losing it costs a
`--model`. Neighbours: `settings.trust` has the folder, `loop` asks.

What a new conversation is called: by the time it began.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from refold.display import one_line
from refold.edges.chat.input import Lines, PlainLines
from refold.errors import RefoldError, install_hint
from refold.log.trace import is_taken
from refold.settings.sources import data_folder
from refold.stores.protocol import Store

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


SPEC_BYTES_MAX = 1_000


def remember(store_url: str, conversation: str, spec: str, environ: Mapping[str, str]) -> None:
    """Keeps the model of a conversation."""
    # Without a data folder it is asked for again the next time.
    with suppress(OSError, RefoldError):
        place = _place(store_url, conversation, environ)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(place, flags, 0o600), "wb") as file:
            file.write(spec.encode())


def spec_of(store_url: str, conversation: str, environ: Mapping[str, str]) -> str:
    """The model that a conversation was held with last; empty if that is not known."""
    try:
        kept = _place(store_url, conversation, environ).read_bytes()
        return kept[:SPEC_BYTES_MAX].decode()
    except (OSError, RefoldError, UnicodeDecodeError):
        return ""


def history_file(environ: Mapping[str, str]) -> Path:
    """Where the lines are kept that the user typed."""
    return data_folder(environ) / "refold" / "chat" / "history"


def was_told(environ: Mapping[str, str]) -> bool:
    """Whether the user was told before what a chat could have; from now on, they were."""
    with suppress(OSError, RefoldError):
        place = data_folder(environ) / "refold" / "chat" / "told"
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            place.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return True
    return False


def _place(store_url: str, conversation: str, environ: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(f"{store_url}\n{conversation}".encode()).hexdigest()
    return data_folder(environ) / "refold" / "chat" / digest[:32]


TRIES_MAX = 1_000


def new_id(store: Store) -> str:
    """An id that no conversation of the store has."""
    stem = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, TRIES_MAX):
        id = stem if number == 1 else f"{stem}-{number}"
        if not is_taken(store, id):
            return id
    raise AssertionError(f"{TRIES_MAX} conversations began in one second")
