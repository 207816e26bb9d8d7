"""`refold index`: the search index brought up to date, or made again."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.search import (
    FULL_TEXT,
    IndexNotice,
    notices_of,
    searching,
    show_notices,
)
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.errors import Denied
from refold.stores import is_writable

REBUILD = Meta(description="Discard the index and make it again.")


class IndexArguments(Arguments, frozen=True, kw_only=True):
    rebuild: Annotated[bool, REBUILD] = False
    full_text: Annotated[bool, FULL_TEXT] = False


class Indexed(Result, frozen=True, kw_only=True):
    index: str
    events: int
    rebuilt: bool
    notices: tuple[IndexNotice, ...]


def run(session: Session, arguments: IndexArguments) -> Indexed:
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


def show(indexed: Indexed, screen: Screen) -> None:
    screen.line(f"{number(indexed.events, 'event')} taken into {indexed.index}.")
    show_notices(indexed.notices, screen)


COMMAND = Command(
    name="index",
    details="Searching does this automatically, a bounded number of events at a time. The index "
    "holds nothing that the logs do not.",
    on="store",
    arguments=IndexArguments,
    run=run,
    show=show,
)
