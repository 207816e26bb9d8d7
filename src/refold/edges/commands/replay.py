"""`refold replay`: is refold worth it for these sessions? The verdict first, the rest behind
`--details`.

The session is a conversation of the store, or a file that `refold import` reads; nothing is
written. `refold.replay` plays, measures and judges, and has the sentences that its page for a
browser shows as well. A table has to fit 80 columns, so its heads are short; the guide explains
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.compaction.limits import settings_of
from refold.conversations.listing import is_erased, meta_of, newest
from refold.display import cut, number, one_line, percent_of
from refold.edges.commands.command import (
    Limit,
    Result,
    Screen,
    Window,
    command,
    short_line,
    show_damage,
)
from refold.edges.commands.session import Session
from refold.edges.displays.phrases import short_number
from refold.edges.displays.wrap import width
from refold.edges.importers.importer import import_file
from refold.errors import Corrupt, Denied, Invalid, NotFound
from refold.redaction import redactor
from refold.replay.page import (
    ASCII,
    UTF8,
    cap_words,
    counted_words,
    faults_words,
    measure_words,
    names_words,
    plot,
    size_words,
)
from refold.replay.recorded import Recorded, measured, recorded
from refold.replay.run import AGENT, FREE, OURS, Kept, Outcome, Replayed, replay
from refold.replay.verdict import (
    Measured,
    Option,
    Verdict,
    verdict_of,
    windows_for,
    with_exceptions,
)
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import amount

ROWS_SHOWN = 20


class Played(Struct, frozen=True, kw_only=True):
    """One session. `position` is its place in the list (0: none), `remark` explains its window;
    `messages` and `tokens` are those of the list, `taken_back` and `off_page` of `ReplaySession`.
    With `--details`, `replayed` has all policies in one window, `best_other` the best rival."""

    session: str
    position: int = 0
    title: str = ""
    program: str = ""
    messages: int
    tokens: int
    taken_back: int = 0
    off_page: int = 0
    verdict: Verdict
    replayed: Replayed | None = None
    best_other: str = ""
    remark: str = ""


class Replays(Result, frozen=True, kw_only=True):
    """The verdict over the replayed sessions; these, newest first; and why sessions were `skipped`
    or are `damaged`, by id. In a replay of all sessions, at most `limit` have their own row."""

    verdict: Verdict | None
    sessions: list[Played]
    skipped: dict[str, str]
    damaged: dict[str, str]
    is_total: bool = False
    limit: int = ROWS_SHOWN
    page: str = ""
    picture: Picture | None = None

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"

    def show(self, screen: Screen) -> None:
        if self.verdict is not None:
            self._show_verdict(self.verdict, screen)
        if self.is_total:
            _show_all(self, screen)
        elif self.sessions[0].replayed is not None:
            _show_one(self.sessions[0], self.sessions[0].replayed, screen)
        if self.page:
            screen.line(f"{self.page} shows every turn; open it in a browser.")

    def _show_verdict(self, verdict: Verdict, screen: Screen) -> None:
        [first, *_] = self.sessions
        if not self.is_total:
            room = screen.columns - width(first.session) - len(" ()")
            heading = cut(one_line(first.title), max(TITLE_MIN, min(HEADING_CHARS, room)))
            screen.line(("bold", heading), ("dim", f" ({first.session})"))
        for sentence in verdict.sentences:
            is_advice = sentence == verdict.sentences[-1]
            screen.line(("bold", sentence) if is_advice else sentence)
        screen.table(VERDICT_HEADS, _verdict_rows(verdict))
        if self.picture is not None:
            _draw(self.picture, screen)
        if first.replayed is None:
            name = () if self.is_total else (first.session,)
            more = screen.call("replay", "", *name, *(("--all",) if self.is_total else ()))
            screen.line(("dim", f"More: {more} --details"))


class Picture(Struct, frozen=True, kw_only=True):
    """The lines of a drawing of one session in one window, in characters of UTF-8 and in ASCII."""

    window: int
    lines: tuple[str, ...]
    plain: tuple[str, ...]


def _draw(picture: Picture, screen: Screen) -> None:
    solid, dotted, mark = (UTF8 if screen.is_utf8 else ASCII)[:3]
    folded = f"{solid} folded at {picture.window:,}"
    screen.line(("dim", f"Tokens of each call: {folded}, {dotted} as sent, {mark} a compaction"))
    for line in picture.lines if screen.is_utf8 else picture.plain:
        screen.line(line)


VERDICT_HEADS = (">WINDOW", ">COST", ">SAVED", ">KEPT", ">COMPACTIONS", "")


def _verdict_rows(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    """The bill, the windows that the sessions had, and the others."""
    billed = verdict.bill
    cost = amount(billed.cost) if billed.cost is not None else f"{short_number(billed.input)} tok"
    kept = "" if verdict.agent_kept is None else f"{verdict.agent_kept:.0%}"
    made = f"{verdict.agent_compactions:,}" if verdict.agent_compactions else ""
    source = "estimated" if billed.estimated else "what you paid"
    yield ("", cost, "", kept, made, source)
    yield (*_option_cells(verdict, verdict.own), "the window you had")
    for option in verdict.options:
        note = "recommended" if option.window == verdict.recommended else ""
        if option.too_small:
            of = f" for {number(option.too_small, 'session')}" if verdict.sessions > 1 else ""
            note = ", ".join(filter(None, (note, f"too small{of}")))
        yield (*_option_cells(verdict, option), note)


def _option_cells(verdict: Verdict, option: Option) -> tuple[str, ...]:
    if not option.changes:
        cost, saved, kept = "same", "", ""
    else:
        is_priced = verdict.bill.cost is not None
        cost = amount(option.cost) if is_priced else f"{short_number(option.tokens)} tok"
        saved = f"{option.saved:.0%}"
        kept = "-" if option.kept is None else f"{option.kept:.0%}"
    window = "own" if option.window is None else f"{option.window:,}"
    return window, cost, saved, kept, f"{option.compactions:,}"


def best_of_others(replayed: Replayed) -> str:
    """The best other policy that respects the window: the one that kept the most names, then the
    one with the fewest faults, then the cheapest."""

    def rank(outcome: Outcome) -> tuple[float, int, float]:
        paid = outcome.sent if outcome.dollars is None else outcome.dollars
        return -(outcome.kept or 0.0), outcome.faulty or 0, paid

    others = [one for one in replayed.outcomes if one.policy not in {OURS, *FREE}]
    return min(others, key=rank).policy


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


# --- one session ---


def _show_one(played: Played, replayed: Replayed, screen: Screen) -> None:
    screen.line(("bold", "Details: "), size_words(replayed))
    screen.line(("dim", counted(played, replayed)))
    if played.remark:
        screen.line(("dim", sentence(played.remark)))
    screen.table(HEADS, [row([one]) for one in replayed.outcomes])
    screen.line(("dim", measure_words(replayed)))
    screen.line(("dim", faults_words(replayed.outcomes)))
    for receipt in replayed.receipts:
        change = f"{receipt.tokens_before:,} -> {number(receipt.tokens_after, 'token')}"
        screen.line(("dim", f"turn {receipt.turn}: {receipt.strategy}, {change}"))
    for outcome in replayed.outcomes:
        show_lost(outcome, screen)


def show_lost(outcome: Outcome, screen: Screen) -> None:
    if not outcome.lost:
        return
    screen.line(("bold", f"{outcome.policy} lost:"))
    for lost in outcome.lost[:LOST_SHOWN]:
        name = f"  turn {lost.turn}: {short_line(lost.name, 40)}"
        room = max(LINE_CHARS_MIN, screen.columns - width(name) - GAP)
        screen.line(name, ("dim", f"  {cut(one_line(lost.line), room)}"))


def counted(played: Played, replayed: Replayed) -> str:
    """A description of the replayed part of a session."""
    return counted_words(
        replayed,
        played.messages,
        played.tokens,
        taken_back=played.taken_back,
        off_page=played.off_page,
    )


def sentence(remark: str) -> str:
    return f"{remark[0].upper()}{remark[1:]}."


# --- all sessions ---


def _show_all(replays: Replays, screen: Screen) -> None:
    sessions = [one for one in replays.sessions if one.replayed is not None]
    if sessions:
        _show_rows(sessions[: replays.limit], screen)
        left = len(sessions) - replays.limit
        if left > 0:
            more = screen.call("replay", "", "--all", "--details", "--limit", str(len(sessions)))
            screen.line(f"{number(left, 'older session')} not shown; all of them: {more}")
        screen.line(("dim", ROW_WORDS))
        _show_totals(sessions, screen)
        screen.line(("dim", _unplayed_words(sessions)))
    for id, reason in replays.skipped.items():
        screen.line(("dim", f"{id}: {reason}"))
    show_damage(replays.damaged, screen)


def _show_rows(sessions: Sequence[Played], screen: Screen) -> None:
    """Prints a row for each session, with its title cut to make the table fit."""
    rows = [_session_row(one) for one in sessions]
    others = [max(width(cell) for cell in column) for column in zip(ROW_HEADS, *rows, strict=True)]
    room = screen.columns - sum(others) + others[TITLE_AT] - GAP * (len(ROW_HEADS) - 1)
    most = max(TITLE_MIN, min(TITLE_MAX, room))
    cells = [[*one[:TITLE_AT], cut(one[TITLE_AT], most), *one[TITLE_AT + 1 :]] for one in rows]
    screen.table(ROW_HEADS, cells)


def _session_row(played: Played) -> tuple[str, ...]:
    replayed = _replayed(played)
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


def _replayed(played: Played) -> Replayed:
    assert played.replayed is not None  # only sessions with details are shown so
    return played.replayed


def _cost_and_kept(outcome: Outcome) -> str:
    kept = "-" if outcome.kept is None else f"{outcome.kept:.0%}"
    cost = "n/a" if outcome.dollars is None else f"${outcome.dollars:,.2f}"
    return f"{cost} {kept}"


def _money(dollars: float | None) -> str:
    return "n/a" if dollars is None else f"${dollars:,.{2 if dollars >= 1 else 3}f}"


def _show_totals(sessions: list[Played], screen: Screen) -> None:
    own = [one for one in sessions if any(each.policy == AGENT for each in _outcomes(one))]
    without = AGENT if len(own) < len(sessions) else ""
    screen.line(("bold", f"{number(len(sessions), 'session')}, all turns together:"))
    screen.table(HEADS, _total_rows(sessions, without))
    if own and without:
        # Sums over some sessions are not comparable with sums over all.
        count = number(len(own), "session")
        screen.line(("bold", f"{count} of these, where the agent made compactions of its own:"))
        screen.table(HEADS, _total_rows(own))
    needed = sum(_replayed(one).outcome(OURS).needed for one in sessions)
    if needed:
        screen.line(("dim", names_words(f"{needed:,}")))
    _show_windows(sessions, screen)
    outcomes = [one for each in sessions for one in _outcomes(each)]
    screen.line(("dim", faults_words(outcomes)))
    unpriced = sum(any(each.dollars is None for each in _outcomes(one)) for one in sessions)
    if unpriced:
        missing = f"No prices are known for {number(unpriced, 'session')}"
        rest = "so the costs leave them out; --model NAME prices all of them alike."
        screen.line(("dim", f"{missing}, {rest}"))


def _unplayed_words(sessions: Sequence[Played]) -> str:
    """Why the policy that sends everything does not cost the bill."""
    bills = [one.verdict.bill for one in sessions]
    played = sum(len(_replayed(one).outcome(OURS).turns) for one in sessions)
    calls = sum(one.calls for one in bills)
    return (
        f"The {number(calls, 'call')} of the bill are {number(played, 'turn')} here: several"
        " answers in a row are one turn, at the cost of the largest prompt, and a call without a"
        " message is none. The rest of the bill is the same for every policy."
    )


def _outcomes(played: Played) -> list[Outcome]:
    return _replayed(played).outcomes


def _show_windows(sessions: list[Played], screen: Screen) -> None:
    """Prints the windows, and the reasons for them, each once."""
    windows = Counter(_replayed(one).window for one in sessions)
    sizes = [
        f"{window:,}" if len(windows) == 1 else f"{window:,} ({number(count, 'session')})"
        for window, count in windows.most_common()
    ]
    screen.line(("dim", f"Window: {', '.join(sizes)}; --window TOKENS takes another one."))
    capped = (one for one in map(_replayed, sessions) if one.cap < one.window)
    reasons = [one.remark for one in sessions if one.remark] + [
        f"{cap_words(one)}, which is below the window" for one in capped
    ]
    for reason, count in Counter(reasons).most_common():
        screen.line(("dim", f"{number(count, 'session')}: {reason}"))


def _total_rows(sessions: list[Played], without: str = "") -> list[tuple[str, ...]]:
    """A row for each policy except `without`, over all these sessions."""
    by_policy: dict[str, list[Outcome]] = {}
    for played in sessions:
        for outcome in _outcomes(played):
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
        f"{percent_of(cached, sent)}%" if sent else "-",
        _money(sum(known) if known else None),
        f"{sum(one.changes for one in outcomes):,}",
        f"{kept / needed:.1%}" if needed else "-",
        f"{sum(faulty):,}" if faulty else "-",
    )


WINDOW_MIN = 1_000
SESSION = Meta(
    description="A conversation of the store, or a file.",
    extra={"positional": True, "metavar": "SESSION"},
)
WINDOWS = Meta(
    description="A window to try, in tokens; may be repeated.", extra={"metavar": "TOKENS"}
)
MODEL = Meta(description="The model whose window and prices count; the session's by default.")
HTML = Meta(
    description="Write a page that shows every turn, without secrets.", extra={"metavar": "FILE"}
)
EVERY = Meta(description="Every imported session together.")
DETAILS = Meta(description="Also other policies, what each lost, and refold's receipts.")


@command("demo", on="nothing")
def demo(
    session: Session, *, window: Window | None = None, details: Annotated[bool, DETAILS] = False
) -> Result:
    from refold.edges.demo.comparison import compared

    return compared(session, window=window, details=details)


@command(
    "replay",
    details="Says what you paid, whether refold would have folded anything, what smaller windows "
    "would have saved and kept, and which to use. SESSION is a conversation of the store, or a "
    "file that refold import reads. Nothing is written.",
    on="store",
    reads=True,
)
def replay_sessions(
    session: Session,
    *,
    name: Annotated[str, SESSION] = "",
    window: Annotated[tuple[Annotated[int, Meta(ge=1, le=100_000_000)], ...], WINDOWS] = (),
    model: Annotated[str, MODEL] | None = None,
    all: Annotated[bool, EVERY] = False,
    details: Annotated[bool, DETAILS] = False,
    limit: Limit = ROWS_SHOWN,
    html: Annotated[str, HTML] | None = None,
) -> Result:
    if all == bool(name):
        hint = "name a conversation or a file, or take every imported session with --all"
        raise Invalid("name one session, or all", hint=hint)
    if window and min(window) < WINDOW_MIN:
        reason = f"a window of {number(min(window), 'token')} holds no turn"
        raise Invalid(reason, hint=f"--window takes {WINDOW_MIN:,} and more")
    if all:
        if html is not None:
            raise Invalid("--html shows one session", hint="name it, or leave --html out")
        return _all_played(session, window, model, details, limit)
    store, id, remark = _found(session, name)
    if is_erased(store, id):
        raise Invalid(f"{id} was erased", hint="nothing of it is left to replay")
    found = recorded(store, id, session.config, model)
    figures = _measured(session, found, window or windows_for([found.peak]))
    verdict = verdict_of([figures], found.program)
    kept = Kept() if html is not None else None
    chosen, replayed = _chosen_window(verdict, window), None
    if details or html is not None:
        replayed = _by_all(found, chosen, kept)
    remarks = ". ".join(filter(None, (remark, found.remark)))
    one = _played(found, verdict, replayed, remark=remarks)
    if kept is not None and html is not None and replayed is not None:
        _write(session, one, replayed, kept, Path(html))
    drawn = next(each for each in (*figures.tried, figures.own) if each.window == chosen)
    return Replays(
        verdict=verdict,
        sessions=[one if details else replace(one, replayed=None)],
        skipped={},
        damaged={},
        page=html or "",
        picture=_picture(drawn),
    )


def _chosen_window(verdict: Verdict, wanted: Sequence[int]) -> int:
    """The window to look at more closely: the recommended one, else the first that was asked for,
    else the largest in which refold folds, else the session's own."""
    if verdict.recommended is not None or wanted:
        return verdict.recommended or wanted[0]
    folds = [one.window for one in (verdict.own, *verdict.options) if one.compactions]
    windows = [one for one in folds if one is not None]
    return max(windows) if windows else verdict.own.window or 0


