"""The layout of a page for folding: the slots that stay verbatim, the existing gists, the slots to
fold, and the room for them.

The opening stays verbatim unless it fills half of the window, and so do pins, the latest request,
and a short tail of complete units. `Material` has the messages to fold as passages, with the use of
their names, counted over the whole page in order, and the names on the rest of the page.
`excerpts` shortens a result too large for the page to its beginning, its end, and the lines with
the most needed names. Neighbours: `passages` reads messages, `names` counts, `gist` folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, takewhile

from msgspec import Struct

from refold.config import recent_messages
from refold.core.laws import is_request, units
from refold.core.model import Replace, Slot, Span, Text, ToolResult, View
from refold.core.shortened import text_of
from refold.ledger.sentences import own_text
from refold.strategies.brief import Brief
from refold.strategies.gist.choice import Kept, by_message, choose_lines
from refold.strategies.gist.names import Needs, names_of
from refold.strategies.gist.passages import Passage, Reader, Shown, chars_of, is_gist, passage
from refold.strategies.protected_messages import (
    protected,
    request_excess,
    tail_start,
    tokens_of,
    untouched_tokens,
)
from refold.strategies.shorten_results import line_ranges

TASK = 0.5  # of the window, or of a smaller target: a larger first request does not stay verbatim
TAIL = 0.05  # of the free room: the raw tail, in whole units
# Of the room: the limit of the `keep_recent` messages, without and with their typed text, which
# would stay anyway.
RECENT, RECENT_MOST = 0.3, 0.44
DELIBERATE = 0.02  # of the free room: a target this far below the usual one is deliberate
HEAD_SHARE, TAIL_SHARE, MIDDLE_SHARE = 0.35, 0.2, 0.75  # of an excerpt
LINES_MIN = 8
LINE_CHARS_MAX = 400
TRIES = 4
REASON = "the needed lines of a large result"


class Layout(Struct, frozen=True, kw_only=True):
    """The parts of the page, and its free room: the tokens between the fixed part and the trigger.
    `pace` is the share of it that a turn fills, `spare` the share to leave free, `goal` the page
    size that leaves it. `request_excess` are the tokens that the latest request must lose for
    anything else to have room."""

    kept: list[Slot]
    gists: list[Slot]
    raw: list[Slot]
    newest: list[Slot]
    request_excess: int
    free: int
    fixed: int
    tail_tokens: int
    pace: float
    spare: float
    goal: int


def lay_out(brief: Brief) -> Layout:
    """The layout of the page."""
    view = brief.view
    window = brief.budget.window / brief.budget.factor
    task_max = TASK * (min(window, brief.target) if brief.is_asked else window)
    held = protected(view) | task_of(view, task_max)
    whole = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    full = brief.full or view.tokens
    fixed = view.system_tokens + view.tools_tokens + tokens_of(whole)
    over = request_excess(view, fixed, min(full, brief.target) if brief.is_asked else full)
    fixed -= over
    free = max(0, full - fixed)
    spare, goal = _spare_and_goal(brief, fixed, free)
    start = _tail_start(brief, free, goal - fixed)
    older = [slot for slot in view.slots[:start] if slot.seq not in held or slot.standin]
    tail = [slot for slot in view.slots[start:] if slot.seq not in held]
    new = [slot for slot in view.slots if not slot.standin and slot.seq not in held]
    turns = sum(slot.message.role == "assistant" for slot in new)
    return Layout(
        kept=[*whole, *tail],
        gists=[slot for slot in older if is_gist(slot)],
        raw=[slot for slot in older if not is_gist(slot)],
        newest=[slot for slot in newest_unit(view) if slot.seq not in held],
        request_excess=over,
        free=free,
        fixed=fixed,
        tail_tokens=tokens_of(tail),
        pace=tokens_of(new) / max(1, turns) / max(1, free),
        spare=spare,
        goal=goal,
    )


def _tail_start(brief: Brief, free: int, room: int) -> int:
    """The start of the raw tail: a short tail of any messages, extended to the last `keep_recent`
    messages as far as they leave room for a gist."""
    view = brief.view
    tokens = int(min(TAIL * free, RECENT * max(0, room)))  # a target may be far below the page
    start = tail_start(view, keep_messages=len(view.slots), keep_tokens=tokens)
    for unit in reversed(units(view.slots)):
        tail = view.slots[unit.start :]
        typed = [slot for slot in tail if is_request(slot) and own_text(slot.message).strip()]
        tokens = tokens_of(tail)
        is_large = tokens - tokens_of(typed) > RECENT * room or tokens > RECENT_MOST * room
        if is_large or len(tail) > recent_messages(brief.config):
            break
        start = min(start, unit.start)
    return start


def newest_unit(view: View) -> list[Slot]:
    """The slots of the last unit; empty for an empty page."""
    page_units = units(view.slots)
    return list(view.slots[page_units[-1].start : page_units[-1].stop]) if page_units else []


def task_of(view: View, tokens_max: float) -> set[int]:
    """The seqs of the task itself: the system messages at the beginning, and the first user
    request that leaves room for work. Other messages before that request are ordinary work: the
    rest of a resumed session, or a document that an agent adds before the user's first words."""
    leading = takewhile(lambda slot: slot.message.role == "system" and not slot.standin, view.slots)
    small = [slot for slot in view.slots if slot.tokens <= tokens_max and is_request(slot)]
    return {slot.seq for slot in (*leading, *small[:1])}


