"""Levels of detail: the newest messages verbatim, a paragraph for each part before them, and a line
for each of the oldest parts.

A part is a few turns, cut at seams. The part with the seq `focus` always has a paragraph; so do
others, newest first, as far as they fit under the target. The rest have a line, many lines in one
summary, followed by binding facts: rules, decisions, open to-dos. Every line begins with the handle
that unfolds the part. A paragraph becomes a line when the page is full again, and a line stays a
line unless it is in focus: a summary cannot be split, so the paragraph is inserted among its lines,
if the page still gets shorter. If lines alone fill the room, neighbouring parts are merged.
Neighbours: `summarize` writes one summary with the ledger, `gist` chooses lines of the messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from itertools import groupby

from msgspec import Struct

from refold.config import recent_messages
from refold.core.laws import is_request, units
from refold.core.model import Edit, Fact, Slot, Span, Summarize
from refold.core.plan import Ask
from refold.display import cut, number, one_line
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of, ledger_lines
from refold.ledger.sentences import own_text
from refold.strategies.brief import UNFOLD, Brief, unfolder
from refold.strategies.protected_messages import standin_max, tokens_of
from refold.strategies.summarize import covered, turn_ends

REASON = "hierarchical"
PART_MESSAGES = 8  # minimum length of a part, which ends before the next request
PART_MESSAGES_MAX = 16
LINE_CHARS, REQUEST_CHARS, ANSWER_CHARS = 120, 300, 200
LEDGER_CHARS, BINDING_CHARS = 400, 2_000
# Of these sizes: a paragraph is made shorter until it may stand for its messages.
PARAGRAPH_SHARES = (1.0, 0.5, 0.25, 0.12)
OPENING_SHARE = 0.25  # of the target


class _Part(Struct, frozen=True, kw_only=True):
    """A few turns: the original messages, their slots on the page, both levels of detail, and the
    binding facts. Lines are counted per summary, not per part."""

    messages: tuple[Slot, ...]
    shown: tuple[Slot, ...]
    line: str
    paragraph: str
    binding: tuple[Fact, ...]
    shown_tokens: int
    paragraph_tokens: int
    is_inside: bool  # True if a summary on the page covers more than this part

    @property
    def span(self) -> Span:
        return Span(self.messages[0].seq, self.messages[-1].last)

    @property
    def stays(self) -> bool:
        """Whether its messages are on the page, and a paragraph would hardly be shorter."""
        return self.shown == self.messages and self.paragraph_tokens > standin_max(self.shown)


Run = list[_Part]


def hierarchical(brief: Brief) -> list[Edit | Ask]:
    """Summaries of everything before the last `keep` messages."""
    view, covers = brief.view, _covers(brief)
    stay_tokens = view.system_tokens + view.tools_tokens + tokens_of(brief.slots)
    room = brief.target - stay_tokens + sum(map(tokens_of, covers))
    focus = brief.setting("focus", 0)
    runs = _fitting(brief, [_parts(brief, run) for run in covers], room, focus)
    detailed = _detailed(brief, runs, room, focus)
    known = list(view.facts)
    return [edit for run in runs for edit in _edits(brief, run, detailed, known)]


def _covers(brief: Brief) -> list[list[Slot]]:
    """The runs before the last `keep` messages, without the opening request, which stays verbatim
    unless it is long."""
    runs = covered(brief.view, brief.setting("keep", recent_messages(brief.config)))
    opening = next((slot for slot in brief.slots if slot.standin or is_request(slot)), None)
    if opening is None or opening.standin or opening.tokens > OPENING_SHARE * brief.target:
        return runs
    pieces = [groupby(run, key=lambda slot: slot is opening) for run in runs]
    return [list(group) for run in pieces for is_opening, group in run if not is_opening]


# --- parts ---


def _parts(brief: Brief, run: Sequence[Slot]) -> Run:
    """The parts of a run, from its beginning: the same messages always form the same parts."""
    messages: list[Slot] = []
    for slot in run:
        messages += brief.originals(slot.span) if slot.standin else (slot,)
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


def _fitting(brief: Brief, runs: list[Run], room: int, focus: int) -> list[Run]:
    """The runs in as many parts as there is room for a line each; neighbouring parts are merged in
    pairs, except for the part in focus."""
    while _tokens(brief, runs, _focused(runs, focus)) > room:
        fewer: list[Run] = []
        for run in runs:
            groups = [list(group) for _, group in groupby(run, key=lambda part: focus in part.span)]
            pairs = [group[at : at + 2] for group in groups for at in range(0, len(group), 2)]
            shown = list({slot.seq: slot for part in run for slot in part.shown}.values())
            messages = [[slot for part in pair for slot in part.messages] for pair in pairs]
            fewer.append([_part(brief, piece, shown) for piece in messages])
        if list(map(len, fewer)) == list(map(len, runs)):
            break
        runs = fewer
    return runs


def _part(brief: Brief, messages: Sequence[Slot], run: Sequence[Slot]) -> _Part:
    first, last = messages[0].seq, messages[-1].last
    shown = tuple(slot for slot in run if slot.seq <= last and slot.last >= first)
    facts = facts_of(messages, brief.config, (), Cutter(brief.redact))
    most = standin_max(messages)
    for share in PARAGRAPH_SHARES:
        paragraph = _paragraph(brief, messages, facts, share)
        if (paragraph_tokens := brief.text_tokens(paragraph)) <= most:
            break
    return _Part(
        messages=tuple(messages),
        shown=shown,
        line=_line(brief, messages, facts),
        paragraph=paragraph,
        binding=tuple(filter(_is_binding, facts)),
        shown_tokens=tokens_of(shown),
        paragraph_tokens=paragraph_tokens,
        is_inside=any(slot.seq < first or slot.last > last for slot in shown),
    )


def _is_binding(fact: Fact) -> bool:
    """Whether a fact stays valid from then on, regardless of its age."""
    return fact.kind in ("constraint", "decision") or (fact.kind, fact.state) == ("todo", "open")


# --- line and paragraph ---


def _line(brief: Brief, messages: Sequence[Slot], facts: Sequence[Fact]) -> str:
    """`- #3-12: Fix the login test; changed a.py`."""
    span = Span(messages[0].seq, messages[-1].last)
    requests_first = sorted(messages, key=lambda slot: not is_request(slot))
    text = next(filter(None, (_start_of(brief, slot, LINE_CHARS) for slot in requests_first)), "")
    changed = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    done = f"changed {', '.join(changed[:3])}" if changed else ""
    return f"- {span}: {'; '.join(filter(None, (text, done))) or 'earlier steps'}"


def _paragraph(brief: Brief, messages: Sequence[Slot], facts: Sequence[Fact], share: float) -> str:
    """The requests of a part and the answers to them, at this share of their usual size, and its
    ledger."""
    span = Span(messages[0].seq, messages[-1].last)
    requests = [slot for slot in messages if is_request(slot)]
    where = f"; {UNFOLD} {span} gives them whole" if unfolder(brief.view) else ""
    what = f"{number(len(messages), 'message')}: background, not a new request"
    lines = [f"[{span}, {what}{where}.]"]
    for slot in sorted([*requests, *turn_ends(messages, ends=True)], key=lambda slot: slot.seq):
        chars = REQUEST_CHARS if slot.message.role == "user" else ANSWER_CHARS
        lines.append(
            f"- #{slot.seq} {slot.message.role}: {_start_of(brief, slot, int(share * chars))}"
        )
    others = [fact for fact in facts if fact.kind != "request"]
    return "\n".join([*lines, *ledger_lines(others, LEDGER_CHARS)])


def _start_of(brief: Brief, slot: Slot, chars: int) -> str:
    """The start of a message in one line, without secrets."""
    return Cutter(brief.redact).end(one_line(brief.redact(own_text(slot.message))), chars)


# --- which level ---


def _focused(runs: Sequence[Run], focus: int) -> set[Span]:
    return {part.span for run in runs for part in run if focus in part.span}


def _detailed(brief: Brief, runs: Sequence[Run], room: int, focus: int) -> set[Span]:
    """The parts with more than a line: the one in focus, and the newest that fit."""
    first = _focused(runs, focus)
    if _grows(brief, runs, first):
        first = set()
    rest = [part.span for run in reversed(runs) for part in reversed(run) if not part.is_inside]

    def is_too_much(count: int) -> bool:
        detailed = first.union(rest[:count])
        return _tokens(brief, runs, detailed) > room or _grows(brief, runs, detailed)

    least_too_many = bisect_left(range(len(rest) + 1), True, key=is_too_much)
    return first.union(rest[: max(0, least_too_many - 1)])


def _tokens(brief: Brief, runs: Sequence[Run], detailed: Set[Span]) -> int:
    """The size of all parts on the page if these have more than a line."""
    groups = [group for run in runs for group in _groups(run, detailed)]
    return sum(_group_tokens(brief, group, detailed) for group in groups)


def _grows(brief: Brief, runs: Sequence[Run], detailed: Set[Span]) -> bool:
    """Whether a paragraph among lines makes their summary too large for the slots it covers."""
    for group in (group for run in runs for group in _groups(run, detailed)):
        if any(part.is_inside and part.span in detailed for part in group):
            shown = {slot.seq: slot for part in group for slot in part.shown}.values()
            return _group_tokens(brief, group, detailed) > standin_max([*shown])
    return False


def _group_tokens(brief: Brief, group: Run, detailed: Set[Span]) -> int:
    first = group[0]
    if not _is_apart(first, detailed):
        return brief.text_tokens(_lines(brief, group, detailed))
    return first.shown_tokens if first.stays else first.paragraph_tokens


# --- the summaries ---


def _groups(run: Run, detailed: Set[Span]) -> Iterator[Run]:
    """The parts of a run by summary: neighbours with a line together, each of the others alone."""
    for is_apart, group in groupby(run, key=lambda part: _is_apart(part, detailed)):
        if is_apart:
            yield from ([part] for part in group)
        else:
            yield list(group)


def _is_apart(part: _Part, detailed: Set[Span]) -> bool:
    return part.span in detailed and not part.is_inside


def _edits(brief: Brief, run: Run, detailed: Set[Span], known: list[Fact]) -> Iterator[Summarize]:
    """The summaries of a run, except those already on the page."""
    for group in _groups(run, detailed):
        first = group[0]
        is_apart = _is_apart(first, detailed)
        if is_apart and first.stays:
            continue
        span = _span(group)
        raw = [slot for part in group for slot in part.shown if not slot.standin]
        facts = facts_of(raw, brief.config, known, Cutter(brief.redact))
        known += facts
        said = "; ".join(part.line.partition(": ")[2] for part in group)
        line = first.line if len(group) == 1 else f"- {span}: {cut(said, LINE_CHARS)}"
        text = first.paragraph if is_apart else _lines(brief, group, detailed)
        shown = {slot.seq: slot for part in group for slot in part.shown}.get(span.first)
        summary = shown.summary if shown and shown.span == span else None
        if summary is None or (summary.text, summary.reason) != (text, REASON):
            yield Summarize(
                batch=brief.batch, span=span, text=text, line=line[2:], facts=facts, reason=REASON
            )


def _lines(brief: Brief, group: Run, detailed: Set[Span]) -> str:
    heading = f"[Earlier, {_span(group)}, a line for each part, not a new request"
    where = f"; {UNFOLD} gives each by its #numbers" if unfolder(brief.view) else ""
    levels = (part.paragraph if part.span in detailed else part.line for part in group)
    binding = [fact for part in group for fact in part.binding]
    return "\n".join([f"{heading}{where}.]", *levels, *ledger_lines(binding, BINDING_CHARS)])


def _span(group: Run) -> Span:
    return Span(group[0].span.first, group[-1].span.last)
