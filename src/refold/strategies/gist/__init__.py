"""A span becomes its own most needed lines, verbatim, each group under the `#seq` it came from.

What the page keeps whole: the opening, pins, the latest request, and a short tail in whole units.
The rest becomes a gist: one text per run of messages, with no tool call in it that could break or
be imitated. Earlier gists stay byte for byte, so the prompt cache holds; when the page would be too
full with one more, all are folded again into one, from the log as far as that is cheap. What is
known of the names is noted in the edit, so a gist never needs more than the page. Neighbours:
`layout` divides the page, `material` reads it, `choice` chooses the lines, `draft` makes the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from msgspec.structs import replace

from refold.core.laws import is_request
from refold.core.model import Edit, Fact, Prose, Slot, Summarize
from refold.core.plan import Ask
from refold.core.shortened import prose_text
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of, files_in_work, is_cut, ledger_lines, merged, said
from refold.strategies.brief import Brief, tokens_of
from refold.strategies.fit import common_size, cuts_of, edits_of, pieces
from refold.strategies.gist.choice import Kept, choose_lines
from refold.strategies.gist.draft import Draft, chars_of, list_share, summary_tokens
from refold.strategies.gist.layout import Layout, Material, excerpts, lay_out, runs
from refold.strategies.gist.names import Needs
from refold.strategies.gist.passages import Reader, is_starved, per_char
from refold.strategies.summarize import cap_tokens, carried

NEWEST = 0.6  # of what is free: what the newest unit may keep if it is larger
ALONE = 0.8  # the same where nothing else is to be folded
# Of what the goal leaves beside the fixed part: what a gist of everything may have, whatever the
# tail.
LEAST = 0.68
# Of a span, but for what users said, which stays: what its segment may have at most.
SHARE = 0.35
# Of what is to stay free: what one more segment may take of it, before all is folded again.
OVER = 0.4
# A gist of everything with less room than this part of its least is folded again as soon as
# possible.
STARVED = 0.5
TYPED_SHARE = 0.6  # of the room, for what users typed
LEDGER_SHARE = 0.06  # of the room, and of what lies above `LEDGER_ROOM` once more
LEDGER_ROOM = 8_000
# Characters of the ledger in a small room, of which they may be this part at most: a decision and a
# few files have to fit there, too.
LEDGER_LEAST, LEDGER_MOST = 320, 0.12
FLOOR = 0.0002  # the least worth per token of a line
# The floor rises by this per share of the free room that a turn fills: what is folded again soon
# costs more.
HASTE = 7.0
HEADING_TOKENS = 40
CUT_TOKENS = 64


def gist(brief: Brief) -> list[Edit | Ask]:
    """Folds the messages since the last gist into one more, or all gists and messages into one."""
    layout = lay_out(brief)
    edits = _fold(brief, layout)
    return [*edits, *_clip_request(brief, layout)] if edits else []


def gist_of(brief: Brief, first: int, stop: int, room: int) -> Summarize | None:
    """One gist of the slots from the first to before `stop`, in about this many tokens; None if
    they are hardly more than a heading."""
    slots = brief.slots
    layout = lay_out(brief)
    kept = [*slots[:first], *slots[stop:]]
    layout = replace(layout, kept=kept, gists=[], raw=list(slots[first:stop]))
    material = _material(brief, layout, layout.raw, [])
    least = int(LEAST * min(layout.free / 2, max(0, layout.goal - layout.fixed)))
    edits = _summaries(brief, layout, material, max(room, least), starved=room < STARVED * least)
    return edits[0] if len(edits) == 1 else None


def _fold(brief: Brief, layout: Layout) -> list[Edit | Ask]:
    room = layout.goal - layout.fixed - layout.tail_tokens
    over = 0 if brief.is_asked else OVER * layout.spare * layout.free
    share = _segment_room(layout, room - tokens_of(layout.gists) + over)
    if share is not None:
        return _fold_new(brief, layout, share)
    least = int(LEAST * min(layout.free / 2, layout.goal - layout.fixed))
    starved = room < STARVED * least
    return _fold_all(brief, layout, room if brief.is_asked else max(room, least), starved=starved)


def _segment_room(layout: Layout, room: float) -> int | None:
    """What one more gist may have; None if all must be folded again, because there is no gist
    yet, one had too little room, or this one would have."""
    if not layout.gists or any(map(is_starved, layout.gists)):
        return None
    typed = tokens_of([slot for slot in layout.raw if is_request(slot)])
    wanted = typed + SHARE * (tokens_of(layout.raw) - typed)
    share = int(min(wanted, room))
    return share if share >= wanted / 2 else None


# --- folding ---


def _fold_new(brief: Brief, layout: Layout, room: int) -> list[Edit | Ask]:
    """One more gist, of the messages since the last; the earlier ones stay as they are."""
    material = _material(brief, layout, layout.raw, layout.gists)
    return [
        *_summaries(
            brief, layout, material, room - _short_run_tokens(material, layout), starved=False
        )
    ]


def _fold_all(brief: Brief, layout: Layout, room: int, *, starved: bool) -> list[Edit | Ask]:
    """One gist of everything; the newest unit gives way as well if it is too large."""
    everything = sorted([*layout.gists, *layout.raw], key=lambda slot: slot.seq)
    material = _material(brief, layout, everything, [])
    left = room - _short_run_tokens(material, layout)
    edits = _summaries(brief, layout, material, left, starved=starved)
    share = NEWEST if material.runs else ALONE
    return [*edits, *_clip_newest(brief, layout, edits, material.needs, share)]


def _material(
    brief: Brief, layout: Layout, slots: Sequence[Slot], frozen: Sequence[Slot]
) -> Material:
    """What is folded of these slots. A run that is not larger than a heading stays as it is."""
    large: list[list[Slot]] = []
    kept = list(layout.kept)
    for run in runs(slots, [*layout.kept, *frozen]):
        if tokens_of(run) > HEADING_TOKENS:
            large.append(run)
        else:
            kept += run
    return Material(Reader(brief), large, kept, frozen)


def _short_run_tokens(material: Material, layout: Layout) -> int:
    """What the runs take that stay because they are so small."""
    return tokens_of(material.kept) - tokens_of(layout.kept)


def _clip_request(brief: Brief, layout: Layout) -> list[Edit]:
    """The latest request cut as far as it leaves no room for anything else."""
    if layout.request_excess <= 0:
        return []
    request = [slot for slot in brief.slots if slot.seq == brief.view.request]
    cuts = cuts_of(brief, pieces(brief, request), layout.request_excess, (CUT_TOKENS,))
    return edits_of(cuts)


def _clip_newest(
    brief: Brief, layout: Layout, edits: Iterable[Summarize], needs: Needs, share: float
) -> list[Edit]:
    """The newest unit cut to its share of the page: losing its middle is better than losing all
    that came before. Its largest blocks come down to one size, so that a short result of a long
    call stays whole: the agent has not read it yet, but knows what it called."""
    excess = _newest_excess(brief, layout, summary_tokens(brief, edits), share)
    if excess <= 0:
        return []
    found = pieces(brief, layout.newest)
    size = common_size([piece.tokens for piece in found], excess)
    shorter, excess = excerpts(brief, layout.newest, excess, size, needs)
    if excess <= 0:
        return [*shorter]
    done = {(edit.seq, edit.block) for edit in shorter}
    rest = [piece for piece in found if piece.key not in done]
    floors = (max(size * 3 // 4, CUT_TOKENS), CUT_TOKENS)  # sizes are estimates
    return [*shorter, *edits_of(cuts_of(brief, rest, excess, floors))]


def _newest_excess(brief: Brief, layout: Layout, gist_tokens: int, share: float) -> int:
    """By how much the newest unit is too large, for its share or for the page."""
    page = layout.fixed + layout.tail_tokens + gist_tokens
    over_share = tokens_of(layout.newest) - int(share * layout.free)
    return max(over_share, page - max(brief.enough, layout.goal))


# --- the summaries ---


def _summaries(
    brief: Brief, layout: Layout, material: Material, room: int, *, starved: bool
) -> list[Summarize]:
    """The summaries: the ledger's lines first, then the most needed ones."""
    if not material.runs:
        return []
    rate = per_char(brief, material.slots)
    facts = _facts(brief, material)
    told = facts if material.frozen else merged(brief.view.facts, facts)
    in_work = files_in_work(layout.kept, brief.config)
    usual = _ledger_characters(room, rate)
    told = _not_quoted(told, material)
    ledger = ledger_lines(told, usual, in_work)
    left = room - brief.text_tokens("\n".join(ledger)) - HEADING_TOKENS * len(material.runs)
    prose = _carried_prose(brief, material, left)
    left -= brief.text_tokens(prose_text(prose)) if prose else 0
    for_names = int(left * list_share(left, material.chars * rate))
    left -= for_names
    kept = _choose(layout, material, left, rate, said(ledger))
    if is_cut(ledger):  # what the lines do not need is for requests, rules and changed files
        ledger = ledger_lines(told, usual, in_work, int(left / rate) - chars_of(kept))
    draft = Draft(
        brief=brief,
        material=material,
        noted=material.needs_noted(kept),
        ledger=ledger,
        facts=facts,
        starved=starved,
        prose=prose,
    )
    edits = draft.within(room - for_names, kept, rate)
    return draft.with_names(edits, room, rate) if for_names else edits


