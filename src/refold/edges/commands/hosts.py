"""Changing a file of another program: shown, asked for, written.

Neighbours: `hook` and `mcp` say what changes, `edges.hosts.host_file` writes it.

`refold mcp`: tools for agents of others, and what putting it into a host shares.

`refold mcp`: the tools of refold for agents of others, over the Model Context Protocol.

A host starts it and speaks with it over standard input and output, which is why nothing else is
written there; with `--http` it listens on a port of this machine. With `--check` it says what it
would offer, and ends. Neighbour: `edges.mcp` is the server itself, imported when it runs.

`refold mcp install`: a host starts the server of tools by itself from now on.

`refold mcp uninstall`: takes out what `install` wrote, and nothing else.

`refold hook`: refold in the hooks of other agents.

`refold hook claude-code`: what installing and uninstalling share.

The change is shown before it is made, and made when it is agreed to. Neighbour:
`edges.hooks.settings_file` has the change itself.

`refold hook claude-code install`: Claude Code calls refold after tools and compactions.

`refold hook claude-code uninstall`: takes out what `install` wrote, and nothing else.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.edges import hosts
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.hooks import ABOVE_CHARS, state
from refold.edges.hooks.state import Scope as SettingsFileScope
from refold.edges.hooks.state import with_hooks, without_hooks
from refold.edges.hosts import Entry, Host, Scope, Settings, entry_for
from refold.errors import Unavailable, install_hint
from refold.settings.sources import default_store


class Changed(Result, frozen=True, kw_only=True):
    """`lines` is the change as a patch; empty if there was nothing to do."""

    file: str
    scope: str
    lines: tuple[str, ...] = ()


def host_change_change(
    session: Session, path: Path, before: bytes, after: str, *, yes: bool, of: str
) -> tuple[str, ...]:
    """Shows what changes in the file, asks, and writes it; gives the lines that changed."""
    lines = tuple(hosts.difference(before, after, str(path)))
    if session.screen is not None and not yes:
        for line in lines:
            session.screen.line(line)
    session.confirm(f"Change {path}?", yes, f"this changes the settings of {of}")
    hosts.write(path, before, after)
    return lines


__all__ = ["TITLES", "Changed", "HostArguments", "change"]

HOST = Meta(description="The agent: claude-code, codex or cursor.", extra=POSITIONAL)
SCOPE = Meta(
    description="Whose configuration: this project's, or yours everywhere; by default the "
    "project's, if the agent has one."
)
YES = Meta(description="Change the configuration without asking.")
TITLES: dict[Host, str] = {"claude-code": "Claude Code", "codex": "Codex", "cursor": "Cursor"}


class HostArguments(Arguments, frozen=True, kw_only=True):
    host: Annotated[Host, HOST]
    scope: Annotated[Scope, SCOPE] | None = None
    yes: Annotated[bool, YES] = False

    @property
    def chosen_scope(self) -> Scope:
        return self.scope or ("user" if self.host == "codex" else "project")


def change(session: Session, arguments: HostArguments, entry: Entry | None) -> Changed:
    """Puts the entry into the host's file, or takes ours out, once that was agreed to."""
    host, scope = arguments.host, arguments.chosen_scope
    path = hosts.place_of(host, scope)
    before = hosts.read(path)
    after = hosts.changed(before, path, entry)
    lines: tuple[str, ...] = ()
    if after is not None:
        asked, of = arguments.yes, TITLES[host]
        lines = host_change_change(session, path, before, after, yes=asked, of=of)
    return Changed(file=str(path), scope=scope, lines=lines)


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


def run_mcp(session: Session, arguments: McpArguments) -> McpServed:
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
    from refold.edges.mcp.server import serve

    token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    if session.screen is not None:
        shown = f"the token in {TOKEN}" if TOKEN in os.environ else f"the token {token}"
        session.screen.note(f"{place} at {address}, with {shown}; stop with Ctrl-C")
    serve(server, arguments.port, token)


def show_mcp(served: McpServed, screen: Screen) -> None:
    if served.missing:
        screen.line(f"It cannot start without {served.missing}.")
    elif served.checked:
        screen.line(f"{served.store} can be served over {served.address}.")


MCP = Command(
    name="mcp",
    details="Agents such as Claude Code start it themselves: see docs/guides/mcp.md.",
    on="store",
    arguments=McpArguments,
    run=run_mcp,
    show=show_mcp,
)


INSTALL_READ_ONLY = Meta(description="Offer no tool that writes (remember, forget).")


class InstallArguments(HostArguments, frozen=True, kw_only=True):
    read_only: Annotated[bool, INSTALL_READ_ONLY] = False


class Installed(Changed, frozen=True, kw_only=True):
    host: Host


def run_mcp_install(session: Session, arguments: InstallArguments) -> Installed:
    scope, store = arguments.chosen_scope, session.store_url
    entry = entry_for(scope, store, read_only=arguments.read_only)
    made = change(session, arguments, entry)
    return Installed(host=arguments.host, file=made.file, scope=made.scope, lines=made.lines)


