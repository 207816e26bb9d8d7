"""Imports a session file into conversations of a store: one for the session, one for each of its
side chains.

The conversation id is derived from the source and the session, so a session always maps to the same
conversation, wherever its file is; a list without an id is identified by its path. The metadata of
a conversation names its session, and only that session may continue in it. A session without
messages creates no conversation. Neighbours: `recognition` finds the source, `session_update`
writes.
"""

from __future__ import annotations

import gc
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from refold.checked import quoted
from refold.config import Config
from refold.conversations.importer import import_document, read_document
from refold.conversations.listing import (
    IMPORTED,
    PART_OF,
    SESSION,
    is_erased,
    preview,
    shown_title,
    title_of,
)
from refold.core.codec import decode
from refold.core.model import Erase, Meta, Note
from refold.core.shortened import ERASED
from refold.edges.importers import REFOLD
from refold.edges.importers.entry import (
    UNREAD,
    Branch,
    Entry,
    MessageEntry,
    Report,
    Session,
    SessionFacts,
    SummaryEntry,
    Tally,
    UnreadLine,
    printable,
)
from refold.edges.importers.imported_log import (
    ChangedFile,
    imported_log,
    is_key_of,
    log_key,
    with_valid_names,
)
from refold.edges.importers.lines import Advance, Lines, Unchanged, digest
from refold.edges.importers.recognition import Recognised, recognised
from refold.edges.importers.session_update import Follower, OrderedEntry
from refold.engine.context import Context
from refold.errors import Conflict, Invalid
from refold.log.stored_logs import conversations, is_taken, pages_of
from refold.stores.protocol import Overtaken, Store

