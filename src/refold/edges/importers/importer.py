"""A file of another program becomes conversations of a store: one for the session, one for each
side chain.

The id follows from the source and the session, so the same session is the same conversation again,
wherever the file lies; a list without an id of its own is known by its path. Neighbours:
`recognition` says whose file it is, `owner` whose a conversation is, `follow` writes.

Whose a conversation is: the session that was imported into it, and nobody else.

The metadata of a conversation names its session by the id that it gets unless another is chosen;
one that does not say so is its own. A session may go on only in its own conversation. A list of
messages has no id but its path: it may also go on where it begins with everything that the
conversation has, so a file that was moved, or comes through a pipe, is known again. Neighbours:
`importer` asks before it writes, `follow` has the keys.

The entries of one session on their way to its conversation: nothing is written before somebody
speaks, and what is no message is told each time and not counted.

A session without a message leaves no conversation behind. What the log has as a note, since it was
not understood, is known again like any message: the follower passes over it, and it is told again
here. Neighbours: `follow` writes, `importer` has one of these per session, `known` what there is.
"""

from __future__ import annotations

import gc
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from refold.checked import quoted
from refold.config import Config
from refold.conversations.importer import import_document, read_document
from refold.conversations.listing import preview, title_of
from refold.core.codec import decode
from refold.core.model import Meta, Note
from refold.edges.importers import REFOLD
from refold.edges.importers.entry import (
    UNREAD,
    About,
    Branch,
    Entry,
    Report,
    Rewound,
    Said,
    Session,
    Summed,
    Tally,
    Trace,
    Unread,
    printable,
)
from refold.edges.importers.follow import Follower
from refold.edges.importers.imported_log import events_of, is_of, known, named, written
from refold.edges.importers.lines import Advance, Lines, Unchanged, digest
from refold.edges.importers.recognition import Recognised, recognised
from refold.engine.context import Context
from refold.errors import Conflict, Invalid
from refold.log.trace import is_taken
from refold.stores.protocol import Overtaken, Store

ID_CHARS_MAX = 64
UNREAD_SHOWN = 50
BRANCHES_MAX = 50
FORK_TITLE = "Fork of "  # what the title of a fork begins with until somebody gives it another
GARBAGE_VALUES = 200_000
TRIES_MAX = 5  # where somebody else writes to the same conversation
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def import_file(
    store: Store,
    config: Config,
    path: Path,
    *,
    id: str | None = None,
    advance: Advance | None = None,
    branches: bool = False,
) -> Report:
    """Lets conversations of the store follow the sessions in the file. `id` is that of the
    session itself, if it is to have another. With `branches`, those that the session left become
    forks of its conversation."""
    unchanged = Unchanged(store, path, way=f"{id or ''} {branches}")
    known_report = unchanged.report()
    if known_report is not None:
        return known_report
    report = _imported(store, config, path, id=id, advance=advance, branches=branches)
    unchanged.keep(report)
    return report


