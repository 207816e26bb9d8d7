"""`refold memory`: what outlives conversations, listed, added, found, changed and forgotten.

Entries are named by id. `--scope` says whose they are: those of this project unless it is given.

`refold memory add`: something is remembered.

`refold memory list`: what is remembered and true now.

`refold memory search`: the entries that answer a question, with the reason.

`refold memory update`: an entry gets other words or tags.

`refold memory forget`: entries are erased for good. It asks first.

`refold memory inbox`: what waits to be remembered, accepted or rejected by a person.

`refold memory history`: what an entry said before, and what else was said of the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.checked import quoted
from refold.display import cut, moment, one_line
from refold.edges.commands.command import (
    TEXT,
    Arguments,
    Command,
    Result,
    Screen,
    number,
    short_line,
)
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.errors import Invalid, NotFound
from refold.memory.entry import ID_PREFIX, Forgotten, MemoryEntry
from refold.memory.semantic import LISTED_MAX, SemanticMemory, settings_of
from refold.settings.sources import project_store, user_store
from refold.stores.protocol import Store

ENTRY = Meta(
    description="The id of the entry, or how it begins.",
    extra={"positional": True, "metavar": "ENTRY"},
)
CONTENT = Meta(description="What it says.", extra=TEXT)
SCOPE = Meta(description="Whose memory: project, user or agent.NAME.")
TAG = Meta(description="A tag; may be given several times.")
PROJECT = Meta(description="The folder of the project; by default this one.")
AS_OF = Meta(
    description="What was true then: 2026-11-16, or 7d, 2w ago.", extra={"metavar": "WHEN"}
)
SHOWN_CHARS = 100
IDS_NAMED = 5


class MemoryArguments(Arguments, frozen=True, kw_only=True):
    """What every command of a memory takes."""

    project: Annotated[str, PROJECT] | None = None


class Entries(Result, frozen=True, kw_only=True):
    """Entries, in the order in which they are shown."""

    entries: tuple[MemoryEntry, ...]


@contextmanager
def memory_of(
    session: Session, arguments: MemoryArguments, scope: str | None = None, *, creates: bool = False
) -> Iterator[SemanticMemory]:
    """The memory of a scope, in the store of the project; that of a user in the user's own. What a
    command `creates` need not be there."""
    # As the program does, or the two would make each other's vectors again.
    settings = settings_of(session.config)
    memory = SemanticMemory(
        _store(session, arguments.project, creates=creates),
        embedder=settings.embedder,
        vectors=settings.vectors,
        threshold=settings.threshold,
        scope=scope or "project",
        user=lambda: session.open_store(user_store(), creates=True),
        tell=lambda name, reason: _note(session, reason),
    )
    try:
        yield memory
    finally:
        memory.close()


def _store(session: Session, project: str | None, *, creates: bool) -> Store:
    if project is None:
        return session.target if creates else session.store
    if session.store_url:
        raise Invalid("--store and --project exclude each other", hint="give one of them")
    if not os.path.isdir(project):
        raise NotFound(f"there is no folder {project}", hint="--project names a project's folder")
    return session.open_store(project_store(Path(project)), creates=True)


def _note(session: Session, reason: str) -> None:
    if session.screen is not None:
        session.screen.note(reason)


def entry_meant(memory: SemanticMemory, typed: str) -> str:
    """The entry of that id, or the only one that begins so; what is neither, as it was typed.
    Invalid for what every id begins with, however many there are."""
    if ID_PREFIX.startswith(typed):
        said = f"every id begins with {quoted(ID_PREFIX)}, so {quoted(typed)} names no entry"
        raise Invalid(said, hint="refold memory list has the ids of all entries")
    known = memory.ids(typed)
    if typed in known or not known:
        return typed
    if len(known) > 1:
        more = f" and {len(known) - IDS_NAMED:,} more" if known[IDS_NAMED:] else ""
        hint = f"one of {', '.join(known[:IDS_NAMED])}{more}"
        raise Invalid(f"several entries begin with {quoted(typed, 40)}", hint=hint)
    return known[0]


def show_entries(entries: Iterable[MemoryEntry], screen: Screen, nothing: str) -> None:
    """Prints entries as a table."""
    rows = [_cells(entry) for entry in entries]
    if rows:
        screen.table(("ID", "SCOPE", "FROM", "UNTIL", ">COUNT", "CONTENT"), rows)
    else:
        screen.line(nothing)


def _cells(entry: MemoryEntry) -> tuple[str, ...]:
    until = "" if entry.valid_until_ms is None else _day(entry.valid_until_ms)
    doubt = "[?] " if entry.rivals else ""
    said = (
        waiting(entry)
        + doubt
        + replacing(entry.replaces)
        + cut(one_line(entry.content), SHOWN_CHARS)
    )
    return entry.id, entry.scope, _day(entry.valid_from_ms), until, f"{entry.count}", said


def waiting(entry: MemoryEntry) -> str:
    """Before the words of an entry, whether a person has yet to accept it."""
    return "[waits] " if entry.waits and entry.is_current else ""


def replacing(ids: Sequence[str]) -> str:
    """Before the words of an entry, what it replaces; nothing if that is nothing."""
    if not ids:
        return ""
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"(replaces {ids[0]}{more}) "


def _day(at_ms: int) -> str:
    return moment(at_ms).partition(" ")[0]


REPLACES = Meta(
    description="An entry that this replaces; may be given several times.",
    extra={"metavar": "ENTRY"},
)


class AddArguments(MemoryArguments, frozen=True, kw_only=True):
    content: Annotated[str, CONTENT]
    scope: Annotated[str, SCOPE] = "project"
    tag: Annotated[tuple[str, ...], TAG] = ()
    replaces: Annotated[tuple[str, ...], REPLACES] = ()


class Added(Result, frozen=True, kw_only=True):
    """What is remembered now, the entries that it ended, those that may be about the same, and
    those that came in the place of what it replaces and are true beside it."""

    entry: MemoryEntry
    ended: tuple[MemoryEntry, ...] = ()
    near: tuple[MemoryEntry, ...] = ()
    beside: tuple[MemoryEntry, ...] = ()


def run_memory_add(session: Session, arguments: AddArguments) -> Added:
    with memory_of(session, arguments, arguments.scope, creates=True) as memory:
        replaced = [entry_meant(memory, typed) for typed in arguments.replaces]
        # Unless another scope is named, it is kept in the scope of what it replaces.
        scope = None if replaced and arguments.scope == "project" else arguments.scope
        entry = memory.store(arguments.content, tags=arguments.tag, scope=scope, replaces=replaced)
        # What was said before ended others then, unless it replaces them only now.
        past = memory.history(entry.id) if entry.count == 1 or replaced else ()
        near = () if replaced else tuple(memory.near(entry.id))
    since_ms = entry.valid_from_ms
    ends = [
        one
        for one in past
        if one.valid_until_ms == since_ms
        or (one.id in replaced and (one.valid_until_ms or 0) > since_ms)
    ]
    beside = [one for one in past if one.id in entry.rivals and one.is_current]
    return Added(entry=entry, ended=tuple(ends), near=near, beside=tuple(beside))


def show_memory_add(added: Added, screen: Screen) -> None:
    entry = added.entry
    known = f", said {entry.count} times" if entry.count > 1 else ""
    screen.line(f"Remembered as {entry.id}{known}.")
    others = {
        "It ends": added.ended,
        "It may be about the same as": added.near,
        "It is true as well as": added.beside,
    }
    for how, entries in others.items():
        for one in entries:
            screen.line(f"{how} {one.id}: {cut(one_line(one.content), SHOWN_CHARS)}")
    if left := (*added.near, *added.beside):
        call = screen.call("memory add", "", "--replaces", left[0].id, entry.content)
        screen.line(f"If it replaces one of them, say so: {call}")
    screen.line(f"Forget it with: {screen.call('memory forget', '', entry.id)}")


MEMORY_ADD = Command(
    name="memory add", on="store", arguments=AddArguments, run=run_memory_add, show=show_memory_add
)


ENDED = Meta(description="Also those that are no longer true.")
LIMIT = Meta(description="How many at most.", ge=1, le=LISTED_MAX)


class ListArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    ended: Annotated[bool, ENDED] = False
    as_of: Annotated[str, AS_OF] | None = None
    limit: Annotated[int, LIMIT] = 100


class Listed(Entries, frozen=True, kw_only=True):
    """The first of the entries that were asked for, and how many those are in all."""

    total: int


def run_memory_list(session: Session, arguments: ListArguments) -> Listed:
    with memory_of(session, arguments) as memory:
        found = memory.list(
            scope=arguments.scope,
            tags=arguments.tag,
            ended=arguments.ended,
            as_of=time_of(arguments.as_of),
            limit=LISTED_MAX,
        )
    return Listed(entries=tuple(found[: arguments.limit]), total=len(found))


def show_memory_list(listed: Listed, screen: Screen) -> None:
    show_entries(listed.entries, screen, "Nothing is remembered here.")
    shown, total = len(listed.entries), listed.total
    if shown < total:
        all_shown = "memory export has all" if total == LISTED_MAX else f"--limit {total} shows all"
        screen.line(f"{total - shown:,} more are not shown; {all_shown}.")


MEMORY_LIST = Command(
    name="memory list",
    details="Without a scope, lists those of this project and of the user. [?] marks entries that "
    "others deny, [waits] those that wait in the inbox.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run_memory_list,
    show=show_memory_list,
)


QUERY = Meta(description="What to look for.", extra=TEXT)
SEARCH_LIMIT = Meta(description="How many at most.", ge=1, le=1_000)
THRESHOLD = Meta(description="The lowest score, from 0 to 1.", ge=0.0, le=1.0)


class SearchArguments(MemoryArguments, frozen=True, kw_only=True):
    query: Annotated[str, QUERY]
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()
    limit: Annotated[int, SEARCH_LIMIT] = 10
    threshold: Annotated[float, THRESHOLD] | None = None
    as_of: Annotated[str, AS_OF] | None = None


def run_memory_search(session: Session, arguments: SearchArguments) -> Entries:
    with memory_of(session, arguments) as memory:
        found = memory.retrieve(
            arguments.query,
            arguments.limit,
            scope=arguments.scope,
            tags=arguments.tag,
            threshold=arguments.threshold,
            as_of=time_of(arguments.as_of),
        )
    return Entries(entries=tuple(found))


def show_memory_search(found: Entries, screen: Screen) -> None:
    if found.entries:
        screen.table(("ID", ">SCORE", "CONTENT", "WHY"), map(_search_cells, found.entries))
    else:
        screen.line("Nothing that is remembered answers this.")


def _search_cells(entry: MemoryEntry) -> tuple[str, ...]:
    said = waiting(entry) + cut(one_line(entry.content), SHOWN_CHARS)
    return entry.id, f"{entry.score:.2f}", said, entry.why


MEMORY_SEARCH = Command(
    name="memory search",
    on="store",
    reads=True,
    arguments=SearchArguments,
    run=run_memory_search,
    show=show_memory_search,
)


class UpdateArguments(MemoryArguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY]
    content: Annotated[str, CONTENT] | None = None
    tag: Annotated[tuple[str, ...], TAG] = ()


class Updated(Result, frozen=True, kw_only=True):
    entry: MemoryEntry


def run_memory_update(session: Session, arguments: UpdateArguments) -> Updated:
    with memory_of(session, arguments) as memory:
        tags = arguments.tag or None
        entry = entry_meant(memory, arguments.entry)
        return Updated(entry=memory.update(entry, arguments.content, tags=tags))


def show_memory_update(updated: Updated, screen: Screen) -> None:
    entry = updated.entry
    screen.line(f"{entry.id} is version {entry.version} now.")
    screen.line(f"What it said before: {screen.call('memory history', '', entry.id)}")


MEMORY_UPDATE = Command(
    name="memory update",
    on="store",
    arguments=UpdateArguments,
    run=run_memory_update,
    show=show_memory_update,
)


FORGET_ENTRY = Meta(
    description="The id of the entry, or how it begins; instead of it, --tag, --before or "
    "--said-in name several.",
    extra={"positional": True, "metavar": "ENTRY"},
)
FORGET_TAG = Meta(description="All entries with this tag.")
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
    entry: Annotated[str, FORGET_ENTRY] | None = None
    scope: Annotated[str, SCOPE] | None = None
    tag: Annotated[str, FORGET_TAG] | None = None
    before: Annotated[str, BEFORE] | None = None
    said_in: Annotated[str, SAID_IN] | None = None
    source: Annotated[bool, SOURCE] = False
    also_in: Annotated[tuple[str, ...], ALSO_IN] = ()
    yes: Annotated[bool, YES] = False


class Gone(Result, frozen=True, kw_only=True):
    forgotten: Forgotten


def run_memory_forget(session: Session, arguments: ForgetArguments) -> Gone:
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


def show_memory_forget(gone: Gone, screen: Screen) -> None:
    done = gone.forgotten
    if not done.entries:
        screen.line("Nothing that is remembered fits: nothing was forgotten.")
        return
    shown = f"{number(done.messages, 'message')} that showed it"
    gists = f", {number(done.summaries, 'gist')} of those" if done.summaries else ""
    screen.line(f"Forgotten: {number(done.events, 'event')}, and {shown}{gists}.")
    screen.line("Out of reach: " + ", ".join(done.out_of_reach) + ".")


MEMORY_FORGET = Command(
    name="memory forget",
    details="Every version is erased, and the messages that showed it. This cannot be undone.",
    on="store",
    arguments=ForgetArguments,
    run=run_memory_forget,
    show=show_memory_forget,
)


ACCEPT = Meta(description="Remember this entry, or all; may be given several times.")
REJECT = Meta(description="Drop this entry, or all, for good; may be given several times.")
ALL = "all"
AS = Meta(description="The words in which the accepted entry is remembered.")


class InboxArguments(MemoryArguments, frozen=True, kw_only=True):
    scope: Annotated[str, SCOPE] | None = None
    accept: Annotated[tuple[str, ...], ACCEPT] = ()
    reject: Annotated[tuple[str, ...], REJECT] = ()
    content: Annotated[str, AS] | None = None


class Inbox(Entries, frozen=True, kw_only=True):
    """What waits, and what was accepted just now."""

    accepted: tuple[MemoryEntry, ...] = ()


def run_memory_inbox(session: Session, arguments: InboxArguments) -> Inbox:
    if arguments.content is not None and len(arguments.accept) != 1:
        raise Invalid("--content needs one entry to accept", hint="name it by --accept")
    with memory_of(session, arguments, arguments.scope) as memory:
        accepted = [
            memory.accept(entry, arguments.content) for entry in _named(memory, arguments.accept)
        ]
        for entry in _named(memory, arguments.reject):
            memory.reject(entry)
        return Inbox(entries=tuple(memory.inbox()), accepted=tuple(accepted))


def _named(memory: SemanticMemory, ids: tuple[str, ...]) -> Sequence[str]:
    """The entries that are meant; `all` means what waits now."""
    if ALL in ids:
        return [entry.id for entry in memory.inbox()]
    return [entry_meant(memory, id) for id in ids]


def show_memory_inbox(inbox: Inbox, screen: Screen) -> None:
    for one in inbox.accepted:
        if one.rivals:
            screen.line(f"{one.id} is true, and so is {', '.join(one.rivals)}: others said that.")
    show_entries(inbox.entries, screen, "Nothing waits.")


MEMORY_INBOX = Command(
    name="memory inbox",
    details="Shows what still waits: imports, what tools said, and with memory_extract = ask the "
    "facts of conversations.",
    on="store",
    arguments=InboxArguments,
    run=run_memory_inbox,
    show=show_memory_inbox,
)


class HistoryArguments(MemoryArguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY]


def run_memory_history(session: Session, arguments: HistoryArguments) -> Entries:
    with memory_of(session, arguments) as memory:
        return Entries(entries=tuple(memory.history(entry_meant(memory, arguments.entry))))


def show_memory_history(history: Entries, screen: Screen) -> None:
    show_entries(history.entries, screen, "Nothing was remembered about it.")


MEMORY_HISTORY = Command(
    name="memory history",
    on="store",
    reads=True,
    arguments=HistoryArguments,
    run=run_memory_history,
    show=show_memory_history,
)
