"""`refold replay`: a session played through refold and through the policies people use today.

The session is a conversation of the store, or a file that `refold import` reads; nothing is
written. `refold.replay` plays and measures, and has the sentences that its page for a browser shows
as well. A table has to fit 80 columns, so its heads are short; the guide explains them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.conversations.listing import is_erased, meta_of, newest, title_of
from refold.display import cut, number, one_line
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
from refold.engine.context import Context
from refold.errors import Corrupt, Denied, Invalid, NotFound
from refold.redaction import redactor
from refold.replay.needs import Message, tokens_of_all
from refold.replay.page import (
    cap_words,
    counted_words,
    faults_words,
    measure_words,
    names_words,
    plot,
    size_words,
)
from refold.replay.run import AGENT, FREE, OURS, Kept, Outcome, Replayed, replay
from refold.replay.session import SUMMARY, said_in
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import model_info

ROWS_SHOWN = 20


class Played(Struct, frozen=True, kw_only=True):
    """One replayed session. `position` is its place in the list, so that `@1` names the first (0 if
    it has none). `remark` explains the window; `messages` and `tokens` are those of the list,
    `taken_back` and `off_page` those of `Said`. `best_other` is the policy of `best_of_others`."""

    session: str
    position: int = 0
    title: str = ""
    messages: int
    tokens: int
    taken_back: int = 0
    off_page: int = 0
    replayed: Replayed
    best_other: str
    remark: str = ""


class Replays(Result, frozen=True, kw_only=True):
    """The replayed sessions, newest first, and the reasons why sessions were `skipped` or are
    `damaged`, by id. In a replay of all sessions, at most `limit` have a row of their own."""

    sessions: list[Played]
    skipped: dict[str, str]
    damaged: dict[str, str]
    is_total: bool = False
    limit: int = ROWS_SHOWN
    page: str = ""

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"

    def show(self, screen: Screen) -> None:
        if self.is_total:
            _show_all(self, screen)
            return
        _show_one(self.sessions[0], screen)
        if self.page:
            screen.line(f"{self.page} shows every turn; open it in a browser.")


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
    """A description of the replayed part of a session."""
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
    """Prints a row for each session, with its title cut to make the table fit."""
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
    """An amount; below a dollar with a third digit, for short sessions."""
    if dollars is None:
        return "n/a"
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.3f}"


def _show_totals(sessions: list[Played], screen: Screen) -> None:
    own = [one for one in sessions if any(each.policy == AGENT for each in one.replayed.outcomes)]
    without = AGENT if len(own) < len(sessions) else ""
    screen.line(("bold", f"{number(len(sessions), 'session')}, all turns together:"))
    screen.table(HEADS, _total_rows(sessions, without))
    if own and without:
        # Sums over some sessions are not comparable with sums over all.
        count = number(len(own), "session")
        screen.line(("bold", f"{count} of these, where the agent made compactions of its own:"))
        screen.table(HEADS, _total_rows(own))
    needed = sum(one.replayed.outcome(OURS).needed for one in sessions)
    if needed:
        screen.line(("dim", names_words(f"{needed:,}")))
    _show_windows(sessions, screen)
    outcomes = [one for each in sessions for one in each.replayed.outcomes]
    screen.line(("dim", faults_words(outcomes)))
    unpriced = sum(any(each.dollars is None for each in one.replayed.outcomes) for one in sessions)
    if unpriced:
        missing = f"No prices are known for {number(unpriced, 'session')}"
        rest = "so the costs leave them out; --model NAME prices all of them alike."
        screen.line(("dim", f"{missing}, {rest}"))


def _show_windows(sessions: list[Played], screen: Screen) -> None:
    """Prints the reasons for the windows, each once."""
    capped = (one.replayed for one in sessions if one.replayed.cap < one.replayed.window)
    reasons = [one.remark for one in sessions if one.remark] + [
        f"{cap_words(one)}, which is below the window" for one in capped
    ]
    for reason, count in Counter(reasons).most_common():
        screen.line(("dim", f"{number(count, 'session')}: {reason}"))


def _total_rows(sessions: list[Played], without: str = "") -> list[tuple[str, ...]]:
    """A row for each policy except `without`, over all these sessions."""
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


WINDOW_MIN = 1_000
SHARE = 0.4  # of a session that fits its model: without compactions, policies do not differ
SESSION = Meta(
    description="A conversation of the store, or a file.",
    extra={"positional": True, "metavar": "SESSION"},
)
MODEL = Meta(description="The model whose window and prices count; the session's by default.")
HTML = Meta(
    description="Write a page that shows every turn, without secrets.", extra={"metavar": "FILE"}
)
EVERY = Meta(description="Every imported session: a row for each, and the sums.")


@command("demo", on="nothing")
def demo(session: Session, *, window: Window | None = None) -> Result:
    from refold.edges.demo.story import play

    return play(session, window=window)


@command(
    "replay",
    details="Plays a session turn by turn through refold and through the policies that people use "
    "today, and says what each would have sent, cost and lost. SESSION is a "
    "conversation of the store, or a file that refold import reads. Nothing is written.",
    on="store",
    reads=True,
)
def replay_sessions(
    session: Session,
    *,
    name: Annotated[str, SESSION] = "",
    window: Window | None = None,
    model: Annotated[str, MODEL] | None = None,
    all: Annotated[bool, EVERY] = False,
    limit: Limit = ROWS_SHOWN,
    html: Annotated[str, HTML] | None = None,
) -> Result:
    if all == bool(name):
        hint = "name a conversation or a file, or take every imported session with --all"
        raise Invalid("name one session, or all", hint=hint)
    if window is not None and window < WINDOW_MIN:
        reason = f"a window of {number(window, 'token')} holds no turn"
        raise Invalid(reason, hint=f"--window takes {WINDOW_MIN:,} and more")
    if all:
        if html is not None:
            raise Invalid("--html shows one session", hint="name it, or leave --html out")
        return _all_played(session, window, model, limit)
    store, id, remark = _found(session, name)
    if is_erased(store, id):
        raise Invalid(f"{id} was erased", hint="nothing of it is left to replay")
    kept = Kept() if html is not None else None
    one = _played(session, store, id, window, model, kept)
    one = replace(one, remark=". ".join(filter(None, (remark, one.remark))))
    if kept is not None and html is not None:
        _write(session, one, kept, Path(html))
    return Replays(sessions=[one], skipped={}, damaged={}, page=html or "")


def _all_played(session: Session, window: int | None, model: str | None, limit: int) -> Replays:
    """Every imported session; a failure does not stop the others."""
    played: list[Played] = []
    skipped: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for position, id in _imported(session.store):
        try:
            one = _played(session, session.store, id, window, model)
            played.append(replace(one, position=position))
        except Corrupt as error:
            damaged[id] = error.message
        except (Invalid, Denied) as error:
            skipped[id] = error.message
    if not (played or skipped or damaged):
        raise NotFound("no session was imported", hint="refold import --scan finds some")
    session.remember({one.position: one.session for one in played[:limit]})
    return Replays(sessions=played, skipped=skipped, damaged=damaged, is_total=True, limit=limit)


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


def _played(
    session: Session,
    store: Store,
    id: str,
    window_wanted: int | None,
    model_wanted: str | None,
    kept: Kept | None = None,
) -> Played:
    context = Context(store, id, config=session.config)
    said = said_in(context)
    messages = said.messages
    model = model_wanted or said.model
    window, remark = window_of(messages, model, window_wanted)
    if not any(message["role"] == "assistant" for message in messages):
        raise Invalid(f"{id} has no answer of an assistant", hint="nothing would have been sent")
    with session.progress(f"replaying {id}") as show:

        def progress(done: int, total: int) -> None:
            if show is not None:
                show(f"replaying {id}", done, total)

        replayed = replay(messages, window, model, progress, kept)
    stats = context.stats()
    return Played(
        session=id,
        title=title_of(store, id, context.view.title),
        messages=stats.messages,
        tokens=stats.current,
        taken_back=said.taken_back,
        off_page=said.off_page,
        replayed=replayed,
        best_other=best_of_others(replayed),
        remark=remark,
    )


def _write(session: Session, played: Played, kept: Kept, path: Path) -> None:
    """Writes the page."""
    from refold.replay.page import MARK, page_of, write

    rows = [LONG_HEADS, *(row([one]) for one in played.replayed.outcomes)]
    redact = redactor(session.config.redact, "exports")
    how = counted(played)
    if played.remark:
        how += f" {sentence(redact(played.remark))}"
    page = page_of(played.title, played.session, played.replayed, kept, rows, redact, how)
    write(path, page, MARK)


def window_of(messages: list[Message], model: str, given: int | None) -> tuple[int, str]:
    """The window of the replay, and the reason for it."""
    size = tokens_of_all([message for message in messages if not message.get(SUMMARY)])
    info = model_info(model or None)
    unknown = ""
    if not model:
        unknown = "the session does not name its model"
    elif not info.known:
        unknown = f"no table knows the model {model}: its prices and its window are not known"
    if given is not None:
        return given, unknown if model else ""
    if info.known and info.window < size:
        return info.window, f"the window of {model}"
    share = max(WINDOW_MIN, int(size * SHARE))
    why = unknown or f"the session fits {model}"
    here = f"{SHARE:.0%} of the session" if share > WINDOW_MIN else f"the smallest, {WINDOW_MIN:,}"
    return share, f"{why}, so the window here is {here}; --window N changes that"
