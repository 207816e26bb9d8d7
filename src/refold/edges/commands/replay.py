"""`refold replay`: a session once more, through refold and through what people use today.

The session is a conversation of the store, or a file that `refold import` reads; nothing is
written. What is counted, and how, stands in `refold.replay`; `replay_shown` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from refold.checked import quoted
from refold.conversations.listing import meta_of, newest, title_of
from refold.display import number
from refold.edges.commands.command import POSITIONAL, Arguments, Command
from refold.edges.commands.replay_result import ROWS_SHOWN, Played, Replays, best_of_others
from refold.edges.commands.replay_shown import LONG_HEADS, counted, row, sentence, show
from refold.edges.commands.session import Session
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Corrupt, Denied, Invalid, NotFound
from refold.redaction import redactor
from refold.replay.run import Kept, replay
from refold.replay.session import SUMMARY, said_in
from refold.replay.texts import Message, tokens_of_all
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.tokens.models import model_info

WINDOW_MIN, WINDOW_MAX = 1_000, 100_000_000
SHARE = 0.4  # of a session that fits its model, so that there is something to compare
SESSION = Meta(description="A conversation of the store, or a file.", extra=POSITIONAL)
WINDOW = Meta(description="The window, in tokens.", ge=WINDOW_MIN, le=WINDOW_MAX)
MODEL = Meta(description="The model whose window and prices count; the session's by default.")
HTML = Meta(
    description="Write a page that shows every turn, without secrets.", extra={"metavar": "FILE"}
)
EVERY = Meta(description="Every imported session: a row for each, and the sums.")
LIMIT = Meta(description="With --all, show at most this many rows, the newest.", ge=1)


class ReplayArguments(Arguments, frozen=True, kw_only=True):
    session: Annotated[str, SESSION] | None = None
    window: Annotated[int, WINDOW] | None = None
    model: Annotated[str, MODEL] | None = None
    all: Annotated[bool, EVERY] = False
    limit: Annotated[int, LIMIT] = ROWS_SHOWN
    html: Annotated[str, HTML] | None = None


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
        return Replays(sessions=[one], skipped={}, damaged={}, page=arguments.html or "")
    if arguments.html is not None:
        raise Invalid("--html shows one session", hint="name it, or leave --html out")
    return _all_played(session, arguments)


def _all_played(session: Session, arguments: ReplayArguments) -> Replays:
    """Every imported session; one that cannot be played does not keep the others from it."""
    played: list[Played] = []
    skipped: dict[str, str] = {}
    damaged: dict[str, str] = {}
    for position, id in _imported(session.store):
        try:
            one = _played(session, session.store, id, arguments)
            played.append(replace(one, position=position))
        except Corrupt as error:
            damaged[id] = error.message
        except (Invalid, Denied) as error:
            skipped[id] = error.message
    if not (played or skipped or damaged):
        raise NotFound("no session was imported", hint="refold import --scan finds some")
    return Replays(
        sessions=played, skipped=skipped, damaged=damaged, is_total=True, limit=arguments.limit
    )


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


def _imported(store: Store) -> Iterator[tuple[int, str]]:
    """The imported sessions, each with its place among all conversations, newest first. A fork of
    one is no session of its own: its turns would count twice."""
    for position, about in enumerate(newest(store), start=1):
        if not about.parent and "imported" in (meta_of(store, about).metadata or {}):
            yield position, about.id


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
    model = arguments.model or said.model
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
        best_other=best_of_others(replayed),
        remark=remark,
    )


def _write(session: Session, played: Played, kept: Kept, path: Path) -> None:
    """Writes the page."""
    from refold.replay.document import write
    from refold.replay.page import MARK, page_of

    rows = [LONG_HEADS, *(row([one]) for one in played.replayed.outcomes)]
    redact = redactor(session.config.redact, "exports")
    how = counted(played)
    if played.remark:
        how += f" {sentence(redact(played.remark))}"
    page = page_of(played.title, played.session, played.replayed, kept, rows, redact, how)
    write(path, page, MARK)


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
