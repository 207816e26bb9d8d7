"""`refold mcp`: the tools of refold for agents of others, over the Model Context Protocol.

A host starts it and speaks with it over standard input and output, which is why nothing else is
written there; with `--http` it listens on a port of this machine. With `--check` it says what it
would offer, and ends. Neighbour: `edges.mcp` is the server itself, imported when it runs.
"""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.errors import Unavailable, install_hint
from refold.settings.sources import default_store

TOKEN = "REFOLD_MCP_TOKEN"
HINT = install_hint("mcp")
CONVERSATION = Meta(
    description="The conversation to use if a call names none; by default the newest.",
    extra={"metavar": "ID"},
)
READ_ONLY = Meta(description="Offer no tool that writes (remember, forget).")
HTTP = Meta(description="Listen on a port of this machine instead.")
PORT = Meta(description="The port to listen on.", ge=1, le=65_535)
CHECK = Meta(description="Say whether it could start, and stop there.")


class McpArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, CONVERSATION] = ""
    read_only: Annotated[bool, READ_ONLY] = False
    http: Annotated[bool, HTTP] = False
    port: Annotated[int, PORT] = 8_742
    check: Annotated[bool, CHECK] = False


class McpServed(Result, frozen=True, kw_only=True):
    """Where it can be reached, and which store it tells of; `missing` is what is not installed."""

    store: str
    address: str
    missing: str = ""
    checked: bool = False

    @property
    def outcome(self) -> str:
        return "unavailable" if self.missing else "ok"


def run(session: Session, arguments: McpArguments) -> McpServed:
    place = session.store_url or default_store()
    missing = "" if find_spec("mcp") else f"the package mcp ({HINT})"
    address = f"http://127.0.0.1:{arguments.port}/mcp" if arguments.http else "standard input"
    if missing and not arguments.check:
        raise Unavailable("the MCP server needs the package mcp", hint=HINT)
    if not arguments.check:
        _serve(session, place, arguments, address)
    return McpServed(store=place, address=address, missing=missing, checked=arguments.check)


def _serve(session: Session, place: str, arguments: McpArguments, address: str) -> None:
    from refold.edges.mcp.answers import Answers
    from refold.edges.mcp.server import server_of

    server = server_of(Answers(place, arguments.conversation), read_only=arguments.read_only)
    if not arguments.http:
        server.run("stdio")
        return
    from refold.edges.mcp.http import serve

    token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    if session.screen is not None:
        shown = f"the token in {TOKEN}" if TOKEN in os.environ else f"the token {token}"
        session.screen.note(f"{place} at {address}, with {shown}; stop with Ctrl-C")
    serve(server, arguments.port, token)


def show(served: McpServed, screen: Screen) -> None:
    if served.missing:
        screen.line(f"It cannot start without {served.missing}.")
    elif served.checked:
        screen.line(f"{served.store} can be served over {served.address}.")


COMMAND = Command(
    name="mcp",
    details="Agents such as Claude Code start it themselves: see docs/guides/mcp.md.",
    on="store",
    arguments=McpArguments,
    run=run,
    show=show,
)
