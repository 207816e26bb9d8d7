"""Where a page is cut for a compaction that the provider writes: everything up to a seam goes, and
the rest stays as it was sent, thinking included.

The provider puts what it wrote first, so the cut begins at the first message; the first message
that stays is said by another role than the last that goes, no call is open at the cut, and nothing
on one side depends on the other. What stays is about half of the room; a gist of what goes is the
edit's own text, for readers that cannot take what the provider wrote. The latest request may go as
well: what the provider wrote stands for it. Neighbours: `compaction.native` asks the provider,
`gist` makes the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec.structs import replace

from refold.core.laws import calls_of, seams
from refold.core.model import NATIVE, Edit, Slot, Text, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief, tokens_of
from refold.strategies.gist import gist_of

TAIL = 0.5  # of the room that the target leaves: what stays as it was sent
WORTH_TOKENS = 1_000  # with less to go, nothing is asked for


def native(brief: Brief) -> list[Edit | Ask]:
    """One summary of everything before the cut; nothing where no cut is legal, or worth it."""
    view = brief.view
    first, cut = leading(view), _cut(brief)
    if cut is None or tokens_of(view.slots[first:cut]) < WORTH_TOKENS:
        return []
    room = brief.target - view.tokens + tokens_of(view.slots[first:cut])
    draft = gist_of(brief, first, cut, room)
    return [] if draft is None else [replace(draft, purpose=NATIVE, reason=NATIVE)]


def leading(view: View) -> int:
    """How many slots stand before the conversation: the system's first words."""
    roles = [slot.message.role for slot in view.slots]
    return next((at for at, role in enumerate(roles) if role != "system"), len(roles))


def _cut(brief: Brief) -> int | None:
    """The first legal cut whose tail leaves room for the rest; else the last there is."""
    view = brief.view
    most = TAIL * max(0, brief.target - view.tokens + view.slot_tokens)
    tails = list(accumulate((slot.tokens for slot in reversed(view.slots)), initial=0))
    places = list(legal_cuts(view))
    small = (at for at in places if tails[len(view.slots) - at] <= most)
    return next(small, places[-1] if places else None)


def legal_cuts(view: View) -> Iterator[int]:
    """The indices before which a page may be cut for the provider."""
    slots, first = view.slots, leading(view)
    pinned = next((at for at, slot in enumerate(slots) if slot.seq in view.pins), len(slots))
    shared = _shared_ids(slots)
    for at in seams(slots):
        if not first < at < len(slots) or at > max(pinned, first):
            continue
        if not any(start < at <= stop for start, stop in shared) and _parts(slots, first, at):
            yield at


def _parts(slots: Sequence[Slot], first: int, at: int) -> bool:
    """Whether the roles on both sides differ, and both are said; no call waits at the cut."""
    said = (slots[place] for place in range(at - 1, first - 1, -1) if _is_said(slots[place]))
    before, kept = next(said, None), slots[at]
    if before is None or kept.message.role == "system" or not _is_said(kept):
        return False
    return not calls_of(before.message) and _is_answer(before) != _is_answer(kept)


def _is_answer(slot: Slot) -> bool:
    return slot.message.role == "assistant"


def _is_said(slot: Slot) -> bool:
    """Whether a message says anything: an empty one may not be sent."""
    return any(not isinstance(one, Text) or one.text.strip() for one in slot.message.blocks)


def _shared_ids(slots: Sequence[Slot]) -> list[tuple[int, int]]:
    """Where two calls have one id: the second is sent under another for as long as the first is on
    the page."""
    seen: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for at, slot in enumerate(slots):
        for id in calls_of(slot.message):
            if id in seen:
                found.append((seen[id], at))
            seen[id] = at
    return found
