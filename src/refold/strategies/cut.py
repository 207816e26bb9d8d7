"""One block cut in the middle, or to a stub, so that it keeps to a size.

The head and the tail of its text stay, with a note between them that says how much is missing and
how to read it. A stand-in is cut by a new notice for its span, anything else by a replace.
Neighbour: `fit` chooses what is cut, and to which size.
"""

from __future__ import annotations

import json

from msgspec import Struct

from refold.core.model import Block, Edit, Hide, Replace, Slot, Span, Text, Thinking, ToolCall
from refold.core.shortened import shortened, text_of
from refold.strategies.brief import Brief
from refold.strategies.reach import reach

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
