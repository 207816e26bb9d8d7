"""A result too large for the page, in the room it may have: its beginning, its end, and from
between the lines that tell most of what is needed. The original's own lines by number, so every gap
says what it leaves out.

Neighbours: `gist` asks for it when the newest step would crowd out all that came before; `fit` cuts
what has no lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.fold import shortened, text_of
from refold.core.model import Block, Replace, Slot, Span, Text, ToolResult
from refold.strategies.brief import Brief, block_tokens
from refold.strategies.gist.choice import chosen
from refold.strategies.gist.lines import Passage, Shown, passage
from refold.strategies.gist.names import Needs, names_of
from refold.strategies.keep import line_ranges

HEAD_SHARE, TAIL_SHARE, MIDDLE_SHARE = 0.35, 0.2, 0.75
LINES_MIN = 8
LINE_CHARS_MAX = 400


def excerpts(
    brief: Brief, slots: Sequence[Slot], excess: int, needs: Needs
) -> tuple[list[Replace], int]:
    """Edits that shorten the largest results of these slots by about `excess` tokens, and what
    they free."""
    edits: list[Replace] = []
    for tokens, slot, block in sorted(_results(brief, slots), key=lambda found: -found[0]):
        if excess <= 0:
            break
        text = text_of(slot.message.blocks[block])
        room = max(tokens // 8, tokens - excess)
        spans = excerpt(text, len(text) * room // max(1, tokens), needs)
        if spans:
            reason = "the needed lines of a large result"
            edit = Replace(batch=brief.batch, seq=slot.seq, block=block, keep=spans, reason=reason)
            after = block_tokens(
                brief.count, slot.message, shortened(slot.message.blocks[block], edit)
            )
            if after < tokens:
                edits.append(edit)
                excess -= tokens - after
    return edits, excess


def _results(brief: Brief, slots: Sequence[Slot]) -> list[tuple[int, Slot, int]]:
    """The results that came as text and are shown whole: tokens, slot, block."""
    found = []
    for slot in slots:
        for index, block in enumerate(slot.message.blocks):
            if _is_text(block) and not slot.edits and slot.seq not in brief.view.pins:
                found.append((block_tokens(brief.count, slot.message, block), slot, index))
    return found


def _is_text(block: Block) -> bool:
    return isinstance(block, ToolResult) and all(isinstance(part, Text) for part in block.content)


def excerpt(text: str, chars: int, needs: Needs) -> tuple[Span, ...]:
    """The line ranges to keep, in about this many characters; none if the text has too few lines
    for it."""
    lines = text.split("\n")
    start, end = _ends(lines, int(chars * HEAD_SHARE), int(chars * TAIL_SHARE))
    if len(lines) < LINES_MIN or len(text) <= chars or start >= end:
        return ()
    shown = Shown()
    for part in (lines[:start], lines[end:]):
        shown.add(passage(0, "tool", "\n".join(part)))
    left = chars - sum(len(line) + 1 for line in (*lines[:start], *lines[end:]))
    middle = _worth_keeping(lines, start, end, needs, shown, left)
    return line_ranges([*range(1, start + 1), *middle, *range(end + 1, len(lines) + 1)])


def _ends(lines: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """How many lines fit `first` characters, and from which line on the rest fits `last`."""
    start, used = 0, 0
    while start < len(lines) and used + len(lines[start]) < first:
        used += len(lines[start]) + 1
        start += 1
    end, used = len(lines), 0
    while end > start and used + len(lines[end - 1]) < last:
        used += len(lines[end - 1]) + 1
        end -= 1
    return start, end


def _worth_keeping(
    lines: Sequence[str], start: int, end: int, needs: Needs, shown: Shown, chars: int
) -> list[int]:
    numbers = [
        n for n in range(start + 1, end + 1) if 0 < len(lines[n - 1].strip()) <= LINE_CHARS_MAX
    ]
    texts = [lines[n - 1].strip() for n in numbers]
    middle = Passage(0, "tool", texts, [names_of(text) for text in texts])
    need = needs.odds({name for names in middle.names for name in names})
    kept = chosen([middle], need, shown, room=MIDDLE_SHARE * chars, floor=0.0, per_char=1.0)
    return sorted(numbers[at] for _, at in kept)
