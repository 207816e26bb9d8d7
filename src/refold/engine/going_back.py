"""Undo and redo, carried out: what the log says is to be written, and room on the page after it.

A page that an undo makes too large is not compacted again: its oldest messages leave instead, as a
batch that the answer names. A redo gives back the very page that the undo was asked on, and nothing
leaves it: if that page is too large, the next request makes room. Neighbours: `log.undo` says what
is written, `compaction.compactor` makes room.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.core.model import Revert
from refold.log.open_log import OpenLog
from refold.log.undo import Change, Undone, history, redoing, undoing


def undo(log: OpenLog, model: ActiveModel, compactor: Compactor) -> Undone:
    """Switches the newest compaction or restore off that still stands."""
    with log.reading() as state:
        past = history(log.log.read() if state.head else ())
        change = past.standing[-1] if past.standing else Change()
        undone = _write(log, model, change, undoing(past))
        if not undone:
            return undone
        whole = model.current
        room = compactor.make_room()
        return replace(undone, made_room=room, tokens_after=model.current, tokens_whole=whole)


def redo(log: OpenLog, model: ActiveModel) -> Undone:
    """Switches on again what was undone last."""
    with log.reading() as state:
        past = history(log.log.read() if state.head else ())
        change = past.undone[-1] if past.undone else Change()
        return _write(log, model, change, redoing(past))


def _write(log: OpenLog, model: ActiveModel, change: Change, reverts: list[Revert]) -> Undone:
    if not reverts:
        return Undone()
    before = model.current
    log.append([log.draft(revert) for revert in reverts])
    return Undone(
        batch=change.batch,
        seq=change.seq,
        kind=change.kind,
        purpose=change.purpose,
        tokens_before=before,
        tokens_after=model.current,
        # The writes of a step stand in the log directly after the event that it wrote.
        files_at=0 if change.batch else change.undone_at or change.seq,
    )
