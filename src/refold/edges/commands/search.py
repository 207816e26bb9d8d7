"""`refold search`: messages and artifacts of all conversations, or of one together with the memory.

Notices about the index come with the result. Snippets are content: the screen escapes them, so that
none can steer the terminal. `--reindex` updates the index, `--rebuild` builds it again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from refold.checked import quoted
from refold.conversations.listing import meta_of, resuming, title_of
from refold.display import local_moment, number
from refold.edges.commands.command import (
    Limit,
    OnlyRole,
    Part,
    Result,
    Screen,
    Since,
    command,
    more_line,
)
from refold.edges.commands.session import Session
from refold.edges.displays.wrap import fitted, width
from refold.errors import Denied, Invalid
from refold.memory.entry import MemoryEntry
from refold.redaction import is_redacted
from refold.search.searcher import Searcher
from refold.search.snippets import LIMIT_MAX, Hit, grouped
from refold.stores import is_writable
from refold.stores.protocol import Store

HITS_FOUND, HITS_SHOWN = 10, 2  # of one conversation
SHOWN_CHARS, LEAD_CHARS = 240, 60  # of one hit
TITLE_MIN = 40
_AGO = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Kind = Literal["message", "artifact", "meta", "checkpoint", "edit"]


QUERY = Meta(description="The words to look for.", extra={"positional": True})
IN = Meta(
    description="Only this conversation; may be repeated.",
    extra={"metavar": "ID", "completes": "conversation"},
)
HERE = Meta(description="Only this conversation (in a shell, the newest), and memories.")
NEWEST = Meta(description="Newest first; every word must match.")
TOOL = Meta(description="Only calls and results of this tool.", extra={"metavar": "NAME"})
KIND = Meta(description="Only events of this kind; edit: summaries.")
UNTIL = Meta(description="Up to then.", extra={"metavar": "WHEN"})
FULL_TEXT = Meta(description="Full-text search only, without vectors.")
REINDEX = Meta(description="Bring the index up to date, all of it at once.")
REBUILD = Meta(description="Discard the index and make it again.")
ALL = Meta(description="Every hit of a conversation, not only its best ones.")
MEMORY = Meta(description="With --reindex: the index of the memory, made again.")

_WORD, _PHRASE, WORDS_CHECKED = re.compile(r"\w{3,}"), re.compile(r'"[^"]*"'), 6


@command(
    "search",
    details="Searches all conversations, including hidden messages.\n"
    "Words in any form find each other. A '\"phrase in double quotes\"' alone must be there "
    "exactly; beside other words, it counts double. "
    "Searching keeps the index up to date, a bounded number of events at a time.",
    on="store",
    derives=True,
)
def search(
    session: Session,
    *,
    query: Annotated[tuple[str, ...], QUERY] = (),
    in_: Annotated[tuple[str, ...], IN] = (),
    here: Annotated[bool, HERE] = False,
    limit: Limit = 10,
    all: Annotated[bool, ALL] = False,
    newest: Annotated[bool, NEWEST] = False,
    role: OnlyRole | None = None,
    tool: Annotated[str, TOOL] | None = None,
    kind: Annotated[Kind, KIND] | None = None,
    since: Since | None = None,
    until: Annotated[str, UNTIL] | None = None,
    full_text: Annotated[bool, FULL_TEXT] = False,
    reindex: Annotated[bool, REINDEX] = False,
    rebuild: Annotated[bool, REBUILD] = False,
    memory: Annotated[bool, MEMORY] = False,
) -> Result:
    if reindex or rebuild:
        if query:
            hint = "leave out the words, or search after it"
            raise Invalid("--reindex and --rebuild search nothing", hint=hint)
        return _index(session, rebuild=rebuild, full_text=full_text, memory=memory)
    text = " ".join(query)
    if not text.strip():
        raise Invalid("there is nothing to look for", hint="refold search WORDS")
    names = in_
    if here and not names:
        names = (session.conversation if session.is_named else "@1",)
    with _searching(session, full_text=full_text) as searcher:
        ids = [session.find(name) for name in names]
        hits = searcher.search(
            text,
            limit=min(limit, LIMIT_MAX - 1) + 1,
            each=0 if names else LIMIT_MAX if all else HITS_FOUND,
            newest=newest,
            role=role,
            conversations=ids or None,
            since=time_of(since),
            until=time_of(until),
            tool=tool,
            kind=kind,
            redacts=is_redacted(session.config.redact, "summaries"),
        )
        # In named conversations the limit is of hits, else of conversations.
        groups = grouped(hits[:limit] if names else hits, newest=newest)
        shown = tuple(hit for group in groups[:limit] for hit in group)
        more = len(hits if names else groups) > min(limit, LIMIT_MAX - 1)
        found_ids = list(dict.fromkeys(hit.conversation for hit in shown))
        found = Found(
            query=text,
            hits=shown,
            missing=_missing(searcher, text, ids) if shown else (),
            notices=_notices(searcher),
            more=more,
            titles={id: _title(session.store, id) for id in found_ids},
            numbers=session.numbered(found_ids),
            resuming={id: words for id in found_ids if (words := _resuming(session.store, id))},
            each=0 if all or names else HITS_SHOWN,
        )
    if not here:
        return found
    from refold.edges.commands.memory import memory_of

    with memory_of(session) as remembered:
        entries = tuple(remembered.retrieve(text, min(limit, LIMIT_MAX)))
    return FoundHere(conversation=ids[0], said=found, remembered=entries)


class IndexNotice(Struct, frozen=True, kw_only=True):
    name: str
    reason: str


class Found(Result, frozen=True, kw_only=True):
    """The best hits, by conversation; `more` says whether there are others. Their conversations
    have `titles`, `numbers` in this terminal, and the command lines that continue those of agents
    (`resuming`). A person sees the beginning of `each` hits of one, or with 0 all of
    them whole. `missing` words and phrases of the query are in no message: the hits are only near
    them."""

    query: str
    hits: tuple[Hit, ...]
    notices: tuple[IndexNotice, ...]
    more: bool = False
    titles: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    resuming: dict[str, tuple[str, ...]] = field(default_factory=dict)
    each: int = HITS_SHOWN
    missing: tuple[str, ...] = ()

    def show(self, screen: Screen) -> None:
        if self.missing:
            absent = ", ".join(map(quoted, self.missing))
            screen.line(f"No message has {absent}: these are only close to it.")
        for group in grouped(self.hits, newest=True):
            id = group[0].conversation
            position = f"@{self.numbers[id]} " if id in self.numbers else ""
            self._show_heading(id, position, max(hit.at_ms for hit in group), screen)
            for hit in group[: self.each or len(group)]:
                _show_hit(hit, screen, SHOWN_CHARS if self.each else len(hit.snippet))
            if 0 < self.each < len(group):
                more = number(len(group) - self.each, "more hit")
                screen.line(("dim", f"  {more}; --all shows them"))
            name = f"@{self.numbers[id]}" if id in self.numbers else id
            screen.line(("dim", f"  open it: {screen.call('show', name)}"))
            if words := self.resuming.get(id):
                screen.line(("dim", f"  go on with it: {shlex.join(words)}"))
        if not self.hits:
            screen.line("Nothing was found.")
        if self.more:
            count = len(self.titles) if self.each else len(self.hits)
            screen.line(more_line(count))
        _show_notices(self.notices, screen)

    def _show_heading(self, id: str, position: str, at_ms: int, screen: Screen) -> None:
        """Prints one line. On a terminal it fits the width: the title is cut, and if that leaves
        too little of it, a conversation with a number is shown without its id."""
        day, title = local_moment(at_ms).partition(" ")[0], self.titles.get(id, "")
        if screen.draws:
            room = screen.columns - len(f"{position}    {day}")
            if position and room - width(id) < min(TITLE_MIN, width(title)):
                id = ""
            title = fitted(title, max(1, room - width(id)))
        shown = [("bold", id), f"  {title}"] if id else [title]
        screen.line(position, *shown, ("dim", f"  {day}"))


class FoundHere(Result, frozen=True, kw_only=True):
    conversation: str
    said: Found
    remembered: tuple[MemoryEntry, ...]

    def show(self, screen: Screen) -> None:
        from refold.edges.commands.memory import show_entries

        self.said.show(screen)
        if self.remembered:
            screen.line(("bold", "Remembered"))
            show_entries(self.remembered, screen, "")


@contextmanager
def _searching(session: Session, *, full_text: bool) -> Iterator[Searcher]:
    """A searcher over the session's store, closed at the end."""
    searcher = Searcher(session.store, embedder=False if full_text else None)
    try:
        yield searcher
    finally:
        searcher.close()


