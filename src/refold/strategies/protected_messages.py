"""The messages that a compaction must not touch, and the places where it may cut.

Pins, the latest request and the units they belong to are protected; system messages, results of
excluded tools and the newest compaction of a provider are pinned for the plan, as far as they fit.
Cuts are made at seams only, so a tail consists of whole units (`laws.units`). Neighbours: `brief`
passes the page to strategies, `compaction.planning` pins messages before the ladder runs.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import Budget
from refold.core.laws import is_request, units
from refold.core.model import (
    Opaque,
    Slot,
    ToolCall,
    View,
)

STANDIN_SHARE = 0.8  # of the messages that it stands for: the largest size of a stand-in
# Of the free room: the share of a latest request that would otherwise leave nothing for the rest.
REQUEST_SHARE = 0.75
# Of the input limit: the largest share of pinned results of excluded tools, and of system messages.
EXCLUDED_SHARE, SYSTEM_SHARE = 0.25, 0.15


def protected(view: View) -> set[int]:
    """The seqs that no edit may touch: pins, the latest request, and the units they belong to."""
    return with_units(view, {*view.pins, view.request})


def with_kept(view: View, config: Config, budget: Budget) -> View:
    """The page with additional pins, so that strategies need no special cases: system messages and
    results of excluded tools as far as they fit, and the newest compaction of a provider."""
    limit = budget.input_max / budget.factor
    held = {*view.pins, *_system_seqs(view, SYSTEM_SHARE * limit)}
    # Only the provider can read the messages covered by its compaction.
    for slot in reversed(view.slots):
        raw = [block.raw for block in slot.message.blocks if isinstance(block, Opaque)]
        if any(isinstance(each, dict) and each.get("type") == "compaction" for each in raw):
            held.add(slot.seq)
            break
    held |= _excluded_seqs(view, config.exclude_tools, EXCLUDED_SHARE * limit)
    return view if held == view.pins else replace(view, pins=frozenset(held))


def with_tail(view: View, count: int) -> View:
    """The page with that many messages at its end pinned: they stay even if the target is
    missed."""
    seqs = [slot.seq for slot in view.slots if not slot.standin]
    tail = set(seqs[-count:]) if count else set()
    return replace(view, pins=view.pins | with_units(view, tail)) if tail else view


def _system_seqs(view: View, left: float) -> set[int]:
    """The system messages that fit: the first one, then the newest."""
    system = [slot for slot in view.slots if slot.message.role == "system" and not slot.standin]
    held: set[int] = set()
    for slot in (*system[:1], *reversed(system[1:])):
        left -= slot.tokens
        if left < 0:
            break
        held.add(slot.seq)
    return held


def _excluded_seqs(view: View, names: Sequence[str], left: float) -> set[int]:
    """The results of these tools that fit, the newest first, with their calls."""
    calling = {
        at
        for at, slot in enumerate(view.slots)
        for block in slot.message.blocks
        if type(block) is ToolCall and block.name in names
    }
    held: set[int] = set()
    # Most pages have no such call, and need not be divided into units.
    for unit in reversed(units(view.slots)) if calling else ():
        if calling.isdisjoint(unit):
            continue
        slots = view.slots[unit.start : unit.stop]
        left -= tokens_of(slots)
        if left < 0:
            break
        held.update(slot.seq for slot in slots)
    return held


def untouched_tokens(view: View) -> int:
    """The size of the parts that no compaction touches: system, tools, pins, latest request."""
    held = {*view.pins, view.request}
    slots = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    return view.system_tokens + view.tools_tokens + tokens_of(slots)


def request_excess(view: View, fixed: int, full: int) -> int:
    """The tokens by which the latest request is too large, if the `fixed` part, which includes it,
    exceeds the full page. A pinned request is never too large."""
    slots = [slot for slot in view.slots if slot.seq == view.request and slot.seq not in view.pins]
    if not slots or fixed <= full:
        return 0
    tokens = tokens_of(slots)
    return max(0, tokens - int(REQUEST_SHARE * max(0, full - fixed + tokens)))


def with_units(view: View, seqs: Set[int]) -> set[int]:
    """These seqs, completed to whole units."""
    completed: set[int] = set()
    for unit in units(view.slots):
        in_unit = [view.slots[index].seq for index in unit]
        if not seqs.isdisjoint(in_unit):
            completed.update(in_unit)
    return completed


def opening(view: View) -> int:
    """The number of leading slots up to and including the first user request: the task itself."""
    for index, slot in enumerate(view.slots):
        if is_request(slot):
            return index + 1
    return 0


def tail_start(view: View, *, keep_messages: int, keep_tokens: int) -> int:
    """The index of the first slot of the tail: whole units from the end, at most this many
    messages and tokens; the newest unit always stays."""
    count = len(view.slots)
    start = count
    tokens = 0
    for unit in reversed(units(view.slots)):
        tokens += run_tokens(view.slots, unit)
        is_over = count - unit.start > keep_messages or tokens > keep_tokens
        if is_over and start < count:
            break
        start = unit.start
    return start


def last_seam(page_units: Sequence[range], latest: int) -> int:
    """The last seam at or before this index."""
    return max((unit.start for unit in page_units if unit.start <= latest), default=0)


def tokens_of(slots: Sequence[Slot]) -> int:
    """The size of these slots together."""
    return sum(slot.tokens for slot in slots)


def standin_max(slots: Sequence[Slot]) -> int:
    """The largest size of a stand-in for these slots. An earlier stand-in among them was held to
    its share already, so that together they only have to shrink."""
    if any(slot.standin for slot in slots):
        return tokens_of(slots) - 1
    return int(STANDIN_SHARE * tokens_of(slots))


def run_tokens(slots: Sequence[Slot], run: range) -> int:
    """The size of the slots of a run; a run is a range of indices."""
    return tokens_of(slots[run.start : run.stop])
