"""`refold list`: which conversations there are.

A list must be cheap for a thousand conversations: sizes come from the bookmark and a short tail
after it, and are left out where that does not tell them.

`refold update`: the title, the tags, the names and the model of a conversation.

`refold delete`: conversations are removed for good. It asks first.

`refold sweep`: old conversations are removed for good, by age and by number. It asks first, and
can be tried with a dry run.

What `delete` and `sweep` give back: which conversations are gone, and which had to stay.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from refold.conversations import deleter
from refold.conversations.deleter import delete
from refold.conversations.listing import described, newest, preview, title_of
from refold.core import bookmark
from refold.core.budget import Sized, current_tokens, factor_of
from refold.core.model import Conversation
from refold.display import moment
from refold.edges.commands import stats
from refold.edges.commands.command import (
    Arguments,
    Command,
    Result,
    Screen,
    number,
    short_line,
    show_damage,
)
from refold.edges.commands.session import Session
from refold.edges.commands.stats import Chosen, ModelArguments
from refold.errors import Corrupt, Denied, Invalid
from refold.log.log import Log, now_ms
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


def run_list(session: Session, arguments: ListArguments) -> Listed:
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


def show_list(listed: Listed, screen: Screen) -> None:
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


LIST = Command(
    name="list",
    details="In place of an ID, you can write @1 for the newest conversation, @2 for the one "
    "before it, or a name that only one conversation has.",
    on="store",
    reads=True,
    arguments=ListArguments,
    run=run_list,
    show=show_list,
)


TITLE = Meta(description="The new title.")
TAGS = Meta(description="A tag; replaces those it has. May be repeated.")
NAMES = Meta(description="A name, in addition to the id; replaces those it has. May be repeated.")
MODEL = Meta(
    description="The model for the next requests.",
    extra={"metavar": "NAME", "completes": "model"},
)


class UpdateArguments(Arguments, frozen=True, kw_only=True):
    title: Annotated[str, TITLE] | None = None
    tags: Annotated[tuple[str, ...], TAGS] = field(name="tag", default=())
    names: Annotated[tuple[str, ...], NAMES] = field(name="name", default=())
    model: Annotated[str, MODEL] | None = None


class Updated(Result, frozen=True, kw_only=True):
    """`chosen` is there if another model was named: what the page is for it."""

    conversation: str
    title: str
    tags: tuple[str, ...]
    names: tuple[str, ...]
    model: str
    chosen: Chosen | None = None


def run_update(session: Session, arguments: UpdateArguments) -> Updated:
    given = arguments.title, arguments.tags or None, arguments.names or None, arguments.model
    if all(value is None for value in given):
        raise Invalid("there is nothing to update", hint="give --title, --tag, --name or --model")
    title, tags, names, name = given
    chosen = None if name is None else stats.run_model(session, ModelArguments(name=name))
    with session.context(writes=True) as context:
        context.update(title=title, tags=tags, names=names)
        context.flush()
        view = context.view
        called = context.stats().title
    return Updated(
        conversation=context.id,
        title=called,
        tags=view.tags,
        names=view.names,
        model=view.model,
        chosen=chosen,
    )


def show_update(updated: Updated, screen: Screen) -> None:
    names = ", ".join(short_line(name, 200) for name in updated.names)
    screen.fields(
        [
            ("Conversation", updated.conversation),
            *([("Names", names)] if names else []),
            ("Title", short_line(updated.title, 200)),
            ("Tags", ", ".join(updated.tags) or "none"),
            ("Model", updated.model or "unknown"),
        ]
    )
    if updated.chosen is not None:
        stats.show_model(updated.chosen, screen)


UPDATE = Command(
    name="update",
    arguments=UpdateArguments,
    run=run_update,
    show=show_update,
)


class Removal(Result, frozen=True, kw_only=True):
    """`removed` is what is gone, `would_be_removed` what a dry run names; `contents` counts the
    artifacts that went with them. `left` says why a conversation had to stay."""

    removed: tuple[str, ...] | UnsetType = UNSET
    would_be_removed: tuple[str, ...] | UnsetType = UNSET
    contents: int
    left: dict[str, str]
    notes: tuple[str, ...]


def show(removal: Removal, screen: Screen) -> None:
    if removal.would_be_removed is not UNSET:
        ids, verb = removal.would_be_removed, "would be removed"
    else:
        ids, verb = removal.removed or (), "removed"
    names = f": {', '.join(ids)}" if ids else ""
    artifacts = ""
    if removal.contents:
        artifacts = f", and {number(removal.contents, 'artifact')} that nobody else has"
    screen.line(f"{len(ids):,} {verb}{names}{artifacts}.")
    for id, reason in removal.left.items():
        screen.line(f"{id} stays: {reason}")
    for note in removal.notes:
        screen.line(("yellow", note))


DELETE_NAMES = Meta(
    description="The conversations.",
    min_length=1,
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
YES = Meta(description="Do not ask.")


class DeleteArguments(Arguments, frozen=True, kw_only=True):
    conversations: Annotated[tuple[str, ...], DELETE_NAMES]
    yes: Annotated[bool, YES] = False


class Deletion(Removal, frozen=True, kw_only=True):
    @property
    def outcome(self) -> str:
        """A conversation that was named and had to stay is a conflict."""
        return "conflict" if self.left else "ok"


def run_delete(session: Session, arguments: DeleteArguments) -> Deletion:
    store = session.store
    ids = [store.conversation(session.find(name)).id for name in arguments.conversations]
    session.confirm(f"Remove {', '.join(ids)} for good?", arguments.yes)
    done = delete(store, ids)
    return Deletion(removed=done.removed, contents=done.contents, left=done.left, notes=done.notes)


DELETE = Command(
    name="delete",
    details="Also removes the artifacts that only they have, and their entries in the search "
    "index.",
    on="store",
    arguments=DeleteArguments,
    run=run_delete,
    show=show,
)


DAYS = Meta(description="Remove only conversations without a new event for this many days.", ge=0)
KEEP = Meta(description="Keep this many of the newest conversations, however old.", ge=0)
DRY_RUN = Meta(description="Say what would be removed, and remove nothing.")
SWEEP_YES = Meta(description="Do not ask.")


class SweepArguments(Arguments, frozen=True, kw_only=True):
    days: Annotated[float, DAYS] | None = field(name="older_than", default=None)
    keep: Annotated[int, KEEP] | None = None
    dry_run: Annotated[bool, DRY_RUN] = False
    yes: Annotated[bool, SWEEP_YES] = False


def run_sweep(session: Session, arguments: SweepArguments) -> Removal:
    if arguments.days is None and arguments.keep is None:
        raise Invalid("a sweep needs a limit", hint="--older-than DAYS, --keep NUMBER, or both")
    sweep = partial(
        deleter.sweep,
        session.store,
        older_than_days=arguments.days,
        keep=arguments.keep,
        now_ms=now_ms(),
    )
    done = sweep(dry_run=True)
    is_dry = arguments.dry_run or not done.removed
    if not is_dry:
        session.confirm(
            f"Remove {number(len(done.removed), 'conversation')} for good?", arguments.yes
        )
        done = sweep()
    return Removal(
        removed=UNSET if is_dry else done.removed,
        would_be_removed=done.removed if is_dry else UNSET,
        contents=done.contents,
        left=done.left,
        notes=done.notes,
    )


SWEEP = Command(
    name="sweep",
    on="store",
    arguments=SweepArguments,
    run=run_sweep,
    show=show,
)
