"""`refold diff`: how the page at one point differs from the page at another."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.display import plural
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import MessageRow, message_rows, show_messages
from refold.edges.commands.file_changes import show_diff
from refold.edges.commands.position import POINT_HELP, point_seq
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line
from refold.log.file_versions import FileChange

FIRST = Meta(
    description=POINT_HELP, extra={"positional": True, "metavar": "A", "completes": "point"}
)
LAST = Meta(
    description="The other point; by default, the end.",
    extra={"positional": True, "metavar": "B", "completes": "point"},
)
NAMES_SHOWN = 20


class DiffArguments(Arguments, frozen=True, kw_only=True):
    first: Annotated[str, FIRST]
    last: Annotated[str, LAST] | None = None


class Compared(Result, frozen=True, kw_only=True):
    """How the page at `last` differs from that at `first`: messages that only it has, that it has
    no more, that it has with other edits; and what happened between: batches, artifacts, files
    that tool calls changed. `changes` are the files that were kept before writes, each with how it
    differs; one that was not written to since is compared as it is in this folder."""

    conversation: str
    first: int
    last: int
    added: tuple[MessageRow, ...]
    removed: tuple[MessageRow, ...]
    changed: tuple[MessageRow, ...]
    batches: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()


def run(session: Session, arguments: DiffArguments) -> Compared:
    with session.context() as context:
        view = context.view
        first = point_seq(view, arguments.first)
        last = view.head if arguments.last is None else point_seq(view, arguments.last)
        found = context.log.diff(first, last)
        changes = context.files.diff(first, last)
    store, id = session.store, context.id
    return Compared(
        conversation=id,
        first=first,
        last=last,
        added=message_rows(store, id, found.added),
        removed=message_rows(store, id, found.removed),
        changed=message_rows(store, id, found.changed),
        batches=found.batches,
        artifacts=found.artifacts,
        files=found.files,
        changes=tuple(one for one in changes if one.change != "same"),
    )


def show(compared: Compared, screen: Screen) -> None:
    places = f"{compared.conversation} #{compared.first} -> #{compared.last}"
    added, removed = len(compared.added), len(compared.removed)
    messages = plural("message", added + removed + len(compared.changed))
    counts = f"+{added:,} -{removed:,} ~{len(compared.changed):,} {messages}"
    screen.line(("bold", places), f": {counts} on the page")
    show_messages(compared.added, screen, "+ ")
    show_messages(compared.removed, screen, "- ")
    show_messages(compared.changed, screen, "~ ")
    _show_names("compaction", compared.batches, screen)
    _show_names("artifact", compared.artifacts, screen)
    _show_names("changed file", compared.files, screen)
    _show_changes(compared.changes, screen)


def _show_changes(changes: tuple[FileChange, ...], screen: Screen) -> None:
    """How files differ, line by line, and of how many."""
    if changes:
        lines = [line for one in changes for line in _changed_lines(one)]
        more, fewer = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        counts = f"+{more:,} -{fewer:,} {plural('line', more + fewer)}"
        screen.line(f"{number(len(changes), 'file')} of this folder: {counts}")
    for one in changes:
        if one.change == "impossible":
            screen.line(short_line(f"  {one.path} cannot be compared: {one.reason}", 300))
        else:
            show_diff(one.diff, screen)


def _changed_lines(one: FileChange) -> list[str]:
    """The lines of a difference without the two that name the file."""
    return one.diff.splitlines()[2:]


def _show_names(what: str, names: tuple[str, ...], screen: Screen) -> None:
    if not names:
        return
    shown = ", ".join(short_line(name, 100) for name in names[:NAMES_SHOWN])
    more = f", +{len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    screen.line(f"{number(len(names), what)}: {shown}{more}")


COMMAND = Command(
    name="diff",
    reads=True,
    arguments=DiffArguments,
    run=run,
    show=show,
)
