"""No dead end: whatever is too large for the window is cut in the middle, with a note that leads
back to all of it.

The last rung, so its target is the hard limit. It cuts the largest blocks down to one common size:
tool results first, then call arguments, then texts; the first and the latest request if one alone
fills a quarter of the limit. If gentle cuts are not enough, the oldest units are hidden as well,
which is better than cutting everything to pieces, and what is left is cut harder, requests of any
size last, to stubs if it must be. Pinned units are never touched. Neighbours: `cut` makes one cut;
`hide` is the rung before this one.

One block cut in the middle, or to a stub, so that it keeps to a size.

The head and the tail of its text stay, with a note between them that says how much is missing and
how to read it. A stand-in is cut by a new notice for its span, anything else by a replace.
Neighbour: `fit` chooses what is cut, and to which size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import page_tokens
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
from refold.core.shortened import shortened, text_of
from refold.strategies.brief import Brief, reach, tokens_of, with_units
from refold.strategies.hide import first_request, hide, is_notice, reaches_over

RESULTS, CALLS, TEXTS, REST, KEPT, SMALL_KEPT = range(6)
GENTLE_TOKENS, HARSH_TOKENS = 512, 64

Cuts = dict[tuple[int, int], tuple[Edit, int]]  # by seq and block: the edit, and what it frees


def fit(brief: Brief) -> list[Edit | Ask]:
    """Cuts that bring the page under the target; the last of them leave stubs only."""
    gentle = (brief.budget.window // 8, GENTLE_TOKENS)
    cuts, freed = cuts_of(brief, pieces(brief, brief.slots), brief.excess, gentle)
    if freed >= brief.excess:
        return [*cuts]
    return _hide_and_cut(brief, (*gentle, HARSH_TOKENS, 0))


def _hide_and_cut(brief: Brief, floors: Sequence[int]) -> list[Edit | Ask]:
    """Hides the oldest units, and cuts what is left."""
    hides = hide(replace(brief, settings={}))
    left, freed = _left_by(brief, hides)
    cuts, gained = cuts_of(brief, pieces(brief, left), brief.excess - freed, floors)
    over = brief.view.tokens - freed - gained - _hard_limit(brief)
    if over > 0:
        cuts += cuts_of(brief, _small_requests(brief, left), over, (0,))[0]
    return [*hides, *cuts]


def _hard_limit(brief: Brief) -> int:
    """The most that may be sent, in tokens of our own estimate."""
    return page_tokens(brief.view, brief.budget.factor, brief.budget.input_max)


def _left_by(brief: Brief, hides: Iterable[Edit | Ask]) -> tuple[Sequence[Slot], int]:
    """The slots that these edits leave, and the tokens that they free."""
    left = brief.slots
    notices = 0
    for edit in hides:
        if isinstance(edit, Hide):
            left = _outside(left, edit.span, brief.view.pins)
            notices += brief.hide_tokens(edit)
    return left, brief.view.slot_tokens - tokens_of(left) - notices


def _outside(slots: Sequence[Slot], span: Span, pins: Set[int]) -> tuple[Slot, ...]:
    """The slots that hiding the span leaves: what is not in it, and pins."""
    return tuple(
        slot for slot in slots if slot.seq < span.first or slot.last > span.last or slot.seq in pins
    )


# --- what may be cut ---


def pieces(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    """Every block of these slots that may be cut, the largest first."""
    return [piece for piece in _all_pieces(brief, slots) if piece.turn != SMALL_KEPT]


def _small_requests(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    """The blocks of requests of usual size: cut only where the page would not fit otherwise."""
    return [piece for piece in _all_pieces(brief, slots) if piece.turn == SMALL_KEPT]


def _all_pieces(brief: Brief, slots: Sequence[Slot]) -> list[Piece]:
    fixed, kept = _fixed(brief.view), _protected_messages(brief.view)
    huge = brief.budget.input_max / 4 / brief.budget.factor
    found: list[Piece] = []
    for slot in slots:
        if slot.seq in fixed or is_notice(slot):
            continue
        turn_kept = KEPT if slot.tokens > huge else SMALL_KEPT
        found += _pieces_of(brief, slot, turn_kept if slot.seq in kept else None)
    return sorted(found, key=lambda piece: -piece.tokens)


def _pieces_of(brief: Brief, slot: Slot, turn_kept: int | None) -> list[Piece]:
    """The blocks of a slot, without thinking that must stay. `turn_kept` is the turn of what says
    what the work is about, if the slot does."""
    blocks = slot.message.blocks
    found: list[Piece] = []
    for index, tokens in enumerate(_block_sizes(brief, slot)):
        if _may_go(blocks, index):
            turn = _turn(blocks[index])
            # Results next to a request are not part of it.
            if turn_kept is not None and turn != RESULTS:
                turn = turn_kept
            found.append(Piece(slot, index, tokens, turn))
    return found


def _fixed(view: View) -> set[int]:
    """The pins and the units they belong to, and summaries of a span in which something else is
    still shown."""
    pinned = with_units(view, view.pins) if view.pins else set()
    for index, slot in enumerate(view.slots):
        if slot.standin and reaches_over(view, range(index, index + 1)):
            pinned.add(slot.seq)
    return pinned


def _protected_messages(view: View) -> set[int]:
    """What says what the work is about: system messages, the first request, the latest."""
    first = first_request(view.slots)
    kept = [slot for slot in view.slots if slot.message.role == "system" and not slot.standin]
    kept += view.slots[first : first + 1]
    return {view.request, *(slot.seq for slot in kept)}


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


def _may_go(blocks: Sequence[Block], index: int) -> bool:
    """Thinking can only go whole, and not where nothing else would be left of the message."""
    if not isinstance(blocks[index], Thinking):
        return True
    return any(text_of(block) for block in blocks if not isinstance(block, Thinking))


def _block_sizes(brief: Brief, slot: Slot) -> list[int]:
    """The tokens of each block of a slot: exact where there is one block or where the number of
    characters says nothing about the size."""
    blocks = slot.message.blocks
    if len(blocks) == 1:
        return [slot.tokens]
    if not all(_is_sized_by_text(block) for block in blocks):
        return [brief.block_tokens(slot.message, block) for block in blocks]
    return _sizes_by_text(blocks, slot.tokens)


def _sizes_by_text(blocks: Sequence[Block], tokens: int) -> list[int]:
    """The tokens of a slot divided among its blocks by their characters."""
    chars = [len(text_of(block)) for block in blocks]
    total = max(1, sum(chars))
    return [tokens * each // total for each in chars]


def _is_sized_by_text(block: Block) -> bool:
    """Whether a block's size follows from its text."""
    if isinstance(block, ToolResult):
        return all(isinstance(part, Text) for part in block.content)
    return not isinstance(block, Media | Opaque | Thinking)


