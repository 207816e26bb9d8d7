"""The start of a chat: its conversation, model and folder.

The model is the named one, else the user's `REFOLD_CHAT_MODEL`, else the last model of the
conversation, else the one named by a provider's usual variables. If there is none, three lines
explain what to set, and the scripted agent is offered. Neighbours: `terminal` runs
a chat, `loop` is the chat itself, `edges.commands.chat` the command.
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
from refold.edges.chat.loop import Chat, endpoint_for
from refold.edges.chat.output import Shown
from refold.edges.chat.prompt import Names, PromptLines
from refold.edges.chat.scripted import SPEC as SCRIPTED
from refold.edges.chat.slash import OWN
from refold.edges.chat.terminal import MODEL_ENV, Options, greeting, new_id
from refold.edges.chat.tools import Workspace
from refold.edges.cli.options import at_places
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


def started(session: Session, options: Options, shown: Shown, lines: Lines) -> Chat:
    """The chat for these options, ready to run."""
    store = session.target
    id = _conversation(session, options)
    spec = _spec(options, store, id or "", os.environ) or _offer_scripted(shown, lines)
    folders = tuple(Path(folder).resolve() for folder in options.folders)
    for folder in folders:
        if not folder.is_dir():
            raise NotFound(f"there is no folder {quoted(str(folder))}", hint="check --allow")
    chat = Chat(
        store,
        id or new_id(store),
        endpoint_for(spec, os.environ, reply_tokens_max=options.reply_tokens_max),
        config=session.config,
        options=options,
        workspace=Workspace(Path.cwd(), folders, guarded(store)),
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
    """Prints the model and the folder, and the conversation if an old one is continued."""
    chat.shown.aside(("dim", greeting(chat.endpoint.model.spec, chat.workspace.root)))
    view = chat.context.view
    if view.slots:
        messages = number(sum(view.counts.values()), "message")
        title = title_of(chat.store, chat.context.id, view.title)
        chat.shown.aside(("dim", f"This is {chat.context.id}: {title} ({messages})"))


def _conversation(session: Session, options: Options) -> str | None:
    """The conversation to continue; None for a new one."""
    if not options.resume:
        return None
    if options.resume == "@" and not newest(session.target, limit=1):
        raise NotFound("there is no conversation to continue", hint="start one: refold chat")
    return session.find(options.resume, is_shown=True)  # `greet` shows it


def _spec(options: Options, store: Store, id: str, environ: Mapping[str, str]) -> str:
    """The model's name as the user writes it; empty if there is none."""
    if named := options.model or environ.get(MODEL_ENV, ""):
        return named
    # A fork without a model of its own continues with its nearest ancestor's.
    for _ in range(ANCESTORS_MAX):
        if not id:
            break
        if spec := terminal.spec_of(store.url, id, environ):
            return spec
        id = store.conversation(id).parent
    for name, provider in PROVIDERS.items():
        model = environ.get(provider.model_env, "") if provider.model_env else ""
        if model and any(environ.get(key) for key in provider.key_envs):
            return f"{name}:{model}"
    return ""


def _offer_scripted(shown: Shown, lines: Lines) -> str:
    """Explains what to set, and offers the scripted agent."""
    for line in EXPLAINED:
        shown.aside(at_places(line, shown.screen.places))
    if lines.can_ask and chosen(lines.ask, "Try the scripted agent now?") == "yes":
        return SCRIPTED
    raise Invalid("no model is named", hint="refold chat --model scripted needs no key")
