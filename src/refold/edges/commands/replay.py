"""`refold replay`: a session once more, through refold and through what people use today.

The session is a conversation of the store, or a file that `refold import` reads; nothing is
written. What is counted, and how, stands in `refold.replay`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.conversations.listing import meta_of, title_of
from refold.display import number
from refold.edges.commands.command import POSITIONAL, Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log.reading import conversations
from refold.redaction import redactor
from refold.replay.plot import plot
from refold.replay.run import AGENT, Kept, Outcome, Replayed, replay
from refold.replay.session import SUMMARY, said_in
from refold.replay.texts import Message, tokens_of_all
from refold.replay.words import cap_words, counted_words, faults_words, measure_words, size_words
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import model_info

WINDOW_MIN, WINDOW_MAX = 1_000, 100_000_000
SHARE = 0.4  # of a session that fits its model, so that there is something to compare
LOST_SHOWN, LINE_CHARS = 5, 80
SESSION = Meta(description="A conversation of the store, or a file.", extra=POSITIONAL)
WINDOW = Meta(description="The window, in tokens.", ge=WINDOW_MIN, le=WINDOW_MAX)
MODEL = Meta(description="The model whose window and prices count; the session's by default.")
HTML = Meta(
    description="Write a page that shows every turn, without secrets.", extra={"metavar": "FILE"}
)
EVERY = Meta(description="Every imported session, in one table.")


class ReplayArguments(Arguments, frozen=True, kw_only=True):
    session: Annotated[str, SESSION] | None = None
    window: Annotated[int, WINDOW] | None = None
    model: Annotated[str, MODEL] | None = None
    all: Annotated[bool, EVERY] = False
    html: Annotated[str, HTML] | None = None


class Played(Struct, frozen=True, kw_only=True):
    """One session, played. `remark` says why the window is what it is; `messages` and `tokens` are
    what the list says of the conversation, `taken_back` and `off_page` are those of `Said`."""

    session: str
    title: str = ""
    messages: int
    tokens: int
    taken_back: int = 0
    off_page: int = 0
    replayed: Replayed
    remark: str = ""


class Replays(Result, frozen=True, kw_only=True):
    """What became of each session, and of all together, by policy."""

    sessions: list[Played]
    skipped: dict[str, str]
    is_total: bool = False
    page: str = ""


def run(session: Session, arguments: ReplayArguments) -> Replays:
    if arguments.all == (arguments.session is not None):
        hint = "name a conversation or a file, or take every imported session with --all"
        raise Invalid("name one session, or all", hint=hint)
    if arguments.session is not None:
        store, id, remark = _found(session, arguments.session)
        kept = Kept() if arguments.html is not None else None
        one = _played(session, store, id, arguments, kept)
        one = replace(one, remark=". ".join(filter(None, (remark, one.remark))))
        if kept is not None and arguments.html is not None:
            _write(session, one, kept, Path(arguments.html))
        return Replays(sessions=[one], skipped={}, page=arguments.html or "")
    if arguments.html is not None:
        raise Invalid("--html shows one session", hint="name it, or leave --html out")
    played: list[Played] = []
    skipped: dict[str, str] = {}
    for id in _imported(session.store):
        try:
            played.append(_played(session, session.store, id, arguments))
        except Invalid as error:
            skipped[id] = error.message
    if not played and not skipped:
        raise NotFound("no session was imported", hint="refold import --scan finds some")
    return Replays(sessions=played, skipped=skipped, is_total=True)


def _found(session: Session, name: str) -> tuple[Store, str, str]:
    """The conversation of that name, or the longest one of a file of that name, with a remark if
    that has others."""
    if not Path(name).is_file():
        return session.store, _stored(session, name), ""
    store = open_store("memory:")
    report = import_file(store, session.config, Path(name))
    if not report.sessions:
        raise Invalid(f"{name} has no messages", hint="refold import --list")
    longest = max(report.sessions, key=lambda one: one.messages)
    others = len(report.sessions) - 1
    remark = f"the file has {number(others, 'session')} more: this is the longest" if others else ""
    return store, longest.conversation, remark


def _stored(session: Session, name: str) -> str:
    try:
        return session.find(name)
    except NotFound as error:
        if Path(name).is_dir():
            raise Invalid(f"{quoted(name)} is a folder", hint="name a file in it") from error
        raise


def _imported(store: Store) -> Iterator[str]:
    for about in conversations(store):
        if "imported" in (meta_of(store, about).metadata or {}):
            yield about.id


def _played(
    session: Session,
    store: Store,
    id: str,
    arguments: ReplayArguments,
    kept: Kept | None = None,
) -> Played:
    context = Context(store, id, config=session.config)
    said = said_in(context)
    messages = said.messages
    model = arguments.model or context.view.model
    window, remark = window_of(messages, model, arguments.window)
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
        remark=remark,
    )


def _write(session: Session, played: Played, kept: Kept, path: Path) -> None:
    """Writes the page."""
    from refold.replay.document import write
    from refold.replay.page import MARK, page_of

    rows = [HEADS, *(_row([one]) for one in played.replayed.outcomes)]
    redact = redactor(session.config.redact, "exports")
    counted = _counted(played)
    if played.remark:
        counted += f" {played.remark[0].upper()}{redact(played.remark[1:])}."
    page = page_of(played.title, played.session, played.replayed, kept, rows, redact, counted)
    write(path, page, MARK)


def _counted(played: Played) -> str:
    return counted_words(
        played.replayed,
        played.messages,
        played.tokens,
        taken_back=played.taken_back,
        off_page=played.off_page,
    )


def window_of(messages: list[Message], model: str, given: int | None) -> tuple[int, str]:
    """The window that is played, and why it is that one."""
    size = tokens_of_all([message for message in messages if not message.get(SUMMARY)])
    info = model_info(model or None)
    unknown = "" if info.known else _unknown_words(model)
    if given is not None:
        return given, unknown if model else ""
    if info.known and info.window < size:
        return info.window, f"the window of {model}"
    share = max(WINDOW_MIN, int(size * SHARE))
    why = unknown or f"the session fits {model}"
    here = f"{SHARE:.0%} of the session" if share > WINDOW_MIN else f"the smallest, {WINDOW_MIN:,}"
    return share, f"{why}, so the window here is {here}; --window N changes that"


def _unknown_words(model: str) -> str:
    """Why there are no prices, and no window of the model's own."""
    if not model:
        return "the session does not name its model"
    return f"no table knows the model {model}: its prices and its window are not known"


