"""How a page is divided when it is folded: what stays whole, what is a gist already, what is to be
folded, and how much room there is for it.

What stays whole: the opening unless it is half of the window, pins, the latest request, and a short
tail in whole units. Neighbour: `gist` folds.

What a gist is made from: the messages to be folded as passages, how the names in them are used,
and what the rest of the page shows already.

Names are counted over the whole page in order: what can be seen, and what earlier gists noted.
Neighbours: `passages` reads the messages, `names` counts, `gist` chooses lines from this.

A result too large for the page, in the room it may have: its beginning, its end, and from
between the lines that tell most of what is needed. The original's own lines by number, so every gap
says what it leaves out.

Neighbours: `gist` asks for it when the newest step would crowd out all that came before; `fit` cuts
what has no lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, takewhile

from msgspec import Struct

from refold.core.laws import is_request, units
from refold.core.model import Block, Replace, Slot, Span, Text, ToolResult, View
from refold.core.shortened import text_of
from refold.strategies.brief import (
    Brief,
    protected,
    request_excess,
    tail_start,
    tokens_of,
    untouched_tokens,
)
from refold.strategies.gist.choice import Kept, by_message, choose_lines
from refold.strategies.gist.names import Needs, names_of
from refold.strategies.gist.passages import (
    Passage,
    Reader,
    Shown,
    chars_of,
    is_gist,
    is_typed,
    names_on,
    passage,
)
from refold.strategies.keep import line_ranges

TASK = 0.5  # of the window: the most that a first request may fill and still stay whole
TAIL = 0.05  # of what is free: the raw tail, in whole units
# Of the room: what the messages may have that `keep_recent` asks for, without what users typed,
# which would stay anyway, and with it.
RECENT, RECENT_MOST = 0.3, 0.44
MEANT = 0.02  # a target that is lower than usual by this part of the free room was asked for


class Layout(Struct, frozen=True, kw_only=True):
    """How the page is divided, and how much of it is free: what lies between the fixed part and
    the trigger. `pace` is the share of that which a turn fills, `spare` the share that is to be
    left free, `goal` the size that leaves it. `request_excess` is what the latest request must
    lose for anything else to have room."""

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
    """What stays whole, what is a gist already, and what is to be folded."""
    view = brief.view
    held = protected(view) | task_of(view, TASK * brief.budget.window / brief.budget.factor)
    whole = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    full = brief.full or view.tokens
    fixed = view.system_tokens + view.tools_tokens + tokens_of(whole)
    over = request_excess(view, fixed, full)
    fixed -= over
    free = max(0, full - fixed)
    spare, goal = _spare_and_goal(brief, fixed, free)
    older, tail = _older_and_tail(view, held, _tail_start(brief, free, goal - fixed))
    return Layout(
        kept=[*whole, *tail],
        gists=[slot for slot in older if is_gist(slot)],
        raw=[slot for slot in older if not is_gist(slot)],
        newest=[slot for slot in newest_unit(view) if slot.seq not in held],
        request_excess=over,
        free=free,
        fixed=fixed,
        tail_tokens=tokens_of(tail),
        pace=_turn_tokens(view, held) / max(1, free),
        spare=spare,
        goal=goal,
    )


def _tail_start(brief: Brief, free: int, room: int) -> int:
    """Where the raw tail begins: a short one whatever its messages are, and the messages that
    `keep_recent` asks for as far as they leave room for a gist."""
    view = brief.view
    tokens = int(min(TAIL * free, RECENT * max(0, room)))  # a target may be far below the page
    start = tail_start(view, keep_messages=len(view.slots), keep_tokens=tokens)
    for unit in reversed(units(view.slots)):
        tail = view.slots[unit.start :]
        work = [slot for slot in tail if not is_typed(slot)]
        is_large = tokens_of(work) > RECENT * room or tokens_of(tail) > RECENT_MOST * room
        if is_large or len(tail) > brief.config.keep_recent:
            break
        start = min(start, unit.start)
    return start


def _older_and_tail(view: View, held: set[int], start: int) -> tuple[list[Slot], list[Slot]]:
    """What may be folded, and the raw tail after it, both without what is held anyway."""
    older = [slot for slot in view.slots[:start] if slot.seq not in held or slot.standin]
    tail = [slot for slot in view.slots[start:] if slot.seq not in held]
    return older, tail


def newest_unit(view: View) -> list[Slot]:
    """The slots of the last unit; none on an empty page."""
    whole = units(view.slots)
    return list(view.slots[whole[-1].start : whole[-1].stop]) if whole else []


def task_of(view: View, tokens_max: float) -> set[int]:
    """The seqs of the task itself: the system messages at the beginning, and the first user
    request that leaves room for work. What else stands before that request is work like any
    other: a session that was taken up in the middle, or a document that an agent hands over
    before the user says a word."""
    leading = list(takewhile(_is_system, view.slots))
    small = [slot for slot in view.slots if slot.tokens <= tokens_max and is_request(slot)]
    return {slot.seq for slot in (*leading, *small[:1])}


def _is_system(slot: Slot) -> bool:
    """Whether a slot is a system message, and not a stand-in for one."""
    return slot.message.role == "system" and not slot.standin


def _turn_tokens(view: View, held: set[int]) -> float:
    """Tokens per turn, of the turns that are on the page."""
    new = [slot for slot in view.slots if not slot.standin and slot.seq not in held]
    turns = sum(slot.message.role == "assistant" for slot in new)
    return tokens_of(new) / max(1, turns)


def _spare_and_goal(brief: Brief, fixed: int, free: int) -> tuple[float, int]:
    """Which share of the free room is to stay free, and the size that leaves it. The brief's
    target counts the opening among what could go; a target below the usual one is meant as it
    is."""
    full = fixed + free
    untouched = untouched_tokens(brief.view)
    untouched -= request_excess(brief.view, untouched, full)
    spare = (full - brief.target) / max(1, full - untouched)
    if brief.is_asked or spare > 1 - brief.budget.target_ratio + MEANT:
        return spare, brief.target
    return spare, full - int(spare * free)


def runs(slots: Sequence[Slot], between: Iterable[Slot]) -> list[list[Slot]]:
    """The slots in runs, cut where something that stays lies between two of them."""
    stops = sorted(slot.seq for slot in between)
    out: list[list[Slot]] = []
    at = 0
    for slot in slots:
        passed = at
        while at < len(stops) and stops[at] < slot.seq:
            at += 1
        if not out or at > passed:
            out.append([])
        out[-1].append(slot)
    return out


class Material:
    """What is folded, in runs. `kept` are the messages that stay whole, `frozen` the gists that
    stay as they are."""

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
        """The messages of a run; those that a gist stands for as well."""
        return [one for slot in run for one in self.read[slot.seq]]

    def odds(self) -> dict[str, float]:
        """How likely each name in what is folded is needed again."""
        lines = chain.from_iterable(one.names for one in self.passages)
        return self.needs.odds(set(chain.from_iterable(lines)))

    def needs_noted(self, kept: Kept) -> Needs:
        """What a later gist has to know of the names on the kept lines: what can be seen without
        what stays whole."""
        return self.needs_of(names_on(self.passages, by_message(kept)))

    def needs_of(self, names: Set[str]) -> Needs:
        """What is known of these names without what stays whole."""
        return _needs([*self.frozen, *self.slots], self.read, names)

    @property
    def chars(self) -> int:
        """How many characters the folded messages have."""
        return chars_of(self.passages)


def _needs(
    slots: Sequence[Slot], read: Mapping[int, Sequence[Passage]], only: Set[str] | None = None
) -> Needs:
    """What is known of the names in these slots, in order: what can be seen, and what earlier
    gists noted."""
    needs = Needs(only)
    for slot in slots:
        passages = read.get(slot.seq, ())
        noted = slot.summary.gist if slot.summary else None
        if noted:
            needs.now = max(needs.now, noted.now - len(passages))
        for one in passages:
            needs.observe(one.role, one.names)
        if noted:
            # What a gist noted beats what can be seen of it now, wherever it had seen more.
            needs.recall(noted.now, noted.names)
    return needs


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