def _missing(searcher: Searcher, text: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The words and phrases of a query that no message has in this form."""
    phrases = [found[1:-1] for found in _PHRASE.findall(text) if re.search(r"\w", found)]
    words = [*phrases, *_WORD.findall(_PHRASE.sub(" ", text))]
    return tuple(
        word
        for word in dict.fromkeys(words[:WORDS_CHECKED])
        if not searcher.search(f'"{word}"', limit=1, conversations=ids or None)
    )


def _notices(searcher: Searcher) -> tuple[IndexNotice, ...]:
    """The searcher's notices about its index."""
    return tuple(IndexNotice(name=name, reason=reason) for name, reason in searcher.said)


def time_of(text: str | None) -> datetime | None:
    """A time as people write it: a day, a day and a time, or a period before now (`90m`, `7d`)."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        hint = "2026-11-16, 2026-11-16T09:30, or 90m, 12h, 7d, 2w ago"
        raise Invalid(f"{text!r} is not a time", hint=hint) from error


def _show_notices(notices: tuple[IndexNotice, ...], screen: Screen) -> None:
    """Prints notices about the index on standard error."""
    for notice in notices:
        screen.note(f"{notice.name}: {notice.reason}")


def _title(store: Store, id: str) -> str:
    return title_of(store, id, meta_of(store, store.conversation(id)).title or "")


def _resuming(store: Store, id: str) -> tuple[str, ...]:
    return resuming(meta_of(store, store.conversation(id)).metadata or {})


def _show_hit(hit: Hit, screen: Screen, most: int) -> None:
    source = f"{hit.artifact} line {hit.line}" if hit.artifact else hit.role or hit.kind
    hidden = "hidden" if hit.hidden else ""
    facts = [fact for fact in (source, hit.tool, local_moment(hit.at_ms), hidden) if fact]
    screen.line("  ", ("bold", f"#{hit.seq}"), ("dim", "  " + "  ".join(facts)))
    screen.line("    ", *_snippet_parts(hit, most))


def _snippet_parts(hit: Hit, most: int) -> list[Part]:
    """The snippet around its first match, its matches in color."""
    first = max(0, hit.marks[0][0] - LEAD_CHARS) if hit.marks else 0
    first = first if len(hit.snippet) > most else 0
    last = min(len(hit.snippet), first + most)
    parts: list[Part] = ["…"] if first else []
    at = first
    for start, end in hit.marks:
        if end <= last:
            parts.append(hit.snippet[at:start])
            parts.append(("yellow", hit.snippet[start:end]))
            at = end
    parts.append(hit.snippet[at:last])
    return [*parts, "…"] if last < len(hit.snippet) else parts


class Indexed(Result, frozen=True, kw_only=True):
    index: str
    events: int
    rebuilt: bool
    notices: tuple[IndexNotice, ...]

    def show(self, screen: Screen) -> None:
        screen.line(f"{number(self.events, 'event')} taken into {self.index}.")
        _show_notices(self.notices, screen)


def _index(session: Session, *, rebuild: bool, full_text: bool, memory: bool) -> Result:
    """Updates the index of the store or of the memory."""
    if memory:
        from refold.edges.commands.memory_transfer import reindex_memory

        return reindex_memory(session)
    url = session.store.url
    if not is_writable(url):
        hint = "check the owner and the mode of its files; refold search works without an index"
        raise Denied(f"{url} may only be read", hint=hint)
    with (
        _searching(session, full_text=full_text) as searcher,
        session.progress("indexing") as progress,
    ):
        listener = partial(progress, "indexing") if progress else None
        complete = searcher.rebuild if rebuild else searcher.complete
        events = complete(listener)
        notices = _notices(searcher)
        return Indexed(index=searcher.path, events=events, rebuilt=rebuild, notices=notices)
