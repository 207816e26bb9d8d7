"""`refold import`: sessions of other agents, lists of messages, and exports of refold's own.

Whose file it is shows in its first lines (`importers.recognition`). A session that is imported
again is followed: only what is new is appended. `--scan` looks where agents keep their sessions and
asks; `--list` says what can be read.

`refold export`: a conversation as a file, in the format of `conversations.exporter`.

On standard output an export is a document of its own: the very bytes for a pipe or a file, made
harmless on a terminal.

`refold copy`: conversations from one store to another.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from refold.config import Config
from refold.conversations.copier import Copied, CopyListener, copy
from refold.conversations.exporter import chunks_of, export_file, format_of
from refold.conversations.importer import DOCUMENT_BYTES_MAX
from refold.conversations.scanner import scan
from refold.display import number
from refold.edges.commands.command import (
    Arguments,
    Command,
    Document,
    Progress,
    Result,
    Screen,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.importers import REFOLD, SOURCES, Source
from refold.edges.importers.entry import Report, printable
from refold.edges.importers.entry import Session as Followed
from refold.edges.importers.importer import import_file
from refold.edges.importers.recognition import Found, files_in
from refold.edges.importers.recognition import scan as places_scan
from refold.errors import Conflict, Invalid, NotFound, RefoldError
from refold.log.trace import open_id_checked
from refold.redaction import is_redacted, takes_emails

STDIN, STDIN_NAME = "-", "standard input"
PIECE_BYTES = 1 << 20
LINES_SHOWN = 10
FILES = Meta(
    description="The files to read, or folders of them; - is standard input.",
    extra={"positional": True, "metavar": "PATH"},
)
ID = Meta(
    description="The id of the new conversation; by default the one it had.",
    extra={"metavar": "NEW"},
)
SCAN = Meta(description="Find the sessions of agents on this machine, and ask.")
LIST = Meta(description="List what can be read.")
BRANCHES = Meta(description="Make each branch that the session left a fork of its own.")
YES = Meta(description="Import what --scan finds without asking.")


class ImportArguments(Arguments, frozen=True, kw_only=True):
    files: Annotated[tuple[str, ...], FILES] = ()
    id: Annotated[str, ID] | None = None
    scan: Annotated[bool, SCAN] = False
    list: Annotated[bool, LIST] = False
    yes: Annotated[bool, YES] = False
    branches: Annotated[bool, BRANCHES] = False


class Readable(Struct, frozen=True, kw_only=True):
    """A source that can be read: its name, its files, and what the importer was tried on."""

    source: str
    title: str
    files: str
    tried: str


class Imported(Result, frozen=True, kw_only=True):
    """What became of the files. `conversation` is the first one that was written; `failed` has the
    files that are no sessions, with the reason. `asked`: somebody was shown what was found, and did
    not want it."""

    store: str = ""
    conversation: str = ""
    files: tuple[Report, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    found: tuple[Found, ...] = ()
    asked: bool = False
    sources: tuple[Readable, ...] = ()

    @property
    def outcome(self) -> str:
        is_read = not self.failed and not any(report.unread_total for report in self.files)
        return "ok" if is_read else "invalid"


def run_import(session: Session, arguments: ImportArguments) -> Imported:
    if arguments.list:
        return Imported(sources=tuple(_readable(*one) for one in SOURCES.items()))
    if arguments.id is not None:
        open_id_checked(arguments.id)
    if arguments.scan:
        return _scanned(session, arguments)
    if not arguments.files:
        raise Invalid("no file is named", hint="name a PATH, or find sessions with --scan")
    paths = _expanded(arguments)
    if len(arguments.files) == 1 and paths == [Path(arguments.files[0])]:
        return _result(session, [_one(session, paths[0], arguments)], {})
    in_folders = {path for path in paths if str(path) not in arguments.files}
    return _all(session, paths, in_folders, arguments)


def _readable(name: str, source: Source) -> Readable:
    return Readable(source=name, title=source.title, files=source.files, tried=source.tried)


def _expanded(arguments: ImportArguments) -> list[Path]:
    paths: list[Path] = []
    for file in arguments.files:
        path = Path(file)
        paths += files_in(path) if path.is_dir() else [path]
    if arguments.id is not None and len(paths) != 1:
        raise Invalid(f"--id names one conversation, not {len(paths)}", hint="name one file")
    if not paths:
        raise NotFound(f"there are no sessions in {arguments.files[0]}", hint="name a file")
    return paths


def _scanned(session: Session, arguments: ImportArguments) -> Imported:
    found = tuple(places_scan())
    paths = [Path(file) for one in found for file in one.files]
    can_ask = session.screen is not None and session.screen.can_ask
    if not paths or not (arguments.yes or can_ask):
        return Imported(found=found)
    if not arguments.yes and not _is_wanted(session, found):
        return Imported(found=found, asked=True)
    return replace(_all(session, paths, set(paths), arguments), found=found)


def _is_wanted(session: Session, found: tuple[Found, ...]) -> bool:
    if session.screen is not None:
        for one in found:
            session.screen.line(_found_line(one))
    count = number(sum(len(one.files) for one in found), "file")
    return session.ask(f"Import {count} into {session.target.url}?")


def _all(
    session: Session, paths: list[Path], in_folders: set[Path], arguments: ImportArguments
) -> Imported:
    """Imports file after file. What was not named itself and is no session is passed over."""
    reports: list[Report] = []
    failed: dict[str, str] = {}
    for path in paths:
        try:
            reports.append(_one(session, path, arguments))
        except RefoldError as error:
            if path not in in_folders or not isinstance(error, Invalid):
                failed[printable(path)] = str(error)
    return _result(session, reports, failed)


def _one(session: Session, path: Path, arguments: ImportArguments) -> Report:
    import_ = partial(import_file, session.target, session.config, branches=arguments.branches)
    id = arguments.id if len(arguments.files) == 1 else None
    if str(path) == STDIN:
        with _kept_stdin(session) as kept:
            return replace(import_(kept, id=id), file=STDIN_NAME)
    with session.progress(path.name) as shown:
        size = path.stat().st_size if shown is not None and path.exists() else 0

        def advance(done: int) -> None:
            if shown is not None:
                shown(path.name, done, size)

        return import_(path, id=id, advance=advance)


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


# --- for a person ---


def show_import(imported: Imported, screen: Screen) -> None:
    if imported.sources:
        heads = ("source", "what", "files", "tried on")
        rows = [(one.source, one.title, one.files, one.tried) for one in imported.sources]
        own = (REFOLD, "exports of refold's own", "*.json", "every release")
        screen.table(heads, [*rows, own])
        return
    for report in imported.files:
        _show_report(report, imported.store, screen)
    for file, reason in imported.failed.items():
        where = "" if reason.startswith(file) else f"{file}: "
        screen.line(("red", where), reason)
    if not imported.files and not imported.failed:
        _show_found(imported, screen)


def _show_report(report: Report, store: str, screen: Screen) -> None:
    for one in report.sessions:
        counted = number(one.head, "event") if report.source == REFOLD else _counted(one.messages)
        new = "" if report.source == REFOLD else f", {one.new:,} new"
        place = f"{one.conversation} in {store}"
        screen.line(f"{report.file} is now {place} ({counted}{new}).")
        _show_way(one, screen)
        if one.left:
            again = screen.call("import", report.file, "--branches")
            left = number(one.left, "message")
            said = f"{left} of branches that were left are only notes. To make them forks: {again}"
            screen.line(("dim", said))
    if not report.sessions:
        screen.line(f"{report.file} has no messages.")
    for unread in report.unread[:LINES_SHOWN]:
        where = f"{report.file}, {report.unit} {unread.line}: "
        screen.line(("yellow", where), unread.reason[:300])
    if report.unread_total > LINES_SHOWN:
        screen.line(("dim", f"{report.unread_total - LINES_SHOWN:,} more; --json has them."))


def _show_way(one: Followed, screen: Screen) -> None:
    """How a session went another way than its conversation."""
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


def _counted(messages: int) -> str:
    return number(messages, "message")


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


IMPORT = Command(
    name="import",
    details="PATH is a session of an agent (see refold import --list), a list of messages, an "
    "export of refold, or a folder of these; - is standard input. Importing a session again adds "
    "what is new. What is not understood is reported, and the rest is imported (exit status 2). "
    "Nothing in a file is run, and no path in it is followed.",
    on="store",
    arguments=ImportArguments,
    run=run_import,
    show=show_import,
)


STDOUT = "-"
FILE = Meta(
    description="The file to write; - is standard output.",
    extra={"positional": True, "completes": "file"},
)
FORMAT = Meta(description="By default, what FILE ends in.")
FORCE = Meta(description="Replace FILE if it exists.")
SECRETS = Meta(
    description="Keep secrets in Markdown exports; do not warn about them in JSON exports."
)
REDACTED = Meta(description="Remove secrets, also from JSON: a copy to hand on.")


class ExportArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    format: Annotated[Literal["json", "markdown"], FORMAT] | None = None
    force: Annotated[bool, FORCE] = False
    secrets: Annotated[bool, SECRETS] = False
    redacted: Annotated[bool, REDACTED] = False


class Exported(Result, frozen=True, kw_only=True):
    """`secrets` is how many the file holds that nobody asked for."""

    conversation: str
    file: str
    size_bytes: int
    secrets: int


def run_export(session: Session, arguments: ExportArguments) -> Exported | Document:
    if arguments.secrets and arguments.redacted:
        reason = "--secrets keeps secrets, --redacted removes them"
        raise Invalid(reason, hint="refold export --help")
    if arguments.file == STDOUT:
        return _document(session, arguments)
    return _export_file(session, arguments)


def _document(session: Session, arguments: ExportArguments) -> Document:
    """The export itself, to be written to standard output."""
    form = _format(arguments)
    chunks = chunks_of(
        session.store,
        session.conversation,
        form,
        secrets=_secrets(arguments, session.config),
        emails=takes_emails(session.config.redact),
    )
    return Document(chunks=chunks, is_json=form == "json")


def _export_file(session: Session, arguments: ExportArguments) -> Exported:
    form, secrets = _format(arguments), _secrets(arguments, session.config)
    conversation = session.conversation
    try:
        with session.followed("exporting", conversation) as store:
            size_bytes = export_file(
                store,
                conversation,
                arguments.file,
                format=form,
                force=arguments.force,
                secrets=secrets,
                emails=takes_emails(session.config.redact),
            )
    except Conflict as error:
        hint = "choose another name, or use --force to replace it"
        raise Conflict(error.message, hint=hint) from error
    is_whole = secrets is None and form == "json"
    return Exported(
        conversation=conversation,
        file=arguments.file,
        size_bytes=size_bytes,
        secrets=scan(session.store, [conversation]).total if is_whole else 0,
    )


def _format(arguments: ExportArguments) -> str:
    if arguments.format is not None:
        return arguments.format
    return "json" if arguments.file == STDOUT else format_of(arguments.file)


def _secrets(arguments: ExportArguments, config: Config) -> bool | None:
    """Whether secrets are kept (True) or removed (False); None for what the format usually does."""
    if arguments.redacted:
        return False
    is_known = arguments.secrets or not is_redacted(config.redact, "exports")
    return True if is_known else None


def show_export(exported: Exported | Document, screen: Screen) -> None:
    if isinstance(exported, Document):
        screen.document(exported.chunks)
        return
    screen.line(
        f"{exported.conversation} is in {exported.file} ({number(exported.size_bytes, 'byte')})."
    )
    if exported.secrets:
        held = f"It contains {number(exported.secrets, 'secret')}"
        advice = f"see {screen.call('scan', '', exported.conversation)}, or use --redacted"
        screen.line(("yellow", f"{held}: {advice}."))


EXPORT = Command(
    name="export",
    details="FILE ends in .json (complete, can be imported again) or in .md (to be read, without "
    "secrets); - is standard output.",
    reads=True,
    arguments=ExportArguments,
    run=run_export,
    show=show_export,
)


STATES = {
    "copied": "copied",
    "continued": "brought up to date",
    "same": "there already",
    "ahead": "there, and went on",
}
SOURCE = Meta(description="The store to copy from.", extra={"positional": True, "metavar": "FROM"})
TARGET = Meta(description="The store to copy to.", extra={"positional": True, "metavar": "TO"})
NAMES = Meta(
    description="The conversations; by default all.", extra={"positional": True, "metavar": "ID"}
)


class CopyArguments(Arguments, frozen=True, kw_only=True):
    source: Annotated[str, SOURCE] = field(name="from")
    target: Annotated[str, TARGET] = field(name="to")
    conversations: Annotated[tuple[str, ...], NAMES] = ()


class CopyResult(Result, frozen=True, kw_only=True):
    source: str = field(name="from")
    target: str = field(name="to")
    conversations: tuple[Copied, ...]

    @property
    def outcome(self) -> str:
        return "corrupt" if any(one.problems for one in self.conversations) else "ok"


def run_copy(session: Session, arguments: CopyArguments) -> CopyResult:
    source = session.open_store(arguments.source)
    target = session.open_store(arguments.target, creates=True)
    with session.progress("comparing") as progress:
        listener = _listener(progress) if progress else None
        copied = copy(source, target, arguments.conversations, progress=listener)
    return CopyResult(source=source.url, target=target.url, conversations=tuple(copied))


def _listener(progress: Progress) -> CopyListener:
    return lambda at: progress(at.conversation, at.done, at.total)


def show_copy(result: CopyResult, screen: Screen) -> None:
    copied = result.conversations
    if not copied:
        screen.line(f"There are no conversations in {result.source}.")
        return
    screen.table(("ID", ">EVENTS", ">WRITTEN", ">ARTIFACTS", "STATE"), map(_cells, copied))
    for one in copied:
        _show_problems(one, screen)
    events = number(sum(one.events for one in copied), "event")
    artifacts = number(sum(one.artifacts for one in copied), "artifact")
    place = f"{number(len(copied), 'conversation')} in {result.target}"
    screen.line(f"{place}: {events} and {artifacts} written, all read again.")


def _show_problems(one: Copied, screen: Screen) -> None:
    """Which contents of a conversation are lost in the store that it was copied from."""
    for problem in one.problems:
        screen.line(("red", one.id), f": {short_line(problem, 500)}")


def _cells(one: Copied) -> tuple[str, ...]:
    return one.id, f"{one.head:,}", f"{one.events:,}", f"{one.artifacts:,}", STATES[one.state]


COPY = Command(
    name="copy",
    details="FROM and TO are stores, such as files:DIR or sqlite:PATH. Every event keeps its "
    "bytes, every fork its parent, and everything is read again at the end. A copy that was "
    "interrupted continues; a log that differs there is left as it is.",
    on="nothing",
    arguments=CopyArguments,
    run=run_copy,
    show=show_copy,
)
