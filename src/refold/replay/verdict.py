"""Whether refold is worth it: what sessions really cost, what they would have cost in smaller
windows, and a recommendation, in at most four sentences.

The bill is the recorded one. A window's cost is the bill less the difference that folding makes to
the calls of the session, so the rest of the bill stays the same. A window is recommended if it
saves enough and keeps nearly everything that was needed later; one that the agent's system prompt
and tools alone would fill changes nothing. Neighbours: `run` plays, `scale` relates sizes to usage,
`edges.commands.replay` shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.display import number, percent_of
from refold.replay.run import AGENT, OURS, Outcome, Replayed
from refold.tokens.models import amount

STEPS = (40_000, 60_000, 80_000, 100_000, 130_000, 160_000, 200_000, 300_000, 500_000)
PEAK_SHARE = 0.95  # a larger share of the largest prompt does not count as a smaller window
EXCEPTIONS_SHOWN = 3  # sessions that are named
SAVED_MIN, KEPT_MIN = 0.10, 0.95  # shares that make a window worth it
SHARE_SHOWN = 0.005  # the smallest share that is not shown as 0%


class Bill(Struct, frozen=True, kw_only=True):
    """The billed calls of a session; `cost` is None if a price is unknown. With `estimated`, no
    usage was recorded, and the figures are our own count."""

    calls: int
    input: int
    cached: int
    output: int
    cost: float | None
    estimated: bool = False


class Measured(Struct, frozen=True, kw_only=True):
    """One session: its bill, its largest prompt, the window it had, and the replays in that window
    and in smaller ones."""

    bill: Bill
    peak: int
    own: Replayed
    tried: list[Replayed]


class Option(Struct, frozen=True, kw_only=True):
    """What a window would have cost and kept. `window` is None for the windows that the sessions
    had, if they differ; `saved` is a share of the bill; `kept` is None if nothing from long before
    was needed. In `too_small` sessions, the system prompt and tools alone fill the window."""

    window: int | None
    cost: float | None
    tokens: int
    saved: float
    kept: float | None
    compactions: int
    too_small: int = 0

    @property
    def changes(self) -> bool:
        """Whether the bill would have been another. Without a compaction it can be: large results
        are moved out of the prompt in any window."""
        return self.compactions > 0 or abs(self.saved) >= SHARE_SHOWN

    @property
    def keeps_enough(self) -> bool:
        """Whether nearly everything that was needed later was kept."""
        return self.kept is None or self.kept >= KEPT_MIN


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer for one session or several: the bill, the largest prompt, the share of its window
    that it filled, what refold would have done in the windows that the sessions had (`own`) and in
    others, the share of needed names that the agents' own compactions kept, and the window
    recommended (None: not worth it)."""

    sentences: tuple[str, ...]
    sessions: int
    bill: Bill
    peak: int
    filled: float
    own: Option
    options: tuple[Option, ...]
    agent_compactions: int
    agent_kept: float | None
    recommended: int | None


def windows_for(peaks: Iterable[int]) -> tuple[int, ...]:
    """The windows to try for sessions with these largest prompts."""
    most = PEAK_SHARE * max(peaks, default=0)
    return tuple(step for step in STEPS if step <= most)


def verdict_of(sessions: Sequence[Measured], run: str) -> Verdict:
    """The verdict; `run` is the name of the agent to start, as far as it is known."""
    bills = [one.bill for one in sessions]
    costs = [one.cost for one in bills if one.cost is not None]
    bill = Bill(
        calls=sum(one.calls for one in bills),
        input=sum(one.input for one in bills),
        cached=sum(one.cached for one in bills),
        output=sum(one.output for one in bills),
        cost=sum(costs) if len(costs) == len(bills) else None,
        estimated=all(one.estimated for one in bills),
    )
    own = _option(sessions, [one.own for one in sessions], bill)
    columns = zip(*(one.tried for one in sessions), strict=True)
    options = tuple(_option(sessions, column, bill) for column in columns)
    agents = [each for one in sessions for each in one.own.outcomes if each.policy == AGENT]
    good = [one for one in options if _is_good(one)]
    best = max(good, key=lambda one: one.saved, default=None)
    made = Verdict(
        sentences=(),
        sessions=len(sessions),
        bill=bill,
        peak=max((one.peak for one in sessions), default=0),
        filled=max((one.peak / one.own.window for one in sessions), default=0.0),
        own=own,
        options=options,
        agent_compactions=sum(each.changes for each in agents),
        agent_kept=_kept(agents),
        recommended=best.window if best is not None else None,
    )
    mixed = sum(one.estimated for one in bills)
    sentences = (_paid(made, mixed), _in_own(made), _in_others(made, best), _advice(made, run))
    return Verdict(
        **{name: getattr(made, name) for name in made.__struct_fields__[1:]},
        sentences=tuple(filter(None, sentences)),
    )


