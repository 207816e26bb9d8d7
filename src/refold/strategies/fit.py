"""No dead end: whatever is too large for the window is cut in the middle, with a note that leads
back to all of it.

The last rung, so its target is the hard limit. It lowers a water level on the largest blocks: tool
results first, then call arguments, then texts; the first and the latest request only if one fills a
quarter of the window by itself. If gentle levels do not do, the oldest units are hidden too, which
beats cutting everything to pieces, and what is left is cut harder, to stubs if it must. Pinned
units are never touched. Neighbour: `hide` is the rung before this one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.fold import shortened, text_of
from refold.core.laws import units
from refold.core.model import (
    Block,
    Edit,
    Hide,
    Media,
    Opaque,
    Replace,
    Slot,
    Span,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    View,
)
from refold.core.plan import Ask
from refold.strategies.brief import Brief, block_tokens, text_tokens
from refold.strategies.hide import first_request, hide, is_notice, reaches_over

RESULTS, CALLS, TEXTS, REST, KEPT = range(5)
GENTLE_TOKENS, HARSH_TOKENS = 512, 64
HEAD_SHARE = 0.6
TRIES = 4


class Piece(Struct, frozen=True):
    """A block that may be cut: where it stands, how large it is, and its turn."""

    slot: Slot
    block: int
    tokens: int
    turn: int

    @property
    def whole(self) -> Block:
        return self.slot.message.blocks[self.block]


def fit(brief: Brief) -> list[Edit | Ask]:
    """Cuts that bring the page under the target; the last of them leave stubs only."""
    gentle = (brief.budget.window // 8, GENTLE_TOKENS)
    cuts, freed = cuts_of(brief, pieces(brief, brief.view.slots), brief.excess, gentle)
    if freed >= brief.excess:
        return [*cuts]
    hides = hide(replace(brief, settings={}))
    left, freed = _without(brief, hides)
    cuts, _ = cuts_of(brief, pieces(brief, left), brief.excess - freed, (*gentle, HARSH_TOKENS, 0))
    return [*hides, *cuts]


def _without(brief: Brief, hides: Iterable[Edit | Ask]) -> tuple[list[Slot], int]:
    """The slots that these edits leave, and the tokens that they free."""
    spans = [edit for edit in hides if isinstance(edit, Hide)]
    left = [
        slot
        for slot in brief.view.slots
        if not any(_covers(brief.view, edit.span, slot) for edit in spans)
    ]
    notices = sum(text_tokens(brief.count, edit.notice) for edit in spans if edit.notice)
    return left, brief.view.slot_tokens - sum(slot.tokens for slot in left) - notices


def _covers(view: View, span: Span, slot: Slot) -> bool:
    return span.first <= slot.seq and slot.last <= span.last and slot.seq not in view.pins


# --- what may be cut ---


def pieces(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    """Every block of these slots that may be cut, the largest first."""
    view = brief.view
    fixed, kept = _fixed(view), _kept(view)
    huge = brief.budget.window / 4 / brief.budget.factor
    found: list[Piece] = []
    for slot in slots:
        if slot.seq in fixed or is_notice(slot):
            continue
        for block, tokens in enumerate(shares(brief, slot)):
            turn = _turn(slot.message.blocks[block])
            if slot.seq in kept and turn != RESULTS:  # results beside a request are no part of it
                turn = KEPT
            if _may_go(slot, block) and (turn != KEPT or slot.tokens > huge):
                found.append(Piece(slot, block, tokens, turn))
    return sorted(found, key=lambda piece: -piece.tokens)


def _fixed(view: View) -> set[int]:
    """The pins and the units they belong to, and summaries of a span in which something else is
    still shown."""
    over = {
        s.seq for i, s in enumerate(view.slots) if s.standin and reaches_over(view, range(i, i + 1))
    }
    if not view.pins:
        return over
    held = (unit for unit in units(view.slots) if any(view.slots[i].seq in view.pins for i in unit))
    return over | {view.slots[i].seq for unit in held for i in unit}


def _kept(view: View) -> set[int]:
    """What says what the work is about: system messages, the first request, the latest."""
    first = first_request(view.slots)
    kept = {slot.seq for slot in view.slots if slot.message.role == "system" and not slot.standin}
    return kept | {view.request} | {slot.seq for slot in view.slots[first : first + 1]}


def _turn(block: Block) -> int:
    match block:
        case ToolResult():
            return RESULTS
        case ToolCall():
            return CALLS
        case Text():
            return TEXTS
        case Thinking() | Media() | Opaque():
            return REST


def _may_go(slot: Slot, block: int) -> bool:
    """Thinking can only go whole, and not where nothing else would be left of the message."""
    if not isinstance(slot.message.blocks[block], Thinking):
        return True
    return any(not isinstance(other, Thinking) and text_of(other) for other in slot.message.blocks)


def shares(brief: Brief, slot: Slot) -> list[int]:
    """The tokens of each block of a slot: exact where there is one block or where signs say
    nothing of the size."""
    blocks = slot.message.blocks
    if len(blocks) == 1:
        return [slot.tokens]
    if any(_weightless(block) for block in blocks):
        return [block_tokens(brief.count, slot.message, block) for block in blocks]
    signs = [len(text_of(block)) for block in blocks]
    return [slot.tokens * sign // max(1, sum(signs)) for sign in signs]


def _weightless(block: Block) -> bool:
    """Whether a block's size does not follow from its text."""
    if isinstance(block, ToolResult):
        return any(not isinstance(part, Text) for part in block.content)
    return isinstance(block, Media | Opaque | Thinking)


