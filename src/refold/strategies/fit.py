"""The last resort: blocks too large for the window are cut in the middle, with a note on how to
read the original.

As the last rung, it aims at the hard limit. It cuts the largest blocks down to one common size:
tool results first, then call arguments, then text, then the first and the latest request if one
alone fills a quarter of the limit. If gentle cuts are not enough, the oldest units are hidden as
well, which is better than cutting everything to pieces, and the rest is cut harder, requests of any
size last, down to stubs. Pinned units are never touched. Neighbour: `hide` is the rung before it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import page_tokens
from refold.core.model import Block, Edit, Hide, Replace, Slot, Text, Thinking, ToolCall, ToolResult
from refold.core.plan import Ask
from refold.core.shortened import shortened, text_of
from refold.strategies.brief import Brief, reach
from refold.strategies.hide import first_request, hide, is_notice, reaches_over
from refold.strategies.protected_messages import tokens_of, with_units

# The order of cutting: each block has its turn.
RESULTS, CALLS, TEXTS, REST, KEPT, SMALL_KEPT = range(6)
TURNS: dict[type[Block], int] = {ToolResult: RESULTS, ToolCall: CALLS, Text: TEXTS}
GENTLE_TOKENS, HARSH_TOKENS = 512, 64
HEAD_SHARE = 0.6
TRIES = 4
REASON = "cut to fit"

Cuts = dict[
    tuple[int, int], tuple[Edit, int]
]  # by seq and block: the edit, and the tokens it frees


class Piece(Struct, frozen=True):
    """A block that may be cut: its slot, its number there, its size, and its turn."""

    slot: Slot
    block: int
    tokens: int
    turn: int

    @property
    def original(self) -> Block:
        return self.slot.message.blocks[self.block]

    @property
    def key(self) -> tuple[int, int]:
        return self.slot.seq, self.block


def fit(brief: Brief) -> list[Edit | Ask]:
    """Cuts that bring the page under the target; the last of them leave only stubs."""
    gentle = (brief.budget.window // 8, GENTLE_TOKENS)
    cuts = cuts_of(brief, pieces(brief, brief.slots), brief.excess, gentle)
    if _freed_by(cuts) >= brief.excess:
        return [*edits_of(cuts)]
    hides = hide(replace(brief, settings={}))
    left, notice_tokens = brief.slots, 0
    for edit in hides:
        if isinstance(edit, Hide):
            left = tuple(
                slot
                for slot in left
                if not (edit.span.first <= slot.seq and slot.last <= edit.span.last)
                or slot.seq in brief.view.pins
            )
            notice_tokens += brief.hide_tokens(edit)
    freed = brief.view.slot_tokens - tokens_of(left) - notice_tokens
    harsh = (*gentle, HARSH_TOKENS, 0)
    cuts = cuts_of(brief, pieces(brief, left), brief.excess - freed, harsh)
    hard_limit = page_tokens(brief.view, brief.budget.factor, brief.budget.input_max)
    over = brief.view.tokens - freed - _freed_by(cuts) - hard_limit
    if over > 0:
        small = [piece for piece in _all_pieces(brief, left) if piece.turn == SMALL_KEPT]
        cuts |= cuts_of(brief, small, over, (0,))
    return [*hides, *edits_of(cuts)]


# --- blocks that may be cut ---


def pieces(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    """The blocks of these slots that may be cut, the largest first, without small requests."""
    return [piece for piece in _all_pieces(brief, slots) if piece.turn != SMALL_KEPT]


def _all_pieces(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    view = brief.view
    # Untouchable: pins with their units, and summaries of a span with visible messages in it.
    fixed = with_units(view, view.pins) if view.pins else set()
    for index, slot in enumerate(view.slots):
        if slot.standin and reaches_over(view, range(index, index + 1)):
            fixed.add(slot.seq)
    # The task: system messages, the first request, the latest.
    first = first_request(view.slots)
    task = {view.request, *(slot.seq for slot in view.slots[first : first + 1])}
    for slot in view.slots:
        if slot.message.role == "system" and not slot.standin:
            task.add(slot.seq)
    huge = min(brief.budget.input_max, _most(brief)) / 4 / brief.budget.factor
    found: list[Piece] = []
    for slot in slots:
        if slot.seq in fixed or is_notice(slot):
            continue
        blocks = slot.message.blocks
        # Thinking is removed completely or not at all, and never if the message would be empty.
        has_text = any(text_of(block) for block in blocks if not isinstance(block, Thinking))
        for index, tokens in enumerate(_block_sizes(brief, slot)):
            if has_text or not isinstance(blocks[index], Thinking):
                turn = TURNS.get(type(blocks[index]), REST)
                # Results next to a request are not part of it.
                if slot.seq in task and turn != RESULTS:
                    turn = KEPT if slot.tokens > huge else SMALL_KEPT
                found.append(Piece(slot, index, tokens, turn))
    return sorted(found, key=lambda piece: -piece.tokens)


def _block_sizes(brief: Brief, slot: Slot) -> list[int]:
    """The tokens of each block of a slot: exact for a single block and for blocks other than text;
    else the slot's tokens, divided in proportion to characters."""
    blocks = slot.message.blocks
    if len(blocks) == 1:
        return [slot.tokens]
    contents = [
        content
        for block in blocks
        for content in (block.content if isinstance(block, ToolResult) else (block,))
    ]
    if not all(isinstance(content, Text | ToolCall) for content in contents):
        return [brief.block_tokens(slot.message, block) for block in blocks]
    chars = [len(text_of(block)) for block in blocks]
    total = max(1, sum(chars))
    return [slot.tokens * each // total for each in chars]


# --- down to one common size ---


def cuts_of(brief: Brief, cuttable: Sequence[Piece], excess: int, floors: Sequence[int]) -> Cuts:
    """The cuts of the gentlest floor that frees the excess, or of the last floor."""
    cuts: Cuts = {}
    for floor in floors:
        for turn in range(SMALL_KEPT + 1):
            lowest = floor
            if floor and turn == KEPT:  # requests are cut gently, except on the last floor
                lowest = max(floor, _most(brief) // 8)
            group = [piece for piece in cuttable if piece.turn == turn and piece.tokens > lowest]
            # The cuts of the group are computed again, from the whole blocks.
            keys = {piece.key for piece in group}
            others = {key: cut for key, cut in cuts.items() if key not in keys}
            cuts |= _lower(brief, group, excess - _freed_by(others), lowest)
            if _freed_by(cuts) >= excess:
                return cuts
    return cuts


def _most(brief: Brief) -> int:
    """The largest page: the window, or the target if the caller named it."""
    return min(brief.budget.window, brief.target) if brief.is_asked else brief.budget.window


def edits_of(cuts: Cuts) -> list[Edit]:
    return [edit for edit, _ in cuts.values()]


def _freed_by(cuts: Cuts) -> int:
    return sum(gain for _, gain in cuts.values())


def _lower(brief: Brief, group: Sequence[Piece], wanted: int, floor: int) -> Cuts:
    """Cuts to the size at which the group frees the wanted tokens. Sizes are estimates, so the
    size is lowered as long as too little is freed."""
    cuts: Cuts = {}
    aim = wanted + wanted // 50
    for _ in range(TRIES):
        size = max(floor, common_size([piece.tokens for piece in group], aim))
        cuts = {
            piece.key: (edit, gain)
            for piece in group
            if piece.tokens > size
            for edit, gain in [_cut(brief, piece, size)]
            if gain > 0
        }
        missing = wanted - _freed_by(cuts)
        if missing <= 0 or size == floor:
            break
        aim += 2 * missing
    return cuts


def common_size(sizes: Sequence[int], wanted: int) -> int:
    """The size to which the larger blocks must be cut to free the wanted tokens together; at least
    0. `sizes` are in descending order."""
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        following = sizes[count] if count < len(sizes) else 0
        if total - count * following >= wanted:
            return max(0, (total - wanted) // count)
    return 0


# --- one cut ---


def _cut(brief: Brief, piece: Piece, tokens_max: int) -> tuple[Edit, int]:
    """The edit that cuts a piece to this size, and the tokens it frees: the head and the tail of
    its text with a note between them, or a stub if a note does not fit."""
    original, span = piece.original, str(piece.slot.span)
    size = brief.block_tokens(piece.slot.message, original)
    # Half a secret is not recognizable, so secrets are removed before the text is cut.
    text = "" if isinstance(original, Thinking) else brief.redact(text_of(original))
    room = tokens_max
    for _ in range(TRIES):
        chars = len(text) * room // max(1, size)
        where = reach(brief.view, span, "to read all")
        note = f"\n[… about {size - room:,} tokens are cut here{where} …]\n"
        chars -= len(note)
        if not text or chars < len(note):
            break
        head = int(chars * HEAD_SHARE)
        edit = _edit_to(brief, piece, text[:head] + note + text[len(text) - (chars - head) :])
        after = _size_after(brief, piece, edit)
        if after <= tokens_max:
            return edit, size - after
        room = min(room * tokens_max // after, room - 1) - 2
    # Thinking is signed and cannot be reworded.
    stub = "" if isinstance(original, Thinking) else f"[cut{reach(brief.view, span)}]"
    edit = _edit_to(brief, piece, stub)
    return edit, size - _size_after(brief, piece, edit)


def _edit_to(brief: Brief, piece: Piece, text: str) -> Hide | Replace:
    """The edit that shows this text instead of the piece: a new notice for a stand-in, a replace
    for anything else."""
    slot, original = piece.slot, piece.original
    if slot.standin:
        return Hide(batch=brief.batch, span=slot.span, notice=text, reason=REASON)
    arguments = original.arguments if isinstance(original, ToolCall) else None
    if isinstance(arguments, str) and arguments.lstrip()[:1] == "{":
        # Arguments that came as JSON text must stay JSON, for providers that read them.
        text = json.dumps({"…": text}, ensure_ascii=False)
    return Replace(batch=brief.batch, seq=slot.seq, block=piece.block, text=text, reason=REASON)


def _size_after(brief: Brief, piece: Piece, edit: Hide | Replace) -> int:
    """The size of the piece as the edit leaves it."""
    if isinstance(edit, Hide):
        return brief.block_tokens(piece.slot.message, Text(edit.notice))
    return brief.block_tokens(piece.slot.message, shortened(piece.original, edit))
