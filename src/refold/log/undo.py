"""Going back, and holding on: what is to be written to switch off a batch, a restore or a stretch
of the log, or to keep a message on the page.

Each function looks at the log as it is and gives the bodies to append, or says why there is nothing
to do. Nothing is taken away: the fold skips what is switched off. Neighbours: `core.fold` applies
them, `engine.context` appends them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from refold.core.fold import CLEARED, Fold
from refold.core.laws import units
from refold.core.model import Checkpoint, Event, Hide, Pin, Restore, Revert, Slot, Span
from refold.errors import Invalid, NotFound
from refold.log.log import Log
from refold.strategies.gist.layout import runs

BATCHES_NAMED = 5


def reverting(state: Fold, batch: str) -> Revert:
    """Switches one compaction off."""
    batches = [known for _, known in state.undoable if known]
    if batch not in batches:
        named = ", ".join(batches[-BATCHES_NAMED:])
        raise NotFound(f"there is no batch {batch!r} to revert", hint=f"batches: {named or 'none'}")
    return Revert(batch=batch)


def undoing(state: Fold) -> list[Revert]:
    """Switches the newest compaction or restore off; nothing if there is none."""
    if not state.undoable:
        return []
    seq, batch = state.undoable[-1]
    return [Revert(batch=batch) if batch else Revert(seq=seq)]


def restoring(state: Fold, to: int | str) -> Restore:
    """Switches off everything after a seq or checkpoint."""
    seq = _checkpoint_seq(state, to) if isinstance(to, str) else to
    if not 0 <= seq <= state.head:
        raise Invalid(f"cannot restore #{seq}", hint=f"the log goes from 1 to {state.head}")
    return Restore(seq=seq)


def _checkpoint_seq(state: Fold, name: str) -> int:
    """Where a checkpoint is; NotFound if there is none of that name."""
    known = state.checkpoints
    if name not in known:
        names = ", ".join(known) or "none"
        raise NotFound(f"there is no checkpoint {name!r}", hint=f"checkpoints: {names}")
    return known[name]


def checkpointing(state: Fold, messages: int, every: int) -> Checkpoint | None:
    """The checkpoint that is due after so many new messages, if one is due every so often."""
    count = sum(state.counts.values())
    if not every or count // every == (count - messages) // every:
        return None
    return Checkpoint(name=f"message-{count}", seq=state.head)


def clearing(state: Fold) -> list[Hide]:
    """Takes everything off the page but system messages and pins: one edit for each run between
    those."""
    going: list[Slot] = []
    staying: list[Slot] = []
    for slot in state.slots:
        if slot.seq in state.pins or slot.message.role == "system":
            staying.append(slot)
        else:
            going.append(slot)
    batch = secrets.token_hex(8)
    spans = [Span(run[0].seq, run[-1].last) for run in runs(going, staying)]
    return [Hide(batch=batch, span=span, reason=CLEARED) for span in spans]


def pinning(log: Log, seq: int, *, on: bool) -> list[Pin]:
    """Holds a message, or lets go of it; calls and their results go together."""
    message_event(log, seq)
    return [Pin(seq=one, on=on) for one in _unit_of(log.state.slots, seq)]


def _unit_of(slots: Sequence[Slot], seq: int) -> list[int]:
    """The messages that go together with one; itself alone if it is not on the page."""
    for unit in units(slots):
        seqs = [slots[index].seq for index in unit]
        if seq in seqs:
            return seqs
    return [seq]


def message_event(log: Log, seq: int) -> Event:
    """The event of a message; NotFound if there is no such message."""
    if 0 < seq <= log.state.head:
        for event in log.read(seq - 1, seq):
            if event.kind == "message":
                return event
    hint = "context.view.slots lists the messages by seq"
    raise NotFound(f"there is no message #{seq}", hint=hint)