# --- the water level ---


def cuts_of(
    brief: Brief, found: Sequence[Piece], excess: int, floors: Sequence[int]
) -> tuple[list[Edit], int]:
    """The cuts of the gentlest floor that frees the excess, or those of the last; and what they
    free."""
    cuts: dict[tuple[int, int], tuple[Edit, int]] = {}
    freed = 0
    for floor in floors:
        for turn in range(KEPT + 1):
            lowest = max(floor, brief.budget.window // 8) if floor and turn == KEPT else floor
            group = [piece for piece in found if piece.turn == turn and piece.tokens > lowest]
            before = sum(cuts.get(_place(piece), (None, 0))[1] for piece in group)
            cuts |= _lowered(brief, group, excess - freed + before, lowest)
            freed = sum(gain for _, gain in cuts.values())
            if freed >= excess:
                return [edit for edit, _ in cuts.values()], freed
    return [edit for edit, _ in cuts.values()], freed


def _place(piece: Piece) -> tuple[int, int]:
    return piece.slot.seq, piece.block


def _lowered(
    brief: Brief, group: Sequence[Piece], wanted: int, floor: int
) -> dict[tuple[int, int], tuple[Edit, int]]:
    """Cuts to the level at which the group frees what is wanted; sizes are estimates, so a
    shortfall lowers it."""
    cuts: dict[tuple[int, int], tuple[Edit, int]] = {}
    aim = wanted + wanted // 50
    for _ in range(TRIES):
        level = max(floor, water_level([piece.tokens for piece in group], aim))
        made = ((piece, cut(brief, piece, level)) for piece in group if piece.tokens > level)
        cuts = {_place(piece): (edit, gain) for piece, (edit, gain) in made if gain > 0}
        short = wanted - sum(gain for _, gain in cuts.values())
        if short <= 0 or level == floor:
            break
        aim += 2 * short
    return cuts


def water_level(sizes: Sequence[int], wanted: int) -> int:
    """The size to which the larger ones must come down, so that together they lose what is
    wanted; at least 0. `sizes` fall."""
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        following = sizes[count] if count < len(sizes) else 0
        if total - count * following >= wanted:
            return max(0, (total - wanted) // count)
    return 0


# --- one cut ---


def cut(brief: Brief, piece: Piece, tokens_max: int) -> tuple[Edit, int]:
    """The edit that brings a piece to this size if a note fits into it, and the tokens it frees."""
    whole, message = piece.whole, piece.slot.message
    size = block_tokens(brief.count, message, whole)
    text = "" if isinstance(whole, Thinking) else text_of(whole)
    room = tokens_max
    for _ in range(TRIES):
        short = text and _middle_cut(
            text, len(text) * room // max(1, size), piece.slot.span, size - room
        )
        edit = _edit(brief, piece, short or _stub(whole, piece.slot.span))
        after = _size_after(brief, piece, edit)
        if after <= tokens_max or not short:
            return edit, size - after
        room = min(room * tokens_max // after, room - 1) - 2
    edit = _edit(brief, piece, _stub(whole, piece.slot.span))
    return edit, size - _size_after(brief, piece, edit)


def _middle_cut(text: str, signs: int, span: Span, lost: int) -> str:
    """Head and tail of the text with a note between, in about this many signs; nothing if only a
    note has room."""
    note = f"\n[… about {lost:,} tokens are cut here; unfold {span} to read all …]\n"
    room = signs - len(note)
    if room < len(note):
        return ""
    head = int(room * HEAD_SHARE)
    return text[:head] + note + text[len(text) - (room - head) :]


def _stub(block: Block, span: Span) -> str:
    return "" if isinstance(block, Thinking) else f"[cut; unfold {span}]"


def _edit(brief: Brief, piece: Piece, text: str) -> Edit:
    slot, whole = piece.slot, piece.whole
    if slot.standin:
        return Hide(batch=brief.batch, span=slot.span, notice=text, reason="cut to fit")
    if isinstance(whole, ToolCall) and _is_json(whole.arguments):
        text = json.dumps({"…": text}, ensure_ascii=False)
    return Replace(
        batch=brief.batch, seq=slot.seq, block=piece.block, text=text, reason="cut to fit"
    )


def _is_json(arguments: object) -> bool:
    """Arguments that came as JSON text must stay JSON, for providers that read them."""
    return isinstance(arguments, str) and arguments.lstrip()[:1] == "{"


def _size_after(brief: Brief, piece: Piece, edit: Edit) -> int:
    if isinstance(edit, Replace):
        return block_tokens(brief.count, piece.slot.message, shortened(piece.whole, edit))
    text = edit.notice if isinstance(edit, Hide) else ""
    return block_tokens(brief.count, piece.slot.message, Text(text))
