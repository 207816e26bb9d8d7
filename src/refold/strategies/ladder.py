"""The ladder: strategies run in order, from lossless to lossy, until the target is met.

Every rung sees the page as the rungs before it would leave it. What they propose is sized here,
tried on a copy of the fold, and dropped if it does not make the page smaller. A rung that fails is
left out, and its step says why. After a summary the last rung is the last resort: it does not run
once the page is well below the trigger, because the summary it would hide was just paid for. The
result is one list of proposals, one batch. Neighbours: `brief` has what a strategy is given,
`compaction.planning` climbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from refold.core.codec import kind_of
from refold.core.fold import Fold
from refold.core.laws import broken
from refold.core.model import Edit, Event, Hide, Replace, Summarize
from refold.core.plan import Ask, Proposal, Step
from refold.core.summary import summary_text
from refold.errors import RefoldError
from refold.strategies.brief import Brief, Strategy, with_excluded

LAST_RUNG = "fit"  # where nothing else helped, results of excluded tools are cut as well


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
        enough = _enough(brief, done, is_last=name == rungs[-1][0])
        if done.state.view().tokens <= enough:
            break
        done = done.then(_run_rung(done.state, brief, name, strategy))
    return done


def _enough(brief: Brief, done: Climb, *, is_last: bool) -> int:
    """The size at which the next rung is not needed; after a summary the last one is spared."""
    for proposal in done.proposals:
        if is_last and isinstance(proposal.edit, Summarize):
            return max(brief.enough, brief.target)
    return brief.target


def _run_rung(state: Fold, brief: Brief, name: str, strategy: Strategy) -> Climb:
    """What one rung makes of the page."""
    before = state.view()
    shown = before if name == LAST_RUNG else with_excluded(before, brief.config, brief.budget)
    began = process_time()
    settings = {**brief.config.strategy.get(name, {}), **brief.settings}
    items, failure = _run_strategy(strategy, replace(brief, view=shown, settings=settings))
    taken, after, refusal = _try_edits(state, brief, [_draft_of(item) for item in items])
    step = Step(
        strategy=name,
        edits=len(taken),
        tokens_before=before.tokens,
        tokens_after=after.view().tokens,
        cpu_ms=1e3 * (process_time() - began),
        note=failure or refusal,
    )
    asks = _asks_for(taken, items)
    return Climb(state=after, proposals=tuple(taken), asks=asks, steps=(step,))


def _asks_for(taken: Sequence[Proposal], items: Sequence[Edit | Ask]) -> tuple[Ask, ...]:
    """The asks whose drafts were taken."""
    kept = {id(proposal.edit) for proposal in taken}
    return tuple(item for item in items if isinstance(item, Ask) and id(item.draft) in kept)


def _run_strategy(strategy: Strategy, brief: Brief) -> tuple[Sequence[Edit | Ask], str]:
    """What a strategy proposes, or why it could not. A wrong setting is the caller's mistake and
    is raised."""
    try:
        return strategy(brief), ""
    except RefoldError:
        raise
    except Exception as error:  # noqa: BLE001 - a strategy may be anybody's code and raise anything
        return (), f"failed: {type(error).__name__}: {error}"


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
    for edit in edits:
        proposal = Proposal(edit, edit_tokens(edit, after, brief))
        if _shrinks(proposal, after) and after.add(_trial_event(proposal, after), edit):
            taken.append(proposal)
    faults = _new_faults(state, after) if taken else set()
    if faults:
        return [], state, "refused: " + "; ".join(sorted(faults))
    return taken, after, ""


def _new_faults(before: Fold, after: Fold) -> set[str]:
    """The broken laws of a page that the page before it did not break."""
    faults = set(broken(after.view()))
    if not faults:
        return faults  # checking a page is expensive, so the one before is left alone
    return faults - set(broken(before.view()))


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