# --- for a person ---

HEADS = ("policy", "tokens sent", "from cache", "cost", "page changes", "names kept", "faults")


def show(replays: Replays, screen: Screen) -> None:
    if not replays.is_total:
        _show_one(replays.sessions[0], screen)
        if replays.page:
            screen.line(f"{replays.page} shows every turn; open it in a browser.")
        return
    own = [one for one in replays.sessions if _has_own(one)]
    without = AGENT if len(own) < len(replays.sessions) else ""
    screen.line(f"{number(len(replays.sessions), 'session')}, all turns together:")
    screen.table(HEADS, _total_rows(replays.sessions, without))
    if own and without:
        # Sums over some of the sessions say nothing beside sums over all.
        count = number(len(own), "session")
        screen.line(f"{count} of these, where the agent made compactions of its own:")
        screen.table(HEADS, _total_rows(own))
    _show_windows(replays.sessions, screen)
    if replays.sessions:
        outcomes = (one for each in replays.sessions for one in each.replayed.outcomes)
        screen.line(("dim", faults_words(outcomes)))
    unpriced = [one.session for one in replays.sessions if not _is_priced(one)]
    if unpriced:
        count = number(len(unpriced), "session")
        said = f"No prices are known for {count}, so the costs leave them out"
        screen.line(("dim", f"{said}; --model NAME prices all of them alike."))
    for id, reason in replays.skipped.items():
        screen.line(("dim", f"{id}: {reason}"))


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


def _show_one(played: Played, screen: Screen) -> None:
    replayed = played.replayed
    screen.line(("bold", played.title), f" ({played.session})")
    screen.line(size_words(replayed))
    screen.line(("dim", _counted(played)))
    if played.remark:
        screen.line(("dim", played.remark))
    for line in plot(replayed, is_utf8=screen.is_utf8):
        screen.line(line)
    screen.table(HEADS, [_row([one]) for one in replayed.outcomes])
    screen.line(("dim", measure_words(replayed)))
    screen.line(("dim", faults_words(replayed.outcomes)))
    for receipt in replayed.receipts:
        change = f"{receipt.tokens_before:,} -> {receipt.tokens_after:,} tokens"
        screen.line(("dim", f"turn {receipt.turn}: {receipt.strategy}, {change}"))
    for outcome in replayed.outcomes:
        _show_lost(outcome, screen)


def _show_lost(outcome: Outcome, screen: Screen) -> None:
    if not outcome.lost:
        return
    screen.line(("bold", f"{outcome.policy} lost:"))
    for lost in outcome.lost[:LOST_SHOWN]:
        line = short_line(lost.line, LINE_CHARS)
        screen.line(f"  turn {lost.turn}: {short_line(lost.name, 40)}", ("dim", f"  {line}"))


def _has_own(played: Played) -> bool:
    return any(one.policy == AGENT for one in played.replayed.outcomes)


def _total_rows(sessions: list[Played], without: str = "") -> list[tuple[str, ...]]:
    """A row for each policy but one, over all these sessions."""
    by_policy: dict[str, list[Outcome]] = {}
    for played in sessions:
        for outcome in played.replayed.outcomes:
            by_policy.setdefault(outcome.policy, []).append(outcome)
    by_policy.pop(without, None)
    return [_row(outcomes) for outcomes in by_policy.values()]


def _row(outcomes: list[Outcome]) -> tuple[str, ...]:
    """The figures of one policy, over one session or several."""
    sent, cached = sum(one.sent for one in outcomes), sum(one.cached for one in outcomes)
    costs = [one.dollars for one in outcomes]
    known = [one for one in costs if one is not None]
    needed = sum(one.needed for one in outcomes)
    kept = sum((one.kept or 0.0) * one.needed for one in outcomes)
    faulty = [one.faulty for one in outcomes if one.faulty is not None]
    return (
        outcomes[0].policy,
        f"{sent:,}",
        f"{cached / sent:.0%}" if sent else "-",
        f"${sum(known):,.2f}" if known else "n/a",
        f"{sum(one.changes for one in outcomes):,}",
        f"{kept / needed:.1%} of {needed:,}" if needed else "-",
        f"{sum(faulty):,}" if faulty else "-",
    )


COMMAND = Command(
    name="replay",
    details="Plays a session turn by turn through refold and through the policies that people use "
    "today, and says what each would have sent, cost and lost. SESSION is a "
    "conversation of the store, or a file that refold import reads. Nothing is written.",
    on="store",
    reads=True,
    arguments=ReplayArguments,
    run=run,
    show=show,
)
