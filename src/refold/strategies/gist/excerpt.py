"""A result too large for the page, in the room it may have: its beginning, its end, and from
between the lines that tell most of what is needed. The original's own lines by number, so every gap
says what it leaves out.

Neighbours: `gist` asks for it when the newest step would crowd out all that came before; `fit` cuts
what has no lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec import Struct

from refold.core.model import Block, Replace, Slot, Span, Text, ToolResult
from refold.core.shortened import text_of
from refold.strategies.brief import Brief
from refold.strategies.gist.choice import choose_lines
from refold.strategies.gist.names import Needs, names_of
from refold.strategies.gist.passages import Passage, Shown, passage
from refold.strategies.keep import line_ranges

HEAD_SHARE, TAIL_SHARE, MIDDLE_SHARE = 0.35, 0.2, 0.75
LINES_MIN = 8
LINE_CHARS_MAX = 400
TRIES = 4
REASON = "the needed lines of a large result"


# --- which results ---


class _Result(Struct, frozen=True):
    """A tool result that may be shortened."""

    slot: Slot
    block: int
    tokens: int

    @property
    def whole(self) -> Block:
        return self.slot.message.blocks[self.block]


def excerpts(
    brief: Brief, slots: Sequence[Slot], excess: int, size: int, needs: Needs
) -> tuple[list[Replace], int]:
    """Edits that shorten the largest results of these slots by about `excess` tokens, none of
    them below this size, and the excess that is left."""
    edits: list[Replace] = []
    for result in _largest_results(brief, slots):
        if excess <= 0 or result.tokens <= size:
            break
        edit, freed = _shortest(brief, result, min(excess, result.tokens - size), needs)
        if edit and freed > 0:
            edits.append(edit)
            excess -= freed
    return edits, excess


def _shortest(
    brief: Brief, result: _Result, wanted: int, needs: Needs
) -> tuple[Replace | None, int]:
    """The edit that frees what is wanted of a result, and what it frees. Sizes are estimates, so
    less is kept as long as too little is freed: a page that misses its size by a few tokens would
    lose far more to the last resort."""
    edit, freed, aim = None, 0, wanted
    for _ in range(TRIES):
        edit = _excerpt_edit(brief, result, result.tokens - aim, needs)
        freed = brief.freed_tokens(result.slot, edit) if edit else 0
        if edit is None or freed >= wanted:
            break
        aim += 2 * (wanted - freed)
    return edit, freed


def _largest_results(brief: Brief, slots: Iterable[Slot]) -> list[_Result]:
    """The results that came as text and are shown whole, the largest first."""
    found: list[_Result] = []
    for slot in slots:
        if slot.edits or slot.seq in brief.view.pins:
            continue
        for index, block in enumerate(slot.message.blocks):
            if _is_text(block):
                tokens = brief.block_tokens(slot.message, block)
                found.append(_Result(slot, index, tokens))
    return sorted(found, key=lambda result: -result.tokens)


def _is_text(block: Block) -> bool:
    return isinstance(block, ToolResult) and all(isinstance(part, Text) for part in block.content)


def _excerpt_edit(brief: Brief, result: _Result, room: int, needs: Needs) -> Replace | None:
    """The edit that leaves this many tokens of a result, and an eighth of it in any case."""
    text, tokens = text_of(result.whole), result.tokens
    room = max(tokens // 8, room)
    spans = excerpt(text, len(text) * room // max(1, tokens), needs)
    if not spans:
        return None
    seq, block = result.slot.seq, result.block
    return Replace(batch=brief.batch, seq=seq, block=block, keep=spans, reason=REASON)


# --- which lines ---


def excerpt(text: str, chars: int, needs: Needs) -> tuple[Span, ...]:
    """The line ranges to keep, in about this many characters; none if the text has too few lines
    for it."""
    lines = text.split("\n")
    start, end = _ends(lines, int(chars * HEAD_SHARE), int(chars * TAIL_SHARE))
    if len(lines) < LINES_MIN or len(text) <= chars or start >= end:
        return ()
    head, tail = lines[:start], lines[end:]
    left = chars - sum(len(line) + 1 for line in (*head, *tail))
    middle = _needed_numbers(lines, range(start, end), needs, _shown(head, tail), left)
    return line_ranges([*range(1, start + 1), *middle, *range(end + 1, len(lines) + 1)])


def _shown(*parts: Sequence[str]) -> Shown:
    """What these lines tell already."""
    shown = Shown()
    for lines in parts:
        shown.add(passage(0, "tool", "\n".join(lines)))
    return shown


def _ends(lines: Sequence[str], head_chars: int, tail_chars: int) -> tuple[int, int]:
    """How many lines the head has, and from which line on the tail is."""
    start = _fitting(lines, head_chars)
    tail = _fitting(lines[start:][::-1], tail_chars)
    return start, len(lines) - tail


def _fitting(lines: Sequence[str], chars: int) -> int:
    """How many leading lines fit into this many characters."""
    used = 0
    for count, line in enumerate(lines):
        if used + len(line) >= chars:
            return count
        used += len(line) + 1
    return len(lines)


def _needed_numbers(
    lines: Sequence[str], middle: range, needs: Needs, shown: Shown, chars: int
) -> list[int]:
    """The numbers, from 1, of the lines between head and tail that tell most."""
    texts = {at + 1: lines[at].strip() for at in middle}
    fitting = {at: text for at, text in texts.items() if 0 < len(text) <= LINE_CHARS_MAX}
    given = _one_passage(list(fitting.values()))
    need = needs.odds(set(chain.from_iterable(given.names)))
    room = MIDDLE_SHARE * chars
    kept = choose_lines([given], need, shown, room=room, floor=0.0, per_char=1.0)
    numbers = list(fitting)
    return sorted(numbers[at] for _, at in kept)


def _one_passage(lines: list[str]) -> Passage:
    """Lines of a result as a message of their own."""
    names = [names_of(line) for line in lines]
    return Passage(0, "tool", lines, names)
