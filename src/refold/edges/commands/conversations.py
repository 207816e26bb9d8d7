"""`refold list`, `refold edit` and `refold delete`: the conversations of a store.

The list has one line per conversation for a person: at 80 columns its number stands for its id,
which is shown where there is room, in a pipe, and with `--json`.

A list must be cheap for a thousand conversations: sizes come from the bookmark and the few events
after it, and are left out without a bookmark. Deleting is final, and asks first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from refold.conversations.listing import PROGRAMS, newest
from refold.conversations.overview import Overview, overviews
from refold.display import cut, nearest, number, one_line
from refold.edges.commands.command import (
    AGENT,
    PROJECT,
    DryRun,
    Limit,
    Removable,
    Result,
    Screen,
    Since,
    Tag,
    Tags,
    Window,
    Yes,
    command,
    project_of,
    short_line,
    show_damage,
    show_removable,
)
from refold.edges.commands.session import Session
from refold.edges.displays.phrases import tokens_of
from refold.edges.displays.wrap import width
from refold.errors import Invalid
from refold.log.log import now_ms
from refold.tokens.models import amount, model_info, table

if TYPE_CHECKING:
    from refold.engine.stats import Stats

NAME_CHARS = 60

SORT = Meta(description="What comes first: the newest, the most expensive, or the fullest.")
Order = Literal["when", "cost", "size"]


@command(
    "list",
    details="In place of an ID, you can write its number, such as @2, a name that only one "
    "conversation has, or how only one ID begins. A number means what the last list in this "
    "terminal showed; where none was shown, @1 is the newest.",
    on="store",
    reads=True,
)
def list_conversations(
    session: Session,
    *,
    tag: Tag = "",
    project: Annotated[str, PROJECT] | None = None,
    agent: Annotated[str, AGENT] = "",
    since: Since | None = None,
    sort: Annotated[Order, SORT] = "when",
    limit: Limit | None = None,
) -> Listed:
    store, start = session.store, None
    if since is not None:
        from refold.edges.commands.search import time_of  # loads everything that a search needs

        start = time_of(since)
    path = project_of(project)
    is_cut_late = bool(agent or start or sort != "when")
    chosen = newest(store, tag=tag, folder=path, limit=None if is_cut_late else limit)
    # Every conversation of a list without a filter is in its own place.
    all = newest(store) if tag or path else chosen
    positions = {about.id: position for position, about in enumerate(all, start=1)}
    since_ms = 0 if start is None else int(start.timestamp() * 1000)
    found = [
        about
        for about in overviews(store, (one for one in chosen if one.updated_ms >= since_ms))
        if agent in ("", about.agent)
    ]
    if sort == "cost":
        found.sort(key=lambda about: -(about.cost or 0.0))
    elif sort == "size":
        found.sort(key=lambda about: -about.peak_fill)
    from refold.edges.commands.usage import cost_of_all  # the code for sums is loaded late

    shown = found[:limit]
    rows = tuple(_row(about, positions.get(about.id, 0)) for about in shown)
    session.remember({row.position: row.id for row in rows if row.position})
    return Listed(
        store=store.url,
        conversations=rows,
        tag=tag,
        folder=path,
        agent=agent,
        cost=cost_of_all(store, shown),
    )


class Row(Struct, frozen=True, kw_only=True):
    """One conversation of the list: its `Overview`, and its `position` among all conversations of
    the store, so that `@1` is the newest."""

    id: str
    position: int
    names: tuple[str, ...]
    title: str
    preview: str
    head: int
    messages: int | None
    tokens: int | None
    window: int
    peak: int
    cost: float | None
    model: str
    project: str
    agent: str
    created_ms: int
    updated_ms: int
    parent: str
    parent_seq: int
    part_of: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    damaged: str
    erased: bool


class Listed(Result, frozen=True, kw_only=True):
    """The rows, and what they `cost` together: a call that several of them have is paid once."""

    store: str
    conversations: tuple[Row, ...]
    tag: str = ""
    folder: str = ""
    agent: str = ""
    cost: float | None = None

    @property
    def damaged(self) -> dict[str, str]:
        """The damage of unreadable conversations, by id."""
        return {row.id: row.damaged for row in self.conversations if row.damaged}

    @property
    def outcome(self) -> str:
        return "corrupt" if self.damaged else "ok"

    def show(self, screen: Screen) -> None:
        if not self.conversations:
            tagged = f" with the tag {self.tag}" if self.tag else ""
            held = f" of the project {self.folder}" if self.folder else ""
            agents = f" of the agent {short_line(self.agent, NAME_CHARS)}" if self.agent else ""
            screen.line(f"There are no conversations{agents}{tagged}{held} in {self.store}.")
            return
        _show_rows(self.conversations, screen)
        messages = sum(row.messages or 0 for row in self.conversations)
        total = f"{number(len(self.conversations), 'conversation')}, {number(messages, 'message')}"
        unpriced = sum(row.cost is None for row in self.conversations)
        missing = f"; {unpriced:,} without a known cost" if unpriced else ""
        paid = "" if self.cost is None else f", {amount(self.cost)}{missing}"
        screen.line(("dim", f"{total}{paid}"))
        show_damage(self.damaged, screen)


def _row(about: Overview, position: int) -> Row:
    return Row(
        id=about.id,
        position=position,
        names=about.names,
        title=about.label,
        preview=about.preview,
        head=about.head,
        messages=about.messages,
        tokens=about.tokens,
        window=about.window,
        peak=about.peak,
        cost=about.cost,
        model=about.model,
        project=about.project,
        agent=about.agent,
        created_ms=about.at_ms,
        updated_ms=about.updated_ms,
        parent=about.parent,
        parent_seq=about.parent_seq,
        part_of=about.part_of,
        tags=about.tags,
        metadata=about.metadata,
        damaged=about.damaged,
        erased=about.erased,
    )


HEADS = ("AS", "TITLE", "PROJECT", "AGENT", ">MSGS", ">PEAK", ">COST", "WHEN")
WITH_IDS, WIDE = 100, 130  # columns
ID_CHARS, PROJECT_CHARS, TITLE_CHARS_MIN = 20, 12, 12
REST_OF_UUID = re.compile(r"(?<=[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def _show_rows(rows: Sequence[Row], screen: Screen) -> None:
    """Prints a line for each conversation; ids, parents and names only where there is room."""
    cells = [_cells(row) for row in rows]
    is_wide = not screen.draws or screen.columns >= WIDE
    if not is_wide:
        heads: tuple[str, ...] = HEADS
        if screen.columns >= WITH_IDS:
            heads = (*HEADS[:1], "ID", *HEADS[1:])
            cells = [(one[0], id, *one[1:]) for one, id in zip(cells, _short_ids(rows))]
        place = heads.index("TITLE")
        widths = [max(map(width, column)) for column in zip(heads, *cells, strict=True)]
        room = screen.columns - sum(widths) + widths[place] - 2 * len(heads)
        most = max(TITLE_CHARS_MIN, room)
        titles = [cut(one[place], most) for one in cells]
        shown = zip(cells, titles)
        screen.table(heads, [(*one[:place], to, *one[place + 1 :]) for one, to in shown])
        return
    besides = ("PARENT", "NAMES") if any(row.parent or row.names for row in rows) else ()
    screen.table(
        ("ID", *HEADS, *besides),
        [(row.id, *one, *_besides(row)[: len(besides)]) for row, one in zip(rows, cells)],
    )


def _short_ids(rows: Sequence[Row]) -> list[str]:
    """The beginning of each id; empty if another id of the list begins like it."""
    short = [REST_OF_UUID.sub("", row.id)[:ID_CHARS] for row in rows]
    return [one if short.count(one) == 1 else "" for one in short]


def _cells(row: Row) -> tuple[str, ...]:
    title = f"[damaged] {row.title}" if row.damaged else row.title
    peak = row.peak or row.tokens or 0
    is_known = bool(row.window) and row.tokens is not None
    return (
        f"@{row.position}" if row.position else "",
        one_line(title),
        cut(PurePath(row.project).name, PROJECT_CHARS),
        PROGRAMS.get(row.agent, row.agent),
        "-" if row.messages is None else f"{row.messages:,}",
        f"{100 * peak // row.window}%" if is_known else "-",
        "" if row.cost is None else amount(row.cost),
        _when(row.updated_ms),
    )


def _besides(row: Row) -> tuple[str, str]:
    parent = f"{row.parent}#{row.parent_seq}" if row.parent else ""
    return parent, ", ".join(short_line(name, NAME_CHARS) for name in row.names)


def _when(at_ms: int) -> str:
    """The local time of a list: the hour today, the day this year."""
    try:
        at, now = datetime.fromtimestamp(at_ms / 1000), datetime.now()
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    if at.date() == now.date():
        return at.strftime("%H:%M")
    return at.strftime("%b %d %H:%M" if at.year == now.year else "%Y-%m-%d")


TITLE = Meta(description="The new title.")
NAMES = Meta(description="A name beside the id; replaces the others. May be repeated.")
MODEL = Meta(
    description="The model for the next requests.",
    extra={"metavar": "NAME", "completes": "model"},
)


@command(
    "edit",
    details="Without options, shows them. Tags and names replace the ones before.",
)
def edit(
    session: Session,
    *,
    title: Annotated[str, TITLE] | None = None,
    tag: Tags = (),
    name: Annotated[tuple[str, ...], NAMES] = (),
    model: Annotated[str, MODEL] | None = None,
    window: Window | None = None,
) -> Edited:
    is_meta = title is not None or bool(tag or name)
    is_model = model is not None or window is not None
    with session.context(writes=is_meta or is_model) as context:
        before = context.view.model
        if is_model:
            context.update(model=model, window=window)
        if is_meta:
            context.update(title=title, tags=tag or None, names=name or None)
        if is_meta or is_model:
            context.flush()
        view, stats = context.view, context.stats()
    return Edited(
        conversation=context.id,
        title=stats.title,
        tags=view.tags,
        names=view.names,
        model=view.model,
        chosen=_chosen(context.id, view.model, before, stats) if is_model or not is_meta else None,
    )


class Edited(Result, frozen=True, kw_only=True):
    """`chosen` is the model and its page, unless only other fields were changed."""

    conversation: str
    title: str
    tags: tuple[str, ...]
    names: tuple[str, ...]
    model: str
    chosen: Chosen | None = None

    def show(self, screen: Screen) -> None:
        names = ", ".join(short_line(name, 200) for name in self.names)
        screen.fields(
            [
                ("Conversation", self.conversation),
                *([("Names", names)] if names else []),
                ("Title", short_line(self.title, 200)),
                ("Tags", ", ".join(self.tags) or "none"),
                ("Model", self.model or "unknown"),
            ]
        )
        if self.chosen is not None:
            self.chosen.show(screen)


class Chosen(Result, frozen=True, kw_only=True):
    """The model, and the size of the page for it. `before` is the previous model; `nearest` are
    known names similar to an unknown one, whose window is a guess."""

    conversation: str
    model: str
    before: str
    is_known: bool
    nearest: tuple[str, ...]
    current: int
    window: int
    due: str

    def show(self, screen: Screen) -> None:
        name = short_line(self.model, 200) or "no model is named"
        screen.line(("bold", name), f": {tokens_of(self.current, self.window)}")
        if self.model and not self.is_known:
            hint = f"; did you mean {' or '.join(self.nearest)}?" if self.nearest else ""
            guess = (
                f"This model is not known; a window of {number(self.window, 'token')} is assumed"
            )
            screen.line(("yellow", f"{guess}{hint}"))
        if self.due != "none":
            screen.line(("yellow", "The next request makes the page shorter first."))
        if self.before and self.before != self.model:
            back = screen.call("edit", self.conversation, "--model", self.before)
            screen.line(("dim", f"Go back with: {back}"))


def _chosen(id: str, model: str, before: str, stats: Stats) -> Chosen:
    is_known = model_info(model).known
    similar = () if is_known or not model else tuple(nearest(model, table().models, limit=3))
    return Chosen(
        conversation=id,
        model=model,
        before=before,
        is_known=is_known,
        nearest=similar,
        current=stats.current,
        window=stats.window,
        due=stats.due,
    )


DELETE_NAMES = Meta(
    description="The conversations.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)
OLDER_THAN = Meta(
    description="Those without a new event for this many days.", ge=0, extra={"metavar": "DAYS"}
)
KEEP = Meta(description="Keep this many of the newest; alone, delete all others.", ge=0)


@command(
    "delete",
    details="Names conversations, or old ones by --older-than and --keep. Also removes artifacts "
    "that only they have, and their entries in the search index.",
    on="store",
)
def delete(
    session: Session,
    *,
    conversations: Annotated[tuple[str, ...], DELETE_NAMES] = (),
    older_than: Annotated[float, OLDER_THAN] | None = None,
    keep: Annotated[int, KEEP] | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Removal:
    # Imported late: a list needs nothing of it.
    from refold.conversations import deleter

    is_old = older_than is not None or keep is not None
    if bool(conversations) == is_old:
        hint = "refold delete ID, or --older-than DAYS, --keep NUMBER, or both"
        raise Invalid("name conversations, or say how old they are", hint=hint)
    store = session.store
    if dry_run:
        ids = [store.conversation(session.find(name)).id for name in conversations]
    else:
        ids = [session.removable(yes=yes, name=name) for name in conversations]
    ids = list(dict.fromkeys(ids))
    stale = partial(deleter.stale, store, older_than_days=older_than, keep=keep)
    if is_old:
        ids = stale(now_ms=now_ms())
    items = tuple(session.removable_conversation(id) for id in ids)
    if items:
        what = ids[0] if len(ids) == 1 else number(len(ids), "conversation")
        if not dry_run:
            items = session.confirm_removal(items, f"Remove {what} for good?", yes)
    if dry_run or not ids:
        return Removal(would_be_removed=tuple(ids), items=items, contents=0, left={}, notes=())
    if is_old:
        # Only those of the shown conversations that were not written to while the question was
        # open.
        still_old = stale(now_ms=now_ms())
        ids = [id for id in ids if id in still_old]
    done = deleter.delete(store, ids)
    kind = Removal if is_old else Deletion
    return kind(
        removed=done.removed,
        items=items,
        contents=done.contents,
        left=done.left,
        notes=done.notes,
    )


class Removal(Result, frozen=True, kw_only=True):
    """The conversations `removed`, or `would_be_removed` in a dry run; `items` describes them,
    unless a person was asked and has seen them. `contents` counts their removed artifacts. `left`
    has the reasons why conversations had to stay."""

    removed: tuple[str, ...] | UnsetType = UNSET
    would_be_removed: tuple[str, ...] | UnsetType = UNSET
    items: tuple[Removable, ...] = ()
    contents: int
    left: dict[str, str]
    notes: tuple[str, ...]

    def show(self, screen: Screen) -> None:
        show_removable(self.items, screen)
        if self.would_be_removed is not UNSET:
            screen.line(f"{len(self.would_be_removed):,} would be removed.")
            return
        ids = self.removed or ()
        names = f": {', '.join(ids)}" if ids else ""
        artifacts = ""
        if self.contents:
            artifacts = f", and {number(self.contents, 'artifact')} that nobody else has"
        screen.line(f"{len(ids):,} removed{names}{artifacts}.")
        for id, reason in self.left.items():
            screen.line(f"{id} stays: {reason}")
        for note in self.notes:
            screen.line(("yellow", note))


class Deletion(Removal, frozen=True, kw_only=True):
    """The removal of named conversations: one that had to stay is a conflict."""

    @property
    def outcome(self) -> str:
        return "conflict" if self.left else "ok"
