"""refold inside other agents: `mcp` serves its tools, `install` puts it into their configuration.

A host starts `refold mcp` and talks to it over standard input and output, so nothing else is
printed there. `install` adds that server, or with `--hooks` the hooks of Claude Code; it shows the
change and asks before it writes. Neighbours: `edges.mcp` is the server, imported when it runs;
`edges.host_config` and `edges.hooks.state` make the changes.
"""

from __future__ import annotations

import os
import secrets
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.checked import quoted
from refold.edges import host_config
from refold.edges.commands.command import POSITIONAL, Result, Screen, Yes, command
from refold.edges.commands.session import Session
from refold.edges.hooks import ABOVE_CHARS, state
from refold.edges.host_config import Host
from refold.errors import Denied, Invalid, Unavailable, install_hint
from refold.settings.sources import default_store

TITLES: dict[Host, str] = {"claude-code": "Claude Code", "codex": "Codex", "cursor": "Cursor"}
TOKEN = "REFOLD_MCP_TOKEN"
HINT = install_hint("mcp")
ReadOnly = Annotated[bool, Meta(description="Offer nothing that changes anything.")]


class McpServed(Result, frozen=True, kw_only=True):
    """The address of the server and the store behind it; `missing` is a package that is not
    installed."""

    store: str
    address: str
    missing: str = ""
    checked: bool = False

    @property
    def outcome(self) -> str:
        return "unavailable" if self.missing else "ok"

    def show(self, screen: Screen) -> None:
        if self.missing:
            screen.line(f"It cannot start without {self.missing}.")
        elif self.checked:
            screen.line(f"{self.store} can be served over {self.address}.")


@command(
    "mcp",
    details="Agents such as Claude Code start it themselves: see docs/guides/mcp.md.",
    on="store",
)
def mcp(
    session: Session,
    *,
    conversation: Annotated[
        str,
        Meta(
            description="The conversation to use if a call names none; by default the newest.",
            extra={"metavar": "ID"},
        ),
    ] = "",
    read_only: ReadOnly = False,
    http: Annotated[bool, Meta(description="Listen on a port of this machine instead.")] = False,
    port: Annotated[int, Meta(description="The port to listen on.", ge=1, le=65_535)] = 8_742,
    check: Annotated[bool, Meta(description="Say whether it could start, and stop there.")] = False,
) -> McpServed:
    store = session.store_url or default_store()
    address = f"http://127.0.0.1:{port}/mcp" if http else "standard input"
    missing = "" if find_spec("mcp") else f"the package mcp ({HINT})"
    if check:
        return McpServed(store=store, address=address, missing=missing, checked=True)
    if missing:
        raise Unavailable("the MCP server needs the package mcp", hint=HINT)
    from refold.edges.mcp.answers import Answers
    from refold.edges.mcp.server import serve, server_of

    server = server_of(Answers(store, conversation), read_only=read_only)
    if http:
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
        if session.screen is not None:
            shown = f"the token in {TOKEN}" if TOKEN in os.environ else f"the token {token}"
            session.screen.note(f"{store} at {address}, with {shown}; stop with Ctrl-C")
        serve(server, port, token)
    else:
        server.run("stdio")
    return McpServed(store=store, address=address)


class Installed(Result, frozen=True, kw_only=True):
    """A change of a host's file. `lines` is the change as a patch; empty if nothing changed."""

    host: Host
    file: str
    scope: str
    hooks: bool
    removed: bool
    lines: tuple[str, ...] = ()

    def show(self, screen: Screen) -> None:
        title, part = TITLES[self.host], "hooks" if self.hooks else "server"
        if self.removed:
            if not self.lines:
                screen.line(f"{self.file} has no {part} of refold.")
            elif self.hooks:
                screen.line(f"{title} no longer calls refold ({self.file}).")
            else:
                screen.line(f"The server is out of {self.file}.")
            return
        if not self.lines:
            screen.line(f"{self.file} has the {part} already.")
            return
        act = "calls refold" if self.hooks else "starts it"
        screen.line(f"{title} {act} from its next session on ({self.file}).")
        hooks = ("--hooks",) if self.hooks else ()
        undo = ("install", "", self.host, *hooks, "--remove", "--scope", self.scope)
        screen.line(f"Undo with: {screen.call(*undo)}")


