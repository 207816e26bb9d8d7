"""`refold list`: which conversations there are.

A list must be cheap for a thousand conversations: sizes come from the bookmark and a short tail
after it, and are left out where that does not tell them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from refold.conversations.listing import described, newest, preview, title_of
from refold.core import bookmark
from refold.core.budget import Sized, current_tokens, factor_of
from refold.core.model import Conversation
from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line, show_damage
from refold.errors import Corrupt, Denied
from refold.log.log import Log
from refold.stores.protocol import Store
from refold.tokens.models import model_info

UNMARKED_EVENTS = 300  # a writer keeps a bookmark before its log is longer
NAME_CHARS = 60


HERE = "."
FOLDER = Meta(
    description="Only conversations held in this folder or below it; without a PATH, in the "
    "current one.",
    extra={"metavar": "PATH", "bare": HERE, "completes": "folder"},
)
ENCRYPTED = "[encrypted]"  # in the place of a title that only devices with the key can read


class ListArguments(Arguments, frozen=True, kw_only=True):
    tag: Annotated[str, Meta(description="Only conversations with this tag.")] = ""
    folder: Annotated[str, FOLDER] | None = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1)] | None = None


class Row(Struct, frozen=True, kw_only=True):
    """What the list says of one conversation; `position` is its place among all of the store,
    by which `@1` names it; `damaged` says why it cannot be read."""

    id: str
    position: int
    names: tuple[str, ...]
    title: str
    preview: str
    head: int
    messages: int | None
    tokens: int | None
    created_ms: int
    updated_ms: int
    parent: str
    parent_seq: int
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    damaged: str


class Listed(Result, frozen=True, kw_only=True):
    store: str
    conversations: tuple[Row, ...]
    tag: str = ""
    folder: str = ""

    @property
    def damaged(self) -> dict[str, str]:
        """Why each conversation that cannot be read cannot."""
        return {row.id: row.damaged for row in self.conversations if row.damaged}

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"


def run(session: Session, arguments: ListArguments) -> Listed:
    store = session.store
    folder = "" if arguments.folder is None else str(Path(arguments.folder).resolve())
    chosen = newest(store, tag=arguments.tag, folder=folder)[: arguments.limit]
    places = {about.id: place for place, about in enumerate(newest(store), start=1)}
    rows = tuple(_row(store, about, places.get(about.id, 0)) for about in chosen)
    return Listed(store=store.url, conversations=rows, tag=arguments.tag, folder=folder)


def _row(store: Store, about: Conversation, position: int) -> Row:
    """What the list shows of a conversation, also of one that cannot be read."""
    sizes, damaged, title = None, "", ""
    try:
        sizes = _sizes(store, about)
    except Corrupt as error:
        damaged = error.message
    except Denied:
        title = ENCRYPTED
    messages, tokens = sizes or (None, None)
    about = described(store, about)
    return Row(
        id=about.id,
        position=position,
        names=about.names,
        title=title or title_of(store, about.id, about.title),
        preview=preview(store, about.id),
        head=about.head,
        messages=messages,
        tokens=tokens,
        created_ms=about.at_ms,
        updated_ms=about.updated_ms,
        parent=about.parent,
        parent_seq=about.parent_seq,
        tags=about.tags,
        metadata=about.metadata,
        damaged=damaged,
    )


def _sizes(store: Store, about: Conversation) -> tuple[int, int] | None:
    """Messages and tokens, as `stats` counts them; None for a long log that has no bookmark, as a
    sync brings it. Corrupt if what has to be read for it cannot be."""
    mark = bookmark.read(store.bookmark(about.id))
    if mark is not None and (mark.head, mark.chain) == (about.head, about.chain):
        return sum(mark.counts.values()), _current_tokens(bookmark.size(mark), mark.meta.model)
    if mark is None and about.head > UNMARKED_EVENTS:
        return None
    view = Log(store, about.id).state.view()
    return sum(view.counts.values()), _current_tokens(view, view.model)


def _current_tokens(page: Sized, model: str | None) -> int:
    factor = factor_of(page, model_info(model).name)
    return current_tokens(page, factor)


# --- shown ---


def show(listed: Listed, screen: Screen) -> None:
    if not listed.conversations:
        tagged = f" with the tag {listed.tag}" if listed.tag else ""
        held = f" that were held in {listed.folder}" if listed.folder else ""
        screen.line(f"There are no conversations{tagged}{held} in {listed.store}.")
        return
    heads: tuple[str, ...] = ("ID", "AS", "TITLE", ">MESSAGES", ">TOKENS", "UPDATED", "PARENT")
    rows = [_cells(row) for row in listed.conversations]
    if any(row.names for row in listed.conversations):
        names = [_names(row) for row in listed.conversations]
        heads = *heads, "NAMES"
        rows = [(*cells, name) for cells, name in zip(rows, names)]
    screen.table(heads, rows)
    show_damage(listed.damaged, screen)


def _cells(row: Row) -> tuple[str, ...]:
    title = f"[damaged] {row.title}" if row.damaged else row.title
    parent = f"{row.parent}#{row.parent_seq}" if row.parent else ""
    place = f"@{row.position}" if row.position else ""
    counts = _count(row.messages), _count(row.tokens)
    return row.id, place, title, *counts, moment(row.updated_ms), parent


def _names(row: Row) -> str:
    return ", ".join(short_line(name, NAME_CHARS) for name in row.names)


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


COMMAND = Command(
    name="list",
    details="In place of an ID, you can write @1 for the newest conversation, @2 for the one "
    "before it, or a name that only one conversation has.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run,
    show=show,
)
