"""The cut of a page for a compaction by the provider: everything before a seam is removed, and the
rest stays as it was sent, thinking included.

The provider's summary comes first on the page, so the cut starts at the first message. A cut is
legal if the roles on both sides differ, no call is open across it, and neither side depends on the
other. The tail takes about half of the room. The edit's own text is a gist, for readers that cannot
use the native summary. The latest request may be covered, because the native summary includes it.
Neighbours: `compaction.native` calls the provider, `gist` writes the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from refold.core.laws import calls_of, seams
from refold.core.model import NATIVE, Edit, Slot, Text, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief
from refold.strategies.gist import gist_of
from refold.strategies.protected_messages import tokens_of

TAIL = 0.5  # of the room under the target: the part that stays as it was sent
WORTH_TOKENS = 1_000  # a smaller span is not worth a call


def native(brief: Brief) -> list[Edit | Ask]:
    """One summary of everything before the cut; empty if no cut is legal or worth it."""
    view, slots = brief.view, brief.slots
    cuts = list(legal_cuts(view))
    if not cuts:
        return []
    # The first cut with a tail that leaves room for the rest; else the last one.
    most = TAIL * max(0, brief.target - view.tokens + view.slot_tokens)
    tails = list(accumulate((slot.tokens for slot in reversed(slots)), initial=0))
    cut = next((at for at in cuts if tails[len(slots) - at] <= most), cuts[-1])
    first = leading(view)
    covered_tokens = tokens_of(slots[first:cut])
    if covered_tokens < WORTH_TOKENS:
        return []
    draft = gist_of(brief, first, cut, brief.target - view.tokens + covered_tokens)
    return [] if draft is None else [replace(draft, purpose=NATIVE, reason=NATIVE)]


def leading(view: View) -> int:
    """The number of system messages in front of the conversation."""
    roles = [slot.message.role for slot in view.slots]
    return next((at for at, role in enumerate(roles) if role != "system"), len(roles))


def legal_cuts(view: View) -> Iterator[int]:
    """The indices before which a page may be cut for the provider."""
    slots, first = view.slots, leading(view)
    pinned = next((at for at, slot in enumerate(slots) if slot.seq in view.pins), len(slots))
    shared = _shared_ids(slots)
    for at in seams(slots):
        if not first < at < len(slots) or at > max(pinned, first):
            continue
        if not any(start < at <= stop for start, stop in shared) and _separates(slots, first, at):
            yield at


def _separates(slots: Sequence[Slot], first: int, at: int) -> bool:
    """Whether both sides of a cut have content, with different roles and no open call."""
    filled = (slot for slot in reversed(slots[first:at]) if _has_content(slot))
    before, after = next(filled, None), slots[at]
    if before is None or after.message.role == "system" or not _has_content(after):
        return False
    roles = before.message.role, after.message.role
    return not calls_of(before.message) and roles.count("assistant") == 1


def _has_content(slot: Slot) -> bool:
    """Whether a message can be sent: providers refuse empty ones."""
    return any(not isinstance(block, Text) or block.text.strip() for block in slot.message.blocks)


def _shared_ids(slots: Sequence[Slot]) -> list[tuple[int, int]]:
    """The pairs of slots with calls of the same id: the second call is sent under another id while
    the first is on the page."""
    last_use: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for at, slot in enumerate(slots):
        for id in calls_of(slot.message):
            if id in last_use:
                pairs.append((last_use[id], at))
            last_use[id] = at
    return pairs
