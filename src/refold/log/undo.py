"""Going back, and holding on: what is to be written so that a batch, a restore or a stretch of the
log is off, or a message stays.

Each function looks at the log as it is and gives the bodies to append, or says why there is nothing
to do. Nothing is taken away: the fold skips what is switched off. Neighbours: `core.fold` applies
them, `engine` appends them.
"""

from __future__ import annotations

import secrets

from refold.core.fold import Fold
from refold.core.laws import units
from refold.core.model import Checkpoint, Hide, Pin, Restore, Revert, Span
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
    """Switches off everything behind a seq or checkpoint."""
    known = state.checkpoints
    if isinstance(to, str) and to not in known:
        raise NotFound(
            f"there is no checkpoint {to!r}", hint="checkpoints: " + (", ".join(known) or "none")
        )
    seq = known[to] if isinstance(to, str) else to
    if not 0 <= seq <= state.head:
        raise Invalid(f"cannot restore #{seq}", hint=f"the log goes from 1 to {state.head}")
    return Restore(seq=seq)


def checkpointing(state: Fold, messages: int, every: int) -> Checkpoint | None:
    """The checkpoint that is due after so many new messages, if one is due every so often."""
    count = sum(state.counts.values())
    if not every or count // every == (count - messages) // every:
        return None
    return Checkpoint(name=f"message-{count}", seq=state.head)


def clearing(state: Fold) -> list[Hide]:
    """Takes everything off the page but system messages and pins: one edit for each run between
    those."""
    stays = {
        slot.seq: slot
        for slot in state.slots
        if slot.seq in state.pins or slot.message.role == "system"
    }
    going = runs([slot for slot in state.slots if slot.seq not in stays], stays.values())
    batch = secrets.token_hex(8)
    return [Hide(batch=batch, span=Span(run[0].seq, run[-1].last), reason="clear") for run in going]


def pinning(log: Log, seq: int, *, on: bool) -> list[Pin]:
    """Holds a message, or lets go of it; calls and their results go together."""
    event = next(iter(log.read(seq - 1, seq)), None) if seq > 0 else None
    if event is None or event.kind != "message":
        raise NotFound(
            f"there is no message #{seq}", hint="context.view.slots lists the messages by seq"
        )
    slots = log.state.slots
    unit = next(
        (unit for unit in units(slots) if any(slots[index].seq == seq for index in unit)), range(0)
    )
    return [Pin(seq=found, on=on) for found in [slots[index].seq for index in unit] or [seq]]
