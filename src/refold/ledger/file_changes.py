"""Which files the tool calls changed, and which shown text a change made stale.

Neighbours: `actions` says what was done; `log.trace` and `log.points` ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.config import Config
from refold.core.model import Slot, View
from refold.ledger.actions import Action, actions_of
from refold.ledger.facts import of_kind
from refold.ledger.kinds import CHANGES


def changed_files(slots: Sequence[Slot], config: Config) -> list[str]:
    """The files that the tool calls of these messages changed, or may have changed, by their
    first change."""
    changes = _changes(actions_of(slots, config))
    return list(dict.fromkeys(action.path for action in changes if action.path))


def made_stale(view: View, seq: int, config: Config) -> tuple[int, str] | None:
    """The first change, by its seq, of a file after the message at `seq` showed its text, and
    the file; from the page, or from the ledger where the change is no longer on it. None if its
    text still holds, or is not shown whole."""
    if not any(slot.seq == seq and not slot.edits for slot in view.slots):
        return None
    actions = actions_of(view.slots, config)
    read = _files_read(actions, seq)
    changes = [(action.seq, action.path) for action in _changes(actions)]
    changes += _changes_in_ledger(view)
    later = [change for change in changes if change[0] > seq and change[1] in read]
    return min(later, default=None)


def _changes(actions: Sequence[Action]) -> list[Action]:
    """The actions that changed a file, as far as is known."""
    return [action for action in actions if action.kind in CHANGES and action.ok is not False]


def _files_read(actions: Sequence[Action], seq: int) -> set[str]:
    """The files whose text the result at `seq` shows."""
    reads = [action for action in actions if action.kind == "read" and action.ok]
    return {action.path for action in reads if action.result_seq == seq}


def _changes_in_ledger(view: View) -> list[tuple[int, str]]:
    """The changes that the ledger of the view knows."""
    files = of_kind(view.facts, "file")
    return [(fact.seq, fact.text) for fact in files if fact.state != "read"]
