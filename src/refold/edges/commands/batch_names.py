"""What a batch of edits is called where a person reads of it: by its purpose."""

from __future__ import annotations

from refold.core.model import ADOPTED, BY_HAND, CLEARED, MADE_ROOM, NATIVE

COMPACTION = "compaction"
BATCHES = {
    MADE_ROOM: "removal of the oldest",
    BY_HAND: "hide",
    CLEARED: "clear",
    ADOPTED: COMPACTION,
    NATIVE: COMPACTION,
}


def batch_noun(purpose: str) -> str:
    """What a batch is called: `compaction`, `hide`, `clear`."""
    return BATCHES.get(purpose, COMPACTION)
