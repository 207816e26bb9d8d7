"""Facts as values: their kinds, their rank by need, and how their text is cut; and the kinds of
actions.

Secrets are removed before text is cut: half of one is not recognizable. Neighbours: `ledger` makes
facts of messages and actions and writes them for a page; `tools` finds the kind of an action by a
tool's name, `shell` by a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, get_args

from msgspec import Struct

from refold.core.model import Fact, FactKind
from refold.display import cut

RANK_RULE = 0  # of a user's rules: nothing takes their room
RANK_CHANGED = 2  # of changed files
RANK_KEPT = 4  # up to this rank a fact never leaves the ledger
RANK_SPARE = 6  # up to this rank a fact may use spare room: decisions, failures


def of_kind(facts: Iterable[Fact], kind: FactKind) -> list[Fact]:
    """The facts of one kind, in order."""
    return [fact for fact in facts if fact.kind == kind]


def rank(fact: Fact) -> int:
    """The order of removal: 0 last, 9 first. Up to `RANK_KEPT` a fact never leaves the ledger."""
    match fact.kind, fact.state:
        case "constraint", "user":
            return RANK_RULE
        case "request", _:
            return 1
        case "constraint", _:
            return 3
        case "todo", "open":
            return 1
        case "file", "created" | "modified" | "deleted":
            return RANK_CHANGED
        case "error", "open":
            return 5
        case "decision", _:
            return 4 if fact.state == "user" else 5
        case "artifact", _:
            return 6
        case "command", "exit 0" | "ok" | "":
            return 9
        case "command", _:
            return 6
        case "file", _:
            return 9
        case _:
            return 8


class Cutter(Struct, frozen=True):
    """Cuts text to size. `redact` removes its secrets before it is cut."""

    redact: Callable[[str], str] = str

    def end(self, text: str, size: int) -> str:
        """The text, without its end if it is too long."""
        return text if len(text) <= size else cut(self.redact(text), size)

    def middle(self, text: str, size: int, seq: int = 0) -> str:
        """The text, without its middle if it is too long; `seq` is the message with all of it."""
        return text if len(text) <= size else without_middle(self.redact(text), size, seq)


UNCLEANED = Cutter()


def without_middle(text: str, size: int, seq: int = 0) -> str:
    """The text, without its middle if it is too long; `seq` is the message with all of it."""
    if len(text) <= size:
        return text
    gap = " … "
    if seq:
        gap = f" … [{len(text) - size:,}+ characters left out, whole at #{seq}] … "
    room = size - len(gap)
    head = room * 2 // 3
    return text[:head] + gap + text[len(text) - (room - head) :]


ChangeKind = Literal["create", "modify", "delete"]
FileKind = Literal["read", "create", "modify", "delete"]
ActionKind = Literal["read", "create", "modify", "delete", "run", "search", "todo", "other"]

CHANGES: frozenset[str] = frozenset(get_args(ChangeKind))
ON_FILES: frozenset[str] = frozenset(get_args(FileKind))
ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
