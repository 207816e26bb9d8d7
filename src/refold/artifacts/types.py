"""The type of an artifact: by what its tool does, as the ledger knows it, or by the name of a file.

What an output looks like says nothing here: two results of one tool have one type. Neighbours:
`intake` and `listing` ask for outputs of tools, `artifacts` for what a program keeps itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from refold.core.arguments import decoded
from refold.core.model import ArtifactType, Origin
from refold.ledger.arguments import paths_of
from refold.ledger.kinds import ActionKind
from refold.ledger.tools import kind_by_name

_BY_KIND: dict[ActionKind, ArtifactType] = {
    "read": "file",
    "create": "file",
    "modify": "file",
    "search": "search_result",
}
_FILE = re.compile(r"(.*[/\\])?([^/\\]*\.[A-Za-z][\w+-]{0,15}|[A-Z][a-z]+file)")


def type_of_output(origin: Origin, tool_kinds: Mapping[str, str] = {}) -> ArtifactType:
    """The type of what a tool gave: `file` for one that reads or writes files, `search_result` for
    one that searches, `command_output` for every other."""
    arguments = decoded(origin.arguments)
    has_path = isinstance(arguments, dict) and bool(paths_of(arguments))
    kind = kind_by_name(origin.tool, tool_kinds.get(origin.tool, ""), has_path=has_path)
    return _BY_KIND.get(kind, "command_output")


def type_named(name: str) -> ArtifactType:
    """The type that a name says: `file` if it is that of a file, else `custom`."""
    return "file" if _FILE.fullmatch(name) else "custom"
