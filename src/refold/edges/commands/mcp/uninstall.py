"""`refold mcp uninstall`: takes out what `install` wrote, and nothing else."""

from __future__ import annotations

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.host_change import Changed
from refold.edges.commands.mcp import HostArguments, change
from refold.edges.commands.session import Session


def run(session: Session, arguments: HostArguments) -> Changed:
    return change(session, arguments, None)


def show(changed: Changed, screen: Screen) -> None:
    if changed.lines:
        screen.line(f"The server is out of {changed.file}.")
    else:
        screen.line(f"{changed.file} has no server of refold.")


COMMAND = Command(
    name="mcp uninstall",
    on="nothing",
    arguments=HostArguments,
    run=run,
    show=show,
)