ID_CHARS_MAX = 64
UNREAD_SHOWN = 50
BRANCHES_MAX = 50
FORK_TITLE = "Fork of "  # prefix of the default title of a fork
GARBAGE_VALUES = 200_000
TRIES_MAX = 5  # attempts while another process writes to the same conversation
ID_CHARS_FREE, NUMBERS_MAX = 56, 1_000  # for an id with a number at its end
TITLE_CHARS = 60
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
    """Imports the sessions of a file, or only their new entries, and returns a report. `id`
    overrides the id of the main conversation. With `branches`, abandoned branches become forks of
    the conversation."""
    unchanged = Unchanged(store, path, options=f"{id or ''} {branches}")
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
        session = Session(
            conversation=about.id, title=about.title, head=about.head, messages=0, new=about.head
        )
        return Report(file=printable(path), source=REFOLD, sessions=[session], unread=[])
    own = _conversation_id(found, path)
    job = _Job(store, config, lines, found, id or own, own, defaultdict(Tally))
    if id is None and not is_taken(store, own):
        job = job._replace(main=_erased_session(store, own, f"{found.source}-") or own)
    for _ in range(TRIES_MAX):
        try:
            with _collecting_rarely():
                report = _follow(job)
                if any(one.erased for one in report.sessions):
                    return report
                return _with_branches(job, report) if branches else _without_forked(job, report)
        except Overtaken as error:
            overtaken = error
    raise overtaken


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Runs the garbage collector less often: an import creates millions of values and no cycle."""
    usual = gc.get_threshold()
    gc.set_threshold(max(GARBAGE_VALUES, usual[0]) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _Job(NamedTuple):
    """The import of one file. `main` is the id of the conversation, `own` its default id."""

    store: Store
    config: Config
    lines: Lines
    found: Recognised
    main: str
    own: str
    tallies: defaultdict[str, Tally]  # by session


def _follow(job: _Job) -> Report:
    lines = job.lines
    intakes: dict[str, Intake] = {}
    refused: dict[str, int] = {}  # line numbers of possibly erased messages, by session
    erased: dict[str, Session] = {}
    if job.main != job.own and not is_erased(job.store, job.main):
        _open_conversation(job, "").close()  # checks the owner before a side chain is written
    try:
        for entry in job.found.entries(lines):
            if entry.session in erased:
                continue
            intake = intakes.get(entry.session)
            if intake is None and is_erased(job.store, _conversation(job.main, entry.session)):
                erased[entry.session] = _erased(job, entry.session)
                continue
            if intake is None:
                intake = intakes[entry.session] = _intake(job, entry.session)
            if entry.session not in refused:
                try:
                    intake.take(entry)
                except ChangedFile as error:
                    refused[entry.session] = error.line
        for session, intake in intakes.items():
            if session not in refused:
                intake.finish()
        unread = [*lines.unread, *(line for intake in intakes.values() for line in intake.unread)]
    finally:
        for intake in intakes.values():
            intake.close()
    for session, line in refused.items():
        raise _changed_since_erasure(job, session, line)
    unread.sort(key=lambda line: line.line)
    return Report(
        file=printable(lines.path),
        source=job.found.source,
        sessions=[
            *(_session(job.store, intake) for intake in intakes.values() if intake.messages),
            *erased.values(),
        ],
        unread=unread[:UNREAD_SHOWN],
        unread_total=len(unread),
        unit=job.found.unit,
    )


def _erased(job: _Job, session: str) -> Session:
    """The report of a session whose conversation was erased as a whole."""
    about = job.store.conversation(_conversation(job.main, session))
    return Session(
        conversation=about.id, title=ERASED, head=about.head, messages=0, new=0, erased=True
    )


def _erased_session(store: Store, session: str, source: str) -> str:
    """The erased conversation of a session that was imported under another id; empty without one.
    Conversations with a title were not erased as a whole, and those under a session's own id are
    found by it: neither are read."""
    for about in conversations(store):
        if about.title or about.id.startswith(source) or not is_erased(store, about.id):
            continue
        for events in pages_of(store, about.id, last=about.head):
            bodies = (decode(event) for event in events if event.kind == "erase")
            if any(isinstance(body, Erase) and body.session == session for body in bodies):
                return about.id
    return ""


def _changed_since_erasure(job: _Job, session: str, line: int) -> Conflict:
    where = f"{printable(job.lines.path)}, {job.found.unit} {line}"
    id = _conversation(job.main, session)
    text = f"{where}: new since you erased part of {id}, and may bring it back; not imported"
    new = f"--id {_free_id(job.store, job.main)}"
    return Conflict(text, hint=f"import it again as a new conversation ({new}) and erase there")


# --- abandoned branches ---


def _with_branches(job: _Job, report: Report) -> Report:
    """Forks the conversation for each abandoned branch, newest first, and adds it to the report."""
    find = job.found.branches
    sessions = [replace(session, left=0) for session in report.sessions]
    for branch in find(job.lines, BRANCHES_MAX) if find is not None else ():
        if not _is_forked(job, branch):
            continue
        with closing(_intake(job, branch.name, is_branch=True)) as intake:
            try:
                for entry in branch.entries():
                    is_facts = isinstance(entry, SessionFacts)
                    intake.take(replace(entry, title=None) if is_facts else entry)
                intake.finish()
            except ChangedFile as error:
                raise _changed_since_erasure(job, branch.name, error.line) from error
            fork = intake.follower.context
            words = preview(job.store, fork.id, after=job.store.conversation(fork.id).parent_seq)
            if intake.new and words and fork.view.title.startswith(FORK_TITLE):
                fork.update(title=words)
        sessions.append(_session(job.store, intake))
    return replace(report, sessions=sessions)


def _without_forked(job: _Job, report: Report) -> Report:
    """The report without its counts of abandoned messages, if every branch has a fork."""
    find = job.found.branches
    if find is None or not any(session.left for session in report.sessions):
        return report
    names = [branch.name for branch in find(job.lines, BRANCHES_MAX)]
    if not names or not all(is_taken(job.store, _conversation(job.main, name)) for name in names):
        return report
    return replace(report, sessions=[replace(session, left=0) for session in report.sessions])


def _is_forked(job: _Job, branch: Branch) -> bool:
    """Forks the conversation where the branch diverges, unless there is a fork already. False if
    the branch has no messages of its own."""
    ordered = (
        with_valid_names(entry)
        for entry in branch.entries()
        if isinstance(entry, MessageEntry | SummaryEntry)
    )
    messages = list({entry.key: entry for entry in ordered}.values())
    id = _conversation(job.main, branch.name)
    with Context(job.store, job.main, config=job.config) as main:
        pairs = zip(messages, imported_log(main, job.found.source).items)
        same = takewhile(lambda pair: not pair[1].key or is_key_of(pair[1].key, pair[0]), pairs)
        shared = [item.seqs[-1] for _, item in same]
        if len(shared) == len(messages):
            return False
        inherited = _session_id(main, main.id)
        if shared and not is_taken(job.store, id):
            main.fork(id, at=shared[-1]).close()
    with Context(job.store, id, config=job.config) as fork:
        if _session_id(fork, inherited) == inherited:
            own = _conversation(job.own, branch.name)
            fork.update(metadata={**fork.view.metadata, SESSION: own})
    return True


# --- the conversation of a session ---


def _intake(job: _Job, session: str, *, is_branch: bool = False) -> Intake:
    context = _open_conversation(job, session)
    log = imported_log(context, job.found.source)
    if is_branch:  # lines of a branch may have been erased after its fork was made
        with Context(job.store, job.main, config=job.config) as main:
            log.erased_ids |= imported_log(main, job.found.source).erased_ids
        log.has_erasures |= bool(log.erased_ids)
    own = {SESSION: _conversation(job.own, session), IMPORTED: job.found.source}
    if session and job.found.session != "":
        own[PART_OF] = job.main
    tally, has_line_ids = job.tallies[session], job.found.has_line_ids
    follower = Follower(context, job.found.source, log, tally, has_line_ids=has_line_ids)
    # Written once, since a user may change it afterwards.
    is_known = all(log.may_have_had(f"metadata.{name}", value) for name, value in own.items())
    return Intake(follower, {} if is_known else own)


def _open_conversation(job: _Job, session: str) -> Context:
    """Opens the conversation of a session. Conflict if it belongs to another session."""
    context = Context(job.store, _conversation(job.main, session), config=job.config)
    if _is_own(context, _conversation(job.own, session)) or _is_known_list(job, context, session):
        return context
    with context:
        owner = _session_id(context, context.id)
        is_imported = IMPORTED in context.view.metadata
        whose = f"follows the session {owner}" if is_imported else "was not imported"
        title = quoted(title_of(job.store, context.id, context.view.title), TITLE_CHARS)
        text = f"{context.id} {whose} ({title}); nothing was written"
        hint = f"choose another id: --id {_free_id(job.store, context.id)}"
        raise Conflict(text, head=context.view.head, hint=hint)


def _is_own(context: Context, session: str) -> bool:
    """Whether the conversation belongs to this session, or to no session yet."""
    if context.view.head == 0:
        return True
    if context.view.metadata.get(SESSION) == session:
        return True
    return _session_id(context, context.id) == session or not any(
        event.kind == "message" for event in context.log.events()
    )


def _session_id(context: Context, default: str) -> str:
    """The session last named in the log, even if a user restored an earlier position."""
    session = default
    for event in context.log.events():
        meta = decode(event) if event.kind == "meta" else None
        if isinstance(meta, Meta) and meta.metadata:
            session = str(meta.metadata.get(SESSION, session))
    return session


def _is_known_list(job: _Job, context: Context, session: str) -> bool:
    """Whether the file is a list of messages that begins with all messages imported into the
    conversation: it was moved, or comes through a pipe. An erased message matches any other."""
    source = job.found.source
    if job.found.session is not None or context.view.metadata.get(IMPORTED) != source:
        return False
    # A second walk: the first one, over the lines of the job, is still open.
    walk = (entry for entry in job.found.entries(Lines(job.lines.path)) if entry.session == session)
    ordered = (with_valid_names(entry).key for entry in walk if isinstance(entry, OrderedEntry))
    keys = iter(dict.fromkeys(ordered))
    imported = [item.key for item in imported_log(context, source).items]
    return bool(imported) and all(next(keys, None) == key or not key for key in imported)


def _conversation(main: str, session: str) -> str:
    return _valid_id(f"{main}-{session}") if session else main


def _session(store: Store, intake: Intake) -> Session:
    follower, tally = intake.follower, intake.follower.tally
    about = store.conversation(follower.context.id)
    return Session(
        conversation=about.id,
        title=shown_title(about.title) or preview(store, about.id),
        head=about.head,
        messages=intake.messages,
        new=intake.new,
        restored=tally.restored,
        left_at=tally.left_at,
        missing=follower.missing,
        left=follower.left,
    )


def _conversation_id(found: Recognised, path: Path) -> str:
    """The default id of the main conversation of a file."""
    if found.session is not None:
        return _valid_id(f"{found.source}-{found.session}" if found.session else found.source)
    if path.name == CLINE_FILE:  # a task folder, whose name is the task's id
        return _valid_id(f"cline-{path.absolute().parent.name}")
    stem = path.name.split(".")[0] or "session"
    return _valid_id(f"{stem}-{digest(os.fsencode(path.absolute()))[:8]}")


def _valid_id(text: str) -> str:
    """The text as a valid id: an invalid or long one is cut and ends in a digest."""
    if len(text) <= ID_CHARS_MAX and _PLAIN_ID.fullmatch(text):
        return text
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[: ID_CHARS_MAX - 13]
    return f"{stem or 'session'}-{digest(text.encode('utf-8', 'replace'))[:12]}"


def _free_id(store: Store, id: str) -> str:
    """The id with the first unused number."""
    for number in range(2, NUMBERS_MAX):
        numbered = f"{id[:ID_CHARS_FREE]}-{number}"
        if store.head(numbered) is None:
            return numbered
    return "NEW"


# --- the entries of one session ---

CLINE_FILE = "api_conversation_history.json"
WAITING_MAX = 10_000  # entries held back until the first message
TOO_LARGE = "not kept: it is too large for a message"
_NOT_KEPT = "not kept: "
_MARK = f'"{UNREAD}"'.encode()  # in every note of this kind


class Intake:
    """Passes the entries of one session to a follower; nothing is written before the first message.
    `own` is the metadata of a new conversation; `unread` includes unparseable messages that are
    already notes in the log."""

    def __init__(self, follower: Follower, own: dict[str, Any]) -> None:
        self.follower, self._own = follower, own
        context = follower.context
        is_new = context.view.head == 0
        self._waiting: list[Entry] | None = [] if is_new else None
        self._noted = {} if is_new else _unparsed_notes(context)
        self._unparsed: set[str] = set()
        if not is_new:
            self._describe()

    @property
    def messages(self) -> int:
        """The number of parseable messages in the file."""
        return self.follower.messages - len(self._unparsed)

    @property
    def new(self) -> int:
        """The number of messages written by this import."""
        tally = self.follower.tally
        return max(0, tally.new - len(tally.unparsed))

    @property
    def unread(self) -> list[UnreadLine]:
        unread = list(self.follower.unread)
        for entry in self._waiting or ():
            if isinstance(entry, UnreadLine):
                unread.append(entry)
            elif isinstance(entry, MessageEntry) and (reason := self._parse_error(entry)):
                unread.append(UnreadLine(line=entry.line, reason=reason))
        return unread

    def take(self, entry: Entry) -> None:
        """Writes an entry, or holds it back until the first message."""
        if self._waiting is None:
            self._take(entry)
            return
        self._waiting.append(entry)
        is_message = isinstance(entry, MessageEntry) and self._parse_error(entry) is None
        is_first = is_message or isinstance(entry, SummaryEntry)
        if not is_first and len(self._waiting) < WAITING_MAX:
            return
        waiting, self._waiting = self._waiting, None
        self._describe()
        for one in waiting:
            self._take(one)

    def finish(self) -> None:
        """Writes all pending entries; none if the session has no message."""
        if self._waiting is None:
            self.follower.finish()

    def close(self) -> None:
        self.follower.close()

    def _describe(self) -> None:
        if self._own:
            self.follower.describe(self._own)

    def _take(self, entry: Entry) -> None:
        count = len(self.follower.unread)
        self.follower.take(entry)
        if not isinstance(entry, MessageEntry):
            return
        entry, news = with_valid_names(entry), self.follower.unread[count:]
        key = log_key(entry)
        if not news and key not in self._noted:
            return
        reason = self._parse_error(entry)
        if any(line.reason.startswith(_NOT_KEPT) for line in news) or self._noted.get(key):
            reason = reason or TOO_LARGE
        if reason is None:
            return  # the new report is about something else
        self._unparsed.add(entry.key)
        if news:
            self.follower.tally.unparsed.add(entry.key)
        else:
            self.follower.unread.append(UnreadLine(line=entry.line, reason=reason))

    def _parse_error(self, entry: MessageEntry) -> str | None:
        """The reason why a message cannot be parsed, or None."""
        try:
            self.follower.context._recorder.parse(entry.message)
        except Invalid as error:
            return f"{error.message}; {error.hint}"
        return None


def _unparsed_notes(context: Context) -> dict[str, bool]:
    """The keys of unparseable messages stored as notes, and whether their content is missing."""
    notes: dict[str, bool] = {}
    for event in context.log.events():
        note = decode(event) if event.kind == "note" and _MARK in event.body else None
        if isinstance(note, Note) and note.kind == UNREAD:
            notes[note.key] = note.data is None
    return notes
