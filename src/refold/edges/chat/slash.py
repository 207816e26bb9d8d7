"""`/name args` in a chat: the commands of the table on the open conversation, and the few that only
a chat can have, because they change what it works on.

The table is read as it is, so a new command appears here by itself, with its help and its
suggestions for a typo. Neighbours: `edges.commands.line` parses, `edges.commands` has the table,
`loop` calls `obey`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable

from click.exceptions import Abort
from msgspec import Struct

from refold.conversations.listing import id_of, meta_of, newest, title_of
from refold.edges.chat import remembered
from refold.edges.chat.loop import Chat, endpoint_for
from refold.edges.chat.names import new_id
from refold.edges.cli.screen import Screen
from refold.edges.commands.command import Document
from refold.edges.commands.line import HELP_OPTIONS, Line, parse, split
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound, RefoldError
from refold.log.reading import open_id_checked

LISTED_MAX = 20


class OwnCommand(Struct, frozen=True):
    """A command of the chat itself: what it takes, what it does, in one line, and how."""

    takes: str
    summary: str
    run: Callable[[Chat, str], bool]


def obey(chat: Chat, line: str) -> bool:
    """Carries out one line; False if it ends the chat."""
    words = split(line[1:])
    own = OWN.get(words[0]) if words else None
    chat.is_quiet_about_notices = own is None
    try:
        if own is None:
            _run(chat, parse(line, also=OWN))
        elif {*HELP_OPTIONS} & {*words}:
            chat.shown.aside(_explained(words[0]))
        else:
            return own.run(chat, " ".join(words[1:]))
    except RefoldError as error:
        chat.shown.error(error)
    except (Abort, KeyboardInterrupt):
        chat.shown.aside("Nothing was changed.")
    finally:
        chat.is_quiet_about_notices = False
    return True


def _run(chat: Chat, line: Line) -> None:
    """Runs a command of the table and shows its result."""
    shown = chat.shown.screen
    # Where one JSON object is wanted at the end, nothing may stand before it.
    out = io.StringIO() if chat.shown.is_quiet else shown.out
    screen = Screen(json_output=line.json_output, no_color=shown.no_color, out=out, is_shell=False)
    if line.command.on == "conversation":
        # A conversation is in the store from its first message on; a command may come before it.
        chat.context.flush()
    has_writer = chat.options.writes_summaries
    with Session.holding(chat.context, chat.store, screen=screen, has_writer=has_writer) as session:
        result = line.command.run(session, line.arguments)
        if isinstance(result, Document):
            screen.document(result.chunks)
        elif line.json_output:
            screen.emit(result)
        else:
            line.command.show(result, screen)
    if line.command.name == "help" and not getattr(line.arguments, "command", ""):
        _show_own(screen)
    screen.out.flush()
    _leave_deleted(chat)


def _leave_deleted(chat: Chat) -> None:
    """Goes on in a new conversation, if a command removed the open one for good."""
    try:
        if chat.context.view.head:
            chat.store.conversation(chat.context.id)
    except NotFound:
        _new(chat, "")


def _show_own(screen: Screen) -> None:
    screen.line()
    screen.line("Only in a chat:")
    for name in OWN:
        screen.line(f"  {_explained(name)}")


def _explained(name: str) -> str:
    """One of the chat's own commands in one line."""
    own = OWN[name]
    usage = f"/{name} {own.takes}".strip()
    return f"{usage:<18} {own.summary}"


# --- the chat's own ---


def _model(chat: Chat, spec: str) -> bool:
    if spec:
        most = chat.options.reply_tokens_max
        chat.use(endpoint_for(spec, os.environ, reply_tokens_max=most))
        remembered.remember(chat.store.url, chat.context.id, spec, os.environ)
    window = chat.context.budget.window
    chat.shown.aside(f"{chat.endpoint.model.spec}, with a window of {window:,} tokens")
    return True


def _resume(chat: Chat, name: str) -> bool:
    if not name:
        _list(chat)
        return True
    id = id_of(chat.store, name)
    chat.store.conversation(id)
    chat.go_to(id)
    chat.shown.aside(f"This is {id}: {title_of(chat.store, id, chat.context.view.title)}")
    return True


def _list(chat: Chat) -> None:
    """The newest conversations, as /resume takes them."""
    found = newest(chat.store)[:LISTED_MAX]
    for place, about in enumerate(found, start=1):
        title = title_of(chat.store, about.id, meta_of(chat.store, about).title or "")
        chat.shown.aside(("bold", f"@{place} {about.id}"), f"  {title}")
    chat.shown.aside(("dim", "Go there with: /resume ID") if found else "There is none yet.")


def _fork(chat: Chat, name: str) -> bool:
    if not chat.context.view.slots:
        raise Invalid("there is nothing to fork yet", hint="ask something first")
    id, parent = open_id_checked(name or new_id(chat.store)), chat.context.id
    chat.context.fork(id).close()
    chat.go_to(id)
    chat.shown.aside(f"This is {id}, a fork of {parent}; /resume {parent} goes back")
    return True


def _new(chat: Chat, name: str) -> bool:
    chat.go_to(open_id_checked(name or new_id(chat.store)))
    chat.shown.aside(f"This is {chat.context.id}, a new conversation")
    return True


def _exit(chat: Chat, _: str) -> bool:
    return False


OWN = {
    "model": OwnCommand("[MODEL]", "Say which model answers, or go on with another.", _model),
    "resume": OwnCommand("[ID]", "List the conversations, or go on with another.", _resume),
    "fork": OwnCommand("[ID]", "Go on in a copy; this conversation stays as it is.", _fork),
    "new": OwnCommand("[ID]", "Start a new conversation.", _new),
    "exit": OwnCommand("", "Leave. So does Ctrl-D.", _exit),
    "quit": OwnCommand("", "Leave.", _exit),
}
