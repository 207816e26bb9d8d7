"""`refold export`: a conversation as a file, in the format of `conversations.exporter`.

On standard output an export is a document of its own: the very bytes for a pipe or a file, made
harmless on a terminal.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from refold.config import Config
from refold.conversations.exporter import chunks_of, export_file, format_of
from refold.conversations.scanner import scan
from refold.edges.commands.command import Arguments, Command, Document, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Conflict, Invalid
from refold.redaction import is_redacted, takes_emails

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


def run(session: Session, arguments: ExportArguments) -> Exported | Document:
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


def show(exported: Exported | Document, screen: Screen) -> None:
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


COMMAND = Command(
    name="export",
    details="FILE ends in .json (complete, can be imported again) or in .md (to be read, without "
    "secrets); - is standard output.",
    reads=True,
    arguments=ExportArguments,
    run=run,
    show=show,
)
