"""A span becomes its own most needed lines, verbatim, each group under the `#seq` it came from.

What the page keeps whole: the opening, pins, the latest request, and a short tail in whole units.
The rest becomes a gist: one text per run of messages, with no tool call in it that could break or
be imitated. Earlier gists stay byte for byte, so the prompt cache holds; when the page would be too
full with one more, all are folded anew into one, from the log as far as that is cheap. What is
known of the names is noted in the edit, so a gist never needs more than the page. Neighbours:
`layout` divides the page, `passages` reads messages, `names` and `choice` choose, `ledger` keeps
the facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct

from refold.core.model import Edit, Fact, Slot, Span, Summarize
from refold.core.plan import Ask
from refold.ledger.ledger import facts_of, files_in_work, ledger_lines, merged
from refold.ledger.text import is_cut, said
from refold.strategies import fit
from refold.strategies.brief import Brief, text_tokens
from refold.strategies.gist.choice import TAG_CHARS, Kept, chosen
from refold.strategies.gist.excerpt import excerpts
from refold.strategies.gist.layout import Layout, laid_out, runs
from refold.strategies.gist.lines import Passage, Pieces, cut
from refold.strategies.gist.names import Needs
from refold.strategies.gist.passages import Reader, flat, is_gist, tag
from refold.strategies.prose import cap_tokens, carried

NEWEST = 0.5  # of what is free: what the newest unit may keep if it is larger
# Of what the goal leaves beside the fixed part: what a gist of everything may have, whatever the
# tail
LEAST = 0.56
SHARE = 0.35  # of a span: what its segment may have at most
OVER = (
    0.4  # of what is to stay free: what one more segment may take of it, before all is folded anew
)
# A gist of everything with less room than this part of its least is folded again as soon as
# possible
STARVED = 0.5
REQUEST_SHARE = 0.1  # of the room, for how the users' requests begin
LEDGER_SHARE, LEDGER_ROOM = (
    0.06,
    8_000,
)  # of the room; twice as much of what lies above these tokens
FLOOR = 0.0004  # the least worth per token of a line
# The floor rises by this per share of the free room that a turn fills: what is folded again soon is
# dearer
HASTE = 7.0
HEADING_TOKENS = 40
CUT_TOKENS = 64
TRIES = 4
SAMPLE_SLOTS, SAMPLE_CHARS = 16, 1_000


def gist(brief: Brief) -> list[Edit | Ask]:
    """Folds the messages since the last gist into one more, or all gists and messages into one."""
    layout = laid_out(brief)
    old = _tokens(layout.gists)
    size = _tokens(layout.raw)
    room = layout.goal - layout.fixed - layout.tail_tokens - old
    share = int(min(SHARE * size, room + OVER * layout.spare * layout.free))
    starved = any((slot.notes or {}).get("starved") for slot in layout.gists)
    if layout.gists and not starved and share >= SHARE * size / 2:
        return _folded(brief, layout, layout.raw, layout.gists, share, starved=False)
    room += old
    least = int(LEAST * min(layout.free / 2, layout.goal - layout.fixed))
    everything = sorted([*layout.gists, *layout.raw], key=lambda slot: slot.seq)
    return _folded(brief, layout, everything, [], max(room, least), starved=room < STARVED * least)


def _clipped(brief: Brief, layout: Layout, edits: Sequence[Edit | Ask], needs: Needs) -> list[Edit]:
    """The newest unit cut to its share of the page: losing its middle is better than losing all
    that came before."""
    size = _tokens(layout.newest)
    gists = sum(
        text_tokens(brief.count, edit.text) for edit in edits if isinstance(edit, Summarize)
    )
    after = layout.fixed + layout.tail_tokens + gists
    excess = max(size - int(NEWEST * layout.free), after - max(brief.enough, layout.goal))
    if excess <= 0:
        return []
    shorter, excess = excerpts(brief, layout.newest, excess, needs)
    done = {(edit.seq, edit.block) for edit in shorter}
    rest = [
        piece
        for piece in fit.pieces(brief, layout.newest)
        if (piece.slot.seq, piece.block) not in done
    ]
    return [*shorter, *(fit.cuts_of(brief, rest, excess, (CUT_TOKENS,))[0] if excess > 0 else [])]


# --- folding ---


def _folded(
    brief: Brief,
    layout: Layout,
    slots: Sequence[Slot],
    frozen: Sequence[Slot],
    room: int,
    *,
    starved: bool,
) -> list[Edit | Ask]:
    """One summary per run of these slots, in at most `room` tokens together; when all is folded
    anew, the newest unit gives way too. A run no larger than a heading stays as it is."""
    parts = runs(slots, [*layout.kept, *frozen])
    large = [run for run in parts if _tokens(run) > HEADING_TOKENS]
    if not large:
        return []
    small = [slot for run in parts if _tokens(run) <= HEADING_TOKENS for slot in run]
    text = _Text(Reader(brief), large, [*layout.kept, *small], frozen)
    edits = _drafted(brief, layout, text, room, starved)
    return [*edits, *([] if frozen else _clipped(brief, layout, edits, text.needs))]


def _tokens(slots: Sequence[Slot]) -> int:
    return sum(slot.tokens for slot in slots)


class _Text:
    """What is folded, as passages, and what is known beside it: the needs of names, and what the
    page shows."""

    def __init__(
        self, reader: Reader, parts: list[list[Slot]], kept: Sequence[Slot], frozen: Sequence[Slot]
    ) -> None:
        self.parts, self.frozen = parts, frozen
        self.slots = [slot for run in parts for slot in run]
        self.read = {slot.seq: reader.read(slot) for slot in self.slots}
        kept_text = {slot.seq: [reader.shown(slot)] for slot in kept}
        everything = sorted([*frozen, *self.slots, *kept], key=lambda slot: slot.seq)
        self.needs = _needs(everything, self.read | kept_text)
        self.shown = reader.shown_by_gists(frozen)
        for passages in kept_text.values():
            self.shown.add(passages[0])
        self.passages = self.of(self.slots)

    def of(self, run: Sequence[Slot]) -> list[Passage]:
        return [one for slot in run for one in self.read[slot.seq]]

    def odds(self) -> dict[str, float]:
        lines = chain.from_iterable(one.names for one in self.passages)
        return self.needs.odds(set(chain.from_iterable(lines)))

    def noted(self, kept: Kept) -> Needs:
        """What a later gist has to know of the names on the kept lines: what can be seen without
        what stays whole."""
        lines: dict[int, list[int]] = {}
        for seq, at in kept:
            lines.setdefault(seq, []).append(at)
        only = {
            name for one in self.passages for at in lines.get(one.seq, ()) for name in one.names[at]
        }
        return _needs([*self.frozen, *self.slots], self.read, only)


def _drafted(
    brief: Brief, layout: Layout, text: _Text, room: int, starved: bool
) -> list[Summarize]:
    """The summaries: the ledger's lines first, then the most needed ones."""
    rate = per_char(brief, text.slots)
    facts = facts_of(
        [slot for slot in text.slots if not slot.standin], brief.config, brief.view.facts
    )
    told = facts if text.frozen else merged(brief.view.facts, facts)
    in_work = files_in_work(layout.kept, brief.config)
    usual = int(LEDGER_SHARE * (room + max(0, room - LEDGER_ROOM)) / rate)
    ledger = ledger_lines(told, usual, in_work)
    left = room - text_tokens(brief.count, "\n".join(ledger)) - HEADING_TOKENS * len(text.parts)
    prose = carried(
        text.slots,
        min(cap_tokens(brief.budget.window), left // 4),
        partial(text_tokens, brief.count),
    )
    left -= text_tokens(brief.count, prose) if prose else 0
    text.shown.lines |= said(ledger)
    kept = _chosen(layout, text, left, rate, {fact.seq for fact in told if fact.kind == "request"})
    if is_cut(ledger):  # what the lines do not need is for requests, rules and changed files
        ledger = ledger_lines(told, usual, in_work, int(left / rate) - chars_of(kept))
    noted = text.noted(kept)
    draft = _Draft(
        brief=brief,
        text=text,
        noted=noted,
        ledger=ledger,
        facts=facts,
        starved=starved,
        prose=prose,
    )
    return draft.within(room, kept, rate)


def _chosen(layout: Layout, text: _Text, room: int, rate: float, requests: Set[int]) -> Kept:
    """The most needed lines, in this many tokens."""
    floor = FLOOR * (1 + HASTE * layout.pace) * min(1.0, 2 * layout.spare)
    return chosen(
        text.passages,
        text.odds(),
        text.shown,
        room=room,
        floor=floor,
        per_char=rate,
        requests=requests,
        request_share=REQUEST_SHARE,
    )


def _needs(
    slots: Sequence[Slot], text: Mapping[int, Sequence[Passage]], only: Set[str] | None = None
) -> Needs:
    """What is known of the names in these slots, in order: what can be seen, and what earlier
    gists noted."""
    needs = Needs(only)
    for slot in slots:
        passages, notes = text.get(slot.seq, ()), slot.notes or {}
        if is_gist(slot):
            needs.now = max(needs.now, notes.get("now", 0) - len(passages))
        for one in passages:
            needs.observe(one.role, one.names)
        if is_gist(slot):
            # What a gist noted beats what can be seen of it now, wherever it had seen more.
            needs.recall(notes.get("now", 0), notes.get("names", {}))
    return needs


class _Draft(Struct, frozen=True, kw_only=True):
    """The summaries of one fold, one per run of messages; the largest has the ledger."""

    brief: Brief
    text: _Text
    noted: Needs
    ledger: list[str]
    facts: tuple[Fact, ...]
    starved: bool
    prose: str = ""

    def within(self, room: int, kept: Kept, per_char: float) -> list[Summarize]:
        """The summaries in at most `room` tokens: prices are estimates, so the least needed
        lines go if it is more."""
        edits = self.summaries(kept)
        for _ in range(TRIES):
            excess = sum(text_tokens(self.brief.count, edit.text) for edit in edits) - room
            if excess <= 0 or not kept:
                break
            kept = without_last(kept, excess / per_char)
            edits = self.summaries(kept)
        return edits

    def summaries(self, kept: Kept) -> list[Summarize]:
        lines: dict[int, dict[int, Pieces]] = {}
        for (seq, at), pieces in kept.items():
            lines.setdefault(seq, {})[at] = pieces
        largest = max(self.text.parts, key=_tokens)
        return [self._summary(run, lines, with_ledger=run is largest) for run in self.text.parts]

    def _summary(
        self, run: Sequence[Slot], lines: Mapping[int, Mapping[int, Pieces]], *, with_ledger: bool
    ) -> Summarize:
        span, passages = Span(run[0].seq, run[-1].last), self.text.of(run)
        ledger, facts = (self.ledger, self.facts) if with_ledger else ([], ())
        prose = [self.prose] if with_ledger and self.prose else []
        heading = f"[Earlier steps {span}, quoted by their own lines, not a new request; unfold {span} or any #number.]"
        return Summarize(
            batch=self.brief.batch,
            span=span,
            text="\n".join([*prose, heading, *ledger, *_lines(passages, lines)]),
            line=one_line(span, facts),
            facts=facts,
            notes=self._notes(passages, lines),
            reason="gist",
        )

    def _notes(
        self, passages: Sequence[Passage], lines: Mapping[int, Mapping[int, Pieces]]
    ) -> dict[str, Any]:
        """What a later gist has to know of the names that this one keeps."""
        names = {
            name for one in passages for at in lines.get(one.seq, ()) for name in one.names[at]
        }
        found = {"gist": 1, "now": self.noted.now, "names": self.noted.noted(sorted(names))}
        return {**found, "starved": True} if self.starved else found


def chars_of(kept: Kept) -> int:
    """The characters that these lines take, with their tags."""
    lines = sum(end - start + 1 for pieces in kept.values() for start, end in pieces)
    return lines + TAG_CHARS * len({seq for seq, _ in kept})


def without_last(kept: Kept, chars: float) -> Kept:
    """The choice without its last lines, which are the least needed, by at least this many
    characters."""
    left = dict(kept)
    while left and chars > 0:
        _, pieces = left.popitem()
        chars -= sum(end - start for start, end in pieces) + 1
    return left


def one_line(span: Span, facts: Sequence[Fact]) -> str:
    """The shortest form of a span: what was asked last and what was changed."""
    request = next((fact.text for fact in reversed(facts) if fact.kind == "request"), "")
    files = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    parts = [request.split("\n", 1)[0][:100], f"changed {', '.join(files[:5])}" if files else ""]
    return f"{span}: " + ("; ".join(part for part in parts if part) or "earlier steps")


def _lines(passages: Sequence[Passage], kept: Mapping[int, Mapping[int, Pieces]]) -> list[str]:
    out: list[str] = []
    for one in passages:
        if pieces := kept.get(one.seq):
            out.append(tag(one))
            out += [cut(one.lines[at], parts) for at, parts in sorted(pieces.items())]
    return out


def per_char(brief: Brief, slots: Sequence[Slot]) -> float:
    """Tokens per character of what these messages say, from a sample of them."""
    sample = "\n".join(
        flat(slot.message)[:SAMPLE_CHARS] for slot in slots[:: max(1, len(slots) // SAMPLE_SLOTS)]
    )
    return max(0.05, text_tokens(brief.count, sample) / max(1, len(sample)))
