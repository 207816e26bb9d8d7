"""A model that asks for a compaction itself, by the tool `refold_compact`.

The wish is the call in the log and its answer; it is granted once, when the turn has ended: at the
request that begins with the user's next message, never between a call and its result. Neighbours:
`engine.toolbox` has the tool, `trigger` grants the wish, `compactor` gives its instructions to the
writer.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from refold.core.fold import Fold
from refold.core.model import COMPACT_TOOL, MADE_ROOM, ToolCall, ToolResult
from refold.core.shortened import text_of

NOTED = "Noted: the conversation will be compacted when this turn has ended."
INSTRUCTIONS_CHARS_MAX = 2_000


def is_granted(state: Fold) -> bool:
    """Whether a compaction is due because the model asked for it in the turn that has just
    ended."""
    if not state.wish_before or not state.slots or state.slots[-1].seq != state.request:
        return False
    changes = [seq for seq, batch in state.undoable if state.purposes.get(batch) != MADE_ROOM]
    call = _call(state)
    is_new = not changes or changes[-1] < state.wish_before
    return is_new and call is not None and _is_noted(state, call.id)


def instructions_of(state: Fold) -> str:
    """What the model wants to be kept; empty where it did not say."""
    call = _call(state)
    given = call.arguments if call is not None else ""
    try:
        read = msgspec.json.decode(given) if isinstance(given, str) else given
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    said = read.get("instructions") if isinstance(read, Mapping) else ""
    return said[:INSTRUCTIONS_CHARS_MAX] if isinstance(said, str) else ""


def _call(state: Fold) -> ToolCall | None:
    slot = state.slot_at(state.wish_before)
    blocks = slot.message.blocks if slot is not None else ()
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    return next((call for call in reversed(calls) if call.name == COMPACT_TOOL), None)


def _is_noted(state: Fold, call: str) -> bool:
    """Whether the tool answered the call that it will be done; a refusal is no promise."""
    results = (
        block
        for slot in state.slots
        if slot.seq > state.wish_before
        for block in slot.message.blocks
        if isinstance(block, ToolResult) and block.call == call
    )
    return any(text_of(result).startswith(NOTED) for result in results)