def _spare_and_goal(brief: Brief, fixed: int, free: int) -> tuple[float, int]:
    """The share of the room to leave free, and the page size that leaves it. The brief's target
    treats the opening as removable; a target below the usual one is taken literally."""
    full = fixed + free
    untouched = untouched_tokens(brief.view)
    untouched -= request_excess(brief.view, untouched, full)
    spare = (full - brief.target) / max(1, full - untouched)
    if brief.is_asked or spare > 1 - brief.budget.target_ratio + DELIBERATE:
        return spare, brief.target
    return spare, full - int(spare * free)


def runs(slots: Sequence[Slot], between: Iterable[Slot]) -> list[list[Slot]]:
    """The slots in runs, split wherever another slot lies between two of them."""
    stops = sorted(slot.seq for slot in between)
    split: list[list[Slot]] = []
    at = 0
    for slot in slots:
        passed = at
        while at < len(stops) and stops[at] < slot.seq:
            at += 1
        if not split or at > passed:
            split.append([])
        split[-1].append(slot)
    return split


class Material:
    """The messages to fold, in runs. `kept` are the messages that stay verbatim, `frozen` the gists
    that stay as they are."""

    def __init__(
        self, reader: Reader, runs: list[list[Slot]], kept: Sequence[Slot], frozen: Sequence[Slot]
    ) -> None:
        self.runs, self.kept, self.frozen = runs, kept, frozen
        self.largest = max(runs, key=tokens_of, default=[])
        self.slots = [slot for run in runs for slot in run]
        self.read = {slot.seq: reader.read(slot) for slot in self.slots}
        self.passages = self.passages_of(self.slots)
        kept_passages = {slot.seq: [reader.shown(slot)] for slot in kept}
        page = sorted([*frozen, *self.slots, *kept], key=lambda slot: slot.seq)
        self.needs = _needs(page, self.read | kept_passages)
        self.shown = reader.shown_by_gists(frozen)
        for passages in kept_passages.values():
            self.shown.add(passages[0])

    def passages_of(self, run: Sequence[Slot]) -> list[Passage]:
        """The messages of a run, and those behind its gists."""
        return [passage for slot in run for passage in self.read[slot.seq]]

    def odds(self) -> dict[str, float]:
        """The probability of each folded name to be needed again."""
        lines = chain.from_iterable(passage.names for passage in self.passages)
        return self.needs.odds(set(chain.from_iterable(lines)))

    def needs_noted(self, kept: Kept) -> Needs:
        """The use of the names on the kept lines, noted for later gists."""
        lines = by_message(kept)
        names = set[str]()
        for one in self.passages:
            for at in lines.get(one.seq, ()):
                names.update(one.names[at])
        return self.needs_of(names)

    def needs_of(self, names: Set[str]) -> Needs:
        """The use of these names, without messages that stay verbatim."""
        return _needs([*self.frozen, *self.slots], self.read, names)

    @property
    def quoted(self) -> set[str]:
        """The lines that the folded gists quoted."""
        summaries = [slot.summary for slot in self.slots if slot.summary]
        quotes = [quote for summary in summaries for quote in summary.quotes]
        return {line for quote in quotes for line in quote.lines}

    @property
    def chars(self) -> int:
        """The characters of the folded messages."""
        return chars_of(self.passages)


