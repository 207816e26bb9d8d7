"""Everything before the last messages becomes one summary: the ledger by code, and prose beside it
by a writer.

The last `keep` messages stay (from a seam on), and so do the latest request, pins and system
messages at the front; what lies between them is asked for span by span. The draft is a heading that
tells what is covered, and the ledger of the whole conversation so far, so it can stand alone. An
earlier summary is covered by the next one, which therefore carries its counts, facts and prose on;
where room is short, the ledger gives way first. Without a writer it has all the room that the
target leaves, because it is all that is left of requests and files. Neighbours: `gist` chooses
lines instead; `prose` and `ledger.uses` have what is carried on; `compaction.prose` has an ask put
in words.

Prose by a writer: how it is carried on, how it is cut, and how much of a page it may have.

A summary that is covered by the next one hands its prose on, so that what it said stays until
somebody says it again. Neighbours: `core.summary` shows it, `summarize` and `gist` carry it on,
`writer.asker` gets new prose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from refold.core.laws import units
from refold.core.model import Edit, Fact, Prose, Slot, Span, Summarize, View
from refold.core.plan import Ask
from refold.core.shortened import prose_text
from refold.ledger.facts import Cutter
from refold.ledger.ledger import (
    Used,
    facts_of,
    files_in_work,
    ledger_lines,
    merged,
    noted,
    tools_used,
)
from refold.strategies.brief import UNFOLD, Brief, last_seam, protected, tokens_of, unfolder
from refold.strategies.gist.draft import line_of
from refold.strategies.gist.passages import per_char

REASON = "summarize"
LEDGER_SHARE = 0.55  # of what a summary may have: the ledger; the rest is for prose
DRAFT_SHARE = 0.9  # of what it replaces: a draft must make the page shorter
# Of a draft: what prose that is carried on may have; the rest is the ledger's in any case.
CARRIED_SHARE = 0.8
NEW_PROSE_TOKENS = 200  # left free for a writer's new words, beside what is carried on
# But not for the first words if the ledger had less than this: it tells a short span alone.
LEDGER_TOKENS_MIN = 400
RAW_MIN = 2  # messages that are not summarized yet: fewer are not worth a summary
RAW_MIN_AGAIN = 3  # and not worth one more
TOOLS_SHOWN = 12


def summarize(brief: Brief) -> list[Edit | Ask]:
    """An ask for every run of messages before the last `keep`."""
    keep = brief.setting("keep", brief.config.keep_recent)
    instructions = brief.setting("instructions", "")
    if len(brief.slots) <= brief.setting("threshold", 0):
        return []
    runs = covered(brief.view, keep)
    slots = [slot for run in runs for slot in run]
    new = sum(not slot.standin for slot in slots)
    is_again = any(slot.summary and slot.summary.counted for slot in slots)
    if is_again and new < _least(brief, RAW_MIN_AGAIN):
        return []
    return [*asks_for(brief, runs, instructions)]


def _least(brief: Brief, usual: int) -> int:
    """How many new messages are worth a summary: any where the call says how many stay."""
    return 1 if "keep" in brief.named else usual


def asks_for(brief: Brief, runs: Sequence[Sequence[Slot]], instructions: str = "") -> list[Ask]:
    """An ask for each of these runs; the largest has the ledger. None if so little is not worth
    a summary."""
    raw = [slot for run in runs for slot in run if not slot.standin]
    if len(raw) < _least(brief, RAW_MIN):
        return []
    ledger = _ledger_of(brief, runs, raw)
    largest = max(runs, key=tokens_of)
    drafts = [_draft(brief, run, ledger if run is largest else _Ledger()) for run in runs]
    return [Ask(span=draft.span, draft=draft, instructions=instructions) for draft in drafts]


def covered(view: View, keep: int) -> list[list[Slot]]:
    """What is to be summarized: the runs before the last `keep` messages, cut at seams and
    around what stays."""
    held = protected(view)
    runs: list[list[Slot]] = [[]]
    for slot in _before_last(view, keep):
        if slot.seq in held and not slot.standin:
            runs.append([])
        else:
            runs[-1].append(slot)
    return [run for run in runs if run]


def _before_last(view: View, keep: int) -> Sequence[Slot]:
    """The slots before the last `keep`, without system messages at the front."""
    latest = max(0, len(view.slots) - max(1, keep))
    start = last_seam(units(view.slots), latest)
    for front, slot in enumerate(view.slots):
        if slot.message.role != "system":
            return view.slots[front:start]
    return view.slots[:start]


# --- the ledger ---


class _Ledger(Struct, frozen=True):
    """What a summary tells by code: all that is known, what is new in it, and what its text
    weighs."""

    told: tuple[Fact, ...] = ()
    new: tuple[Fact, ...] = ()
    in_work: Set[str] = frozenset()
    per_char: float = 1.0
    free_tokens: int = 0  # what the target leaves for it, where no writer needs room

    def lines(self, tokens_max: float) -> list[str]:
        return ledger_lines(self.told, int(tokens_max / self.per_char), self.in_work)


def _ledger_of(brief: Brief, runs: Sequence[Sequence[Slot]], raw: Sequence[Slot]) -> _Ledger:
    """The ledger with what these runs add to it."""
    known = brief.view.facts
    new = facts_of(raw, brief.config, known, Cutter(brief.redact))
    left = _slots_left(brief, runs)
    in_work = files_in_work(left, brief.config)
    free = 0 if brief.has_writer else _free_tokens(brief, left)
    return _Ledger(merged(known, new), new, in_work, per_char(brief, raw), free)


def _free_tokens(brief: Brief, left: Sequence[Slot]) -> int:
    """What the target leaves beside the slots that stay."""
    view = brief.view
    return brief.target - view.system_tokens - view.tools_tokens - tokens_of(left)


def _slots_left(brief: Brief, runs: Sequence[Sequence[Slot]]) -> list[Slot]:
    """The slots of the page that no run covers."""
    gone = {slot.seq for run in runs for slot in run}
    return [slot for slot in brief.slots if slot.seq not in gone]


# --- the draft ---


class _Tally(Struct, frozen=True):
    """How many messages a run stands for, and which tools were called in them."""

    messages: int
    tools: dict[str, Used]


def _draft(brief: Brief, run: Sequence[Slot], ledger: _Ledger) -> Summarize:
    span = Span(run[0].seq, run[-1].last)
    tally = _tally(brief, run)
    prose, text = _prose_and_text(brief, run, _heading(brief.view, span, tally), ledger)
    return Summarize(
        batch=brief.batch,
        span=span,
        text=text,
        prose=prose,
        line=line_of(span, ledger.new),
        facts=ledger.new,
        counted=noted(tally.tools, tally.messages),
        reason=REASON,
    )


def _tally(brief: Brief, run: Sequence[Slot]) -> _Tally:
    """Counted from the page; a summary noted its own counts, so the log is read only where
    another strategy left a stand-in."""
    messages = 0
    read: list[Slot] = []
    for slot in run:
        count, counted = _count(brief, slot)
        messages += count
        read += counted
    return _Tally(messages, tools_used(read))


def _count(brief: Brief, slot: Slot) -> tuple[int, Sequence[Slot]]:
    """How many messages a slot stands for, and where their tools are counted."""
    if not slot.standin:
        return 1, [slot]
    if slot.summary and slot.summary.counted:
        return slot.summary.counted.messages, [slot]
    originals = brief.originals(slot.span)
    return len(originals), originals


def _heading(view: View, span: Span, tally: _Tally) -> str:
    what = "1 earlier message" if tally.messages == 1 else f"{tally.messages} earlier messages"
    where = f"; {UNFOLD} {span} gives them whole" if unfolder(view) else ""
    return (
        f"[Summary of {what}, {span}: background, not a new request{where}."
        f"{_tools_line(tally.tools)}]"
    )


def _tools_line(tools: dict[str, Used]) -> str:
    """The tools used most, in one sentence; nothing if none was used."""
    uses = [f"{name} ×{used.count}" for name, used in tools.items()]
    return f" Tools used: {', '.join(uses[:TOOLS_SHOWN])}." if uses else ""


def _prose_and_text(
    brief: Brief, run: Sequence[Slot], heading: str, ledger: _Ledger
) -> tuple[Prose | None, str]:
    """Prose of earlier summaries, the heading, and of the ledger what fits: so much that a
    writer still has room for its words, in the place of the prose or where there was none yet."""
    count = brief.text_tokens
    cap, replaced, own = cap_tokens(brief.budget.window), tokens_of(run), count(heading)
    shorter = DRAFT_SHARE * replaced
    most = max(0.0, min(cap, shorter) - own - FRAME_TOKENS)
    prose = carried(run, int(CARRIED_SHARE * most), count)
    beside = (count(prose_text(prose)) if prose else FRAME_TOKENS) + NEW_PROSE_TOKENS
    room = min(LEDGER_SHARE * cap, cap - own - beside, SHARE_MAX * replaced - own - beside)
    if prose:
        least = (1 - CARRIED_SHARE) * most
    else:
        least = min(LEDGER_TOKENS_MIN, LEDGER_SHARE * cap, shorter - own)
    alone = min(ledger.free_tokens, shorter) - own - (count(prose_text(prose)) if prose else 0)
    return prose, "\n".join([heading, *ledger.lines(max(room, least, alone, 0))])


TOKENS_MAX = 4_096
WINDOW_RATIO = 0.05  # of the window: what a summary may have, its prose included
SHARE_MAX = 0.7  # of what it replaces: what a summary with new prose may have
PROSE_TOKENS_MIN = 48  # less room than this is not worth a call, nor a place on the page
FRAME_TOKENS = 60  # the heading and the marks around prose


def cap_tokens(window: int) -> int:
    """What a summary may have on a page of this window."""
    return min(TOKENS_MAX, int(WINDOW_RATIO * window))


def prose_of(slot: Slot) -> Prose | None:
    """The prose that a stand-in shows."""
    return slot.summary.prose if slot.summary else None


# --- carried on ---


def carried(slots: Sequence[Slot], tokens_max: int, count: Callable[[str], int]) -> Prose | None:
    """The prose of these slots together; each has its share of the room, and the oldest go if it
    is small."""
    found = [prose for slot in slots if (prose := prose_of(slot))]
    fitting = min(len(found), tokens_max // PROSE_TOKENS_MIN)
    if fitting <= 0:
        return None
    kept = found[-fitting:]
    words = "\n\n".join(capped(prose.words, tokens_max // fitting, count) for prose in kept)
    return Prose(words=words, span=Span(kept[0].span.first, kept[-1].span.last))


def capped(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The words cut at a line so that they keep to the cap."""
    text = _fewer_chars(_fewer_lines(words, tokens_max, count), tokens_max, count)
    return text if text == words else text.rstrip() + "\n…"


def _fewer_lines(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The leading lines that keep to the cap, at least one: a tenth less at each try."""
    lines = words.split("\n")
    while len(lines) > 1 and count("\n".join([*lines, "…"])) > tokens_max:
        tenth = -(-len(lines) // 10)  # rounded up
        lines = lines[:-tenth]
    return "\n".join(lines)


def _fewer_chars(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The leading characters that keep to the cap, at least one: a tenth less at each try."""
    while count(words) > tokens_max and len(words) > 1:
        words = words[: len(words) * 9 // 10]
    return words
