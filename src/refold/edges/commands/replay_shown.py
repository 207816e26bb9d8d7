"""How a person sees what `replay` gives: one session whole, or all of them, a row each.

A table has to fit 80 columns, so its heads are short; the guide says what they mean. Neighbours:
`replay` plays, `replay.words` has the sentences that the page in a browser shows as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from refold.display import cut, number, one_line
from refold.edges.commands.command import Screen
from refold.edges.commands.replay_result import Played, Replays
from refold.edges.commands.text import short_line, show_damage
from refold.edges.displays.phrases import short_number
from refold.edges.displays.width import width
from refold.replay.plot import plot
from refold.replay.run import AGENT, OURS, Outcome
from refold.replay.words import (
    cap_words,
    counted_words,
    faults_words,
    measure_words,
    names_words,
    size_words,
)

LOST_SHOWN, LINE_CHARS_MIN = 5, 20
TITLE_MIN, TITLE_MAX, HEADING_CHARS, GAP = 12, 60, 100, 2
HEADS = ("policy", ">sent", ">cached", ">cost", ">changes", ">kept", ">faults")
LONG_HEADS = ("policy", "tokens sent", "from cache", "cost", "page changes", "names kept", "faults")
ROW_HEADS = ("AS", "SESSION", ">TURNS", ">SIZE", ">REFOLD", "BEST OTHER", ">FAULTS")
TITLE_AT = ROW_HEADS.index("SESSION")
ROW_WORDS = (
    "Each row shows cost and names kept for refold and for the best other policy (its first word), "
    "and the faults of both. The best policy is the one that kept the most names within the "
    "window; if several did, the one with the fewest faults, then the cheapest."
)


def show(replays: Replays, screen: Screen) -> None:
    if replays.is_total:
        _show_all(replays, screen)
        return
    _show_one(replays.sessions[0], screen)
    if replays.page:
        screen.line(f"{replays.page} shows every turn; open it in a browser.")


# --- one session ---


def _show_one(played: Played, screen: Screen) -> None:
    replayed = played.replayed
    screen.line(("bold", cut(one_line(played.title), HEADING_CHARS)), f" ({played.session})")
    screen.line(size_words(replayed))
    screen.line(("dim", counted(played)))
    if played.remark:
        screen.line(("dim", sentence(played.remark)))
    for line in plot(replayed, is_utf8=screen.is_utf8):
        screen.line(line)
    screen.table(HEADS, [row([one]) for one in replayed.outcomes])
    screen.line(("dim", measure_words(replayed)))
    screen.line(("dim", faults_words(replayed.outcomes)))
    for receipt in replayed.receipts:
        change = f"{receipt.tokens_before:,} -> {number(receipt.tokens_after, 'token')}"
        screen.line(("dim", f"turn {receipt.turn}: {receipt.strategy}, {change}"))
    for outcome in replayed.outcomes:
        _show_lost(outcome, screen)


def _show_lost(outcome: Outcome, screen: Screen) -> None:
    if not outcome.lost:
        return
    screen.line(("bold", f"{outcome.policy} lost:"))
    for lost in outcome.lost[:LOST_SHOWN]:
        name = f"  turn {lost.turn}: {short_line(lost.name, 40)}"
        room = max(LINE_CHARS_MIN, screen.columns - width(name) - GAP)
        screen.line(name, ("dim", f"  {cut(one_line(lost.line), room)}"))


def counted(played: Played) -> str:
    """What of a session is played, and how it is counted."""
    return counted_words(
        played.replayed,
        played.messages,
        played.tokens,
        taken_back=played.taken_back,
        off_page=played.off_page,
    )


def sentence(remark: str) -> str:
    return f"{remark[0].upper()}{remark[1:]}."


# --- all sessions ---


def _show_all(replays: Replays, screen: Screen) -> None:
    sessions = replays.sessions
    if sessions:
        _show_rows(sessions[: replays.limit], screen)
        left = len(sessions) - replays.limit
        if left > 0:
            more = screen.call("replay", "", "--all", "--limit", str(len(sessions)))
            screen.line(f"{number(left, 'older session')} not shown; all of them: {more}")
        screen.line(("dim", ROW_WORDS))
        _show_totals(sessions, screen)
    for id, reason in replays.skipped.items():
        screen.line(("dim", f"{id}: {reason}"))
    show_damage(replays.damaged, screen)


def _show_rows(sessions: Sequence[Played], screen: Screen) -> None:
    """A row for each session, whose title gives way so that the table fits."""
    rows = [_session_row(one) for one in sessions]
    others = [max(width(cell) for cell in column) for column in zip(ROW_HEADS, *rows, strict=True)]
    room = screen.columns - sum(others) + others[TITLE_AT] - GAP * (len(ROW_HEADS) - 1)
    most = max(TITLE_MIN, min(TITLE_MAX, room))
    cells = [[*one[:TITLE_AT], cut(one[TITLE_AT], most), *one[TITLE_AT + 1 :]] for one in rows]
    screen.table(ROW_HEADS, cells)


def _session_row(played: Played) -> tuple[str, ...]:
    replayed = played.replayed
    ours, other = replayed.outcome(OURS), replayed.outcome(played.best_other)
    policy = other.policy.split()[0].strip(",")
    return (
        f"@{played.position}" if played.position else "",
        one_line(played.title or played.session),
        f"{len(ours.turns):,}",
        short_number(replayed.tokens),
        _cost_and_kept(ours),
        f"{_cost_and_kept(other)} {policy}",
        f"{ours.faulty or 0:,}, {other.faulty or 0:,}",
    )


def _cost_and_kept(outcome: Outcome) -> str:
    kept = "-" if outcome.kept is None else f"{outcome.kept:.0%}"
    cost = "n/a" if outcome.dollars is None else f"${outcome.dollars:,.2f}"
    return f"{cost} {kept}"


def _money(dollars: float | None) -> str:
    """Two digits tell nothing of a short session."""
    if dollars is None:
        return "n/a"
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.3f}"


def _show_totals(sessions: list[Played], screen: Screen) -> None:
    own = [one for one in sessions if _has_own(one)]
    without = AGENT if len(own) < len(sessions) else ""
    screen.line(("bold", f"{number(len(sessions), 'session')}, all turns together:"))
    screen.table(HEADS, _total_rows(sessions, without))
    if own and without:
        # Sums over some of the sessions say nothing beside sums over all.
        count = number(len(own), "session")
        screen.line(("bold", f"{count} of these, where the agent made compactions of its own:"))
        screen.table(HEADS, _total_rows(own))
    needed = sum(one.replayed.outcome(OURS).needed for one in sessions)
    if needed:
        screen.line(("dim", names_words(f"{needed:,}")))
    _show_windows(sessions, screen)
    outcomes = [one for each in sessions for one in each.replayed.outcomes]
    screen.line(("dim", faults_words(outcomes)))
    unpriced = [one.session for one in sessions if not _is_priced(one)]
    if unpriced:
        count = number(len(unpriced), "session")
        said = f"No prices are known for {count}, so the costs leave them out"
        screen.line(("dim", f"{said}; --model NAME prices all of them alike."))


def _show_windows(sessions: list[Played], screen: Screen) -> None:
    """Why the windows are what they are, each reason once."""
    capped = (one.replayed for one in sessions if one.replayed.cap < one.replayed.window)
    reasons = [one.remark for one in sessions if one.remark] + [
        f"{cap_words(one)}, which is below the window" for one in capped
    ]
    for reason, count in Counter(reasons).most_common():
        screen.line(("dim", f"{number(count, 'session')}: {reason}"))


def _is_priced(played: Played) -> bool:
    return all(one.dollars is not None for one in played.replayed.outcomes)


def _has_own(played: Played) -> bool:
    return any(one.policy == AGENT for one in played.replayed.outcomes)


def _total_rows(sessions: list[Played], without: str = "") -> list[tuple[str, ...]]:
    """A row for each policy but one, over all these sessions."""
    by_policy: dict[str, list[Outcome]] = {}
    for played in sessions:
        for outcome in played.replayed.outcomes:
            by_policy.setdefault(outcome.policy, []).append(outcome)
    by_policy.pop(without, None)
    return [row(outcomes) for outcomes in by_policy.values()]


def row(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The figures of one policy, over one session or several."""
    outcomes = list(outcomes)
    sent, cached = sum(one.sent for one in outcomes), sum(one.cached for one in outcomes)
    known = [one.dollars for one in outcomes if one.dollars is not None]
    needed = sum(one.needed for one in outcomes)
    kept = sum((one.kept or 0.0) * one.needed for one in outcomes)
    faulty = [one.faulty for one in outcomes if one.faulty is not None]
    return (
        outcomes[0].policy,
        f"{sent:,}",
        f"{cached / sent:.0%}" if sent else "-",
        _money(sum(known) if known else None),
        f"{sum(one.changes for one in outcomes):,}",
        f"{kept / needed:.1%}" if needed else "-",
        f"{sum(faulty):,}" if faulty else "-",
    )
