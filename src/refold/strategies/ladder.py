"""The ladder: strategies run in order, from lossless to lossy, until the target is met.

Every rung sees the page as the rungs before it would leave it. Its edits are sized here, tried on a
copy of the fold, and dropped if they do not make the page smaller. A failing rung, or one with an
invalid answer, is skipped, and its step has the reason. After a summary the last rung is the last
resort: it runs only if the page would be compacted again at once, and removes no more than needed,
because the summary was just paid for. The result is one list of proposals, one batch. Neighbours:
`brief` has the input and the checks of a strategy, `compaction.planning` climbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import kind_of
from refold.core.fold import Fold
from refold.core.laws import broken
from refold.core.model import NATIVE, Edit, Event, Hide, Replace, Slot, Summarize, View
from refold.core.plan import Ask, Proposal, Step
from refold.core.shortened import summary_text, text_of
from refold.display import failure
from refold.errors import Invalid, RefoldError
from refold.strategies.brief import Brief, Strategy, checked_answer
from refold.strategies.protected_messages import standin_max, with_kept, with_tail

LAST_RUNG = "fit"  # if nothing else helped, results of excluded tools are cut as well
LOSSLESS = frozenset({"dedup"})
BY_TOKENS = frozenset({"gist", "clear", "keep"})  # these do not count messages
STANDINS = 3  # the opening, the stand-in for removed messages, and a cut inside a tool pair


class Climb(Struct, frozen=True, kw_only=True):
    """The progress of the ladder: the page it would leave, and the edits for it."""

    state: Fold
    proposals: tuple[Proposal, ...]
    asks: tuple[Ask, ...]
    steps: tuple[Step, ...]

    def then(self, further: Climb) -> Climb:
        """This climb, continued by a further one."""
        return Climb(
            state=further.state,
            proposals=self.proposals + further.proposals,
            asks=self.asks + further.asks,
            steps=self.steps + further.steps,
        )


def climb(state: Fold, brief: Brief, rungs: Sequence[tuple[str, Strategy]]) -> Climb:
    """Runs the rungs on a copy of the fold until the target is met."""
    done = Climb(state=state.copy(), proposals=(), asks=(), steps=())
    for name, strategy in rungs:
        page = done.state.view()
        if is_lossless_enough(brief, done, page):
            break
        has_summary = any(isinstance(proposal.edit, Summarize) for proposal in done.proposals)
        is_resort = name == rungs[-1][0] and has_summary and brief.enough > brief.target
        most = brief.full - 1 if is_resort else brief.target
        if page.tokens <= most and not brief.is_crowded(len(page.slots) - STANDINS):
            break
        own = replace(brief, target=brief.enough) if is_resort else brief
        done = done.then(_run_rung(done.state, own, name, strategy))
    return done


def is_lossless_enough(brief: Brief, done: Climb, page: View) -> bool:
    """Whether removing duplicates made enough room, so that nothing has to be lost and no model
    has to be asked."""
    lossless = all(step.strategy in LOSSLESS for step in done.steps if step.edits)
    return lossless and page.tokens <= brief.lossless_enough


def brief_for(brief: Brief, name: str, view: View) -> Brief:
    """The brief of one strategy: the page as it is now, and its own settings."""
    page = view
    if name not in (LAST_RUNG, NATIVE) and not brief.is_chosen:
        page = with_kept(view, brief.config, brief.budget)
    if name in BY_TOKENS and brief.messages_max:
        # There are too many messages, not too many tokens: the newest are pinned, up to the allowed
        # number without the stand-ins for the rest.
        tail = page.slots[max(0, len(page.slots) - brief.messages_max + STANDINS) :]
        page = replace(page, pins=page.pins | {slot.seq for slot in tail})
    page = with_tail(page, brief.tail)
    settings = {**brief.config.strategy.get(name, {}), **brief.settings}
    return replace(brief, view=page, settings=settings, named=brief.settings.keys())


def _run_rung(state: Fold, brief: Brief, name: str, strategy: Strategy) -> Climb:
    """The climb of a single rung."""
    before = state.view()
    began = process_time()
    own = brief_for(brief, name, before)
    items, failed = _run_strategy(strategy, own, by_hand=brief.is_chosen or bool(brief.settings))
    edits = [item.draft if isinstance(item, Ask) else item for item in items]
    accepted, after, refusal = _try_edits(state, brief, edits)
    page = after.view()
    step = Step(
        strategy=name,
        edits=len(accepted),
        tokens_before=before.tokens,
        tokens_after=page.tokens,
        chars_saved=_chars_saved(before.slots, page.slots) if accepted else 0,
        cpu_ms=1e3 * (process_time() - began),
        note=failed or refusal,
    )
    drafts = {id(proposal.edit) for proposal in accepted}
    asks = tuple(item for item in items if isinstance(item, Ask) and id(item.draft) in drafts)
    return Climb(state=after, proposals=tuple(accepted), asks=asks, steps=(step,))


def _chars_saved(before: Sequence[Slot], after: Sequence[Slot]) -> int:
    """The characters by which a page shrank. An unedited slot is the same object on both pages, so
    only edited ones are read."""
    unedited = {id(slot) for slot in before} & {id(slot) for slot in after}
    old, new = (
        sum(
            len(text_of(block))
            for slot in slots
            if id(slot) not in unedited
            for block in slot.message.blocks
        )
        for slots in (before, after)
    )
    return old - new


def _run_strategy(
    strategy: Strategy, brief: Brief, *, by_hand: bool
) -> tuple[Sequence[Edit | Ask], str]:
    """The proposals of a strategy, or the reason for its failure. A wrong setting in a manual call
    is the caller's mistake and is raised."""
    try:
        return checked_answer(strategy(brief), brief), ""
    except Invalid as error:
        if by_hand:
            raise
        return (), f"failed: {failure(error)}"
    except RefoldError:
        raise
    except Exception as error:  # noqa: BLE001 - a strategy may be anybody's code and raise anything
        return (), f"failed: {failure(error)}"