def _ledger_characters(room: int, rate: float) -> int:
    """The characters that the ledger may have."""
    usual = LEDGER_SHARE * (room + max(0, room - LEDGER_ROOM)) / rate
    return int(max(usual, min(LEDGER_LEAST, LEDGER_MOST * room / rate)))


def _carried_prose(brief: Brief, material: Material, room: int) -> Prose | None:
    """The prose of what is folded, in a quarter of the room at most."""
    tokens_max = min(cap_tokens(brief.budget.window), room // 4)
    return carried(material.slots, tokens_max, brief.text_tokens)


def _facts(brief: Brief, material: Material) -> tuple[Fact, ...]:
    """What the ledger learns from the messages that are folded."""
    raw = [slot for slot in material.slots if not slot.standin]
    return facts_of(raw, brief.config, brief.view.facts, Cutter(brief.redact))


def _not_quoted(facts: Iterable[Fact], material: Material) -> tuple[Fact, ...]:
    """The facts without requests whose own words are quoted: nothing is said twice."""
    quoted = {one.seq for one in material.passages if one.typed}
    return tuple(fact for fact in facts if fact.kind != "request" or fact.seq not in quoted)


def _choose(layout: Layout, material: Material, room: int, rate: float, told: Set[str]) -> Kept:
    """What users typed and the most needed lines, in this many tokens; `told` are lines that
    the ledger has."""
    floor = FLOOR * (1 + HASTE * layout.pace) * min(1.0, 2 * layout.spare)
    return choose_lines(
        material.passages,
        material.odds(),
        material.shown,
        room=room,
        floor=floor,
        per_char=rate,
        typed_share=TYPED_SHARE,
        told=told,
    )
