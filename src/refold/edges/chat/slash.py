"""`/name args` in a chat: the commands of the table on the open conversation, and the few that only
a chat can have, because they change what it works on.

The table is read as it is, so a new command appears here by itself, with its help and its
suggestions for a typo. Neighbours: `edges.cli.lines` parses, `edges.commands` has the table,
`loop` calls `obey`.

`/condense`: the model of the chat writes a summary, and the person accepts it or says what is
wrong with it.

Both are ordinary messages of the log. What is said about a summary goes to the model, which writes
another; nothing leaves the page before one is accepted. Neighbours: `edges.commands.condense` says
what then leaves it, `slash` calls `is_agreed`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Annotated, Any

from click.exceptions import Abort
from msgspec import Meta, Struct

from refold.checked import quoted
from refold.conversations.listing import id_of, meta_of, newest, title_of
from refold.core.model import View
from refold.edges.chat.loop import Chat, endpoint_for
from refold.edges.chat.terminal import new_id
from refold.edges.cli.lines import Line, arguments_of, parse
from refold.edges.cli.screen import Screen
from refold.edges.commands import ALIASES, COMMANDS, load, shell
from refold.edges.commands.command import (
    POINT_HELP,
    TEXT,
    Arguments,
    Document,
    Window,
    parameters_of,
)
from refold.edges.commands.compact import FEEDBACK_TEXT, summary_of
from refold.edges.commands.line import HELP_OPTIONS, as_lines, split
from refold.edges.commands.restore import fork
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.trace import is_taken, open_id_checked
from refold.log.unfold import body_text

LISTED_MAX = 20
MODEL = Meta(
    description="openai:NAME, anthropic:NAME, ollama:NAME, URL#NAME, ... or scripted.",
    extra={"positional": True, "completes": "chat-model"},
)
ID = Meta(
    description="The conversation, by its id, or as @1 for the newest.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
FEEDBACK = Meta(description="What is wrong with the summary, for the model.", extra=TEXT)
ACCEPT = Meta(description="Accept the newest message as the summary.")
AT = Meta(
    description=f"{POINT_HELP} By default, the end.",
    extra={"metavar": "POINT", "completes": "point"},
)
NEW = Meta(
    description="Its id; by default one is made from the time.",
    extra={"positional": True, "metavar": "ID"},
)


class ModelArguments(Arguments, frozen=True, kw_only=True):
    model: Annotated[str, MODEL] = ""
    window: Window | None = None


class CondenseArguments(Arguments, frozen=True, kw_only=True):
    feedback: Annotated[str, FEEDBACK] = ""
    accept: Annotated[bool, ACCEPT] = False


class ForkArguments(Arguments, frozen=True, kw_only=True):
    new: Annotated[str, NEW] = ""
    at: Annotated[str, AT] = ""


class ResumeArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, ID] = ""


class NewArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NEW] = ""


class OwnCommand(Struct, frozen=True, kw_only=True):
    """A command of the chat itself, or one of the table that does more in a chat: it takes and
    explains what the table says. `run` says whether the chat goes on."""

    name: str
    summary: str
    arguments: type[Arguments]
    run: Callable[[Chat, Any], bool]
    details: str = ""
    on: str = "nothing"


def obey(chat: Chat, line: str) -> bool:
    """Carries out one line; False if it ends the chat."""
    words = split(line[1:])
    own = OWN.get(words[0]) if words else None
    chat.is_quiet_about_notices = own is None
    try:
        asked = _asked_about(words)
        if asked is not None:
            shell.explained(asked).show(_screen(chat))
        elif own is None:
            _run(chat, parse(line, also=OWN))
        else:
            return own.run(chat, arguments_of(own, words[1:]))
    except RefoldError as error:
        chat.failure = error.code
        chat.shown.error(_in_chat_words(error, chat))
    except (Abort, KeyboardInterrupt):
        chat.shown.aside("Nothing was changed.")
    finally:
        chat.is_quiet_about_notices = False
    return True


def _in_chat_words(error: RefoldError, chat: Chat) -> RefoldError:
    """An error with what to do next as a line of the chat, not of a shell."""
    id = chat.context.id
    if isinstance(error, NotFound) and not chat.context.view.head and repr(id) in error.message:
        return NotFound("there is nothing in this conversation yet", hint="ask something first")
    error.hint = as_lines(error.hint, id)
    return error


def _asked_about(words: list[str]) -> OwnCommand | None:
    """The chat's own command that a line asks about: `/help fork`, or `/fork --help`."""
    if words[:1] == ["help"]:
        return OWN.get(" ".join(words[1:]).removeprefix("/"))
    return OWN.get(words[0]) if {*HELP_OPTIONS} & {*words[1:]} else None


def _screen(chat: Chat, *, json_output: bool = False) -> Screen:
    """Where a command shows its result."""
    shown = chat.shown.screen
    # Where one JSON object is wanted at the end, nothing may stand before it.
    out = io.StringIO() if chat.shown.is_quiet else shown.out
    return Screen(json_output=json_output, no_color=shown.no_color, out=out, is_shell=False)


def _run(chat: Chat, line: Line) -> None:
    """Runs a command of the table and shows its result."""
    screen = _screen(chat, json_output=line.json_output)
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
    is_list = line.command.name == "help" and not getattr(line.arguments, "command", "")
    if is_list and not line.json_output:
        _show_own(screen)
    screen.out.flush()
    _leave_deleted(chat)


def _leave_deleted(chat: Chat) -> None:
    """Goes on in a new conversation, if a command removed the open one for good."""
    try:
        if chat.context.view.head:
            chat.store.conversation(chat.context.id)
    except NotFound:
        _new(chat, NewArguments())