def _option(sessions: Sequence[Measured], column: Sequence[Replayed], bill: Bill) -> Option:
    """The option for all sessions, each in its window of the column."""
    cost, tokens, too_small, compactions = bill.cost, bill.input, 0, 0
    ours: list[Outcome] = []
    for replayed in column:
        mine, sent = replayed.outcome(OURS), replayed.sent
        if mine.faulty:
            too_small += 1
            continue
        ours.append(mine)
        tokens += mine.sent - sent.sent
        compactions += len(replayed.receipts)
        if cost is not None and mine.dollars is not None and sent.dollars is not None:
            cost += mine.dollars - sent.dollars
    windows = {replayed.window for replayed in column}
    if bill.cost:
        saved = 1 - (cost or 0.0) / bill.cost
    else:
        saved = 1 - tokens / bill.input if bill.input else 0.0
    return Option(
        window=windows.pop() if len(windows) == 1 else None,
        cost=cost,
        tokens=tokens,
        saved=saved,
        kept=_kept(ours),
        compactions=compactions,
        too_small=too_small,
    )


def _kept(outcomes: Iterable[Outcome]) -> float | None:
    counted = [(one.kept, one.needed) for one in outcomes if one.kept is not None]
    needed = sum(count for _, count in counted)
    return sum(kept * count for kept, count in counted) / needed if needed else None


def _is_good(option: Option) -> bool:
    return option.saved >= SAVED_MIN and option.keeps_enough and option.compactions > 0


# --- sentences ---


def _paid(made: Verdict, mixed: int) -> str:
    bill = made.bill
    of = f" in {number(made.sessions, 'session')}" if made.sessions > 1 else ""
    cached = (
        f"{percent_of(bill.cached, bill.input)}% of them from the cache, " if bill.input else ""
    )
    tokens = f"{number(bill.input, 'token')} in, {cached}{bill.output:,} out"
    calls = f"{number(bill.calls, 'call')}{of}"
    if bill.estimated:
        cost = "" if bill.cost is None else f" would have cost about {amount(bill.cost)}"
        unknown = "No usage of unfolded calls is recorded, so all figures are estimated"
        return f"{unknown}: {calls}{cost}, {tokens}."
    unsure = f"; {number(mixed, 'session')} without recorded usage: estimated" if mixed else ""
    if bill.cost is None:
        return f"You sent {calls}, whose prices are not all known: {tokens}{unsure}."
    return f"You paid {amount(bill.cost)} for {calls}: {tokens}{unsure}."


def _in_own(made: Verdict) -> str:
    own = made.own
    which = "the windows you had" if own.window is None else f"your window of {own.window:,}"
    full = f"At the fullest, {int(100 * min(made.filled, 1.0))}% of {which} was used"
    if not own.changes:
        return f"{full}: nothing would have been folded there."
    if not own.compactions:
        moved = f"moving large results out would have {_effect(made, own)}"
        return f"{full}: no compaction there, but {moved}."
    times = "once" if own.compactions == 1 else f"{own.compactions:,} times"
    return f"{full}: folding there, {times}, would have {_effect(made, own)}."


def _in_others(made: Verdict, best: Option | None) -> str:
    """The best window, or the one nearest to it."""
    tried = [one for one in made.options if one.compactions and one.window != made.own.window]
    if not tried:
        return ""
    shown = best or max(tried, key=lambda one: (1.0 if one.kept is None else one.kept, one.saved))
    change = f"{amount(made.bill.cost)} → {amount(shown.cost)}, " if made.bill.cost else ""
    kept = "nothing from long before was needed"
    if shown.kept is not None:
        kept = f"{shown.kept:.0%} of what was needed later was in the prompt"
    theirs = ""
    if made.agent_kept is not None:
        theirs = f"; the agent's own compactions kept {made.agent_kept:.0%}"
    return (
        f"With --window {shown.window}: {change}{_less(shown.saved)}, {kept},"
        f" {number(shown.compactions, 'compaction')}{theirs}."
    )


def _advice(made: Verdict, run: str) -> str:
    if made.recommended is not None:
        command = f"refold run --fold --window {made.recommended} {run or 'AGENT'}"
        return f"Worth it, and cheapest of those that keep {KEPT_MIN:.0%}: {command}"
    if not made.options:
        return (
            f"Not worth it: your sessions are short, the largest prompt had {made.peak:,} tokens."
        )
    needed = f"saves {SAVED_MIN:.0%} and keeps {KEPT_MIN:.0%} of what was needed later"
    return f"Not worth it: no window tried here {needed}."


def _effect(made: Verdict, option: Option) -> str:
    if made.bill.cost is None or option.cost is None:
        return f"sent {_less(option.saved)}"
    saved = made.bill.cost - option.cost
    return f"saved {amount(saved)}" if saved >= 0 else f"cost {amount(-saved)} more"


def _less(saved: float) -> str:
    return f"{saved:.0%} less" if saved >= 0 else f"{-saved:.0%} more"


def with_exceptions(verdict: Verdict, played: Sequence[tuple[int, Verdict]]) -> Verdict:
    """The verdict that no window suits all sessions, with those, by position, that one suits."""
    alone = [(at, one.recommended) for at, one in played if one.recommended is not None]
    if not alone:
        return verdict
    named = [f"@{at} (--window {window})" for at, window in alone]
    left = len(named) - EXCEPTIONS_SHOWN
    words = ", ".join(named[:EXCEPTIONS_SHOWN]) + (f" and {left} more" if left > 0 else "")
    *others, advice = verdict.sentences
    count = f"{len(alone)} of {number(len(played), 'session')}"
    advice = f"{advice.removesuffix('.')}; alone, {count} would be worth it: {words}."
    return replace(verdict, sentences=(*others, advice))