def show_mcp_install(installed: Installed, screen: Screen) -> None:
    if not installed.lines:
        screen.line(f"{installed.file} has the server already.")
        return
    screen.line(f"{TITLES[installed.host]} starts it from its next session on ({installed.file}).")
    undo = screen.call("mcp uninstall", "", installed.host, "--scope", installed.scope)
    screen.line(f"Undo with: {undo}")


MCP_INSTALL = Command(
    name="mcp install",
    details="Shows the change and asks. Where the agent looks for servers is taken from its "
    "documentation; the agent itself was not run here. The server is tested with the protocol's "
    "own client.",
    on="store",
    arguments=InstallArguments,
    run=run_mcp_install,
    show=show_mcp_install,
)


def run_mcp_uninstall(session: Session, arguments: HostArguments) -> Changed:
    return change(session, arguments, None)


def show_mcp_uninstall(changed: Changed, screen: Screen) -> None:
    if changed.lines:
        screen.line(f"The server is out of {changed.file}.")
    else:
        screen.line(f"{changed.file} has no server of refold.")


MCP_UNINSTALL = Command(
    name="mcp uninstall",
    on="nothing",
    arguments=HostArguments,
    run=run_mcp_uninstall,
    show=show_mcp_uninstall,
)


__claude_code_all__ = ["Changed", "ScopeArguments", "change"]
CLAUDE_CODE_SCOPE = Meta(
    description="Whose settings: yours in this project, those of the project, or yours everywhere."
)
CLAUDE_CODE_YES = Meta(description="Change the settings without asking.")


class ScopeArguments(Arguments, frozen=True, kw_only=True):
    scope: Annotated[SettingsFileScope, CLAUDE_CODE_SCOPE] = "local"
    yes: Annotated[bool, CLAUDE_CODE_YES] = False


Edit = Callable[[Settings], Settings]


def claude_code_change(session: Session, arguments: ScopeArguments, edit: Edit) -> Changed:
    """Shows what changes in the file, asks, and writes it."""
    path = state.place_of(arguments.scope)
    before = hosts.read(path)
    settings = hosts.json_in(before, path)
    after = edit(settings)
    lines: tuple[str, ...] = ()
    if after != settings:
        text = hosts.json_text(after, before)
        asked = arguments.yes
        lines = host_change_change(session, path, before, text, yes=asked, of="Claude Code")
    return Changed(file=str(path), scope=arguments.scope, lines=lines)


ABOVE = Meta(
    description="The size, in characters, from which an output becomes an artifact.",
    ge=1_000,
    le=10_000_000,
)
NO_STATUSLINE = Meta(description="Leave the status line alone.")


class ClaudeCodeInstallInstallArguments(ScopeArguments, frozen=True, kw_only=True):
    above: Annotated[int, ABOVE] = ABOVE_CHARS
    no_statusline: Annotated[bool, NO_STATUSLINE] = False


def run_hook_claude_code_install(
    session: Session, arguments: ClaudeCodeInstallInstallArguments
) -> Changed:
    is_shared = arguments.scope == "project"
    program = shlex.quote(hosts.program(is_shared=is_shared))
    line = "" if arguments.no_statusline else f"{program} statusline --color"
    command = state.hook_command(arguments.above, session.store_url, program)
    return claude_code_change(
        session, arguments, partial(with_hooks, command=command, status_line=line)
    )


def show_hook_claude_code_install(changed: Changed, screen: Screen) -> None:
    if not changed.lines:
        screen.line(f"{changed.file} has the hooks already.")
        return
    screen.line(f"Claude Code calls refold from its next session on ({changed.file}).")
    undo = screen.call("hook claude-code uninstall", "", "--scope", changed.scope)
    screen.line(f"Undo with: {undo}")


HOOK_CLAUDE_CODE_INSTALL = Command(
    name="hook claude-code install",
    details="Large tool outputs become artifacts before they are sent, sessions are kept in the "
    "store, and after a compaction the model gets back what was decided.",
    on="store",
    arguments=ClaudeCodeInstallInstallArguments,
    run=run_hook_claude_code_install,
    show=show_hook_claude_code_install,
)


def run_hook_claude_code_uninstall(session: Session, arguments: ScopeArguments) -> Changed:
    return claude_code_change(session, arguments, without_hooks)


def show_hook_claude_code_uninstall(changed: Changed, screen: Screen) -> None:
    if changed.lines:
        screen.line(f"Claude Code no longer calls refold ({changed.file}).")
    else:
        screen.line(f"{changed.file} has no hooks of refold.")


HOOK_CLAUDE_CODE_UNINSTALL = Command(
    name="hook claude-code uninstall",
    details="What was kept stays in the store.",
    on="nothing",
    arguments=ScopeArguments,
    run=run_hook_claude_code_uninstall,
    show=show_hook_claude_code_uninstall,
)