def _picture(replayed: Replayed) -> Picture | None:
    if not replayed.receipts:
        return None
    lines, plain = plot(replayed), plot(replayed, is_utf8=False)
    return Picture(window=replayed.window, lines=tuple(lines), plain=tuple(plain))


def _all_played(
    session: Session, windows: tuple[int, ...], model: str | None, details: bool, limit: int
) -> Replays:
    """Every imported session; a failure does not stop the others."""
    found: list[tuple[int, Recorded]] = []
    skipped: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for position, id in _imported(session.store):
        try:
            found.append((position, recorded(session.store, id, session.config, model)))
        except Corrupt as error:
            damaged[id] = error.message
        except (Invalid, Denied) as error:
            skipped[id] = error.message
    if not (found or skipped or damaged):
        raise NotFound("no session was imported", hint="refold import --scan finds some")
    tried = windows or windows_for(one.peak for _, one in found)
    figures = [_measured(session, one, tried) for _, one in found]
    programs = Counter(one.program for _, one in found if one.program)
    program = next((name for name, _ in programs.most_common(1)), "")
    verdict = verdict_of(figures, program) if figures else None
    played = []
    for (position, one), own in zip(found, figures):
        alone, replayed = verdict_of([own], one.program), None
        if details and verdict is not None:
            chosen = verdict.recommended or _chosen_window(alone, windows)
            replayed = _by_all(one, chosen, None)
        played.append(_played(one, alone, replayed, position=position, remark=one.remark))
    session.remember({one.position: one.session for one in played[:limit]})
    if verdict is not None and verdict.recommended is None:
        verdict = with_exceptions(verdict, [(one.position, one.verdict) for one in played])
    return Replays(
        verdict=verdict,
        sessions=played,
        skipped=skipped,
        damaged=damaged,
        is_total=True,
        limit=limit,
    )


