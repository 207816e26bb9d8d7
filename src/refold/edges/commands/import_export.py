"""`refold import` and `refold export`: conversations and memories as files and copies.

The first lines of a file identify its format (`importers.recognition`). A session imported again is
followed: only new messages are appended. An export to standard output is written as it is to a pipe
or a file, and escaped on a terminal. `export --to` copies into another store. Neighbour:
`memory_transfer` has the files of a memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from refold.conversations.copier import Copied, CopyProgress, copy
from refold.conversations.exporter import chunks_of, export_file, format_of
from refold.conversations.importer import DOCUMENT_BYTES_MAX
from refold.conversations.listing import FOLDER, PROGRAMS, is_below, meta_of
from refold.conversations.scanner import scan
from refold.display import number, one_line
from refold.edges.commands.command import (
    FORMAT,
    Document,
    Force,
    Project,
    Result,
    Scope,
    Screen,
    Yes,
    command,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.importers import REFOLD, SOURCES, recognition
from refold.edges.importers.entry import Report, printable
from refold.edges.importers.entry import Session as Followed
from refold.edges.importers.importer import import_file
from refold.edges.importers.recognition import Found, files_in
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.stored_logs import open_id_checked
from refold.memory.transfer import FORMAT as MEMORY_FORMAT
from refold.redaction import is_redacted, takes_emails

Reader = Callable[[Path], Report]
STDIO, STDIN_NAME = "-", "standard input"
PIECE_BYTES = 1 << 20
SNIFFED_BYTES = 4_096
LINES_SHOWN = 10
STATES = {
    "copied": "copied",
    "continued": "brought up to date",
    "same": "there already",
    "ahead": "there, and went on",
}


FILES = Meta(
    description="The files to read, or folders of them; - is standard input.",
    extra={"positional": True, "metavar": "PATH"},
)
ID = Meta(
    description="The id of the new conversation; by default the one it had.",
    extra={"metavar": "NEW"},
)
SCAN = Meta(description="Find the sessions of agents on this machine, and ask.")
LIST = Meta(description="List the formats that can be read.")
BRANCHES = Meta(description="Make each abandoned branch of a session a fork of its own.")
REMEMBER = Meta(
    description="Of sessions: remember what the user settled, without the inbox. "
    "Of those found in folders, only of this project."
)
ACCEPT = Meta(description="Of a memory: you vouch for the file, so nothing waits in the inbox.")


@command(
    "import",
    details="PATH is a session of an agent (see refold import --list), a list of messages, an "
    "export of refold, an exported memory, or a folder of these; - is standard input. Importing a "
    "session again adds what is new. What is not understood is reported, and the rest is imported "
    "(exit status 2). Nothing in a file is run, and no path in it is followed.",
    on="store",
)
def import_(
    session: Session,
    *,
    files: Annotated[tuple[str, ...], FILES] = (),
    id: Annotated[str, ID] | None = None,
    scan: Annotated[bool, SCAN] = False,
    list: Annotated[bool, LIST] = False,
    branches: Annotated[bool, BRANCHES] = False,
    scope: Scope | None = None,
    project: Project | None = None,
    accept: Annotated[bool, ACCEPT] = False,
    remember: Annotated[bool, REMEMBER] = False,
    yes: Yes = False,
) -> Result:
    if list:
        sources = (
            Readable(source=name, title=one.title, files=one.files, tried=one.tried)
            for name, one in SOURCES.items()
        )
        return Imported(sources=tuple(sources))
    if id is not None:
        open_id_checked(id)
    read = partial(_one, session, branches=branches, remember=remember, named=files)
    if scan:
        return _scanned(session, read, yes=yes)
    if not files:
        raise Invalid("no file is named", hint="name a PATH, or find sessions with --scan")
    paths = _expanded(files, id)
    if len(files) > 1 or paths != [Path(files[0])]:
        in_folders = {path for path in paths if str(path) not in files}
        imported = _all(session, partial(read, id=id), paths, in_folders)
        if not imported.files and not imported.failed:
            raise NotFound(f"there are no sessions in {', '.join(files)}", hint="name a file")
        return imported
    [path] = paths
    with _kept_stdin(session) if str(path) == STDIO else nullcontext(path) as file:
        name = STDIN_NAME if file is not path else str(path)
        if _is_memory(file):
            from refold.edges.commands.memory_transfer import import_memory

            done = import_memory(
                session, file=str(file), scope=scope, accept=accept, project=project
            )
            return replace(done, file=name)
        return _result(session, [replace(read(file, id=id, named=(str(file),)), file=name)], {})


def _is_memory(file: Path) -> bool:
    """Whether the first line says that the file is an exported memory."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return f'"{MEMORY_FORMAT}"'.encode() in opened.readline(SNIFFED_BYTES)


