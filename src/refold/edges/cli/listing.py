"""`refold list` and `refold stats`: which conversations there are, and the numbers of one.

A list must be cheap for a thousand conversations: sizes come from the bookmark and a short tail
behind it, and are left out where that does not tell them.
"""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from refold.edges.cli.options import (
    command,
    conversation_argument,
    end_with_damage,
    opened,
    opened_store,
    store_option,
    tell_damage,
    window_option,
)
from refold.edges.cli.screen import Screen

if TYPE_CHECKING:
    from refold.core.budget import Sized
    from refold.core.model import Conversation
    from refold.engine.context import Context
    from refold.engine.stats import Stats
    from refold.stores.protocol import Store

TAIL_EVENTS = 300
PLAIN_KINDS = {"message", "usage", "artifact", "checkpoint", "meta"}


@command(
    "list",
    click.option("--tag", default="", help="Only conversations with this tag."),
    click.option("--limit", type=click.IntRange(min=1), help="Only so many."),
    store_option,
)
def list_(screen: Screen, tag: str, limit: int | None, store: str | None) -> None:
    """Lists the conversations of the store, newest first.

    Wherever an ID is asked for, @1 stands for the first of this list, @2 for the second.
    """
    from refold.conversations.listing import newest

    damaged: dict[str, str] = {}
    with opened_store(store) as there:
        rows = (_row(there, about, damaged) for about in newest(there, tag=tag)[:limit])
        if screen.json_output:
            screen.emit_each({"store": there.url}, "conversations", rows)
        elif shown := [_cells(row) for row in rows]:
            screen.table(("ID", "TITLE", ">MESSAGES", ">TOKENS", "UPDATED", "PARENT"), shown)
            tell_damage(screen, damaged)
        else:
            screen.line(f"There are no conversations in {there.url}.")
    end_with_damage(damaged)


def _row(store: Store, about: Conversation, damaged: dict[str, str]) -> dict[str, Any]:
    """What the list shows of a conversation. One that cannot be read is in it all the same, and
    in `damaged`."""
    from refold.conversations.listing import preview
    from refold.errors import Corrupt

    try:
        sizes = _sizes(store, about)
    except Corrupt as error:
        sizes = None
        damaged[about.id] = str(error)
    return {
        "id": about.id,
        "title": about.title,
        "preview": preview(store, about.id),
        "head": about.head,
        "messages": sizes and sizes[0],
        "tokens": sizes and sizes[1],
        "created_ms": about.at_ms,
        "updated_ms": about.updated_ms,
        "parent": about.parent,
        "parent_seq": about.parent_seq,
        "damaged": damaged.get(about.id, ""),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    from refold.display import moment

    sizes = ["-" if row[name] is None else f"{row[name]:,}" for name in ("messages", "tokens")]
    parent = f"{row['parent']}#{row['parent_seq']}" if row["parent"] else ""
    title = row["title"] or row["preview"] or "Untitled"
    said = f"[damaged] {title}" if row["damaged"] else title
    return [row["id"], said, *sizes, moment(row["updated_ms"]), parent]


def _sizes(store: Store, about: Conversation) -> tuple[int, int] | None:
    """Messages and tokens, as `stats` counts them; None where only the whole log would tell.
    Corrupt if what has to be read for it cannot be."""
    from refold.core import bookmark
    from refold.core.model import View

    mark = bookmark.read(store.bookmark(about.id))
    if mark is not None and (mark.head, mark.chain) == (about.head, about.chain):
        tokens = mark.system[1] + mark.tools[1] + sum(slot[2] for slot in mark.slots)
        page = View(slot_tokens=tokens, anchor=mark.anchor, calibration=mark.calibration)
        return sum(mark.counts.values()), _current(page, mark.meta.model)
    return _folded_sizes(store, about, mark.head if mark else 0)


def _folded_sizes(store: Store, about: Conversation, after: int) -> tuple[int, int] | None:
    from refold.log.log import Log

    if about.head - after > TAIL_EVENTS:
        return None
    tail = (
        store.read(about.id, after=after, last=about.head, limit=TAIL_EVENTS)
        if about.head > after
        else []
    )
    if about.head > TAIL_EVENTS and any(event.kind not in PLAIN_KINDS for event in tail):
        # Such an event may reach back into the log, and then all of it would be read.
        return None
    view = Log(store, about.id).state.view()
    return sum(view.counts.values()), _current(view, view.model)


def _current(page: Sized, model: str | None) -> int:
    from refold.core.budget import current_tokens, factor_of
    from refold.tokens.models import model_info

    return current_tokens(page, factor_of(page, model_info(model).name))


# --- stats ---


@command("stats", conversation_argument, window_option, store_option)
def stats_(screen: Screen, conversation: str, window: int | None, store: str | None) -> None:
    """Shows size, counts and cost of a conversation."""
    with opened(conversation, store, window=window) as context:
        stats = context.stats()
        if screen.json_output:
            screen.emit(_as_json(stats))
        else:
            screen.fields(_as_fields(stats, context))


def _as_json(stats: Stats) -> dict[str, Any]:
    values = {name: getattr(stats, name) for name in stats.__struct_fields__}
    plain = {
        name: _billed(value) if isinstance(value, Struct) else value
        for name, value in values.items()
    }
    return {**plain, "ratio": stats.ratio}


def _billed(totals: Struct) -> dict[str, Any]:
    return {name: getattr(totals, name) for name in totals.__struct_fields__}


def _as_fields(stats: Stats, context: Context) -> list[tuple[str, str]]:
    from refold.display import counted, moment, plural
    from refold.tokens.models import dollars

    types = Tally(one.artifact.type for one in context.artifacts.list())
    hidden = stats.messages - stats.active
    billed = stats.billed
    return [
        ("Conversation", stats.conversation),
        ("Title", stats.title),
        ("Model", stats.model or "unknown"),
        (
            "Messages",
            counted(Tally(stats.by_role)) + (f", {hidden:,} off the page" if hidden else ""),
        ),
        (
            "Artifacts",
            counted(Tally({plural(name, number): number for name, number in types.items()})),
        ),
        ("Tokens", f"{stats.current:,} / {stats.window:,} ({stats.percent:.1f}%), {stats.level}"),
        ("Made of", ", ".join(f"{name} {size:,}" for name, size in stats.breakdown.items())),
        ("Compacts at", f"{stats.compact_at:,}, warns at {stats.warn_at:,}"),
        ("Billed", f"{billed.calls:,} calls, {billed.input:,} tokens in, {billed.output:,} out"),
        ("Cached", f"{billed.cache_read:,} tokens read, {billed.cache_write:,} written"),
        ("Cost", dollars(stats.cost)),
        ("Created", moment(stats.created_ms)),
        ("Updated", moment(stats.updated_ms)),
    ]