def _imported(
    store: Store,
    config: Config,
    path: Path,
    *,
    id: str | None,
    advance: Advance | None,
    branches: bool,
) -> Report:
    lines = Lines(path, advance)
    found = recognised(lines)
    if found is None:
        about = import_document(store, read_document(str(path)), id=id, name=str(path))
        held = Session(
            conversation=about.id, title=about.title, head=about.head, messages=0, new=about.head
        )
        return Report(file=printable(path), source=REFOLD, sessions=[held], unread=[])
    own = id_of(found, path)
    place = _Place(store, config, lines, found, id or own, own, defaultdict(Tally))
    for _ in range(TRIES_MAX):
        try:
            with _collecting_rarely():
                report = _followed(place)
                return _with_branches(place, report) if branches else _without_forked(place, report)
        except Overtaken as error:
            overtaken = error
    raise overtaken


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Lets Python look for cycles less often: an import makes millions of values and no cycle."""
    usual = gc.get_threshold()
    gc.set_threshold(max(GARBAGE_VALUES, usual[0]) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _Place(NamedTuple):
    """Where the sessions of a file go. `main` is the id of the conversation, `own` the one that it
    gets unless another is chosen."""

    store: Store
    config: Config
    lines: Lines
    found: Recognised
    main: str
    own: str
    tallies: defaultdict[str, Tally]  # by session


def _followed(place: _Place) -> Report:
    lines = place.lines
    intakes: dict[str, Intake] = {}
    if place.main != place.own:
        _opened(place, "").close()  # before anything of a side chain is written
    try:
        for entry in place.found.entries(lines):
            intake = intakes.get(entry.session)
            if intake is None:
                intake = intakes[entry.session] = _intake(place, entry.session)
            intake.take(entry)
        for intake in intakes.values():
            intake.finish()
        unread = [*lines.unread, *(one for each in intakes.values() for one in each.unread)]
    finally:
        for intake in intakes.values():
            intake.close()
    sessions = [_session(place.store, each) for each in intakes.values() if each.messages]
    unread.sort(key=lambda one: one.line)
    return Report(
        file=printable(lines.path),
        source=place.found.source,
        sessions=sessions,
        unread=unread[:UNREAD_SHOWN],
        unread_total=len(unread),
        unit=place.found.unit,
    )


def _with_branches(place: _Place, report: Report) -> Report:
    """The same, after the branches that the session left became forks of its conversation, the
    newest first."""
    find = place.found.branches
    sessions = [replace(session, left=0) for session in report.sessions]
    for branch in find(place.lines, BRANCHES_MAX) if find is not None else ():
        if not _forked(place, branch):
            continue
        intake = _intake(place, branch.name, _erased_in_main(place, branch.name))
        with closing(intake):
            for entry in branch.entries():
                intake.take(replace(entry, title=None) if isinstance(entry, About) else entry)
            intake.finish()
            if intake.new:
                _name(place.store, intake.follower.context)
        sessions.append(_session(place.store, intake))
    return replace(report, sessions=sessions)


def _without_forked(place: _Place, report: Report) -> Report:
    """The same; what was left counts no more once every branch has its fork."""
    find = place.found.branches
    if find is None or not any(session.left for session in report.sessions):
        return report
    names = [branch.name for branch in find(place.lines, BRANCHES_MAX)]
    if not names or not all(is_taken(place.store, _part(place.main, name)) for name in names):
        return report
    return replace(report, sessions=[replace(session, left=0) for session in report.sessions])


def _forked(place: _Place, branch: Branch) -> bool:
    """Whether there is a conversation for the branch: a fork where it leaves the session. False
    if the branch says nothing of its own."""
    said = (named(entry) for entry in branch.entries() if isinstance(entry, Said | Summed))
    spoken = list({entry.key: entry for entry in said}.values())
    id = _part(place.main, branch.name)
    with Context(place.store, place.main, config=place.config) as main:
        pairs = zip(spoken, known(main, place.found.source).places)
        alike = takewhile(lambda pair: not pair[1].key or is_of(pair[1].key, pair[0]), pairs)
        shared = [found.seqs[-1] for _, found in alike]
        if len(shared) == len(spoken):
            return False
        inherited = session_in(main, main.id)
        if shared and not is_taken(place.store, id):
            main.fork(id, at=shared[-1]).close()
    with Context(place.store, id, config=place.config) as fork:
        if session_in(fork, inherited) == inherited:
            own = _part(place.own, branch.name)
            fork.update(metadata={**fork.view.metadata, SESSION: own})
    return True


def _erased_in_main(place: _Place, branch: str) -> list[Trace]:
    """What was erased from the session after the fork left it: it may be of the branch."""
    id = _part(place.main, branch)
    after = place.store.conversation(id).parent_seq if is_taken(place.store, id) else 0
    with Context(place.store, place.main, config=place.config) as main:
        return known(main, place.found.source, after=after).traces


def _name(store: Store, fork: Context) -> None:
    """Calls a fork by the first words after it, unless somebody gave it a title."""
    words = preview(store, fork.id, after=store.conversation(fork.id).parent_seq)
    if words and fork.view.title.startswith(FORK_TITLE):
        fork.update(title=words)


def _intake(place: _Place, session: str, also_erased: Sequence[Trace] = ()) -> Intake:
    context = _opened(place, session)
    held = known(context, place.found.source)
    held.traces += also_erased
    own = {SESSION: _part(place.own, session), IMPORTED: place.found.source}
    if session and place.found.session != "":
        own["part_of"] = place.main
    follower = Follower(context, place.found.source, held, place.tallies[session])
    # Said once: what a user made of it since is his.
    is_said = all(held.has_said(f"metadata.{name}", value) for name, value in own.items())
    return Intake(follower, {} if is_said else own)


def _opened(place: _Place, session: str) -> Context:
    """The conversation of a session of the file. Conflict if it is another's."""
    context = Context(place.store, _part(place.main, session), config=place.config)
    if is_own(context, _part(place.own, session)) or _is_known_list(place, context, session):
        return context
    with context:
        raise taken(place.store, context)