@command(
    "install",
    details="Adds the MCP server to the agent's configuration. With --hooks, Claude Code calls "
    "refold instead: large tool outputs become artifacts before they are sent, sessions are kept "
    "in the store, and after a compaction the model gets back what was decided. Shows the change "
    "and asks. --remove takes out what was added, and nothing else; what was kept stays in the "
    "store. The files that an agent reads are taken from its documentation; the agent itself was "
    "not run here. The server is tested with the protocol's own client.",
    on="store",
)
def install(
    session: Session,
    *,
    host: Annotated[
        Host, Meta(description="The agent: claude-code, codex or cursor.", extra=POSITIONAL)
    ],
    hooks: Annotated[bool, Meta(description="The hooks of Claude Code, not the server.")] = False,
    remove: Annotated[bool, Meta(description="Take out what was added.")] = False,
    scope: Annotated[
        state.Scope,
        Meta(
            description="Whose configuration: the project's, yours in this project (local, hooks "
            "only), or yours everywhere (user). By default the project's, if the agent has one, "
            "and local for hooks."
        ),
    ]
    | None = None,
    read_only: ReadOnly = False,
    above: Annotated[
        int,
        Meta(
            description="With --hooks: the size, in characters, from which an output becomes an "
            "artifact.",
            ge=1_000,
            le=10_000_000,
        ),
    ]
    | None = None,
    no_statusline: Annotated[
        bool, Meta(description="With --hooks: leave the status line alone.")
    ] = False,
    yes: Yes = False,
) -> Installed:
    if hooks and host != "claude-code":
        raise Invalid("only claude-code has hooks", hint="leave out --hooks")
    if hooks and read_only:
        raise Invalid("--read-only is for the server", hint="leave out --hooks or --read-only")
    if not hooks and (above is not None or no_statusline):
        raise Invalid("--above and --no-statusline are for hooks", hint="add --hooks")
    if hooks:
        scope = scope or "local"
        path = state.place_of(scope)
        before = host_config.read(path)
        settings = host_config.json_in(before, path)
        if remove:
            changed = state.without_hooks(settings)
        else:
            program = shlex.quote(host_config.program(is_shared=scope == "project"))
            call = state.hook_command(above or ABOVE_CHARS, session.store_url, program)
            line = "" if no_statusline else f"{program} statusline --color"
            changed = state.with_hooks(settings, command=call, status_line=line)
        after = None if changed == settings else host_config.json_text(changed, before)
    else:
        scope = scope or ("user" if host == "codex" else "project")
        if scope == "local":
            raise Invalid("--scope local is for hooks", hint="use --scope project or user")
        path = host_config.place_of(host, scope)
        before = host_config.read(path)
        entry = host_config.entry_for(scope, session.store_url, read_only=read_only)
        after = host_config.changed(before, path, None if remove else entry)
    real = os.path.realpath(path)
    if yes and scope != "user" and not Path(real).is_relative_to(Path.cwd()):
        # A clone can bring the link, and with --yes nobody sees where it leads.
        leads = f"{quoted(str(path), 200)} leads out of this project, to {quoted(real, 200)}"
        raise Denied(leads, hint="leave out --yes to see the change and be asked")
    lines = () if after is None else _changed(session, path, before, after, TITLES[host], yes=yes)
    return Installed(host=host, file=real, scope=scope, hooks=hooks, removed=remove, lines=lines)


def _changed(
    session: Session, path: Path, before: bytes, after: str, title: str, *, yes: bool
) -> tuple[str, ...]:
    """Shows the change of a file, asks, and writes it; returns the changed lines."""
    real = os.path.realpath(path)
    lines = tuple(host_config.difference(before, after, real))
    if session.screen is not None and not yes:
        for line in lines:
            session.screen.line(line)
    session.confirm(f"Change {real}?", yes, f"this changes the settings of {title}")
    host_config.write(path, before, after)
    return lines
