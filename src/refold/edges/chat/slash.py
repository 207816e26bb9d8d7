"""`/name args` in a chat: all commands of the table on the open conversation, and a few of the
chat itself, which switch its conversation or model.

The table is shared, so a new command appears here automatically, with its help and suggestions for
typos. `/condense` lets the chat's model write a summary; the person's comments go back to the
model, and nothing leaves the page before a summary is accepted. Neighbours:
`edges.cli.lines` parses, `edges.commands` has the table, `loop` calls `obey`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Annotated, Any

from click.exceptions import Abort
from msgspec import Meta, Struct
from msgspec.structs import asdict

from refold.checked import quoted
from refold.conversations.listing import meta_of, newest, title_of
from refold.core.model import View
from refold.edges.chat.loop import Chat, endpoint_for
from refold.edges.chat.terminal import new_id
from refold.edges.cli.options import Line, arguments_of, parse
from refold.edges.cli.screen import Screen
from refold.edges.commands import ALIASES, COMMANDS, help_and_completion, load
from refold.edges.commands.command import (
    POINT_HELP,
    TEXT,
    Arguments,
    Document,
    Window,
    parameters_of,
    signature_arguments,
)
from refold.edges.commands.command_line import HELP_OPTIONS, as_lines, split
from refold.edges.commands.compact import FEEDBACK_TEXT, summary_of
from refold.edges.commands.restore import fork
from refold.edges.commands.session import Session
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.handles import body_text
from refold.log.stored_logs import is_taken, open_id_checked

LISTED_MAX = 20
ROUNDS_MAX = 10
ASKED = "Condense this conversation."
REQUEST = (
    f"{ASKED} Write a summary that can stand for all of it: what I asked for, what was done and "
    "decided, which files, names and values matter, and what is still to do. Call no tool. Once I "
    "accept it, only my first request, its answer, this request and your summary stay before you."
)
QUESTION = "Accept this summary? [y]es, [n]o, or describe what is wrong with it:"
NewId = Annotated[
    str,
    Meta(
        description="Its id; by default derived from the time.",
        extra={"positional": True, "metavar": "ID"},
    ),
]


class OwnCommand(Struct, frozen=True, kw_only=True):
    """A command of the chat itself, or one that does more in a chat than in a shell. `run` returns
    False to end the chat."""

    name: str
    summary: str
    arguments: type[Arguments]
    run: Callable[[Chat, Any], bool | None]
    details: str = ""
    on: str = "nothing"


OWN: dict[str, OwnCommand] = {}
Function = Callable[..., bool | None]


def own(name: str, summary: str, details: str = "") -> Callable[[Function], Function]:
    """Declares a function to be the chat's own command `name`, as `command` does for the table."""

    def declare(function: Function) -> Function:
        OWN[name] = OwnCommand(
            name=name,
            summary=summary,
            details=details,
            arguments=signature_arguments(function),
            run=lambda chat, arguments: function(chat, **asdict(arguments)),
        )
        return function

    return declare


def obey(chat: Chat, line: str) -> bool:
    """Executes one line; returns False if it ends the chat."""
    words = split(line[1:])
    command = OWN.get(words[0]) if words else None
    topic = command if {*HELP_OPTIONS} & {*words[1:]} else None
    if words[:1] == ["help"]:
        topic = OWN.get(" ".join(words[1:]).removeprefix("/"))
    chat.is_quiet_about_notices = command is None
    try:
        if topic is not None:
            help_and_completion.explained(topic).show(_screen(chat))
        elif command is None:
            _run(chat, parse(line, also=OWN))
        else:
            return command.run(chat, arguments_of(command, words[1:])) is not False
    except RefoldError as error:
        chat.fail(error)
        chat.shown.error(_with_chat_hint(error, chat))
    except (Abort, KeyboardInterrupt):
        chat.shown.aside("Nothing was changed.")
    finally:
        chat.is_quiet_about_notices = False
    return True


