"""The commands, each a value in a module of its own, and the table that names them all.

A module is imported when its command is used. Nothing here knows who offers the commands: no
command prints, and none imports a library for command lines or terminals. How to add one stands in
README.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.edges.commands.command import Command

COMMANDS = {
    # name: module of this package
    "list": "list_",
    "show": "show",
    "stats": "stats",
    "compact": "compact",
    "undo": "undo",
    "export": "export",
    "import": "import_",
    "copy": "copy",
    "delete": "delete",
    "sweep": "sweep",
    "artifacts list": "artifacts.list_",
    "artifacts show": "artifacts.show",
    "artifacts grep": "artifacts.grep",
    "artifacts clean": "artifacts.clean",
    "artifacts delete": "artifacts.delete",
    "search": "search",
    "index": "index",
    "scan": "scan",
    "verify": "verify",
    "doctor": "doctor",
    "demo": "demo",
}
GROUPS = {"artifacts": "List, show, search and remove stored outputs."}


def command(name: str) -> Command[Any, Any]:
    """The command of that name, loaded now; KeyError if there is none."""
    found: Command[Any, Any] = import_module(f"{__name__}.{COMMANDS[name]}").COMMAND
    return found
