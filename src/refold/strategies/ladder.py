"""The ladder: strategies run in order, from lossless to lossy, until the target is met.

Every rung sees the page as the rungs before it would leave it. What they propose is sized here,
tried on a copy of the fold, and dropped if it does not make the page smaller. A rung that fails, or
gives something else than edits, is left out, and its step says why. After a summary the last rung
is the last resort: it runs only where the page would be compacted again at once, and takes no more
than that needs, because the summary it would hide was just paid for, and is all that is left. The
result is one list of proposals, one batch. Neighbours: `brief` has what a strategy is given,
`answer` checks what it gave, `compaction.planning` climbs.
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
from refold.strategies.brief import Brief, Strategy, checked_answer, with_kept, with_named_tail

LAST_RUNG = "fit"  # where nothing else helped, results of excluded tools are cut as well
LOSSLESS = frozenset({"dedup"})
BY_TOKENS = frozenset({"gist", "clear", "keep"})  # these know no number of messages
STANDINS = 3  # the opening, what stands for the messages that go, and a cut inside a tool pair


class Climb(Struct, frozen=True, kw_only=True):
    """How far the ladder got: the page it would leave, and by which edits."""

    state: Fold
    proposals: tuple[Proposal, ...]
    asks: tuple[Ask, ...]
    steps: tuple[Step, ...]

    def then(self, further: Climb) -> Climb:
        """This climb and what came after it."""
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
        is_resort = name == rungs[-1][0] and _has_summary(done) and brief.enough > brief.target
        most = brief.full - 1 if is_resort else brief.target
        if page.tokens <= most and not brief.is_crowded(len(page.slots) - STANDINS):
            break
        own = replace(brief, target=brief.enough) if is_resort else brief
        done = done.then(_run_rung(done.state, own, name, strategy))
    return done


def _has_summary(done: Climb) -> bool:
    return any(isinstance(proposal.edit, Summarize) for proposal in done.proposals)


def is_lossless_enough(brief: Brief, done: Climb, page: View) -> bool:
    """Whether showing once what stood there twice made so much room that nothing need be lost, and
    no model be asked."""
    lossless = all(step.strategy in LOSSLESS for step in done.steps if step.edits)
    return lossless and page.tokens <= brief.lossless_enough


def brief_for(brief: Brief, name: str, view: View) -> Brief:
    """What one strategy is given: the page as it is now, and its own settings."""
    shown = view
    if name not in (LAST_RUNG, NATIVE) and not brief.is_chosen:
        shown = with_kept(view, brief.config, brief.budget)
    if name in BY_TOKENS:
        shown = _without_tail(brief, shown)
    shown = with_named_tail(shown, brief.settings)
    settings = {**brief.config.strategy.get(name, {}), **brief.settings}
    return replace(brief, view=shown, settings=settings, named=brief.settings.keys())


def _run_rung(state: Fold, brief: Brief, name: str, strategy: Strategy) -> Climb:
    """What one rung makes of the page."""
    before = state.view()
    began = process_time()
    own = brief_for(brief, name, before)
    items, failed = _run_strategy(strategy, own, by_hand=brief.is_chosen or bool(brief.settings))
    taken, after, refusal = _try_edits(state, brief, [_draft_of(item) for item in items])
    page = after.view()
    step = Step(
        strategy=name,
        edits=len(taken),
        tokens_before=before.tokens,
        tokens_after=page.tokens,
        chars_saved=_chars_saved(before.slots, page.slots) if taken else 0,
        cpu_ms=1e3 * (process_time() - began),
        note=failed or refusal,
    )
    asks = _asks_for(taken, items)
    return Climb(state=after, proposals=tuple(taken), asks=asks, steps=(step,))


def _chars_saved(before: Sequence[Slot], after: Sequence[Slot]) -> int:
    """By how many characters a page shrank. A slot that was not edited is the same object on both,
    so only those are read that were."""
    kept = {id(slot) for slot in before} & {id(slot) for slot in after}
    gone, new = (sum(map(_chars, slots)) for slots in (_others(before, kept), _others(after, kept)))
    return gone - new


def _others(slots: Sequence[Slot], kept: set[int]) -> list[Slot]:
    return [slot for slot in slots if id(slot) not in kept]


def _chars(slot: Slot) -> int:
    return sum(len(text_of(block)) for block in slot.message.blocks)


def _without_tail(brief: Brief, view: View) -> View:
    """The page for a strategy that goes by tokens: where only messages are too many, the newest
    stay as if they were pinned, as many as are allowed beside what will stand for the rest."""
    if not brief.messages_max:
        return view
    tail = view.slots[max(0, len(view.slots) - brief.messages_max + STANDINS) :]
    return replace(view, pins=view.pins | {slot.seq for slot in tail})


def _asks_for(taken: Sequence[Proposal], items: Sequence[Edit | Ask]) -> tuple[Ask, ...]:
    """The asks whose drafts were taken."""
    kept = {id(proposal.edit) for proposal in taken}
    return tuple(item for item in items if isinstance(item, Ask) and id(item.draft) in kept)


def _run_strategy(
    strategy: Strategy, brief: Brief, *, by_hand: bool
) -> tuple[Sequence[Edit | Ask], str]:
    """What a strategy proposes, or why it could not. A wrong setting in a call by hand is the
    caller's mistake and is raised."""
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