def _with_chat_hint(error: RefoldError, chat: Chat) -> RefoldError:
    """The error with a hint for the chat instead of the shell."""
    id = chat.context.id
    if isinstance(error, NotFound) and not chat.context.view.head and repr(id) in error.message:
        return NotFound("there is nothing in this conversation yet", hint="ask something first")
    error.hint = as_lines(error.hint, id)
    return error


def _screen(chat: Chat, *, json_output: bool = False) -> Screen:
    """The screen for the result of a command."""
    shown = chat.shown.screen
    # In a quiet chat, the one JSON object at the end must be the only output.
    out = io.StringIO() if chat.shown.is_quiet else shown.out
    return Screen(json_output=json_output, no_color=shown.no_color, out=out, is_shell=False)


def _run(chat: Chat, line: Line) -> None:
    """Runs a command of the table and shows its result."""
    screen = _screen(chat, json_output=line.json_output)
    if line.command.on in ("conversation", "either"):
        # A conversation is stored with its first message; a command may come earlier.
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
    is_list = line.command.name == "help" and not getattr(line.arguments, "command", "")
    if is_list and not line.json_output:
        screen.line()
        screen.line("Only in a chat:")
        for one in OWN.values():
            if one.name not in COMMANDS or COMMANDS[one.name].is_shell_only:
                places = (taken.shown for taken in parameters_of(one) if not taken.option)
                usage = " ".join([f"/{one.name}", *places])
                screen.line(f"  {usage:<24} {one.summary}", hang=27)
    screen.out.flush()
    try:
        if chat.context.view.head:
            chat.store.conversation(chat.context.id)
    except NotFound:
        # The command has deleted the open conversation.
        new(chat)


@own(
    "model",
    "Show the model, or continue with another.",
    "Without a MODEL and a window, nothing is changed. The limits change at once.",
)
def model(
    chat: Chat,
    *,
    model: Annotated[
        str,
        Meta(
            description="openai:NAME, anthropic:NAME, ollama:NAME, URL#NAME, ... or scripted.",
            extra={"positional": True, "completes": "chat-model"},
        ),
    ] = "",
    window: Window | None = None,
) -> None:
    if window is not None:
        chat.resize(window)
    if model:
        reply_max = chat.options.reply_tokens_max
        chat.use(endpoint_for(model, os.environ, reply_tokens_max=reply_max))
    size = chat.context.budget.window
    chat.shown.aside(f"{chat.endpoint.model.spec}, with a window of {size:,} tokens")


@own("fork", COMMANDS["fork"].summary, "No event is copied. The chat continues in the new one.")
def fork_and_continue(
    chat: Chat,
    *,
    new: NewId = "",
    at: Annotated[
        str,
        Meta(
            description=f"{POINT_HELP} By default, the end.",
            extra={"metavar": "POINT", "completes": "point"},
        ),
    ] = "",
) -> None:
    with Session.holding(chat.context, chat.store) as session:
        forked = fork(session, new=new, at=at)
    chat.go_to(forked.conversation)
    origin = f"a fork of {forked.parent} at #{forked.parent_seq}"
    chat.shown.aside(f"This is {forked.conversation}, {origin}; /resume {forked.parent} goes back")


@own(
    "condense",
    ALIASES["condense"].summary,
    "The model writes a summary; with FEEDBACK, one that follows it. You accept it, or say what is "
    "wrong. Nothing is lost: /undo takes it back.",
)
def condense(
    chat: Chat,
    *,
    feedback: Annotated[
        str, Meta(description="What is wrong with the summary, for the model.", extra=TEXT)
    ] = "",
    accept: Annotated[bool, Meta(description="Accept the newest message as the summary.")] = False,
) -> None:
    is_accepted = accept or is_agreed(chat, feedback.strip())
    if is_accepted or not (chat.failure or chat.lines.can_ask):
        # The receipt repeats the notices.
        chat.is_quiet_about_notices = True
        compact = load("compact")
        _run(chat, Line(compact, compact.arguments(condense=True, accept=is_accepted)))