def _show_own(screen: Screen) -> None:
    screen.line()
    screen.line("Only in a chat:")
    for own in OWN.values():
        if own.name in COMMANDS:
            continue
        taken = (one.shown for one in parameters_of(own))
        usage = " ".join([f"/{own.name}", *taken])
        screen.line(f"  {usage:<24} {own.summary}", hang=27)


# --- the chat's own ---


def _model(chat: Chat, given: ModelArguments) -> bool:
    spec = given.model
    if given.window is not None:
        chat.resize(given.window)
    if spec:
        most = chat.options.reply_tokens_max
        chat.use(endpoint_for(spec, os.environ, reply_tokens_max=most))
    window = chat.context.budget.window
    chat.shown.aside(f"{chat.endpoint.model.spec}, with a window of {window:,} tokens")
    return True


def _resume(chat: Chat, given: ResumeArguments) -> bool:
    if not given.conversation:
        _list(chat)
        return True
    id = id_of(chat.store, given.conversation)
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
    chat.shown.aside(
        ("dim", "Go there with: /resume @1, or /resume ID") if found else "There is none yet."
    )


def _condense(chat: Chat, given: CondenseArguments) -> bool:
    is_wished = given.accept or is_agreed(chat, given.feedback.strip())
    if is_wished or not (chat.failure or chat.lines.can_ask):
        # The receipt says what the notices would say.
        chat.is_quiet_about_notices = True
        compact = load("compact")
        _run(chat, Line(compact, compact.arguments(condense=True, accept=is_wished)))
    return True


def _fork(chat: Chat, given: ForkArguments) -> bool:
    with Session.holding(chat.context, chat.store) as session:
        forked = fork(session, new=given.new, at=given.at)
    chat.go_to(forked.conversation)
    where = f"a fork of {forked.parent} at #{forked.parent_seq}"
    chat.shown.aside(f"This is {forked.conversation}, {where}; /resume {forked.parent} goes back")
    return True


def _new(chat: Chat, given: NewArguments) -> bool:
    id = open_id_checked(given.conversation or new_id(chat.store))
    if is_taken(chat.store, id):
        reason = f"the conversation {quoted(id, 80)} exists already"
        raise Conflict(reason, hint=f"/resume {id} continues it; or choose another id")
    chat.go_to(id)
    chat.shown.aside(f"This is {chat.context.id}, a new conversation")
    return True


def _exit(chat: Chat, _: Arguments) -> bool:
    return False


_OWN = (
    OwnCommand(
        name="model",
        summary="Show the model, or continue with another.",
        details="Without a MODEL and a window, nothing is changed. The limits follow at once.",
        arguments=ModelArguments,
        run=_model,
    ),
    OwnCommand(
        name="fork",
        summary=COMMANDS["fork"].summary,
        details="No event is copied. The chat continues in the new one.",
        arguments=ForkArguments,
        run=_fork,
    ),
    OwnCommand(
        name="condense",
        summary=ALIASES["condense"].summary,
        details="The model writes a summary; with FEEDBACK, one that follows it. You accept it, or "
        "say what is wrong. Nothing is lost: /undo takes it back.",
        arguments=CondenseArguments,
        run=_condense,
    ),
    OwnCommand(
        name="resume",
        summary="List the conversations, or continue another.",
        arguments=ResumeArguments,
        run=_resume,
    ),
    OwnCommand(name="new", summary="Start a new conversation.", arguments=NewArguments, run=_new),
    OwnCommand(name="exit", summary="Leave. So does Ctrl-D.", arguments=Arguments, run=_exit),
    OwnCommand(name="quit", summary="Leave.", arguments=Arguments, run=_exit),
)
OWN = {own.name: own for own in _OWN}


ROUNDS_MAX = 10
ASKED = "Condense this conversation."
REQUEST = (
    f"{ASKED} Write a summary that can stand for all of it: what I asked for, what was done and "
    "decided, which files, names and values matter, and what is still to do. Call no tool. Once I "
    "accept it, only my first request, its answer, this request and your summary stay before you."
)
QUESTION = "Accept this summary? [y]es, [n]o, or say what is wrong with it:"


def is_agreed(chat: Chat, wish: str) -> bool:
    """Lets the model write a summary, with the person's wish, and again with whatever the person
    says about it; gives whether one was accepted."""
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
    chat.shown.aside(_left(chat.context, head))
    return False


def _answer(chat: Chat) -> str:
    """What the person says about the summary. A command is none: it would go to the model."""
    for _ in range(ROUNDS_MAX):
        answer = chat.lines.ask(QUESTION).strip()
        if not answer.startswith("/"):
            return answer
        chat.shown.aside("Commands come after this question.")
    return ""


def _left(context: Context, head: int) -> str:
    """What left the page although nothing was accepted: the request for a summary is a request
    like any other, and may have needed room."""
    made = [one.id for one in context.log.batches() if one.seq > head and one.live]
    if not made:
        return "Nothing left the page."
    back = ", then ".join(f"/undo {id}" for id in reversed(made))
    return f"No summary was accepted. To make room, older messages left the page; back with: {back}"


def _request(view: View, wish: str) -> str:
    """What the model is asked: for a summary, or for a better one where it has just written one."""
    if not view.slots:
        raise Invalid("there is nothing to condense yet", hint="ask something first")
    if not wish:
        return REQUEST
    if _is_about_a_summary(view):
        return FEEDBACK_TEXT + wish
    return f"{REQUEST}\n\nAbove all: {wish}"


def _is_about_a_summary(view: View) -> bool:
    """Whether the newest request asks for a summary."""
    requests = [slot.message for slot in view.slots if slot.message.role == "user"]
    newest = body_text(requests[-1]) if requests else ""
    return newest.startswith((ASKED, FEEDBACK_TEXT))
