"""`refold memory`: facts that outlive conversations, listed, added, found, changed and forgotten.

Entries are named by id, or by the beginning of one. `--scope` chooses whose memory is meant, by
default the project's. Neighbours: `memory_transfer` reads and writes memories as files,
`refold.memory` does the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from refold.checked import beginning, quoted
from refold.display import ago, cut, local_moment, number, one_line
from refold.edges.commands.command import (
    TEXT,
    DryRun,
    Project,
    Removable,
    Result,
    Scope,
    Screen,
    Tags,
    Yes,
    command,
    more_line,
    short_line,
    show_removable,
)
from refold.edges.commands.search import time_of
from refold.edges.commands.session import Session
from refold.errors import Conflict, Invalid, NotFound
from refold.log.log import now_ms
from refold.memory.entry import ID_PREFIX, Forgotten, MemoryEntry
from refold.memory.journal import MemoryChange
from refold.memory.semantic import SemanticMemory, settings_of
from refold.search.snippets import LIMIT_MAX
from refold.settings.sources import project_store, user_store

CONTENT_CHARS = 100
DAY = len("2026-11-16")
ALL = "all"
ENTRY_POSITION = {"positional": True, "metavar": "ENTRY"}
Entry = Annotated[
    str, Meta(description="The id of the entry, or how it begins.", extra=ENTRY_POSITION)
]
Content = Annotated[str, Meta(description="What it says.", extra=TEXT)]
WHEN = {"metavar": "WHEN"}
AsOf = Annotated[
    str, Meta(description="What was true then: 2026-11-16, or 7d, 2w ago.", extra=WHEN)
]
Limit = Annotated[int, Meta(description="At most this many.", ge=1, le=LIMIT_MAX - 1)]


@contextmanager
def memory_of(
    session: Session, project: str | None = None, scope: str | None = None, *, creates: bool = False
) -> Iterator[SemanticMemory]:
    """The memory of a scope, in the project's store; a user's memory is in the user's own store.
    With `creates`, the store need not exist."""
    if project is None:
        store = session.target if creates else session.store
    elif session.store_url:
        raise Invalid("--store and --project exclude each other", hint="pass only one of them")
    elif not os.path.isdir(project):
        raise NotFound(f"there is no folder {project}", hint="--project names a project's folder")
    else:
        store = session.open_store(project_store(Path(project)), creates=True)
    # The same settings as an agent's: otherwise the two would replace each other's vectors.
    memory = SemanticMemory(
        store,
        scope=scope or "project",
        user=lambda: session.open_store(user_store(), creates=True),
        tell=lambda name, reason: session.screen.note(reason) if session.screen else None,
        **settings_of(session.config),
    )
    try:
        yield memory
    finally:
        memory.close()


def entry_meant(memory: SemanticMemory, typed: str) -> str:
    """The id itself, or the only id that begins so, with or without `mem-`; an unknown id is
    returned as typed. Raises Invalid for a beginning that every id has."""
    if ID_PREFIX.startswith(typed):
        reason = f"every id begins with {quoted(ID_PREFIX)}, so {quoted(typed)} names no entry"
        raise Invalid(reason, hint="refold memory list has the ids of all entries")

    def described(id: str) -> str:
        one = _removable(memory, id)
        return f"{id} ({_excerpt(one.title)}, {ago(max(0, now_ms() - one.at_ms))})"

    ids = memory.ids(typed) if typed.startswith(ID_PREFIX) else memory.ids()
    return beginning(typed, ids, "entries", described) or typed


def show_entries(entries: Iterable[MemoryEntry], screen: Screen, if_empty: str) -> None:
    """Prints entries as a table."""
    rows = [
        (
            one.id,
            one.scope,
            local_moment(one.valid_from_ms)[:DAY],
            "" if one.valid_until_ms is None else local_moment(one.valid_until_ms)[:DAY],
            f"{one.count}",
            f"{_pending_mark(one)}{'[?] ' if one.rivals else ''}"
            f"{_shown(one.content, screen)}{_replacement_mark(one.replaces)}",
        )
        for one in entries
    ]
    if rows:
        screen.table(("ID", "SCOPE", "FROM", "UNTIL", ">COUNT", "CONTENT"), rows)
    else:
        screen.line(if_empty)


def _excerpt(content: str) -> str:
    return cut(one_line(content), CONTENT_CHARS)


def _shown(content: str, screen: Screen) -> str:
    """A content for a table: an excerpt on a terminal, whole elsewhere."""
    return _excerpt(content) if screen.draws else one_line(content)


def _pending_mark(entry: MemoryEntry) -> str:
    return "[waits] " if entry.waits and entry.is_current else ""


def _replacement_mark(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f" (replaces {ids[0]}{more})" if ids else ""


class Entries(Result, frozen=True, kw_only=True):
    """The first entries of a list, and the length of the list."""

    entries: tuple[MemoryEntry, ...]
    total: int

    def show(self, screen: Screen) -> None:
        show_entries(self.entries, screen, "Nothing is remembered here.")
        hidden = self.total - len(self.entries)
        if hidden:
            screen.line(f"{hidden:,} more are not shown; --limit {self.total} shows all.")


@command(
    "memory list",
    details="Without a scope, lists the entries of this project and of the user. [?] marks entries "
    "that others deny, [waits] those that wait in the inbox.",
    on="store",
    reads=True,
)
def list_entries(
    session: Session,
    *,
    scope: Scope | None = None,
    tag: Tags = (),
    ended: Annotated[bool, Meta(description="Also those that are no longer true.")] = False,
    as_of: AsOf | None = None,
    limit: Annotated[int, Meta(description="At most this many.", ge=1)] = 100,
    project: Project | None = None,
) -> Entries:
    with memory_of(session, project) as memory:
        entries = memory.list(scope=scope, tags=tag, ended=ended, as_of=time_of(as_of))
    return Entries(entries=tuple(entries[:limit]), total=len(entries))


class Answers(Result, frozen=True, kw_only=True):
    """The best entries; `more` says whether there are others."""

    entries: tuple[MemoryEntry, ...]
    more: bool = False

    def show(self, screen: Screen) -> None:
        rows = [
            (one.id, f"{one.score:.2f}", _pending_mark(one) + _shown(one.content, screen), one.why)
            for one in self.entries
        ]
        if rows:
            screen.table(("ID", ">SCORE", "CONTENT", "WHY"), rows)
        else:
            screen.line("Nothing that is remembered answers this.")
        if self.more:
            screen.line(more_line(len(self.entries)))


@command("memory search", on="store", reads=True)
def search_entries(
    session: Session,
    *,
    query: Annotated[str, Meta(description="What to look for.", extra=TEXT)],
    scope: Scope | None = None,
    tag: Tags = (),
    limit: Limit = 10,
    threshold: Annotated[float, Meta(description="The lowest score, from 0 to 1.", ge=0.0, le=1.0)]
    | None = None,
    as_of: AsOf | None = None,
    project: Project | None = None,
) -> Answers:
    with memory_of(session, project) as memory:
        entries = memory.retrieve(
            query, limit + 1, scope=scope, tags=tag, threshold=threshold, as_of=time_of(as_of)
        )
    return Answers(entries=tuple(entries[:limit]), more=len(entries) > limit)


class Added(Result, frozen=True, kw_only=True):
    """The new entry, the entries it ended, entries that may be about the same, and other
    successors of the entries it replaces, which stay true."""

    entry: MemoryEntry
    ended: tuple[MemoryEntry, ...] = ()
    near: tuple[MemoryEntry, ...] = ()
    beside: tuple[MemoryEntry, ...] = ()

    def show(self, screen: Screen) -> None:
        entry = self.entry
        repeated = f", said {entry.count} times" if entry.count > 1 else ""
        screen.line(f"Remembered as {entry.id}{repeated}.")
        related = {
            "It ends": self.ended,
            "It may be about the same as": self.near,
            "It is true as well as": self.beside,
        }
        for how, entries in related.items():
            for one in entries:
                screen.line(f"{how} {one.id}: {_excerpt(one.content)}")
        if open_entries := (*self.near, *self.beside):
            call = screen.call("memory add", "", "--replaces", open_entries[0].id, entry.content)
            screen.line(f"If it replaces one of them, say so: {call}")
        screen.line(f"Forget it with: {screen.call('memory forget', '', entry.id)}")


@command("memory add", on="store")
def add(
    session: Session,
    *,
    content: Content,
    scope: Scope = "project",
    tag: Tags = (),
    replaces: Annotated[
        tuple[str, ...],
        Meta(
            description="An entry that this replaces; may be repeated.", extra={"metavar": "ENTRY"}
        ),
    ] = (),
    project: Project | None = None,
) -> Added:
    with memory_of(session, project, scope, creates=True) as memory:
        replaced = [entry_meant(memory, typed) for typed in replaces]
        # Unless another scope is named, the entry goes to the scope of what it replaces.
        entry_scope = None if replaced and scope == "project" else scope
        entry = memory.store(content, tags=tag, scope=entry_scope, replaces=replaced)
        # A repeated entry ended others when it was first said, unless it replaces them only now.
        past = memory.history(entry.id) if entry.count == 1 or replaced else ()
        near = () if replaced else tuple(memory.near(entry.id))
    since_ms = entry.valid_from_ms
    ended = [
        one
        for one in past
        if one.valid_until_ms == since_ms
        or (one.id in replaced and (one.valid_until_ms or 0) > since_ms)
    ]
    beside = [one for one in past if one.id in entry.rivals and one.is_current]
    return Added(entry=entry, ended=tuple(ended), near=near, beside=tuple(beside))


class Updated(Result, frozen=True, kw_only=True):
    entry: MemoryEntry

    def show(self, screen: Screen) -> None:
        screen.line(f"{self.entry.id} is version {self.entry.version} now.")
        screen.line(f"What it said before: {screen.call('memory log', '', self.entry.id)}")


@command("memory edit", on="store")
def edit(
    session: Session,
    *,
    entry: Entry,
    content: Content | None = None,
    tag: Tags = (),
    project: Project | None = None,
) -> Updated:
    with memory_of(session, project) as memory:
        id = entry_meant(memory, entry)
        return Updated(entry=memory.update(id, content, tags=tag or None))


class Gone(Result, frozen=True, kw_only=True):
    """What was forgotten, or would be in a dry run. `items` are the entries, unless a person was
    asked and has seen them."""

    forgotten: Forgotten
    items: tuple[Removable, ...] = ()
    dry_run: bool = False

    def show(self, screen: Screen) -> None:
        done = self.forgotten
        show_removable(self.items, screen)
        if self.items:  # otherwise the question has shown them
            _show_places(done, screen)
        if self.dry_run:
            screen.line(
                f"{number(done.events, 'event')}, and {_messages(done)}, would be forgotten."
            )
            return
        if not done.entries:
            screen.line("Nothing that is remembered fits: nothing was forgotten.")
            return
        screen.line(f"Forgotten: {number(done.events, 'event')}, and {_messages(done)}.")
        screen.line("Out of reach: " + ", ".join(done.out_of_reach) + ".")


def _messages(done: Forgotten) -> str:
    gists = f", {number(done.summaries, 'gist')} of those" if done.summaries else ""
    return f"{number(done.messages, 'message')} that showed it{gists}"


def _show_places(done: Forgotten, screen: Screen) -> None:
    """Prints the conversations that lose messages or summaries."""
    for id, messages, summaries in done.shown_in:
        gists = f", {number(summaries, 'gist')}" if summaries else ""
        screen.line(short_line(f"  {id}: {number(messages, 'message')}{gists}", 300))


@command(
    "memory forget",
    details="Every version is erased, and the messages that showed it. This cannot be undone.",
    on="store",
)
def forget(
    session: Session,
    *,
    entry: Annotated[
        str,
        Meta(
            description="The id of the entry, or how it begins; instead of it, --tag, --before or "
            "--said-in name several.",
            extra=ENTRY_POSITION,
        ),
    ]
    | None = None,
    scope: Scope | None = None,
    tag: Annotated[str, Meta(description="All entries with this tag.")] | None = None,
    before: Annotated[
        str,
        Meta(
            description="All that were last said before then: 2026-11-16, or 7d, 2w ago.",
            extra=WHEN,
        ),
    ]
    | None = None,
    said_in: Annotated[
        str, Meta(description="All that were said in this conversation.", extra={"metavar": "ID"})
    ]
    | None = None,
    source: Annotated[bool, Meta(description="Also the messages in which it was said.")] = False,
    also_in: Annotated[
        tuple[str, ...],
        Meta(description="Another store to look in; may be repeated.", extra={"metavar": "STORE"}),
    ] = (),
    dry_run: DryRun = False,
    yes: Yes = False,
    project: Project | None = None,
) -> Gone:
    before_time = time_of(before)
    if not any((entry, tag, before, said_in)):
        # No name at all does not mean everything.
        hint = "pass the id of an entry (refold memory list), --tag, --before or --said-in"
        raise Invalid("say what to forget", hint=hint)
    with memory_of(session, project, scope) as memory:
        if entry is None:
            id = None
            limits = {"with the tag": tag, "last said before": before, "said in": said_in}
            named = ", ".join(f"{how} {value}" for how, value in limits.items() if value)
            named = f"all entries {named}" + (
                "" if scope else ", of the project, its agents and the user,"
            )
        else:
            id = entry_meant(memory, entry)
            if not dry_run:
                session.check_whole(entry, id, yes=yes)
            named = id
        done = memory.forget(
            id,
            tag=tag,
            before=before_time,
            said_in=said_in,
            scope=scope,
            source=source,
            stores=also_in,
            dry_run=True,
        )
        for one in done.entries:
            session.note_shown(one, partial(_versions, memory, one))
        items = tuple(_removable(memory, one) for one in done.entries)
        if items and not dry_run:
            if session.screen is not None and session.screen.can_ask and not yes:
                _show_places(done, session.screen)
            places = f", with {_messages(done)}" if done.messages or done.summaries else ""
            items = session.confirm_removal(items, f"Forget {named} for good{places}?", yes)
            # Exactly what was shown: an entry may have come since then.
            act = partial(memory.forget, done.entries, source=source, stores=also_in)
            if not items:
                now = act(dry_run=True)
                if (now.events, now.shown_in) != (done.events, done.shown_in):
                    reason = "what showed it changed while you were asked"
                    raise Conflict(reason, hint="nothing was forgotten; look at it again")
            done = act()
    return Gone(forgotten=done, items=items, dry_run=dry_run)


def _versions(memory: SemanticMemory, id: str) -> list[MemoryEntry]:
    """What is shown of an entry before it is removed; nothing of a rejected or reverted one."""
    waiting = [one for one in memory.inbox() if one.id == id]
    with suppress(NotFound):
        return waiting or [one for one in memory.history(id) if one.id == id]
    return []


def _removable(memory: SemanticMemory, id: str) -> Removable:
    """An entry as it is shown before it is removed."""
    versions = _versions(memory, id)
    content = versions[-1].content if versions else ""
    at_ms = versions[-1].updated_ms if versions else now_ms()
    size = len(content)
    return Removable(id=id, title=_excerpt(content), at_ms=at_ms, size=size, unit="character")


class History(Result, frozen=True, kw_only=True):
    """The versions of an entry, and related entries."""

    entries: tuple[MemoryEntry, ...]

    def show(self, screen: Screen) -> None:
        show_entries(self.entries, screen, "Nothing was remembered about it.")


class Changes(Result, frozen=True, kw_only=True):
    """Changes of a memory, newest first; `more` says whether there are older ones."""

    changes: tuple[MemoryChange, ...]
    more: bool = False

    def show(self, screen: Screen) -> None:
        rows = [
            (
                f"{one.seq}",
                local_moment(one.at_ms),
                one.by,
                f"({one.what})" if one.is_off else one.what,
                one.entry,
                f"change {one.reverts}"
                if one.reverts
                else _shown(one.content, screen) + _replacement_mark(one.replaces),
            )
            for one in self.changes
        ]
        if rows:
            screen.table((">SEQ", "WHEN", "BY", "WHAT", "ENTRY", "CONTENT"), rows)
        else:
            screen.line("Nothing was written into this memory.")
        if self.more:
            screen.line(more_line(len(self.changes)))


class RevertedChange(Result, frozen=True, kw_only=True):
    """The reverted change, and the seq of the change that reverted it."""

    change: MemoryChange
    by: int

    def show(self, screen: Screen) -> None:
        change = self.change
        content = f": {short_line(change.content, 60)}" if change.content else ""
        screen.line(f"Change {change.seq} ({change.what}) is taken back{content}")
        scope = () if change.scope == "project" else ("--scope", change.scope)
        back = screen.call("memory log", "", "--revert", str(self.by), *scope)
        screen.line(f"Bring it back with: {back}")


@command(
    "memory log",
    details="With ENTRY, shows what it said before, and what else was said about the same. Changes "
    "in brackets were taken back; --revert takes one back. What was forgotten cannot be brought "
    "back.",
    on="store",
    reads=True,
    writes_with=("revert",),
)
def log(
    session: Session,
    *,
    entry: Entry | None = None,
    revert: Annotated[
        int,
        Meta(description="Take back the change with this number.", ge=1, extra={"metavar": "SEQ"}),
    ]
    | None = None,
    scope: Scope | None = None,
    limit: Limit = 50,
    project: Project | None = None,
) -> Changes | History | RevertedChange:
    if entry is not None and revert is not None:
        raise Invalid("ENTRY and --revert exclude each other", hint="pass only one of them")
    with memory_of(session, project, scope) as memory:
        if revert is not None:
            change = memory.revert(revert)
            return RevertedChange(change=change, by=memory.log(limit=1)[0].seq)
        if entry is not None:
            return History(entries=tuple(memory.history(entry_meant(memory, entry))))
        changes = memory.log(limit=limit + 1)
        return Changes(changes=tuple(changes[:limit]), more=len(changes) > limit)


class Inbox(Result, frozen=True, kw_only=True):
    """The pending entries, and those accepted just now. `items` are those that were rejected, or
    would be in a dry run, unless a person was asked and has seen them."""

    entries: tuple[MemoryEntry, ...]
    accepted: tuple[MemoryEntry, ...] = ()
    items: tuple[Removable, ...] = ()
    dry_run: bool = False

    def show(self, screen: Screen) -> None:
        show_removable(self.items, screen)
        if self.dry_run:
            screen.line("These would be rejected.")
            return
        for one in self.accepted:
            if one.rivals:
                rivals = ", ".join(one.rivals)
                screen.line(f"{one.id} is true, and so is {rivals}: others said that.")
        show_entries(self.entries, screen, "Nothing waits.")


@command(
    "memory inbox",
    details="Shows what still waits: imports, what tools said, and with memory_extract = ask the "
    "facts of conversations.",
    on="store",
)
def inbox(
    session: Session,
    *,
    scope: Scope | None = None,
    accept: Annotated[
        tuple[str, ...], Meta(description="Remember this entry, or all; may be repeated.")
    ] = (),
    reject: Annotated[
        tuple[str, ...],
        Meta(description="Drop this entry, or all, for good, after asking; may be repeated."),
    ] = (),
    content: Annotated[
        str, Meta(description="The words in which the accepted entry is remembered.")
    ]
    | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    project: Project | None = None,
) -> Inbox:
    if content is not None and len(accept) != 1:
        raise Invalid("--content needs one entry to accept", hint="name it by --accept")
    if dry_run and accept:
        raise Invalid("--dry-run shows what --reject would drop", hint="leave out --accept")
    with memory_of(session, project, scope) as memory:
        rejected = _pending_ids(memory, reject)
        for id in rejected:
            session.note_shown(id, partial(_versions, memory, id))
        items = tuple(_removable(memory, id) for id in rejected)
        if items and not dry_run:
            for typed, id in zip(reject, rejected) if ALL not in reject else ():
                session.check_whole(typed, id, yes=yes)
            what = items[0].id if len(items) == 1 else f"{len(items)} pending entries"
            items = session.confirm_removal(items, f"Reject {what} for good?", yes)
        accepted = [memory.accept(id, content) for id in _pending_ids(memory, accept)]
        for id in () if dry_run else rejected:
            memory.reject(id)
        entries = tuple(memory.inbox())
        return Inbox(entries=entries, accepted=tuple(accepted), items=items, dry_run=dry_run)


def _pending_ids(memory: SemanticMemory, typed: Sequence[str]) -> Sequence[str]:
    """The named entries; `all` names every pending one."""
    if ALL in typed:
        return [entry.id for entry in memory.inbox()]
    return [entry_meant(memory, name) for name in typed]
