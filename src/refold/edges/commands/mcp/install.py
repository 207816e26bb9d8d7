"""`refold mcp install`: a host starts the server of tools by itself from now on."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.host_change import Changed
from refold.edges.commands.mcp import TITLES, HostArguments, change
from refold.edges.commands.session import Session
from refold.edges.hosts.servers import Host, entry_for

READ_ONLY = Meta(description="Offer no tool that writes (remember, forget).")


class InstallArguments(HostArguments, frozen=True, kw_only=True):
    read_only: Annotated[bool, READ_ONLY] = False


class Installed(Changed, frozen=True, kw_only=True):
    host: Host


def run(session: Session, arguments: InstallArguments) -> Installed:
    scope, store = arguments.chosen_scope, session.store_url
    entry = entry_for(scope, store, read_only=arguments.read_only)
    made = change(session, arguments, entry)
    return Installed(host=arguments.host, file=made.file, scope=made.scope, lines=made.lines)


def show(installed: Installed, screen: Screen) -> None:
    if not installed.lines:
        screen.line(f"{installed.file} has the server already.")
        return
    screen.line(f"{TITLES[installed.host]} starts it from its next session on ({installed.file}).")
    undo = screen.call("mcp uninstall", "", installed.host, "--scope", installed.scope)
    screen.line(f"Undo with: {undo}")


COMMAND = Command(
    name="mcp install",
    details="Shows the change and asks. Where the agent looks for servers is taken from its "
    "documentation; the agent itself was not run here. The server is tested with the protocol's "
    "own client.",
    on="store",
    arguments=InstallArguments,
    run=run,
    show=show,
)