def _draft_of(item: Edit | Ask) -> Edit:
    return item.draft if isinstance(item, Ask) else item


# --- trying edits ---


def _try_edits(
    state: Fold, brief: Brief, edits: Sequence[Edit]
) -> tuple[list[Proposal], Fold, str]:
    """The edits that make the page smaller, the page they leave, and what was wrong with it if
    it was refused."""
    taken: list[Proposal] = []
    after = state.copy()
    try:
        for edit in edits:
            proposal = Proposal(edit, edit_tokens(edit, after, brief))
            if _shrinks(proposal, after) and after.add(_trial_event(proposal, after), edit):
                taken.append(proposal)
    except (LookupError, ValueError, OverflowError) as error:
        # Of the right types, but of nothing on this page.
        return [], state, f"failed: {failure(error)}"
    may_cover = any(proposal.edit.purpose == NATIVE for proposal in taken)
    faults = _new_faults(state, after, may_cover_request=may_cover) if taken else set()
    if faults:
        return [], state, "refused: " + "; ".join(sorted(faults))
    return taken, after, ""


def _new_faults(before: Fold, after: Fold, *, may_cover_request: bool) -> set[str]:
    """The broken laws of a page that the page before it did not break."""
    faults = set(broken(after.view()))
    if faults:  # checking a page is expensive, so the one before is left alone without need
        faults -= set(broken(before.view()))
    if _has_request(before) and not _has_request(after) and not may_cover_request:
        # The laws allow a page that was cleared; no strategy may clear it.
        faults.add("the latest user request is not on the page")
    return faults


def _has_request(state: Fold) -> bool:
    slot = state.slot_at(state.request)
    return slot is not None and not slot.standin


def _shrinks(proposal: Proposal, state: Fold) -> bool:
    edit = proposal.edit
    if isinstance(edit, Replace):
        return proposal.tokens < replaced_tokens(edit, state)
    return proposal.tokens < state.covered_tokens(edit.span)


def edit_tokens(edit: Edit, state: Fold, brief: Brief) -> int:
    """What the edit's event adds to the page."""
    match edit:
        case Hide():
            return brief.hide_tokens(edit)
        case Summarize():
            return brief.text_tokens(summary_text(edit))
        case Replace():
            return _replace_tokens(edit, state, brief)


def _replace_tokens(edit: Replace, state: Fold, brief: Brief) -> int:
    slot = state.slot_at(edit.seq)
    if slot is None or edit.block >= len(slot.message.blocks):
        return 0
    # The fold takes the tokens of an edit against the block as it came, not as an earlier edit
    # left it.
    return replaced_tokens(edit, state) - brief.freed_tokens(slot, edit)


def replaced_tokens(edit: Replace, state: Fold) -> int:
    """What an earlier replace of the same block has added to the page: 0, or a negative number."""
    slot = state.slot_at(edit.seq)
    for applied in slot.edits if slot else ():
        if applied.block == edit.block:
            return applied.tokens
    return 0


def _trial_event(proposal: Proposal, state: Fold) -> Event:
    """The event that the proposal would become, for trying it out."""
    return Event(
        seq=state.head + 1,
        id="",
        at_ms=state.updated_ms,
        by="",
        kind=kind_of(proposal.edit),
        body=b"",
        salt=b"-",
        digest=b"",
        chain=state.chain,
        tokens=proposal.tokens,
    )
