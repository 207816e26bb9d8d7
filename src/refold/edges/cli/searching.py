"""`refold search` and `refold index`: finding what was said, also where no page shows it any more.

What a search has to say about its index goes to standard error, or into the JSON object. Snippets
are content: they are printed through the screen, which lets none of it steer the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from refold.core.model import ROLES
from refold.edges.cli.options import command, named, opened_store, store_option
from refold.edges.cli.screen import Part, Screen, number
from refold.errors import Invalid
from refold.search.hits import KINDS, LIMIT_MAX

if TYPE_CHECKING:
    from refold.search.hits import Hit
    from refold.search.searcher import Searcher

_AGO = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@command(
    "search",
    click.argument("query", nargs=-1, required=True),
    click.option(
        "--in",
        "conversations",
        metavar="ID",
        multiple=True,
        help="Only this conversation; may be repeated.",
    ),
    click.option(
        "--limit",
        type=click.IntRange(1, LIMIT_MAX),
        default=10,
        show_default=True,
        help="At most so many.",
    ),
    click.option(
        "--newest", is_flag=True, help="The newest that hold all words, instead of the best."
    ),
    click.option("--role", type=click.Choice(list(ROLES)), help="Only messages of this role."),
    click.option("--tool", metavar="NAME", help="Only calls and results of this tool."),
    click.option(
        "--kind", type=click.Choice(list(KINDS)), help="Only events of this kind; edit: summaries."
    ),
    click.option(
        "--since",
        metavar="WHEN",
        help="From then on: 2026-11-16, 2026-11-16T09:30, 90m, 12h, 7d or 2w ago.",
    ),
    click.option("--until", metavar="WHEN", help="Up to then."),
    click.option(
        "--full-text", is_flag=True, help="Without vectors, also where an embedder is installed."
    ),
    store_option,
)
def search_(
    screen: Screen,
    query: tuple[str, ...],
    conversations: tuple[str, ...],
    limit: int,
    newest: bool,
    role: str | None,
    tool: str | None,
    kind: str | None,
    since: str | None,
    until: str | None,
    full_text: bool,
    store: str | None,
) -> None:
    """Finds messages and artifacts by what they say.

    Looks in all conversations, also for what no page shows any more.
    Words in any form find each other; a '"phrase in double quotes"' must be there.
    """
    with searching(store, full_text=full_text) as searcher:
        ids = [named(searcher.store, one) for one in conversations] or None
        hits = searcher.search(
            " ".join(query),
            limit=limit,
            newest=newest,
            role=role,
            conversations=ids,
            since=moment(since),
            until=moment(until),
            tool=tool,
            kind=kind,
        )
        if screen.json_output:
            screen.emit(
                {
                    "query": " ".join(query),
                    "hits": [_as_json(hit) for hit in hits],
                    **_notices(searcher),
                }
            )
            return
        for hit in hits:
            _print(screen, hit)
        if not hits:
            screen.line("Nothing was found.")
        _say(searcher)


@command(
    "index",
    click.option("--rebuild", is_flag=True, help="Throw the index away and make it anew."),
    click.option(
        "--full-text", is_flag=True, help="Without vectors, also where an embedder is installed."
    ),
    store_option,
)
def index_(screen: Screen, rebuild: bool, full_text: bool, store: str | None) -> None:
    """Brings the search index up to date.

    Searching does this by itself, a bounded number of events at a time. The index holds nothing
    that the logs do not.
    """
    with searching(store, full_text=full_text) as searcher, screen.progress("indexing") as show:
        told = partial(show, "indexing") if show else None
        events = searcher.rebuild(told) if rebuild else searcher.complete(told)
        if screen.json_output:
            screen.emit(
                {"index": searcher.path, "events": events, "rebuilt": rebuild, **_notices(searcher)}
            )
            return
        screen.line(f"{number(events, 'event')} taken into {searcher.path}.")
        _say(searcher)


@contextmanager
def searching(url: str | None, *, full_text: bool = False) -> Iterator[Searcher]:
    """A searcher over a store; both are closed at the end."""
    from refold.search.searcher import Searcher

    with opened_store(url) as store:
        searcher = Searcher(store, embedder=False if full_text else None)
        try:
            yield searcher
        finally:
            searcher.close()


def moment(text: str | None) -> datetime | None:
    """A time as people write it: a day, a day and a time, or how long ago."""
    if text is None:
        return None
    if ago := _AGO.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Invalid(
            f"{text!r} is not a time", hint="2026-11-16, 2026-11-16T09:30, or 90m, 12h, 7d, 2w ago"
        ) from error


# --- showing ---


def _print(screen: Screen, hit: Hit) -> None:
    from refold.display import moment as shown

    where = f"{hit.artifact} line {hit.line}" if hit.artifact else hit.role or hit.kind
    facts = [where, hit.tool, shown(hit.at_ms), "hidden" if hit.hidden else ""]
    screen.line(
        ("bold", f"{hit.conversation}#{hit.seq}"), ("dim", "  " + "  ".join(filter(None, facts)))
    )
    screen.line("  ", *_parts(hit))


def _parts(hit: Hit) -> list[Part]:
    """The snippet, its matches in colour."""
    parts: list[Part] = []
    at = 0
    for start, end in hit.marks:
        parts += [hit.snippet[at:start], ("yellow", hit.snippet[start:end])]
        at = end
    return [*parts, hit.snippet[at:]]


def _as_json(hit: Hit) -> dict[str, Any]:
    return {name: getattr(hit, name) for name in hit.__struct_fields__}


def _notices(searcher: Searcher) -> dict[str, Any]:
    return {"notices": [{"name": name, "reason": reason} for name, reason in searcher.said]}


def _say(searcher: Searcher) -> None:
    errors = Screen(out=sys.stderr)
    for name, reason in searcher.said:
        errors.line(f"refold: {name}: {reason}")
