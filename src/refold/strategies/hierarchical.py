"""Levels of detail: the newest messages whole, the parts before them by a paragraph each, and the
oldest by a line each.

A part is a few turns, cut at seams. The one that holds the seq `focus` has a paragraph in any case;
as far as the target leaves room, so have others, the newest first. The rest have a line, many lines
in one summary, with what binds behind them: rules, decisions, open to-dos. What is measured are the
summaries themselves. Every line begins with the handle by which the part is unfolded, to a
paragraph or whole. What has a paragraph becomes a line when the page is full again, and a line
stays one, unless it is in focus: a summary cannot be split, so the paragraph is put among its
lines, if the page still becomes shorter. Where lines alone fill the room, neighbours become one
part. Neighbours: `summarize` has one summary with the ledger, `gist` chooses lines of the messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from itertools import groupby

from msgspec import Struct

from refold.core.laws import is_request, units
from refold.core.model import Edit, Fact, Slot, Span, Summarize
from refold.core.plan import Ask
from refold.display import number, one_line
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of, ledger_lines
from refold.ledger.sentences import own_text
from refold.strategies.brief import UNFOLD, Brief, tokens_of, unfolder
from refold.strategies.summarize import covered

REASON = "hierarchical"
PART_MESSAGES = 8  # a part is at least as long, and ends before the next request
PART_MESSAGES_MAX = 16
LINE_CHARS, REQUEST_CHARS, ANSWER_CHARS = 120, 300, 200
LEDGER_CHARS, BINDING_CHARS = 400, 2_000
ANSWERS = 2  # of the newest of a part
OPENING_SHARE = 0.25  # of the target


class _Part(Struct, frozen=True, kw_only=True):
    """A few turns as they came, and as they are on the page; both levels of them, and what binds in
    them. Lines are counted where they stand together."""

    messages: tuple[Slot, ...]
    shown: tuple[Slot, ...]
    line: str
    paragraph: str
    binding: tuple[Fact, ...]
    shown_tokens: int
    paragraph_tokens: int
    is_inside: bool  # a summary on the page stands for more than this part: it has a line there

    @property
    def span(self) -> Span:
        return Span(self.messages[0].seq, self.messages[-1].last)

    @property
    def stays(self) -> bool:
        """Whether its messages are on the page, and no longer than a paragraph."""
        return self.shown == self.messages and self.shown_tokens <= self.paragraph_tokens


Run = list[_Part]


def hierarchical(brief: Brief) -> list[Edit | Ask]:
    """Summaries of everything before the last `keep` messages."""
    covers = _covers(brief)
    room = _room(brief, covers)
    focus = brief.setting("focus", 0)
    runs = _fitting(brief, [_parts(brief, run) for run in covers], room, focus)
    told = _told(brief, runs, room, focus)
    known = list(brief.view.facts)
    return [edit for run in runs for edit in _edits(brief, run, told, known)]


def _covers(brief: Brief) -> list[list[Slot]]:
    """The runs before the last `keep` messages, without the opening, which stays as it was said
    unless it is long."""
    runs = covered(brief.view, brief.setting("keep", brief.config.keep_recent))
    first = (slot for slot in brief.slots if slot.standin or is_request(slot))
    opening = next(first, None)
    if opening is None or opening.standin or opening.tokens > OPENING_SHARE * brief.target:
        return runs
    pieces = [groupby(run, key=lambda slot: slot is opening) for run in runs]
    return [list(group) for run in pieces for is_opening, group in run if not is_opening]


def _room(brief: Brief, covers: Sequence[Sequence[Slot]]) -> int:
    """What the target leaves for all summaries."""
    view, gone = brief.view, sum(map(tokens_of, covers))
    beside = view.system_tokens + view.tools_tokens + tokens_of(brief.slots) - gone
    return brief.target - beside


# --- parts ---


def _parts(brief: Brief, run: Sequence[Slot]) -> Run:
    """The parts of a run, from its beginning on: the same messages make the same parts."""
    messages = [one for slot in run for one in _originals(brief, slot)]
    borders = {seq for slot in run if slot.standin for seq in (slot.seq - 1, slot.last)}
    starts: list[int] = []
    for unit in units(messages):
        size = unit.start - starts[-1] if starts else PART_MESSAGES_MAX
        is_turn = is_request(messages[unit.start]) and size >= PART_MESSAGES
        is_border = messages[unit.start - 1].last in borders
        if is_turn or is_border or size >= PART_MESSAGES_MAX:
            starts.append(unit.start)
    ends = [*starts[1:], len(messages)]
    pieces = [messages[start:end] for start, end in zip(starts, ends, strict=True)]
    return [_part(brief, piece, run) for piece in pieces]


def _originals(brief: Brief, slot: Slot) -> Sequence[Slot]:
    return brief.originals(slot.span) if slot.standin else (slot,)


def _fitting(brief: Brief, runs: list[Run], room: int, focus: int) -> list[Run]:
    """The runs in as many parts as there is room for a line each."""
    while _tokens(brief, runs, _focused(runs, focus)) > room:
        fewer = [_in_pairs(brief, run, focus) for run in runs]
        if list(map(len, fewer)) == list(map(len, runs)):
            break
        runs = fewer
    return runs


def _in_pairs(brief: Brief, run: Run, focus: int) -> Run:
    """Two parts that are neighbours become one, but for the one in focus."""
    apart = [list(group) for _, group in groupby(run, key=lambda part: focus in part.span)]
    pairs = [group[at : at + 2] for group in apart for at in range(0, len(group), 2)]
    shown = list({slot.seq: slot for part in run for slot in part.shown}.values())
    return [_part(brief, [one for part in pair for one in part.messages], shown) for pair in pairs]


def _part(brief: Brief, messages: Sequence[Slot], run: Sequence[Slot]) -> _Part:
    first, last = messages[0].seq, messages[-1].last
    shown = tuple(slot for slot in run if slot.seq <= last and slot.last >= first)
    is_inside = any(slot.seq < first or slot.last > last for slot in shown)
    facts = facts_of(messages, brief.config, (), Cutter(brief.redact))
    paragraph = _paragraph(brief, messages, facts)
    return _Part(
        messages=tuple(messages),
        shown=shown,
        line=_line(brief, messages, facts),
        paragraph=paragraph,
        binding=tuple(fact for fact in facts if _binds(fact)),
        shown_tokens=tokens_of(shown),
        paragraph_tokens=brief.text_tokens(paragraph),
        is_inside=is_inside,
    )


def _binds(fact: Fact) -> bool:
    """Whether it holds from there on, however old it is."""
    return fact.kind in ("constraint", "decision") or (fact.kind, fact.state) == ("todo", "open")


# --- the two levels ---


def _line(brief: Brief, messages: Sequence[Slot], facts: Sequence[Fact]) -> str:
    """`- #3-12: Fix the login test; changed a.py`."""
    span = Span(messages[0].seq, messages[-1].last)
    asked_first = sorted(messages, key=lambda slot: not is_request(slot))
    words = next(filter(None, (_words(brief, one, LINE_CHARS) for one in asked_first)), "")
    changed = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    done = f"changed {', '.join(changed[:3])}" if changed else ""
    return f"- {span}: {'; '.join(filter(None, (words, done))) or 'earlier steps'}"


def _paragraph(brief: Brief, messages: Sequence[Slot], facts: Sequence[Fact]) -> str:
    """What was asked and answered last, and what the ledger has of it."""
    span = Span(messages[0].seq, messages[-1].last)
    asked = [one for one in messages if is_request(one)]
    answers = [one for one in messages if one.message.role == "assistant" and own_text(one.message)]
    said = sorted([*asked, *answers[-ANSWERS:]], key=lambda slot: slot.seq)
    others = [fact for fact in facts if fact.kind != "request"]
    what = f"[{span}, {number(len(messages), 'message')}: background, not a new request"
    return "\n".join(
        [
            f"{what}{_way(brief, span)}.]",
            *(_said(brief, one) for one in said),
            *ledger_lines(others, LEDGER_CHARS),
        ]
    )


def _said(brief: Brief, slot: Slot) -> str:
    is_asked = slot.message.role == "user"
    words = _words(brief, slot, REQUEST_CHARS if is_asked else ANSWER_CHARS)
    return f"- #{slot.seq} {slot.message.role}: {words}"


def _words(brief: Brief, slot: Slot, chars: int) -> str:
    """How a message begins, in one line, without secrets."""
    return Cutter(brief.redact).end(one_line(brief.redact(own_text(slot.message))), chars)


def _way(brief: Brief, span: Span) -> str:
    return f"; {UNFOLD} {span} gives them whole" if unfolder(brief.view) else ""


# --- which level ---


def _focused(runs: Sequence[Run], focus: int) -> set[Span]:
    return {part.span for run in runs for part in run if focus in part.span}


def _told(brief: Brief, runs: Sequence[Run], room: int, focus: int) -> set[Span]:
    """The parts that have more than a line: the one in focus, and the newest that fit."""
    first = _focused(runs, focus)
    if _grows(brief, runs, first):
        first = set()
    rest = [part.span for run in reversed(runs) for part in reversed(run) if not part.is_inside]

    def is_too_much(count: int) -> bool:
        told = first.union(rest[:count])
        return _tokens(brief, runs, told) > room or _grows(brief, runs, told)

    least_too_many = bisect_left(range(len(rest) + 1), True, key=is_too_much)
    return first.union(rest[: max(0, least_too_many - 1)])


def _tokens(brief: Brief, runs: Sequence[Run], told: Set[Span]) -> int:
    """What all parts take on the page if these have more than a line."""
    groups = [group for run in runs for group in _groups(run, told)]
    return sum(_group_tokens(brief, group, told) for group in groups)


def _grows(brief: Brief, runs: Sequence[Run], told: Set[Span]) -> bool:
    """Whether a paragraph among lines makes their summary as long as what it covers: no edit may
    do that."""
    for group in (group for run in runs for group in _groups(run, told)):
        if any(part.is_inside and part.span in told for part in group):
            shown = {slot.seq: slot for part in group for slot in part.shown}.values()
            return _group_tokens(brief, group, told) >= tokens_of([*shown])
    return False


def _group_tokens(brief: Brief, group: Run, told: Set[Span]) -> int:
    first = group[0]
    if not _is_apart(first, told):
        return brief.text_tokens(_lines(brief, group, told))
    return first.shown_tokens if first.stays else first.paragraph_tokens


# --- the summaries ---


def _groups(run: Run, told: Set[Span]) -> Iterator[Run]:
    """The parts of a run that stand on the page together: those with a line, and each of the
    others alone."""
    for is_apart, group in groupby(run, key=lambda part: _is_apart(part, told)):
        if is_apart:
            yield from ([part] for part in group)
        else:
            yield list(group)


def _is_apart(part: _Part, told: Set[Span]) -> bool:
    return part.span in told and not part.is_inside


def _edits(brief: Brief, run: Run, told: Set[Span], known: list[Fact]) -> Iterator[Summarize]:
    """The summaries of a run; what is on the page as it should be is left alone."""
    for group in _groups(run, told):
        if not (_is_apart(group[0], told) and group[0].stays):
            edit = _edit(brief, group, told, known)
            if not _is_there(edit, group):
                yield edit


def _edit(brief: Brief, group: Run, told: Set[Span], known: list[Fact]) -> Summarize:
    span, first = _span_of(group), group[0]
    raw = [slot for part in group for slot in part.shown if not slot.standin]
    facts = facts_of(raw, brief.config, known, Cutter(brief.redact))
    known += facts
    line = first.line if len(group) == 1 else f"- {span}: {len(group)} parts"
    text = first.paragraph if _is_apart(first, told) else _lines(brief, group, told)
    return Summarize(
        batch=brief.batch, span=span, text=text, line=line[2:], facts=facts, reason=REASON
    )


def _span_of(group: Run) -> Span:
    return Span(group[0].span.first, group[-1].span.last)


def _lines(brief: Brief, group: Run, told: Set[Span]) -> str:
    heading = f"[Earlier, {_span_of(group)}, a line for each part, not a new request"
    where = f"; {UNFOLD} gives each by its #numbers" if unfolder(brief.view) else ""
    levels = (part.paragraph if part.span in told else part.line for part in group)
    binding = [fact for part in group for fact in part.binding]
    return "\n".join([f"{heading}{where}.]", *levels, *ledger_lines(binding, BINDING_CHARS)])


def _is_there(edit: Summarize, parts: Run) -> bool:
    """Whether the page shows this very summary."""
    shown = {slot.seq: slot for part in parts for slot in part.shown}.get(edit.span.first)
    if shown is None or shown.summary is None or shown.span != edit.span:
        return False
    return shown.summary.text == edit.text and shown.summary.reason == REASON
