"""A chat from its first prompt to its end, and the parts needed before the engine is loaded.

The first prompt appears at once, and the engine is loaded while the first line is typed, so this
module imports nothing large at the top. The model of a conversation is remembered in the user's
data folder and not in the log: a store may come with a foreign project, and a project never chooses
where a conversation is sent. Neighbours: `start` opens the conversation, `loop` runs
it, `input` and `prompt` read lines.
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
from typing import TYPE_CHECKING, BinaryIO, Literal

from msgspec import Struct

from refold.display import one_line
from refold.edges.chat.input import Lines, PlainLines
from refold.errors import Conflict, RefoldError, install_hint
from refold.settings.permissions import data_folder
from refold.stores.protocol import Store
from refold.system.disk import open_own, read_own

if TYPE_CHECKING:
    from refold.edges.commands.chat import ChatEnded
    from refold.edges.commands.command import Screen
    from refold.edges.commands.session import Session

MODEL_ENV = "REFOLD_CHAT_MODEL"
ENGINE = "refold.edges.chat.start"
SPEC_BYTES_MAX = 1_000
TRIES_MAX = 1_000

Offered = Literal["all", "reading", "none"]


class Options(Struct, frozen=True, kw_only=True):
    """Options of a chat; `folders` are further folders that tools may use."""

    model: str = ""
    resume: str = ""
    yes: bool = False
    offered: Offered = "all"
    cost_max: float | None = None
    window: int | None = None
    reply_tokens_max: int | None = None
    folders: tuple[str, ...] = ()
    writes_summaries: bool = False
    hands_over: bool = False


def talk(session: Session, options: Options) -> ChatEnded:
    """Runs a chat to its end. Without a watcher, it reads the given input and returns the
    replies."""
    from refold.edges.cli.screen import Screen
    from refold.edges.commands.chat import ChatEnded

    screen = session.screen if isinstance(session.screen, Screen) else Screen(json_output=True)
    lines = lines_for(screen, session.stdin)
    is_greeted = read_ahead(screen, lines, options)
    from refold.edges.chat.output import Shown
    from refold.edges.chat.slash import obey
    from refold.edges.chat.start import greet, started

    chat = started(session, options, Shown(screen), lines)
    try:
        if lines.can_ask and not is_greeted:
            greet(chat)
        chat.run(obey)
        stats = chat.context.stats()
    finally:
        chat.close()
    return ChatEnded(
        conversation=chat.context.id,
        model=chat.endpoint.model.spec,
        replies=tuple(chat.replies),
        messages=stats.messages,
        tokens=stats.current,
        window=stats.window,
        cost=stats.cost,
        # A person at a terminal has seen the error; a script learns it from the exit status.
        failure="" if lines.can_ask else chat.failed,
    )


def lines_for(screen: Screen, stdin: BinaryIO | None) -> Lines:
    """Lines with history and completion, if the terminal and the installation have them; the given
    input, if there is no terminal."""
    if screen.json_output or not (sys.stdin.isatty() and sys.stdout.isatty()):
        # Bytes that are not text are shown as such, and never end the chat.
        text = io.TextIOWrapper(stdin or io.BytesIO(), encoding="utf-8", errors="replace")
        return PlainLines(text, is_terminal=False)
    plain = PlainLines(sys.stdin, is_terminal=True)
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        return plain
    if find_spec("prompt_toolkit") is None:
        if not has_seen_hint(os.environ):
            screen.line(("dim", f"For completion and lasting history: {install_hint('chat')}"))
        return plain
    from refold.edges.chat.prompt import PromptLines

    return PromptLines(Path.cwd(), data_folder(os.environ) / "refold" / "chat" / "history")


def greeting(model: str, folder: Path) -> str:
    return f"{one_line(model)} in {one_line(str(folder))}; /help lists the commands"


def read_ahead(screen: Screen, lines: Lines, options: Options) -> bool:
    """Greets and reads the first line while the engine is loaded, for a new conversation with a
    named model; returns whether it did."""
    from refold.edges.chat.prompt import PromptLines

    model = options.model or os.environ.get(MODEL_ENV, "")
    is_new = not options.resume
    if not (is_new and model and isinstance(lines, PromptLines)):
        return False
    screen.line(("dim", greeting(model, Path.cwd())))
    lines.read_ahead(ENGINE)
    return True


def remember(store_url: str, conversation: str, spec: str, environ: Mapping[str, str]) -> None:
    """Remembers the model of a conversation for the next chat."""
    # Without a data folder, the next chat needs --model again.
    with suppress(OSError, RefoldError):
        path = _model_file(store_url, conversation, environ)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(open_own(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(spec.encode())


def spec_of(store_url: str, conversation: str, environ: Mapping[str, str]) -> str:
    """The last model of a conversation; empty if unknown."""
    try:
        path = _model_file(store_url, conversation, environ)
        return read_own(str(path), SPEC_BYTES_MAX).decode()
    except (OSError, RefoldError, UnicodeDecodeError):
        return ""


def _model_file(store_url: str, conversation: str, environ: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(f"{store_url}\n{conversation}".encode()).hexdigest()
    return data_folder(environ) / "refold" / "chat" / digest[:32]


def has_seen_hint(environ: Mapping[str, str]) -> bool:
    """Whether the user has already seen the hint about optional packages; marks it as seen."""
    with suppress(OSError, RefoldError):
        path = data_folder(environ) / "refold" / "chat" / "told"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return True
    return False


def new_id(store: Store) -> str:
    """An unused id, made from the time."""
    stem = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1, TRIES_MAX):
        id = stem if number == 1 else f"{stem}-{number}"
        if store.head(id) is None:
            return id
    raise Conflict(f"{TRIES_MAX} conversations began in one second", hint="try again")
