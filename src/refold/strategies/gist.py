"""A span becomes its own most needed lines, verbatim, each group under the `#seq` it came from.

What the page keeps whole: the opening, pins, the latest request, and a short tail in whole units. The rest becomes a
gist: one text per run of messages, with no tool call in it that could break or be imitated. Earlier gists stay byte for
byte, so the prompt cache holds; when the page would be too full with one more, all are folded anew into one, from the
log as far as that is cheap. What is known of the names is noted in the edit, so a gist never needs more than the page.
Neighbours: `passages` reads messages, `names` and `lines` choose, `ledger` keeps the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from refold.core.laws import units
from refold.core.model import Edit, Fact, Slot, Span, Summarize
from refold.core.plan import Ask
from refold.strategies import fit
from refold.strategies.brief import Brief, opening, protected, tail_start, text_tokens
from refold.strategies.excerpt import excerpts
from refold.strategies.ledger import facts_of, ledger_lines, merged
from refold.strategies.lines import Passage, Pieces, Shown, chosen, cut
from refold.strategies.names import Needs, Row
from refold.strategies.passages import Reader, flat, is_gist, tag

TAIL = 0.05  # of what is free: the raw tail, in whole units
NEWEST = 0.5  # of what is free: what the newest unit may keep if it is larger
LEAST = 0.28  # of what is free: what a gist of everything may have even if the tail is large
SHARE = 0.35  # of a span: what its segment may have at most
REQUEST_CHARS = 300
REQUEST_SHARE = 0.2
LEDGER_SHARE = 0.12
FLOOR = 0.00045  # the least worth per token of a line
HASTE = 7.0  # the floor rises by this per share of the free room that a turn fills: what is folded again soon is dearer
HEADING_TOKENS = 40
CUT_TOKENS = 64
SAMPLE_SLOTS, SAMPLE_CHARS = 16, 1_000


class Layout(Struct, frozen=True, kw_only=True):
    """How the page is divided, and how much of it is free: what lies between the fixed part and the trigger. `pace` is
    the share of that which a turn fills."""

    kept: list[Slot]
    gists: list[Slot]
    raw: list[Slot]
    newest: list[Slot]
    free: int
    fixed: int
    tail_tokens: int
    pace: float


def gist(brief: Brief) -> list[Edit | Ask]:
    """Folds the messages since the last gist into one more, or all gists and messages into one."""
    layout = laid_out(brief)
    old = sum(slot.tokens for slot in layout.gists)
    size = sum(slot.tokens for slot in layout.raw)
    room = brief.target - layout.fixed - layout.tail_tokens - old
    share = int(min(SHARE * size, room))
    starved = any((slot.notes or {}).get("starved") for slot in layout.gists)
    if layout.gists and not starved and share >= SHARE * size / 2:
        return _folded(brief, layout, layout.raw, layout.gists, share, starved=False)
    room += old
    least = int(LEAST * layout.free)
    everything = sorted([*layout.gists, *layout.raw], key=lambda slot: slot.seq)
    return _folded(brief, layout, everything, [], max(room, least), starved=room < least)


# --- layout -------------------------------------------------------------------------------------------------------


def laid_out(brief: Brief) -> Layout:
    """What stays whole, what is a gist already, and what is to be folded."""
    view = brief.view
    start = opening(view)
    held = protected(view) | {slot.seq for slot in view.slots[:start]}
    whole = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    fixed = view.system_tokens + view.tools_tokens + sum(slot.tokens for slot in whole)
    free = max(0, (brief.full or view.tokens) - fixed)
    tail = max(start, tail_start(view, keep_messages=len(view.slots), keep_tokens=int(TAIL * free)))
    middle = [slot for slot in view.slots[start:tail] if slot.seq not in held or slot.standin]
    gists = [slot for slot in middle if is_gist(slot)]
    last = units(view.slots)[-1:] or [range(0)]
    new = [slot for slot in view.slots[start:] if not slot.standin]
    turns = max(1, sum(slot.message.role == "assistant" for slot in new))
    return Layout(
        kept=[*whole, *(slot for slot in view.slots[tail:] if slot.seq not in held)],
        gists=gists,
        raw=[slot for slot in middle if not is_gist(slot)],
        newest=[view.slots[i] for i in last[0]],
        free=free,
        fixed=fixed,
        tail_tokens=sum(slot.tokens for slot in view.slots[tail:] if slot.seq not in held),
        pace=sum(slot.tokens for slot in new) / turns / max(1, free),
    )


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


def _clipped(brief: Brief, layout: Layout, edits: Sequence[Edit | Ask], needs: Needs) -> list[Edit]:
    """The newest unit cut to its share of the page: losing its middle is better than losing all that came before."""
    size = sum(slot.tokens for slot in layout.newest)
    gists = sum(text_tokens(brief.count, edit.text) for edit in edits if isinstance(edit, Summarize))
    after = layout.fixed + layout.tail_tokens + gists
    excess = max(size - int(NEWEST * layout.free), after - max(brief.enough, brief.target))
    if excess <= 0:
        return []
    shorter, excess = excerpts(brief, layout.newest, excess, needs)
    done = {(edit.seq, edit.block) for edit in shorter}
    rest = [piece for piece in fit.pieces(brief, layout.newest) if (piece.slot.seq, piece.block) not in done]
    return [*shorter, *(fit.cuts_of(brief, rest, excess, (CUT_TOKENS,))[0] if excess > 0 else [])]


# --- folding ------------------------------------------------------------------------------------------------------


def _folded(
    brief: Brief, layout: Layout, slots: Sequence[Slot], frozen: Sequence[Slot], room: int, *, starved: bool
) -> list[Edit | Ask]:
    """One summary per run of these slots, in at most `room` tokens together; when all is folded anew, the newest
    unit gives way too."""
    if not slots:
        return []
    reader = Reader(brief)
    text = [reader.read(slot) for slot in slots]
    by_seq = {slot.seq: passages for slot, passages in zip(slots, text)}
    kept_text = {slot.seq: reader.read(slot) for slot in layout.kept}
    noted = _needs([*frozen, *slots], by_seq)
    needs = _needs(sorted([*frozen, *slots, *layout.kept], key=lambda slot: slot.seq), by_seq | kept_text)
    shown = _shown(reader, kept_text, frozen)
    facts = facts_of([slot for slot in slots if not slot.standin], brief.config, brief.view.facts)
    rate = per_char(brief, slots)
    told = facts if frozen else merged(brief.view.facts, facts)
    ledger = ledger_lines(told, int(LEDGER_SHARE * room / rate))
    passages = [one for passages in text for one in passages]
    kept = chosen(
        passages,
        needs.odds({name for one in passages for names in one.names for name in names}),
        shown,
        room=room - text_tokens(brief.count, "\n".join(ledger)) - HEADING_TOKENS,
        floor=FLOOR * (1 + HASTE * layout.pace),
        per_char=rate,
        request_chars=REQUEST_CHARS,
        request_share=REQUEST_SHARE,
    )
    draft = _Draft(brief=brief, kept=kept, noted=noted.rows, now=noted.now, starved=starved)
    edits: list[Edit | Ask] = []
    for run in runs(slots, layout.kept):
        lines = [one for slot in run for one in by_seq[slot.seq]]
        edits.append(draft.summary(run, lines, [] if edits else ledger, () if edits else facts))
    return edits if frozen else [*edits, *_clipped(brief, layout, edits, needs)]


def _needs(slots: Sequence[Slot], text: Mapping[int, Sequence[Passage]]) -> Needs:
    """What is known of the names in these slots, in order: what can be seen, and what earlier gists noted."""
    needs = Needs()
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


def _shown(reader: Reader, kept: Mapping[int, Sequence[Passage]], frozen: Sequence[Slot]) -> Shown:
    """What the page tells besides the gist to be made."""
    shown = Shown()
    for passages in [*kept.values(), *(reader.kept_lines(slot) for slot in frozen)]:
        for one in passages:
            shown.add(one)
    return shown


class _Draft(Struct, frozen=True, kw_only=True):
    """What the summaries of one fold share."""

    brief: Brief
    kept: dict[int, dict[int, Pieces]]
    noted: dict[str, Row]
    now: int
    starved: bool

    def summary(
        self, run: Sequence[Slot], passages: Sequence[Passage], ledger: Sequence[str], facts: tuple[Fact, ...]
    ) -> Summarize:
        span = Span(run[0].seq, run[-1].last)
        heading = f"[Earlier steps {span}, shortened to their own lines; unfold {span} or any #number gives the whole.]"
        return Summarize(
            batch=self.brief.batch,
            span=span,
            text="\n".join([heading, *ledger, *_lines(passages, self.kept)]),
            line=one_line(span, facts),
            facts=facts,
            notes=self.notes(passages),
            reason="gist",
        )

    def notes(self, passages: Sequence[Passage]) -> dict[str, Any]:
        names = {name for one in passages for at in self.kept.get(one.seq, ()) for name in one.names[at]}
        found = {
            "gist": 1,
            "now": self.now,
            "names": {name: self.noted[name] for name in sorted(names & self.noted.keys())},
        }
        return {**found, "starved": True} if self.starved else found


def one_line(span: Span, facts: Sequence[Fact]) -> str:
    """The shortest form of a span: what was asked last and what was changed."""
    request = next((fact.text for fact in reversed(facts) if fact.kind == "request"), "")
    files = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    parts = [request.split("\n", 1)[0][:100], f"changed {', '.join(files[:5])}" if files else ""]
    return f"{span}: " + ("; ".join(part for part in parts if part) or "earlier steps")


def _lines(passages: Sequence[Passage], kept: dict[int, dict[int, Pieces]]) -> list[str]:
    out: list[str] = []
    for one in passages:
        if pieces := kept.get(one.seq):
            out.append(tag(one))
            out += [cut(one.lines[at], parts) for at, parts in sorted(pieces.items())]
    return out


def per_char(brief: Brief, slots: Sequence[Slot]) -> float:
    """Tokens per character of what these messages say, from a sample of them."""
    sample = "\n".join(flat(slot.message)[:SAMPLE_CHARS] for slot in slots[:: max(1, len(slots) // SAMPLE_SLOTS)])
    return max(0.05, text_tokens(brief.count, sample) / max(1, len(sample)))