def _needs(
    slots: Sequence[Slot], read: Mapping[int, Sequence[Passage]], only: Set[str] | None = None
) -> Needs:
    """The use of the names in these slots, in order: on the page, and in the notes of earlier
    gists."""
    needs = Needs(only)
    for slot in slots:
        passages = read.get(slot.seq, ())
        noted = slot.summary.gist if slot.summary else None
        if noted:
            needs.now = max(needs.now, noted.now - len(passages))
        for one in passages:
            needs.observe(one.role, one.names)
        if noted:
            # A gist's notes take precedence for names that are rarer on the page now.
            needs.recall(noted.now, noted.names)
    return needs


# --- excerpts of large results ---


def excerpts(
    brief: Brief, slots: Sequence[Slot], excess: int, size: int, needs: Needs
) -> tuple[list[Replace], int]:
    """Edits that shorten the largest results of these slots by about `excess` tokens, none of
    them below this size, and the excess that is left."""
    results = [
        (brief.block_tokens(slot.message, block), slot, index)
        for slot in slots
        if not slot.edits and slot.seq not in brief.view.pins
        for index, block in enumerate(slot.message.blocks)
        if isinstance(block, ToolResult) and all(isinstance(part, Text) for part in block.content)
    ]
    edits: list[Replace] = []
    for tokens, slot, index in sorted(results, key=lambda result: -result[0]):
        if excess <= 0 or tokens <= size:
            break
        edit, freed = _excerpt_edit(brief, slot, index, tokens, min(excess, tokens - size), needs)
        if edit and freed > 0:
            edits.append(edit)
            excess -= freed
    return edits, excess


def _excerpt_edit(
    brief: Brief, slot: Slot, index: int, tokens: int, wanted: int, needs: Needs
) -> tuple[Replace | None, int]:
    """The edit that frees the wanted tokens of a result but leaves at least an eighth of it, and
    the tokens it frees. Sizes are estimates, so less is kept as long as too little is freed: a page
    that misses its size by a few tokens would lose far more to the last resort."""
    text = text_of(slot.message.blocks[index])
    edit, freed, aim = None, 0, wanted
    for _ in range(TRIES):
        room = max(tokens // 8, tokens - aim)
        spans = excerpt(text, len(text) * room // max(1, tokens), needs)
        if not spans:
            return None, 0
        edit = Replace(batch=brief.batch, seq=slot.seq, block=index, keep=spans, reason=REASON)
        freed = brief.freed_tokens(slot, edit)
        if freed >= wanted:
            break
        aim += 2 * (wanted - freed)
    return edit, freed


def excerpt(text: str, chars: int, needs: Needs) -> tuple[Span, ...]:
    """The line ranges to keep, in about this many characters; empty if the text has too few
    lines."""
    lines = text.split("\n")
    start = _fitting(lines, int(chars * HEAD_SHARE))
    end = len(lines) - _fitting(lines[start:][::-1], int(chars * TAIL_SHARE))
    if len(lines) < LINES_MIN or len(text) <= chars or start >= end:
        return ()
    head, tail = lines[:start], lines[end:]
    shown = Shown()
    for part in (head, tail):
        shown.add(passage(0, "tool", "\n".join(part)))
    left = chars - sum(len(line) + 1 for line in (*head, *tail))
    middle = _needed_numbers(lines, range(start, end), needs, shown, left)
    return line_ranges([*range(1, start + 1), *middle, *range(end + 1, len(lines) + 1)])


def _fitting(lines: Sequence[str], chars: int) -> int:
    """The number of leading lines that fit into this many characters."""
    used = 0
    for count, line in enumerate(lines):
        if used + len(line) >= chars:
            return count
        used += len(line) + 1
    return len(lines)


def _needed_numbers(
    lines: Sequence[str], middle: range, needs: Needs, shown: Shown, chars: int
) -> list[int]:
    """The numbers, from 1, of the most needed lines between head and tail."""
    texts = {at + 1: lines[at].strip() for at in middle}
    fitting = {at: text for at, text in texts.items() if 0 < len(text) <= LINE_CHARS_MAX}
    candidates = list(fitting.values())
    result = Passage(0, "tool", candidates, [names_of(line) for line in candidates])
    odds = needs.odds(set(chain.from_iterable(result.names)))
    room = MIDDLE_SHARE * chars
    kept = choose_lines([result], odds, shown, room=room, floor=0.0, per_char=1.0)
    numbers = list(fitting)
    return sorted(numbers[at] for _, at in kept)
