"""`refold search`: finding what was said, also where no page shows it any more.

What a search has to say about its index is in `notices`. Snippets are content: they are shown
through the screen, which lets none of it steer the terminal.

`refold index`: the search index brought up to date, or made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from refold.core.model import Role
from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Part, Result, Screen, number
from refold.edges.commands.session import Session
from refold.errors import Denied, Invalid
from refold.search.searcher import Searcher
from refold.search.snippets import LIMIT_MAX, Hit
from refold.stores import is_writable

_AGO = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
QUERY = Meta(description="The words to look for.", min_length=1, extra={"positional": True})
IN = Meta(description="Only this conversation; may be repeated.", extra={"metavar": "ID"})
LIMIT = Meta(description="At most this many.", ge=1, le=LIMIT_MAX)
NEWEST = Meta(description="Newest first; every word must match.")
ROLE = Meta(description="Only messages of this role.")
TOOL = Meta(description="Only calls and results of this tool.", extra={"metavar": "NAME"})
KIND = Meta(description="Only events of this kind; edit: summaries.")
SINCE = Meta(
    description="From then on: 2026-11-16, 2026-11-16T09:30, 90m, 12h, 7d or 2w ago.",
    extra={"metavar": "WHEN"},
)
UNTIL = Meta(description="Up to then.", extra={"metavar": "WHEN"})
FULL_TEXT = Meta(description="Full-text search only, without vectors.")

Kind = Literal["message", "artifact", "meta", "checkpoint", "edit"]


class SearchArguments(Arguments, frozen=True, kw_only=True):
    query: Annotated[tuple[str, ...], QUERY]
    conversations: Annotated[tuple[str, ...], IN] = field(name="in", default=())
    limit: Annotated[int, LIMIT] = 10
    newest: Annotated[bool, NEWEST] = False
    role: Annotated[Role, ROLE] | None = None
    tool: Annotated[str, TOOL] | None = None
    kind: Annotated[Kind, KIND] | None = None
    since: Annotated[str, SINCE] | None = None
    until: Annotated[str, UNTIL] | None = None
    full_text: Annotated[bool, FULL_TEXT] = False


class IndexNotice(Struct, frozen=True, kw_only=True):
    name: str
    reason: str


class Found(Result, frozen=True, kw_only=True):
    query: str
    hits: tuple[Hit, ...]
    notices: tuple[IndexNotice, ...]


def run_search(session: Session, arguments: SearchArguments) -> Found:
    query = " ".join(arguments.query)
    with searching(session, full_text=arguments.full_text) as searcher:
        ids = [session.find(name) for name in arguments.conversations] or None
        hits = searcher.search(
            query,
            limit=arguments.limit,
            newest=arguments.newest,
            role=arguments.role,
            conversations=ids,
            since=time_of(arguments.since),
            until=time_of(arguments.until),
            tool=arguments.tool,
            kind=arguments.kind,
        )
        return Found(query=query, hits=tuple(hits), notices=notices_of(searcher))


@contextmanager
def searching(session: Session, *, full_text: bool) -> Iterator[Searcher]:
    """A searcher over the session's store, closed at the end."""
    searcher = Searcher(session.store, embedder=False if full_text else None)
    try:
        yield searcher
    finally:
        searcher.close()


def notices_of(searcher: Searcher) -> tuple[IndexNotice, ...]:
    """What the searcher has to say about its index."""
    return tuple(IndexNotice(name=name, reason=reason) for name, reason in searcher.said)


def time_of(text: str | None) -> datetime | None:
    """A time as people write it: a day, a day and a time, or how long ago."""
    if text is None:
        return None
    ago = _time_ago(text)
    if ago is not None:
        return ago
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        hint = "2026-11-16, 2026-11-16T09:30, or 90m, 12h, 7d, 2w ago"
        raise Invalid(f"{text!r} is not a time", hint=hint) from error


def _time_ago(text: str) -> datetime | None:
    """The time that `90m` or `7d` ago was; None if the text is not of that form."""
    found = _AGO.fullmatch(text.strip())
    if found is None:
        return None
    return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})


# --- shown ---


def show_search(found: Found, screen: Screen) -> None:
    for hit in found.hits:
        _show_hit(hit, screen)
    if not found.hits:
        screen.line("Nothing was found.")
    show_notices(found.notices, screen)


def show_notices(notices: tuple[IndexNotice, ...], screen: Screen) -> None:
    """What a caller should know about the index, beside the result."""
    for notice in notices:
        screen.note(f"{notice.name}: {notice.reason}")


def _show_hit(hit: Hit, screen: Screen) -> None:
    place = f"{hit.artifact} line {hit.line}" if hit.artifact else hit.role or hit.kind
    hidden = "hidden" if hit.hidden else ""
    facts = [fact for fact in (place, hit.tool, moment(hit.at_ms), hidden) if fact]
    screen.line(("bold", f"{hit.conversation}#{hit.seq}"), ("dim", "  " + "  ".join(facts)))
    screen.line("  ", *_snippet_parts(hit))


def _snippet_parts(hit: Hit) -> list[Part]:
    """The snippet, its matches in color."""
    parts: list[Part] = []
    at = 0
    for start, end in hit.marks:
        parts.append(hit.snippet[at:start])
        parts.append(("yellow", hit.snippet[start:end]))
        at = end
    parts.append(hit.snippet[at:])
    return parts


SEARCH = Command(
    name="search",
    details="Searches all conversations, including what no page shows any more.\n"
    "Words in any form find each other; a '\"phrase in double quotes\"' must be there exactly.",
    on="store",
    derives=True,
    arguments=SearchArguments,
    run=run_search,
    show=show_search,
)


REBUILD = Meta(description="Discard the index and make it again.")


class IndexArguments(Arguments, frozen=True, kw_only=True):
    rebuild: Annotated[bool, REBUILD] = False
    full_text: Annotated[bool, FULL_TEXT] = False


class Indexed(Result, frozen=True, kw_only=True):
    index: str
    events: int
    rebuilt: bool
    notices: tuple[IndexNotice, ...]


def run_index(session: Session, arguments: IndexArguments) -> Indexed:
    url = session.store.url
    if not is_writable(url):
        hint = "check the owner and the mode of its files; refold search works without an index"
        raise Denied(f"{url} may only be read", hint=hint)
    with (
        searching(session, full_text=arguments.full_text) as searcher,
        session.progress("indexing") as progress,
    ):
        listener = partial(progress, "indexing") if progress else None
        complete = searcher.rebuild if arguments.rebuild else searcher.complete
        events = complete(listener)
        return Indexed(
            index=searcher.path,
            events=events,
            rebuilt=arguments.rebuild,
            notices=notices_of(searcher),
        )


def show_index(indexed: Indexed, screen: Screen) -> None:
    screen.line(f"{number(indexed.events, 'event')} taken into {indexed.index}.")
    show_notices(indexed.notices, screen)


INDEX = Command(
    name="index",
    details="Searching does this automatically, a bounded number of events at a time. The index "
    "holds nothing that the logs do not.",
    on="store",
    arguments=IndexArguments,
    run=run_index,
    show=show_index,
)