# --- down to one common size ---


def cuts_of(
    brief: Brief, found: Sequence[Piece], excess: int, floors: Sequence[int]
) -> tuple[list[Edit], int]:
    """The cuts of the gentlest floor that frees the excess, or those of the last; and what they
    free."""
    cuts: Cuts = {}
    for floor in floors:
        for turn in range(SMALL_KEPT + 1):
            lowest = _lowest(brief, floor, turn)
            group = [piece for piece in found if piece.turn == turn and piece.tokens > lowest]
            others = _without(cuts, group)
            cuts |= _lower(brief, group, excess - _freed_by(others), lowest)
            if _freed_by(cuts) >= excess:
                return _edits_of(cuts), _freed_by(cuts)
    return _edits_of(cuts), _freed_by(cuts)


def _lowest(brief: Brief, floor: int, turn: int) -> int:
    """The floor for the blocks of a turn: requests are cut gently, unless all else failed."""
    if floor and turn == KEPT:
        return max(floor, brief.budget.window // 8)
    return floor


def _without(cuts: Cuts, group: Sequence[Piece]) -> Cuts:
    """The cuts of other pieces: those of the group are made again, from the whole."""
    places = {piece.place for piece in group}
    return {place: cut for place, cut in cuts.items() if place not in places}


def _freed_by(cuts: Cuts) -> int:
    return sum(gain for _, gain in cuts.values())


def _edits_of(cuts: Cuts) -> list[Edit]:
    return [edit for edit, _ in cuts.values()]


def _lower(brief: Brief, group: Sequence[Piece], wanted: int, floor: int) -> Cuts:
    """Cuts to the size at which the group frees what is wanted; sizes are estimates, so the size
    is lowered as long as too little is freed."""
    cuts: Cuts = {}
    aim = wanted + wanted // 50
    for _ in range(TRIES):
        size = max(floor, common_size([piece.tokens for piece in group], aim))
        cuts = _cuts_to(brief, group, size)
        missing = wanted - _freed_by(cuts)
        if missing <= 0 or size == floor:
            break
        aim += 2 * missing
    return cuts


def _cuts_to(brief: Brief, group: Sequence[Piece], tokens_max: int) -> Cuts:
    """The larger ones of the group cut to this size, where that frees something."""
    cuts: Cuts = {}
    for piece in group:
        if piece.tokens > tokens_max:
            edit, gain = cut(brief, piece, tokens_max)
            if gain > 0:
                cuts[piece.place] = (edit, gain)
    return cuts


def common_size(sizes: Sequence[int], wanted: int) -> int:
    """The size to which the larger ones must come down, so that together they lose what is
    wanted; at least 0. `sizes` fall."""
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        following = sizes[count] if count < len(sizes) else 0
        if total - count * following >= wanted:
            return max(0, (total - wanted) // count)
    return 0


HEAD_SHARE = 0.6
TRIES = 4
REASON = "cut to fit"


class Piece(Struct, frozen=True):
    """A block that may be cut: where it stands, how large it is, and its turn."""

    slot: Slot
    block: int
    tokens: int
    turn: int

    @property
    def whole(self) -> Block:
        return self.slot.message.blocks[self.block]

    @property
    def place(self) -> tuple[int, int]:
        """Its seq and the number of its block."""
        return self.slot.seq, self.block


def cut(brief: Brief, piece: Piece, tokens_max: int) -> tuple[Edit, int]:
    """The edit that brings a piece to this size if a note fits into it, and the tokens it frees."""
    whole = piece.whole
    size = brief.block_tokens(piece.slot.message, whole)
    # Half a secret could not be told by its look, so secrets go before the text is cut.
    text = "" if isinstance(whole, Thinking) else brief.redact(text_of(whole))
    room = tokens_max
    for _ in range(TRIES):
        chars = len(text) * room // max(1, size)
        short = _without_middle(text, chars, _note(brief, piece.slot.span, size - room))
        if not short:
            break
        edit = _edit_to(brief, piece, short)
        after = _size_after(brief, piece, edit)
        if after <= tokens_max:
            return edit, size - after
        room = min(room * tokens_max // after, room - 1) - 2
    stub = _edit_to(brief, piece, _stub(brief, piece))
    return stub, size - _size_after(brief, piece, stub)


def _note(brief: Brief, span: Span, lost: int) -> str:
    """Says how much is missing, and where it is."""
    where = reach(brief.view, str(span), "to read all")
    return f"\n[… about {lost:,} tokens are cut here{where} …]\n"


def _without_middle(text: str, chars: int, note: str) -> str:
    """Head and tail of the text with a note between, in about this many characters; nothing if
    only a note has room."""
    room = chars - len(note)
    if not text or room < len(note):
        return ""
    head, tail = _head_and_tail(text, room)
    return head + note + tail


def _head_and_tail(text: str, room: int) -> tuple[str, str]:
    """The beginning and the end of a text, in this many characters together."""
    head = int(room * HEAD_SHARE)
    tail = room - head
    return text[:head], text[len(text) - tail :]


def _stub(brief: Brief, piece: Piece) -> str:
    """What is left where nothing else has room. Thinking is signed and cannot be reworded."""
    if isinstance(piece.whole, Thinking):
        return ""
    return f"[cut{reach(brief.view, str(piece.slot.span))}]"


def _edit_to(brief: Brief, piece: Piece, text: str) -> Hide | Replace:
    """The edit that shows this text in the place of the piece."""
    slot = piece.slot
    if slot.standin:
        return Hide(batch=brief.batch, span=slot.span, notice=text, reason=REASON)
    if _is_json_call(piece.whole):
        text = json.dumps({"…": text}, ensure_ascii=False)
    return Replace(batch=brief.batch, seq=slot.seq, block=piece.block, text=text, reason=REASON)


def _is_json_call(block: Block) -> bool:
    """Arguments that came as JSON text must stay JSON, for providers that read them."""
    if not isinstance(block, ToolCall):
        return False
    return isinstance(block.arguments, str) and block.arguments.lstrip()[:1] == "{"


def _size_after(brief: Brief, piece: Piece, edit: Hide | Replace) -> int:
    """The size of the piece as the edit leaves it."""
    if isinstance(edit, Replace):
        left = shortened(piece.whole, edit)
    else:
        left = Text(edit.notice)
    return brief.block_tokens(piece.slot.message, left)
