"""`refold memory forget`: entries are erased for good. It asks first."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Command, Result, Screen
from refold.edges.commands.memory import SCOPE, MemoryArguments, entry_meant, memory_of
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line
from refold.errors import Invalid, NotFound
from refold.memory.entry import Forgotten
from refold.memory.semantic import SemanticMemory

ENTRY = Meta(
    description="The id of the entry, or how it begins; instead of it, --tag, --before or "
    "--said-in name several.",
    extra={"positional": True, "metavar": "ENTRY"},
)
TAG = Meta(description="All entries with this tag.")
BEFORE = Meta(
    description="All that were last said before then: 2026-11-16, or 7d, 2w ago.",
    extra={"metavar": "WHEN"},
)
SAID_IN = Meta(description="All that were said in this conversation.", extra={"metavar": "ID"})
SOURCE = Meta(description="Also the messages in which it was said.")
ALSO_IN = Meta(
    description="Another store to look in; may be given several times.", extra={"metavar": "STORE"}
)
YES = Meta(description="Do not ask.")


class ForgetArguments(MemoryArguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY] | None = None
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[str, TAG] | None = None
    before: Annotated[str, BEFORE] | None = None
    said_in: Annotated[str, SAID_IN] | None = None
    source: Annotated[bool, SOURCE] = False
    also_in: Annotated[tuple[str, ...], ALSO_IN] = ()
    yes: Annotated[bool, YES] = False


class Gone(Result, frozen=True, kw_only=True):
    forgotten: Forgotten


def run(session: Session, arguments: ForgetArguments) -> Gone:
    before = time_of(arguments.before)
    _check_named(arguments)
    with memory_of(session, arguments, arguments.scope) as memory:
        entry = entry_meant(memory, arguments.entry) if arguments.entry is not None else None
        named = _several(arguments) if entry is None else _one(memory, entry)
        session.confirm(f"Forget {named} for good?", arguments.yes)
        done = memory.forget(
            entry,
            tag=arguments.tag,
            before=before,
            said_in=arguments.said_in,
            scope=arguments.scope,
            source=arguments.source,
            stores=arguments.also_in,
        )
    return Gone(forgotten=done)


def _check_named(arguments: ForgetArguments) -> None:
    """Invalid if nothing says what to forget: that is no wish to forget all."""
    named = (arguments.entry, arguments.tag, arguments.before, arguments.said_in)
    if not any(named):
        raise Invalid(
            "say what to forget",
            hint="give the id of an entry (refold memory list), --tag, --before or --said-in",
        )


def _one(memory: SemanticMemory, id: str) -> str:
    """The entry that is asked about, with its whole id; one that was rejected or taken back says
    nothing any more."""
    said = [one.content for one in memory.inbox() if one.id == id]
    try:
        said = said or [one.content for one in memory.history(id)]
    except NotFound:
        if id not in memory.ids(id):
            raise
        return id
    return f"{short_line(said[-1], 60)!r} ({id})"


def _several(arguments: ForgetArguments) -> str:
    """The entries that are asked about."""
    given = (
        f"with the tag {arguments.tag}" if arguments.tag is not None else "",
        f"last said before {arguments.before}" if arguments.before is not None else "",
        f"said in {arguments.said_in}" if arguments.said_in is not None else "",
    )
    whose = "" if arguments.scope else ", of the project, its agents and the user,"
    return "all entries " + ", ".join(filter(None, given)) + whose


def show(gone: Gone, screen: Screen) -> None:
    done = gone.forgotten
    if not done.entries:
        screen.line("Nothing that is remembered fits: nothing was forgotten.")
        return
    shown = f"{number(done.messages, 'message')} that showed it"
    gists = f", {number(done.summaries, 'gist')} of those" if done.summaries else ""
    screen.line(f"Forgotten: {number(done.events, 'event')}, and {shown}{gists}.")
    screen.line("Out of reach: " + ", ".join(done.out_of_reach) + ".")


COMMAND = Command(
    name="memory forget",
    details="Every version is erased, and the messages that showed it. This cannot be undone.",
    on="store",
    arguments=ForgetArguments,
    run=run,
    show=show,
)
