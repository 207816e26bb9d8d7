"""`refold export` and `refold import`: a conversation as a file, and back. The format is that of
`refold.transfer`.

On standard output an export is data: the very bytes for a pipe or a file, made harmless on a
terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from refold.edges.cli.options import (
    command,
    conversation_argument,
    named,
    opened_store,
    store_option,
)
from refold.edges.cli.screen import Screen, number

if TYPE_CHECKING:
    from refold.stores.protocol import Store

STDIO = "-"


@command(
    "export",
    conversation_argument,
    click.argument("file"),
    click.option(
        "--format",
        "form",
        type=click.Choice(["json", "markdown"]),
        help="By default, what FILE ends in.",
    ),
    click.option("--force", is_flag=True, help="Replace FILE if it exists."),
    click.option(
        "--secrets",
        is_flag=True,
        help="Keep secrets in what is to be read; warn of none in what is whole.",
    ),
    click.option(
        "--redacted",
        is_flag=True,
        help="Take secrets out, of JSON too: then it is a copy to hand on.",
    ),
    store_option,
)
def export_(
    screen: Screen,
    conversation: str,
    file: str,
    form: str | None,
    force: bool,
    secrets: bool,
    redacted: bool,
    store: str | None,
) -> None:
    """Writes a conversation to a file.

    FILE ends in .json, whole, to be imported again, or in .md, to be read, without secrets; - is
    standard output.
    """
    from refold.conversations.exporter import chunks_of, export_file, format_of
    from refold.redaction import is_redacted, takes_emails
    from refold.settings.sources import loaded

    if secrets and redacted:
        raise click.UsageError("--secrets keeps secrets, --redacted takes them out")

    if file == STDIO and screen.json_output and form == "markdown":
        raise click.UsageError("--json prints one JSON object, --format markdown is none")
    form = form or ("json" if file == STDIO else format_of(file))
    redact = loaded()[0].redact
    known = secrets or not is_redacted(redact, "exports")
    shown = False if redacted else True if known else None
    with opened_store(store) as there:
        conversation = named(there, conversation)
        if file == STDIO:
            _print_export(
                screen,
                chunks_of(there, conversation, form, secrets=shown, emails=takes_emails(redact)),
            )
            return
        size = export_file(
            there,
            conversation,
            file,
            format=form,
            force=force,
            secrets=shown,
            emails=takes_emails(redact),
        )
        held = _secrets_in(there, conversation) if shown is None and form == "json" else 0
    if screen.json_output:
        screen.emit(
            {"conversation": conversation, "file": file, "size_bytes": size, "secrets": held}
        )
    else:
        screen.line(f"{conversation} is in {file} ({size:,} bytes).")
        if held:
            told = f"It is whole and holds {number(held, 'secret')}: see refold scan {conversation}, or use --redacted."
            screen.line(("yellow", told))


def _secrets_in(store: Store, conversation: str) -> int:
    from refold.conversations.scanner import scan

    return scan(store, [conversation]).total


def _print_export(screen: Screen, chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        if screen.is_terminal:
            screen.text(chunk.decode("utf-8", "replace"))
        else:
            sys.stdout.buffer.write(chunk)


@command(
    "import",
    click.argument("file"),
    click.option(
        "--id", "id_", metavar="NEW", help="The id that it gets; by default the one it had."
    ),
    store_option,
)
def import_(screen: Screen, file: str, id_: str | None, store: str | None) -> None:
    """Reads a conversation from an exported file.

    FILE is what `refold export` wrote as JSON; - is standard input. It is checked whole before
    anything is written.
    """
    from refold.conversations.importer import import_document, read_document, read_stream

    document = read_stream(sys.stdin.buffer) if file == STDIO else read_document(file)
    with opened_store(store) as there:
        name = "standard input" if file == STDIO else file
        about = import_document(there, document, id=id_, name=name)
        if screen.json_output:
            screen.emit(
                {
                    "conversation": about.id,
                    "title": about.title,
                    "head": about.head,
                    "store": there.url,
                }
            )
        else:
            screen.line(f"{name} is now {about.id} in {there.url} ({about.head:,} events).")
