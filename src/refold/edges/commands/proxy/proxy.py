"""`refold proxy`: passes the calls of any agent on to their providers, until it is stopped.

With `--check` it looks whether it could start, and serves nothing. Neighbour: `edges.proxy` is the
proxy itself, imported when it runs.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.proxy import FOLD, NATIVE, TOOLS, WINDOW
from refold.edges.commands.session import Session
from refold.settings.sources import default_store

HOST = Meta(description="The address to listen on; 127.0.0.1 is this machine alone.")
PORT = Meta(description="The port to listen on.", ge=1, le=65_535)
NAME = Meta(description="A name by which clients call this proxy; can be repeated.")
LOG = Meta(description="What is logged to standard error: every call, or only what is wrong.")
CHECK = Meta(description="Say whether it could start, and stop there.")
ANTHROPIC = Meta(
    description="The address to pass Anthropic's calls on to.", extra={"metavar": "URL"}
)
OPENAI = Meta(description="The address to pass OpenAI's calls on to.", extra={"metavar": "URL"})
GEMINI = Meta(description="The address to pass Gemini's calls on to.", extra={"metavar": "URL"})


class ProxyArguments(Arguments, frozen=True, kw_only=True):
    fold: Annotated[bool, FOLD] = False
    tools: Annotated[bool, TOOLS] = False
    native: Annotated[bool, NATIVE] = False
    window: Annotated[int, WINDOW] | None = None
    port: Annotated[int, PORT] = 8_743
    host: Annotated[str, HOST] = "127.0.0.1"
    name: Annotated[tuple[str, ...], NAME] = ()
    anthropic: Annotated[str, ANTHROPIC] = ""
    openai: Annotated[str, OPENAI] = ""
    gemini: Annotated[str, GEMINI] = ""
    log: Annotated[Literal["info", "warning", "error"], LOG] = "info"
    check: Annotated[bool, CHECK] = False


class ProxyServed(Result, frozen=True, kw_only=True):
    """What could be served, and where."""

    url: str
    store: str
    folds: bool
    tools: bool = False


def run(session: Session, arguments: ProxyArguments) -> ProxyServed:
    from refold.edges.proxy.serve import TOKEN, Given, checked, listen, serve, url_of

    bases = {name: getattr(arguments, name) for name in ("anthropic", "openai", "gemini")}
    given = checked(
        Given(
            store=session.store_url or default_store(),
            host=arguments.host,
            port=arguments.port,
            names=arguments.name,
            token=os.environ.get(TOKEN, ""),
            folds=arguments.fold or arguments.tools,
            tools=arguments.tools,
            native=arguments.native,
            window=arguments.window,
            bases={name: base for name, base in bases.items() if base},
            log_level=arguments.log,
        )
    )
    url = url_of(given)
    with listen(given.host, given.port) as listening:
        if not arguments.check:
            if session.screen is not None:
                _tell(session.screen, url, given.token if TOKEN not in os.environ else "")
            serve(msgspec.structs.replace(given, socket=listening.detach()))
    return ProxyServed(url=url, store=given.store, folds=given.folds, tools=given.tools)


def _tell(screen: Screen, url: str, token: str) -> None:
    screen.note(f"ANTHROPIC_BASE_URL={url}/anthropic")
    screen.note(f"OPENAI_BASE_URL={url}/openai/v1")
    screen.note(f"GOOGLE_GEMINI_BASE_URL={url}/gemini")
    if token:
        screen.note(f"with the header x-refold-token: {token}")
    screen.note("stop with Ctrl-C")


def show(served: ProxyServed, screen: Screen) -> None:
    doing = "folds" if served.folds else "observes"
    tools = " and answers refold's tools" if served.tools else ""
    screen.line(f"{served.url} {doing} into {served.store}{tools}.")


COMMAND = Command(
    name="proxy",
    details="Set the base URL of an agent to this proxy. It observes, and says what folding would "
    "save; with --fold it folds. docs/guides/proxy.md says more.",
    on="store",
    arguments=ProxyArguments,
    run=run,
    show=show,
)
