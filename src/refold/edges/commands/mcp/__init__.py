"""`refold mcp`: tools for agents of others, and what putting it into a host shares."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands import host_change
from refold.edges.commands.command import POSITIONAL, Arguments
from refold.edges.commands.host_change import Changed
from refold.edges.commands.session import Session
from refold.edges.hosts import host_file, servers
from refold.edges.hosts.servers import Entry, Host, Scope

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
    path = servers.place_of(host, scope)
    before = host_file.read(path)
    after = servers.changed(before, path, entry)
    lines: tuple[str, ...] = ()
    if after is not None:
        asked, of = arguments.yes, TITLES[host]
        lines = host_change.change(session, path, before, after, yes=asked, of=of)
    return Changed(file=str(path), scope=scope, lines=lines)