class Readable(Struct, frozen=True, kw_only=True):
    """A supported source: its name, its files, and the versions the importer was tested with."""

    source: str
    title: str
    files: str
    tried: str


class Brought(Struct, frozen=True, kw_only=True):
    """The sessions of one project and agent that were new or had new messages."""

    project: str
    agent: str
    sessions: int
    new: int


class Imported(Result, frozen=True, kw_only=True):
    """The result of an import. `conversation` is the first one written; `failed` has the unreadable
    files with the reason. `found` are the files of a scan, `projects` what it brought; `asked` if a
    person saw the list of files and declined."""

    store: str = ""
    conversation: str = ""
    files: tuple[Report, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    found: tuple[Found, ...] = ()
    projects: tuple[Brought, ...] = ()
    asked: bool = False
    sources: tuple[Readable, ...] = ()

    @property
    def outcome(self) -> str:
        is_read = not self.failed and not any(report.unread_total for report in self.files)
        return "ok" if is_read else "invalid"

    def show(self, screen: Screen) -> None:
        if self.sources:
            heads = ("source", "what", "files", "tried on")
            rows = [(one.source, one.title, one.files, one.tried) for one in self.sources]
            own = (REFOLD, "exports of refold's own", "*.json", "every release")
            screen.table(heads, [*rows, own])
            return
        if self.found and self.files:
            _show_projects(self, screen)
        else:
            for report in self.files:
                _show_report(report, self.store, screen)
        for file, reason in self.failed.items():
            where = "" if reason.startswith(file) else f"{file}: "
            screen.line(("red", where), reason)
        if not self.files and not self.failed:
            _show_found(self, screen)


def _expanded(files: Sequence[str], id: str | None) -> list[Path]:
    paths: list[Path] = []
    for file in files:
        path = Path(file)
        paths += files_in(path) if path.is_dir() else [path]
    if id is not None and len(paths) != 1:
        raise Invalid(f"--id names one conversation, not {len(paths)}", hint="name one file")
    if not paths:
        raise NotFound(f"there are no sessions in {files[0]}", hint="name a file")
    return paths


def _scanned(session: Session, read: Reader, *, yes: bool) -> Imported:
    found = tuple(recognition.scan())
    paths = [Path(file) for one in found for file in one.files]
    can_ask = session.screen is not None and session.screen.can_ask
    if not paths or not (yes or can_ask):
        return Imported(found=found)
    if not yes and not _is_wanted(session, found):
        return Imported(found=found, asked=True)
    done = _all(session, read, paths, set(paths))
    return replace(done, found=found, projects=_projects(session, done.files))


def _projects(session: Session, reports: Sequence[Report]) -> tuple[Brought, ...]:
    """What the reports brought by project and agent, the most sessions first."""
    new: dict[tuple[str, str], list[int]] = {}
    for report in reports:
        for one in report.sessions:
            if one.new or one.restored:
                about = session.target.conversation(one.conversation)
                folder = (meta_of(session.target, about).metadata or {}).get(FOLDER)
                project = folder if isinstance(folder, str) else ""
                new.setdefault((project, report.source), []).append(one.new)
    return tuple(
        Brought(project=project, agent=agent, sessions=len(counts), new=sum(counts))
        for (project, agent), counts in sorted(new.items(), key=lambda one: (-len(one[1]), one[0]))
    )


def _is_wanted(session: Session, found: tuple[Found, ...]) -> bool:
    if session.screen is not None:
        for one in found:
            session.screen.line(_found_line(one))
    count = number(sum(len(one.files) for one in found), "file")
    return session.ask(f"Import {count} into {session.target.url}?")


def _all(session: Session, read: Reader, paths: list[Path], in_folders: set[Path]) -> Imported:
    """Imports all files. A file of a folder that contains no session is skipped."""
    reports: list[Report] = []
    failed: dict[str, str] = {}
    for path in paths:
        try:
            reports.append(read(path))
        except RefoldError as error:
            if path not in in_folders or not isinstance(error, Invalid):
                failed[printable(path)] = str(error)
    return _result(session, reports, failed)


def _one(
    session: Session,
    path: Path,
    *,
    branches: bool,
    remember: bool = False,
    named: Sequence[str] = (),
    id: str | None = None,
) -> Report:
    with session.progress(path.name) as shown:
        size = path.stat().st_size if shown is not None and path.exists() else 0

        def advance(done: int) -> None:
            if shown is not None:
                shown(path.name, done, size)

        report = import_file(
            session.target, session.config, path, branches=branches, id=id, advance=advance
        )
    if remember:
        is_named = str(path) in named
        for one in report.sessions:
            _remember(session, one.conversation, is_named=is_named)
    return report


def _remember(session: Session, id: str, *, is_named: bool) -> None:
    """Remembers what the user settled in a conversation: the person at the keyboard vouches for
    their own words, and for nothing that an agent or a tool said. If the file was only found, not
    named, and the conversation was held in another project, its rules wait in the inbox."""
    from refold.edges.commands.memory import memory_of
    from refold.engine.context import Context

    config = replace(session.config, memory_extract="ask")
    Context(session.target, id, config=config).close()
    meta = meta_of(session.target, session.target.conversation(id)).metadata or {}
    folder, here = str(meta.get(FOLDER) or ""), os.getcwd()
    if folder and not (is_named or is_below(folder, here) or is_below(here, folder)):
        return
    with memory_of(session, creates=True) as memory:
        for entry in memory.inbox():
            if entry.trust == "user" and entry.source and entry.source[0] == id:
                memory.accept(entry.id)


@contextmanager
def _kept_stdin(session: Session) -> Iterator[Path]:
    """Standard input as a file: a session is walked more than once."""
    if session.stdin is None:
        raise Invalid("there is no standard input here", hint="name a file")
    folder = tempfile.mkdtemp(prefix="refold-")
    try:
        kept = Path(folder, STDIN_NAME)
        with kept.open("wb") as file:
            while piece := session.stdin.read(PIECE_BYTES):
                file.write(piece)
                if file.tell() > DOCUMENT_BYTES_MAX:
                    too_long = f"{STDIN_NAME} has more than {DOCUMENT_BYTES_MAX:,} bytes"
                    raise Invalid(too_long, hint="name a file")
        yield kept
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _result(session: Session, reports: list[Report], failed: dict[str, str]) -> Imported:
    ids = [one.conversation for report in reports for one in report.sessions]
    return Imported(
        store=session.target.url,
        conversation=ids[0] if ids else "",
        files=tuple(reports),
        failed=failed,
    )


def _show_report(report: Report, store: str, screen: Screen) -> None:
    file = one_line(report.file)
    for one in report.sessions:
        size = f"{number(one.messages, 'message')}, {one.new:,} new"
        if report.source == REFOLD:
            size = number(one.head, "event")
        if one.erased:
            again = screen.call("import", report.file, "--id", "NEW")
            screen.line(f"{file}: {one.conversation} was erased, and stays so ({again}).")
            continue
        screen.line(f"{file} is now {one.conversation} in {store} ({size}).")
        _show_divergence(one, screen)
        if one.left:
            again = screen.call("import", report.file, "--branches")
            left = number(one.left, "message")
            notes = f"{left} of branches that were left are only notes"
            screen.line(("dim", f"{notes}. To make them forks: {again}"))
    if not report.sessions:
        screen.line(f"{file} has no messages.")
    for unread in report.unread[:LINES_SHOWN]:
        where = f"{file}, {report.unit} {unread.line}: "
        screen.line(("yellow", where), unread.reason[:300])
    if report.unread_total > LINES_SHOWN:
        screen.line(("dim", f"{report.unread_total - LINES_SHOWN:,} more; --json has them."))


def _show_projects(imported: Imported, screen: Screen) -> None:
    """Prints a line for each project and agent with something new, the totals, and what is next."""
    projects = {one.project for one in imported.projects}
    names = Counter(PurePath(project).name for project in projects)
    rows = []
    for one in imported.projects:
        name = PurePath(one.project).name
        project = one_line(name if names[name] == 1 else one.project)
        agent = PROGRAMS.get(one.agent, one.agent)
        rows.append((project, agent, f"{one.sessions:,}", f"{one.new:,}"))
    if rows:
        screen.table(("PROJECT", "AGENT", ">SESSIONS", ">NEW MESSAGES"), rows)
        sessions = number(sum(one.sessions for one in imported.projects), "session")
        messages = number(sum(one.new for one in imported.projects), "new message")
        screen.line(f"{sessions} with {messages} in {imported.store}.")
    else:
        screen.line(f"Nothing is new in {number(len(imported.files), 'file')}.")
    for session in (one for report in imported.files for one in report.sessions):
        if session.restored:
            screen.line(session.conversation)
            _show_divergence(session, screen)
    if unread := sum(report.unread_total for report in imported.files):
        screen.line(("yellow", f"{number(unread, 'line')} not understood; --json has them."))
    screen.line(
        ("dim", f"What they cost, and what refold saves: {screen.call('replay', '', '--all')}")
    )


def _show_divergence(one: Followed, screen: Screen) -> None:
    """Prints how a session and its conversation diverged."""
    if one.restored:
        id, at = one.conversation, str(one.left_at)
        back, beside = screen.call("restore", id, at), screen.call("fork", id, "NEW", "--at", at)
        screen.line(
            ("dim", f"The session was rewound: {number(one.restored, 'message')} taken back. "),
            ("dim", f"To go back: {back}; to keep both: {beside}"),
        )
    if one.missing:
        more = number(one.missing, "message")
        screen.line(("dim", f"The conversation has {more} that the file no longer has."))


def _found_line(one: Found) -> str:
    size = f"{one.size_bytes / 1e6:,.1f} MB"
    return f"{SOURCES[one.source].title}: {number(len(one.files), 'file')}, {size} in {one.folder}"


def _show_found(imported: Imported, screen: Screen) -> None:
    if not imported.found:
        screen.line("No sessions were found in the folders where agents keep them.")
        return
    for one in () if imported.asked else imported.found:
        screen.line(_found_line(one))
    again = screen.call("import", "", "--scan", "--yes")
    screen.line(("dim", f"Nothing was imported; {again} imports them."))


# --- export ---

FILE = Meta(
    description="The file to write; - is standard output.",
    extra={"positional": True, "completes": "file"},
)
SECRETS = Meta(
    description="Keep secrets in Markdown exports; do not warn about them in JSON exports."
)
REDACTED = Meta(description="Remove secrets, also from JSON: a copy to hand on.")
TO = Meta(
    description="Copy into this store instead; without an ID, all conversations.",
    extra={"metavar": "STORE"},
)
MEMORY = Meta(
    description="Write the memory to this file instead.",
    extra={"metavar": "FILE", "completes": "file"},
)


@command(
    "export",
    details="FILE ends in .json (complete, can be imported again) or in .md (to be read, without "
    "secrets). --to takes a store, such as files:DIR or sqlite:PATH: every event keeps its bytes, "
    "every fork its parent, and everything is read again at the end. A copy that was interrupted "
    "continues; a log that differs there is left as it is.",
    on="either",
    reads=True,
    writes_with=("to",),
)
def export(
    session: Session,
    *,
    file: Annotated[str, FILE] = "",
    format: Annotated[Literal["json", "markdown"], FORMAT] | None = None,
    force: Force = False,
    secrets: Annotated[bool, SECRETS] = False,
    redacted: Annotated[bool, REDACTED] = False,
    to: Annotated[str, TO] | None = None,
    memory: Annotated[str, MEMORY] | None = None,
    scope: Scope | None = None,
    project: Project | None = None,
) -> Result:
    if memory is not None:
        from refold.edges.commands.memory_transfer import export_memory

        return export_memory(session, file=memory, scope=scope, force=force, project=project)
    if to is not None:
        return _copied(session, to)
    if secrets and redacted:
        reason = "--secrets keeps secrets, --redacted removes them"
        raise Invalid(reason, hint="refold export --help")
    conversation = session.conversation
    if not file:
        raise Invalid("no file is named", hint="refold export ID FILE")
    form = format or ("json" if file == STDIO else format_of(file))
    emails = takes_emails(session.config.redact)
    # None is the default of the format.
    is_allowed = secrets or not is_redacted(session.config.redact, "exports")
    keeps = False if redacted else True if is_allowed else None
    if file == STDIO:
        chunks = chunks_of(session.store, conversation, form, secrets=keeps, emails=emails)
        return Document(chunks=chunks, is_json=form == "json")
    try:
        with session.followed("exporting", conversation) as store:
            size_bytes = export_file(
                store, conversation, file, format=form, force=force, secrets=keeps, emails=emails
            )
    except Conflict as error:
        hint = "choose another name, or use --force to replace it"
        raise Conflict(error.message, hint=hint) from error
    may_have_secrets = keeps is None and form == "json"
    return Exported(
        conversation=conversation,
        file=file,
        size_bytes=size_bytes,
        secrets=scan(session.store, [conversation]).total if may_have_secrets else 0,
    )


class Exported(Result, frozen=True, kw_only=True):
    """`secrets` is the number of secrets in the file, unless `--secrets` allowed them."""

    conversation: str
    file: str
    size_bytes: int
    secrets: int

    def show(self, screen: Screen) -> None:
        screen.line(f"{self.conversation} is in {self.file} ({number(self.size_bytes, 'byte')}).")
        if self.secrets:
            held = f"It contains {number(self.secrets, 'secret')}"
            advice = f"see {screen.call('scan', '', self.conversation)}, or use --redacted"
            screen.line(("yellow", f"{held}: {advice}."))


class CopyResult(Result, frozen=True, kw_only=True):
    source: str = field(name="from")
    target: str = field(name="to")
    conversations: tuple[Copied, ...]

    @property
    def outcome(self) -> str:
        return "corrupt" if any(one.problems for one in self.conversations) else "ok"

    def show(self, screen: Screen) -> None:
        copied = self.conversations
        if not copied:
            screen.line(f"There are no conversations in {self.source}.")
            return
        rows = [
            (one.id, f"{one.head:,}", f"{one.events:,}", f"{one.artifacts:,}", STATES[one.state])
            for one in copied
        ]
        screen.table(("ID", ">EVENTS", ">WRITTEN", ">ARTIFACTS", "STATE"), rows)
        for one in copied:
            for problem in one.problems:
                screen.line(("red", one.id), f": {short_line(problem, 500)}")
        events = number(sum(one.events for one in copied), "event")
        artifacts = number(sum(one.artifacts for one in copied), "artifact")
        conversations = f"{number(len(copied), 'conversation')} in {self.target}"
        screen.line(f"{conversations}: {events} and {artifacts} written, all read again.")


def _copied(session: Session, url: str) -> CopyResult:
    source, target = session.store, session.open_store(url, creates=True)
    chosen = (session.conversation,) if session.is_named else ()
    with session.progress("comparing") as progress:

        def listen(at: CopyProgress) -> None:
            if progress is not None:
                progress(at.conversation, at.done, at.total)

        copied = copy(source, target, chosen, progress=listen if progress else None)
    return CopyResult(source=source.url, target=target.url, conversations=tuple(copied))