def _found(session: Session, name: str) -> tuple[Store, str, str]:
    """The store and id of the named conversation, or of the longest one in the named file, with a
    remark if the file has others."""
    if Path(name).is_dir():
        try:
            return session.store, session.find(name), ""
        except NotFound as error:
            raise Invalid(f"{quoted(name)} is a folder", hint="name a file in it") from error
    if not Path(name).is_file():
        return session.store, session.find(name), ""
    store = open_store("memory:")
    report = import_file(store, session.config, Path(name))
    if not report.sessions:
        raise Invalid(f"{name} has no messages", hint="refold import --list")
    longest = max(report.sessions, key=lambda one: one.messages)
    others = len(report.sessions) - 1
    remark = f"the file has {number(others, 'session')} more: this is the longest" if others else ""
    return store, longest.conversation, remark


def _imported(store: Store) -> Iterator[tuple[int, str]]:
    """The imported sessions, each with its place among all conversations, newest first. Forks
    are left out: their turns would count twice."""
    for position, about in enumerate(newest(store), start=1):
        if not about.parent and "imported" in (meta_of(store, about).metadata or {}):
            yield position, about.id


def _measured(session: Session, one: Recorded, windows: Sequence[int]) -> Measured:
    with session.progress(f"replaying {one.id}") as show:

        def progress(done: int, total: int) -> None:
            if show is not None:
                show(f"replaying {one.id}", done, total)

        return measured(one, windows, settings_of(one.model), progress)


