"""How a chat begins: which conversation, which model, whose lines.

The model is the one that is named, else the user's `REFOLD_CHAT_MODEL`, else the one that the
conversation was held with last, else the one that the usual variables of a provider name. Where
none is, three lines say what to set, and the scripted agent is offered. Neighbours: `loop` is what
begins, `edges.commands.chat` is the command.

The chat as a program: the first prompt, then the engine, then the loop until its end.

Where nobody watches and nothing is to be printed, it reads what it is given and says at its end
what was replied. Neighbours: `edges.commands.chat` is the command, `terminal` has the lines,
`start` opens the conversation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from refold.checked import quoted
from refold.conversations.listing import newest, title_of
from refold.display import number
from refold.edges.chat import terminal
from refold.edges.chat.input import Lines
from refold.edges.chat.loop import Chat, Options, endpoint_for
from refold.edges.chat.output import Shown
from refold.edges.chat.prompt import Names, PromptLines
from refold.edges.chat.scripted import SPEC as SCRIPTED
from refold.edges.chat.slash import OWN
from refold.edges.chat.terminal import MODEL_ENV, greeting, lines_for, new_id, read_ahead
from refold.edges.chat.tools import Workspace
from refold.edges.cli.options import at_places
from refold.edges.cli.screen import Screen
from refold.edges.commands.chat import ChatArguments, ChatEnded
from refold.edges.commands.session import Session
from refold.edges.displays.phrases import chosen
from refold.edges.endpoints.model_names import PROVIDERS
from refold.edges.workspace import guarded
from refold.errors import Invalid, NotFound
from refold.stores.protocol import Store

ANCESTORS_MAX = 100
EXPLAINED = (
    "No model is set. Name one: refold chat --model openai:NAME, anthropic:NAME, gemini:NAME,",
    "ollama:NAME or URL#NAME; its key is in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY.",
    "Without any: refold chat --model scripted, an agent that follows a few words, offline.",
)


def started(session: Session, given: ChatArguments, shown: Shown, lines: Lines) -> Chat:
    """The chat that the arguments ask for, ready to run."""
    store = session.target
    id = _conversation(session, given)
    spec = _spec(given, store, id or "", os.environ) or _offered(shown, lines)
    endpoint = endpoint_for(spec, os.environ, reply_tokens_max=given.reply_max)
    chat = Chat(
        store,
        id or new_id(store),
        endpoint,
        config=session.config,
        options=_options(given),
        workspace=_workspace(given, store),
        shown=shown,
        lines=lines,
    )
    if isinstance(lines, PromptLines):
        root, own = chat.workspace.root, OWN
        lines.find_names = lambda: Names(
            root, Session.holding(chat.context, store), own, chat.workspace.guards
        )
    return chat


def greet(chat: Chat) -> None:
    """Says where one is: the model, the folder, and the conversation if it goes on."""
    chat.shown.aside(("dim", greeting(chat.endpoint.model.spec, chat.workspace.root)))
    view = chat.context.view
    if view.slots:
        said = number(sum(view.counts.values()), "message")
        title = title_of(chat.store, chat.context.id, view.title)
        chat.shown.aside(("dim", f"This is {chat.context.id}: {title} ({said})"))


def _conversation(session: Session, given: ChatArguments) -> str | None:
    """The conversation to go on with; None for a new one."""
    if given.resume and given.continue_:
        raise Invalid("--continue and --resume exclude each other", hint="give one of them")
    if given.resume:
        return session.find(given.resume)
    if not given.continue_:
        return None
    found = newest(session.target)
    if not found:
        raise NotFound("there is no conversation to continue", hint="start one: refold chat")
    return found[0].id


def _spec(given: ChatArguments, store: Store, id: str, environ: Mapping[str, str]) -> str:
    """The model, as it is written; empty if none is named anywhere."""
    named = given.model or environ.get(MODEL_ENV, "")
    return named or (id and _held_with(store, id, environ)) or _usual(environ)


def _held_with(store: Store, id: str, environ: Mapping[str, str]) -> str:
    """The model that a conversation was held with; a fork that had none goes on with that of
    the nearest it comes from."""
    for _ in range(ANCESTORS_MAX):
        spec = terminal.spec_of(store.url, id, environ)
        id = id and store.conversation(id).parent
        if spec or not id:
            return spec
    return ""


def _usual(environ: Mapping[str, str]) -> str:
    """The model that the variables of one provider name, key and all."""
    for name, provider in PROVIDERS.items():
        model = environ.get(provider.model_env, "") if provider.model_env else ""
        if model and any(environ.get(key) for key in provider.key_envs):
            return f"{name}:{model}"
    return ""


def _offered(shown: Shown, lines: Lines) -> str:
    """Says what to set, and offers the scripted agent."""
    for line in EXPLAINED:
        shown.aside(at_places(line, shown.screen.places))
    if lines.can_ask and chosen(lines.ask, "Try the scripted agent now?") == "yes":
        return SCRIPTED
    raise Invalid("no model is named", hint="refold chat --model scripted needs no key")


def _options(given: ChatArguments) -> Options:
    return Options(
        yes=given.yes,
        offered="none" if given.no_tools else "reading" if given.read_only else "all",
        cost_max=given.cost_max,
        window=given.window,
        reply_tokens_max=given.reply_max,
        writes_summaries=given.writer,
    )


def _workspace(given: ChatArguments, store: Store) -> Workspace:
    allowed = tuple(Path(folder).resolve() for folder in given.allow)
    for folder in allowed:
        if not folder.is_dir():
            raise NotFound(f"there is no folder {quoted(str(folder))}", hint="check --allow")
    return Workspace(Path.cwd(), allowed, guarded(store))


def talk(session: Session, given: ChatArguments) -> ChatEnded:
    """Runs a chat from its first prompt to its end."""
    watched = session.screen
    screen = watched if isinstance(watched, Screen) else Screen(json_output=True)
    lines = lines_for(screen, session.stdin)
    is_greeted = read_ahead(screen, lines, given)
    # The engine is large: a person who types first does not wait for it.
    from refold.edges.chat.output import Shown
    from refold.edges.chat.slash import obey

    chat = started(session, given, Shown(screen), lines)
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
        # Who types has seen it; a script is told by the exit status.
        failure="" if lines.can_ask else chat.failure,
    )
