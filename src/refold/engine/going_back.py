"""Undo and redo, carried out: what the log says is to be written, and room on the page after it.

A page that an undo makes too large is not compacted again: its oldest messages leave instead, as a
batch that the answer names. A redo gives back the very page that the undo was asked on, and nothing
leaves it: if that page is too large, the next request makes room. What is newest is looked for
again if others compacted or went back meanwhile. Neighbours: `log.undo` says what is written,
`compaction.compactor` makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from refold.compaction.active_model import ActiveModel
from refold.compaction.compactor import Compactor
from refold.core.codec import decode
from refold.core.fold import Fold
from refold.core.model import Event, Revert
from refold.core.switches import CONTROLS, switched
from refold.errors import Conflict
from refold.log.keys import keyed
from refold.log.log import TRIES_MAX
from refold.log.open_log import OpenLog
from refold.log.undo import Change, History, Undone, history, redoing, undoing

Choose = Callable[[History], tuple[Change, list[Revert]]]


def undo(log: OpenLog, model: ActiveModel, compactor: Compactor) -> Undone:
    """Switches the newest compaction or restore off that still stands."""
    with log.reading():
        undone = _switched(log, model, _to_undo)
        if not undone:
            return undone
        whole = model.current
        room = compactor.make_room()
        return replace(undone, made_room=room, tokens_after=model.current, tokens_whole=whole)


def redo(log: OpenLog, model: ActiveModel) -> Undone:
    """Switches on again what was undone last."""
    with log.reading():
        return _switched(log, model, _to_redo)


def _to_undo(past: History) -> tuple[Change, list[Revert]]:
    return past.standing[-1] if past.standing else Change(), undoing(past)


def _to_redo(past: History) -> tuple[Change, list[Revert]]:
    return past.undone[-1] if past.undone else Change(), redoing(past)


def _switched(log: OpenLog, model: ActiveModel, choose: Choose) -> Undone:
    for _ in range(TRIES_MAX):
        events = list(log.log.read()) if log.state.head else []
        change, reverts = choose(history(events))
        if not reverts:
            return Undone()
        if change.kind == "restore" and reverts[-1].seq == change.seq:
            reverts = [*_written_again(events, change.seq, reverts), *reverts]
        before, changes = model.current, list(log.state.undoable)
        drafts = [log.draft(revert) for revert in reverts]
        if log.append(drafts, fresh=partial(_is_unchanged, changes)):
            return _undone(change, before, model.current)
    said = f"{log.id}: others compacted it or went back {TRIES_MAX} times meanwhile"
    raise Conflict(said, head=log.state.head, hint="try again")


def _written_again(
    events: Sequence[Event], restore: int, reverts: Sequence[Revert]
) -> list[Revert]:
    """Takes off what was written again under its key after a restore, and comes back because that
    is undone: otherwise the page would have it twice."""
    head = events[-1].seq
    controls = [(event.seq, decode(event)) for event in events if event.kind in CONTROLS]
    off = switched([*controls, *enumerate(reverts, head + 1)]).off
    said = [one for one in keyed(e for e in events if e.kind == "message") if one[0] not in off]
    before = {key for seq, key in said if seq < restore}
    return [Revert(seq=seq) for seq, key in said if seq > restore and key in before]


def _is_unchanged(changes: list[tuple[int, str]], state: Fold) -> bool:
    return state.undoable == changes


def _undone(change: Change, before: int, after: int) -> Undone:
    return Undone(
        batch=change.batch,
        seq=change.seq,
        kind=change.kind,
        purpose=change.purpose,
        tokens_before=before,
        tokens_after=after,
        # The writes of a step stand in the log directly after the event that it wrote.
        files_at=0 if change.batch else change.undone_at or change.seq,
    )
