"""The kinds of things that an agent does, and which of them change a file.

Neighbours: `tools` finds the kind by a tool's name, `shell` by a command; `actions` has the rest.
"""

from __future__ import annotations

from typing import Literal, get_args

ChangeKind = Literal["create", "modify", "delete"]
FileKind = Literal["read", "create", "modify", "delete"]
ActionKind = Literal["read", "create", "modify", "delete", "run", "search", "todo", "other"]

CHANGES: frozenset[str] = frozenset(get_args(ChangeKind))
ON_FILES: frozenset[str] = frozenset(get_args(FileKind))
ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