# --- trying edits ---


def _try_edits(
    state: Fold, brief: Brief, edits: Sequence[Edit]
) -> tuple[list[Proposal], Fold, str]:
    """The edits that make the page smaller, the page they leave, and the fault of that page if it
    was refused."""
    accepted: list[Proposal] = []
    after = state.copy()
    try:
        for edit in edits:
            tokens = edit_tokens(edit, after, brief)
            if isinstance(edit, Replace):
                is_smaller = tokens < replaced_tokens(edit, after)
            else:
                is_smaller = tokens <= standin_max(after.covered(edit.span))
            trial = Event(
                seq=after.head + 1,
                id="",
                at_ms=after.updated_ms,
                by="",
                kind=kind_of(edit),
                body=b"",
                salt=b"-",
                digest=b"",
                chain=after.chain,
                tokens=tokens,
            )
            if is_smaller and after.add(trial, edit):
                accepted.append(Proposal(edit, tokens))
    except (LookupError, ValueError, OverflowError) as error:
        # A valid edit, but nothing on this page is in its span.
        return [], state, f"failed: {failure(error)}"
    may_cover = any(proposal.edit.purpose == NATIVE for proposal in accepted)
    faults = _new_faults(state, after, may_cover_request=may_cover) if accepted else set()
    if faults:
        return [], state, "refused: " + "; ".join(sorted(faults))
    return accepted, after, ""


def _new_faults(before: Fold, after: Fold, *, may_cover_request: bool) -> set[str]:
    """The laws that a page breaks and the page before it obeyed."""
    faults = set(broken(after.view()))
    if faults:  # checking a page is expensive, so the page before is checked only if necessary
        faults -= set(broken(before.view()))
    if _has_request(before) and not _has_request(after) and not may_cover_request:
        # The laws allow a page that was cleared; no strategy may clear it.
        faults.add("the latest user request is not on the page")
    return faults


def _has_request(state: Fold) -> bool:
    slot = state.slot_at(state.request)
    return slot is not None and not slot.standin


def edit_tokens(edit: Edit, state: Fold, brief: Brief) -> int:
    """The tokens that the edit's event adds to the page."""
    match edit:
        case Hide():
            return brief.hide_tokens(edit)
        case Summarize():
            return brief.text_tokens(summary_text(edit))
        case Replace():
            slot = state.slot_at(edit.seq)
            if slot is None or edit.block >= len(slot.message.blocks):
                return 0
            # The fold compares an edit with the original block, not with the block as an earlier
            # edit left it.
            return replaced_tokens(edit, state) - brief.freed_tokens(slot, edit)


def replaced_tokens(edit: Replace, state: Fold) -> int:
    """The tokens that an earlier replace of the same block added: 0, or a negative number."""
    slot = state.slot_at(edit.seq)
    for applied in slot.edits if slot else ():
        if applied.block == edit.block:
            return applied.tokens
    return 0