def _by_all(one: Recorded, window: int, kept: Kept | None) -> Replayed:
    """The session through all policies, in one window."""
    settings = settings_of(one.model) if window != one.window else None
    return replay(one.said.messages, window, one.model, None, kept, settings)


def _played(
    one: Recorded, verdict: Verdict, replayed: Replayed | None, *, position: int = 0, remark: str
) -> Played:
    return Played(
        session=one.id,
        position=position,
        title=one.title,
        program=one.program,
        messages=one.messages,
        tokens=one.tokens,
        taken_back=one.said.taken_back,
        off_page=one.said.off_page,
        verdict=verdict,
        replayed=replayed,
        best_other=best_of_others(replayed) if replayed is not None else "",
        remark=remark,
    )


def _write(session: Session, played: Played, replayed: Replayed, kept: Kept, path: Path) -> None:
    """Writes the page."""
    from refold.replay.page import MARK, page_of, write

    rows = [LONG_HEADS, *(row([one]) for one in replayed.outcomes)]
    redact = redactor(session.config.redact, "exports")
    how = f"{' '.join(played.verdict.sentences)} {counted(played, replayed)}"
    if played.remark:
        how += f" {sentence(redact(played.remark))}"
    page = page_of(played.title, played.session, replayed, kept, rows, redact, how)
    write(path, page, MARK)