def _is_known_list(place: _Place, context: Context, session: str) -> bool:
    source, is_list = place.found.source, place.found.session is None
    if not is_list or context.view.metadata.get(IMPORTED) != source:
        return False
    # Lines of its own: those of the place are being walked.
    walk = place.found.entries(Lines(place.lines.path))
    return goes_on(context, source, (entry for entry in walk if entry.session == session))


def _part(main: str, session: str) -> str:
    return fitting(f"{main}-{session}") if session else main


def _session(store: Store, intake: Intake) -> Session:
    follower, tally = intake.follower, intake.follower.tally
    about = store.conversation(follower.context.id)
    return Session(
        conversation=about.id,
        title=about.title or preview(store, about.id),
        head=about.head,
        messages=intake.messages,
        new=intake.new,
        restored=tally.restored,
        left_at=tally.left_at,
        missing=follower.missing,
        left=follower.left,
        erased=follower.erased,
    )


def id_of(found: Recognised, path: Path) -> str:
    """The id of the conversation that follows the session of this file."""
    if found.session is not None:
        return fitting(f"{found.source}-{found.session}" if found.session else found.source)
    stem = path.name.split(".")[0] or "session"
    return fitting(f"{stem}-{digest(os.fsencode(path.absolute()))[:8]}")


def fitting(wanted: str) -> str:
    """The text as an id: what cannot stand in one, or is too long, gives way to a digest."""
    if len(wanted) <= ID_CHARS_MAX and _PLAIN_ID.fullmatch(wanted):
        return wanted
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[: ID_CHARS_MAX - 13]
    return f"{words or 'session'}-{digest(wanted.encode('utf-8', 'replace'))[:12]}"


IMPORTED, SESSION = "imported", "session"  # in the metadata: the source, and the session's own id
ID_CHARS_FREE, NUMBERS_MAX = 56, 1_000  # of an id that gets a number
TITLE_CHARS = 60


def is_own(context: Context, session: str) -> bool:
    """Whether the conversation is this session's, or nobody's yet."""
    if not context.log.events(limit=1):
        return True
    if context.view.metadata.get(SESSION) == session:
        return True
    return session_in(context, context.id) == session or not any(
        event.kind == "message" for event in events_of(context)
    )


def session_in(context: Context, unsaid: str) -> str:
    """The session that the log named last, also where a user went back to before that."""
    session = unsaid
    for event in events_of(context):
        meta = decode(event) if event.kind == "meta" else None
        if isinstance(meta, Meta) and meta.metadata:
            session = str(meta.metadata.get(SESSION, session))
    return session


def goes_on(context: Context, source: str, entries: Iterable[Entry]) -> bool:
    """Whether what is said in a file begins with all that was imported into the conversation.
    What was erased there may have been anything."""
    wanted = [place.key for place in known(context, source).places]
    said = (named(entry).key for entry in entries if isinstance(entry, Said | Summed | Rewound))
    keys = iter(dict.fromkeys(said))
    return bool(wanted) and all(next(keys, None) == key or not key for key in wanted)


def taken(store: Store, context: Context) -> Conflict:
    """What is said to somebody who names the conversation for another session."""
    metadata = context.view.metadata
    owner = session_in(context, context.id)
    whose = f"follows the session {owner}" if IMPORTED in metadata else "was not imported"
    title = quoted(title_of(store, context.id, context.view.title), TITLE_CHARS)
    said = f"{context.id} {whose} ({title}); nothing was written"
    free = _free(store, context.id)
    return Conflict(said, head=context.view.head, hint=f"choose another id: --id {free}")


