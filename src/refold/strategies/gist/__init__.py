"""A span becomes its own most needed lines, verbatim, each group under the `#seq` of its message.

The opening, pins, the latest request and a short tail of complete units stay verbatim. The rest
becomes a gist: one piece of text per run of messages, without tool calls that could break or be
imitated. Earlier gists stay byte for byte, so the prompt cache stays valid; when one more would
make the page too full, all are folded again into one, from the log as far as that is cheap. The
edit records the use of its names, so a later gist needs nothing but the page. Neighbours: `layout`
divides the page and reads it, `choice` chooses the lines, `draft` writes the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from refold.core.laws import is_request
from refold.core.model import Edit, Fact, Slot, Summarize
from refold.core.plan import Ask
from refold.core.shortened import prose_text
from refold.ledger.facts import Cutter
from refold.ledger.ledger import (
    briefing_lines,
    facts_of,
    files_in_work,
    ledger_lines,
    merged,
    unmarked_lines,
)
from refold.strategies.brief import Brief, cap_tokens, carried, unfolder
from refold.strategies.fit import common_size, cuts_of, edits_of, pieces
from refold.strategies.gist.choice import choose_lines
from refold.strategies.gist.draft import Draft, chars_of, list_share, prose_share, summary_tokens
from refold.strategies.gist.layout import Layout, Material, excerpts, lay_out, runs
from refold.strategies.gist.passages import Reader, is_starved, per_char
from refold.strategies.protected_messages import standin_max, tokens_of

NEWEST = 0.6  # of the free room: the limit of the newest unit
ALONE = 0.8  # the same if there is nothing else to fold
# Of the room between the fixed part and the goal: guaranteed to a gist of everything, regardless of
# the tail.
LEAST = 0.68
# Of a span, without its typed text, which stays: the limit of its segment.
SHARE = 0.35
# Of the spare room: the limit of one more segment, before all are folded again.
OVER = 0.4
# A gist of everything with less than this share of its guaranteed room is folded again as soon as
# possible.
STARVED = 0.5
PASTED_SHARE = 0.3  # of the room: the most that typed text may take, its pasted data included
LEDGER_SHARE = 0.06  # of the room, and again of the part above `LEDGER_ROOM`
LEDGER_ROOM = 8_000
# The ledger's characters in a small room, and their largest share of it: a decision and a few files
# must fit even there.
LEDGER_LEAST, LEDGER_MOST = 320, 0.12
FLOOR = 0.0002  # the minimum worth per token of a line
# The floor rises by this per share of the free room that a turn fills: lines that are folded again
# soon cost more.
HASTE = 7.0
HEADING_TOKENS = 40
CUT_TOKENS = 64
BRIEFING_TOKENS, BRIEFING_SHARE = 400, 0.1  # of the page


def gist(brief: Brief) -> list[Edit | Ask]:
    """Folds the messages since the last gist into one more, or all gists and messages into one."""
    layout = lay_out(brief)
    edits = _fold(brief, layout)
    if layout.request_excess > 0:
        # The latest request is cut if it would leave no room for anything else.
        request = [slot for slot in brief.slots if slot.seq == brief.view.request]
        cuts = cuts_of(brief, pieces(brief, request), layout.request_excess, (CUT_TOKENS,))
        edits += edits_of(cuts)
    return edits


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
    # One more gist, unless there is none yet, one is starved, or this one would be.
    if layout.gists and not any(map(is_starved, layout.gists)):
        over = 0 if brief.is_asked else OVER * layout.spare * layout.free
        typed = tokens_of([slot for slot in layout.raw if is_request(slot)])
        wanted = typed + SHARE * (tokens_of(layout.raw) - typed)
        share = int(min(wanted, room - tokens_of(layout.gists) + over))
        if share >= wanted / 2:
            material = _material(brief, layout, layout.raw, layout.gists)
            share -= tokens_of(material.kept) - tokens_of(layout.kept)
            return [*_summaries(brief, layout, material, share, starved=False)]
    # One gist of everything; the newest unit is cut as well if it is too large.
    least = int(LEAST * min(layout.free / 2, layout.goal - layout.fixed))
    starved = room < STARVED * least
    room = room if brief.is_asked else max(room, least)
    everything = sorted([*layout.gists, *layout.raw], key=lambda slot: slot.seq)
    material = _material(brief, layout, everything, [])
    room -= tokens_of(material.kept) - tokens_of(layout.kept)
    edits = _summaries(brief, layout, material, room, starved=starved)
    return [*edits, *_clip_newest(brief, layout, edits, material)]


def _material(
    brief: Brief, layout: Layout, slots: Sequence[Slot], frozen: Sequence[Slot]
) -> Material:
    """The runs of these slots to fold. A run hardly larger than a heading stays as it is."""
    large: list[list[Slot]] = []
    kept = list(layout.kept)
    for run in runs(slots, [*layout.kept, *frozen]):
        if standin_max(run) > HEADING_TOKENS:
            large.append(run)
        else:
            kept += run
    return Material(Reader(brief), large, kept, frozen)


def _clip_newest(
    brief: Brief, layout: Layout, edits: Iterable[Summarize], material: Material
) -> list[Edit]:
    """Cuts the newest unit to its share of the page: losing its middle is better than losing all
    earlier messages. Its largest blocks are cut to one size, so that a short result of a long call
    stays complete: the agent knows the call, but has not read the result yet."""
    share = NEWEST if material.runs else ALONE
    page = layout.fixed + layout.tail_tokens + summary_tokens(brief, edits)
    over_share = tokens_of(layout.newest) - int(share * layout.free)
    excess = max(over_share, page - max(brief.enough, layout.goal))
    if excess <= 0:
        return []
    excess += min(8, excess // 16)  # the size of a notice is an estimate
    blocks = pieces(brief, layout.newest)
    size = common_size([piece.tokens for piece in blocks], excess)
    shorter, excess = excerpts(brief, layout.newest, excess, size, material.needs)
    if excess <= 0:
        return [*shorter]
    done = {(edit.seq, edit.block) for edit in shorter}
    rest = [piece for piece in blocks if piece.key not in done]
    floors = (max(size * 3 // 4, CUT_TOKENS), CUT_TOKENS)  # sizes are estimates
    return [*shorter, *edits_of(cuts_of(brief, rest, excess, floors))]


# --- the summaries ---


def _summaries(
    brief: Brief, layout: Layout, material: Material, room: int, *, starved: bool
) -> list[Summarize]:
    """The summaries: the ledger's lines first, then the most needed ones."""
    if not material.runs:
        return []
    room = min(room, sum(map(standin_max, material.runs)))
    rate = per_char(brief, material.slots)
    raw = [slot for slot in material.slots if not slot.standin]
    facts = facts_of(raw, brief.config, brief.view.facts, Cutter(brief.redact))
    listed = facts if material.frozen else merged(brief.view.facts, facts)
    # A request quoted in its own words is not listed a second time.
    quoted = {passage.seq for passage in material.passages if passage.typed}
    listed = tuple(fact for fact in listed if fact.kind != "request" or fact.seq not in quoted)
    in_work = files_in_work(layout.kept, brief.config)
    ledger_chars = LEDGER_SHARE * (room + max(0, room - LEDGER_ROOM)) / rate
    ledger_chars = int(max(ledger_chars, min(LEDGER_LEAST, LEDGER_MOST * room / rate)))
    ledger = ledger_lines(listed, ledger_chars, in_work)
    ledger = ledger if len(ledger) > 1 else []  # not the count alone
    headings = (HEADING_TOKENS if unfolder(brief.view) else HEADING_TOKENS // 2) * len(
        material.runs
    )
    in_force = merged(brief.view.facts, (*facts, *_facts_of_tail(brief, layout)))
    briefing = briefing_lines(
        in_force, int(min(BRIEFING_TOKENS, BRIEFING_SHARE * layout.goal) / rate)
    )
    top = [*briefing, *ledger]
    left = room - headings - (brief.text_tokens("\n".join(top)) if top else 0)
    prose_max = min(cap_tokens(brief.budget.window), left // 4)
    prose = carried(material.slots, prose_max, brief.text_tokens)
    left -= brief.text_tokens(prose_text(prose)) if prose else 0
    for_names = int(left * list_share(left, material.chars * rate))
    left -= for_names
    kept = choose_lines(
        material.passages,
        material.odds(),
        material.shown,
        room=left,
        floor=FLOOR * (1 + HASTE * layout.pace) * min(1.0, 2 * layout.spare),
        per_char=rate,
        typed_share=PASTED_SHARE,
        said_share=prose_share(left, material.chars * rate),
        told=unmarked_lines(ledger),
        quoted=material.quoted,
    )
    # Room that the lines do not need is for requests, rules and changed files.
    spare_chars = int(left / rate) - chars_of(kept)
    if ledger:
        ledger = ledger_lines(listed, ledger_chars, in_work, spare_chars)
    draft = Draft(
        brief=brief,
        material=material,
        noted=material.needs_noted(kept),
        ledger=[*briefing, *ledger],
        facts=facts,
        starved=starved,
        prose=prose,
    )
    edits = draft.within(room - for_names, kept, rate)
    return draft.with_names(edits, room, rate) if for_names else edits


def _facts_of_tail(brief: Brief, layout: Layout) -> tuple[Fact, ...]:
    """The facts of the messages that stay verbatim after the folded ones, for the briefing."""
    first = min((slot.seq for slot in layout.raw), default=0)
    tail = [slot for slot in layout.kept if slot.seq > first]
    return facts_of(tail, brief.config, brief.view.facts, Cutter(brief.redact))