@own("resume", "List the conversations, or continue another.")
def resume(
    chat: Chat,
    *,
    conversation: Annotated[
        str,
        Meta(
            description="The conversation, by its id, or as @1 for the newest.",
            extra={"positional": True, "metavar": "ID", "completes": "conversation"},
        ),
    ] = "",
) -> None:
    if conversation:
        with Session.holding(chat.context, chat.store) as session:
            id = session.find(conversation)
        chat.go_to(id)
        chat.shown.aside(f"This is {id}: {title_of(chat.store, id, chat.context.view.title)}")
        return
    listed = newest(chat.store)
    with Session.holding(chat.context, chat.store) as session:
        session.remember({rank: one.id for rank, one in enumerate(listed[:LISTED_MAX], start=1)})
    for rank, about in enumerate(listed[:LISTED_MAX], start=1):
        title = title_of(chat.store, about.id, meta_of(chat.store, about).title or "")
        chat.shown.aside(("bold", f"@{rank} {about.id}"), f"  {title}")
    if len(listed) > LISTED_MAX:
        chat.shown.aside(("dim", f"{len(listed) - LISTED_MAX:,} older ones: refold list"))
    way = ("dim", "Go there with: /resume @1, or /resume ID")
    chat.shown.aside(way if listed else "There are no conversations yet.")


@own("new", "Start a new conversation.")
def new(chat: Chat, *, conversation: NewId = "") -> None:
    id = open_id_checked(conversation or new_id(chat.store))
    if is_taken(chat.store, id):
        reason = f"the conversation {quoted(id, 80)} already exists"
        raise Conflict(reason, hint=f"/resume {id} continues it; or choose another id")
    chat.go_to(id)
    chat.shown.aside(f"This is {chat.context.id}, a new conversation")


@own("quit", "Leave.")
@own("exit", "Leave. So does Ctrl-D.")
def leave(chat: Chat) -> bool:
    return False


def is_agreed(chat: Chat, wish: str) -> bool:
    """Lets the model write a summary that follows the person's wish, and again after each comment
    of the person; returns whether one was accepted."""
    text, head = _request(chat.context.view, wish), chat.context.view.head
    for _ in range(ROUNDS_MAX):
        chat.answer(text)
        if chat.failure or not summary_of(chat.context.view) or not chat.lines.can_ask:
            return False
        answer = _answer(chat)
        if answer.lower() in ("y", "yes"):
            return True
        if answer.lower() in ("", "n", "no"):
            break
        text = FEEDBACK_TEXT + answer
    # The request for a summary may itself have triggered a compaction.
    batches = [one.id for one in chat.context.log.batches() if one.seq > head and one.live]
    if batches:
        back = ", then ".join(f"/undo {id}" for id in reversed(batches))
        reason = "No summary was accepted. To make room, older messages left the page"
        chat.shown.aside(f"{reason}; back with: {back}")
    else:
        chat.shown.aside("Nothing left the page.")
    return False


def _answer(chat: Chat) -> str:
    """The person's answer about the summary. Refuses commands, which would go to the model."""
    for _ in range(ROUNDS_MAX):
        answer = chat.lines.ask(QUESTION).strip()
        if not answer.startswith("/"):
            return answer
        chat.shown.aside("Commands come after this question.")
    return ""


def _request(view: View, wish: str) -> str:
    """The request for a summary, or for a better one if the newest request asked for one."""
    if not view.slots:
        raise Invalid("there is nothing to condense yet", hint="ask something first")
    if not wish:
        return REQUEST
    requests = [slot.message for slot in view.slots if slot.message.role == "user"]
    newest_text = body_text(requests[-1]) if requests else ""
    if newest_text.startswith((ASKED, FEEDBACK_TEXT)):
        return FEEDBACK_TEXT + wish
    return f"{REQUEST}\n\nAbove all: {wish}"