def _free(store: Store, id: str) -> str:
    """The id with the first number that is free."""
    for number in range(2, NUMBERS_MAX):
        wanted = f"{id[:ID_CHARS_FREE]}-{number}"
        if store.head(wanted) is None:
            return wanted
    return "NEW"


WAITING_MAX = 10_000  # entries before the first message; then they are written without one
TOO_LARGE = "not kept: it is too large for a message"
_NOT_KEPT = "not kept: "
_MARK = f'"{UNREAD}"'.encode()  # in every note of this kind


class Intake:
    """Hands entries to a follower. `own` is what a new conversation is told of its session first;
    `unread` tells what is no message, however often it is imported."""

    def __init__(self, follower: Follower, own: dict[str, Any]) -> None:
        self.follower, self._own = follower, own
        context = follower.context
        is_new = not context.log.events(limit=1)
        self._waiting: list[Entry] | None = [] if is_new else None
        self._kept = {} if is_new else _kept_as_notes(context)
        self._unsaid: set[str] = set()
        if not is_new:
            self._describe()

    @property
    def messages(self) -> int:
        """How many messages the file has; what was not understood is none."""
        return self.follower.messages - len(self._unsaid)

    @property
    def new(self) -> int:
        """How many of them were written now."""
        tally = self.follower.tally
        return max(0, tally.new - len(tally.unsaid))

    @property
    def unread(self) -> list[Unread]:
        if not self._waiting:
            return self.follower.unread
        told = (self._told(entry) for entry in self._waiting)
        return [*self.follower.unread, *(one for one in told if one is not None)]

    def take(self, entry: Entry) -> None:
        """Takes an entry; those before the first message wait for it."""
        if self._waiting is None:
            self._take(entry)
            return
        self._waiting.append(entry)
        if not self._speaks(entry) and len(self._waiting) < WAITING_MAX:
            return
        waiting, self._waiting = self._waiting, None
        self._describe()
        for one in waiting:
            self._take(one)

    def finish(self) -> None:
        """Writes what still waits for more; nothing of a session in which nobody spoke."""
        if self._waiting is None:
            self.follower.finish()

    def close(self) -> None:
        self.follower.close()

    def _describe(self) -> None:
        if self._own:
            self.follower.describe(self._own)

    def _take(self, entry: Entry) -> None:
        told = len(self.follower.unread)
        self.follower.take(entry)
        if not isinstance(entry, Said):
            return
        said, news = named(entry), self.follower.unread[told:]
        is_kept = written(said) in self._kept
        if not news and not is_kept:
            return
        reason = self._why_not(said)
        if any(one.reason.startswith(_NOT_KEPT) for one in news) or self._kept.get(written(said)):
            reason = reason or TOO_LARGE
        if reason is None:
            return  # the news is of something else
        self._unsaid.add(said.key)
        if news:
            self.follower.tally.unsaid.add(said.key)
        else:
            self.follower.unread.append(Unread(line=said.line, reason=reason))

    def _speaks(self, entry: Entry) -> bool:
        return isinstance(entry, Summed) or (isinstance(entry, Said) and not self._why_not(entry))

    def _told(self, entry: Entry) -> Unread | None:
        if isinstance(entry, Unread):
            return entry
        reason = self._why_not(entry) if isinstance(entry, Said) else None
        return Unread(line=entry.line, reason=reason) if reason else None

    def _why_not(self, said: Said) -> str | None:
        """Why a message is none; None if it is one."""
        try:
            self.follower.context._recorder.parse(said.message)
        except Invalid as error:
            return f"{error.message}; {error.hint}"
        return None


def _kept_as_notes(context: Context) -> dict[str, bool]:
    """The keys of what the log has as notes in the place of messages, and whether not even their
    content could be kept."""
    kept: dict[str, bool] = {}
    for event in events_of(context):
        note = decode(event) if event.kind == "note" and _MARK in event.body else None
        if isinstance(note, Note) and note.kind == UNREAD:
            kept[note.key] = note.data is None
    return kept
