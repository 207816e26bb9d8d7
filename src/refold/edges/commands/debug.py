"""How a page came about, as one JSON object for a bug report: `stats --debug`.

It has the edits (`history`), their savings (`impact`), the hidden spans and the next candidates
(`ranges`): sizes, positions and reasons without secrets, and no message's text. Neighbour: `why`
tells a person the same about one message.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import Budget
from refold.core.codec import decode
from refold.core.model import Event, Message, Slot, View
from refold.edges.commands.command import (
    Result,
    Screen,
)
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.log.points import Batch
from refold.log.trace import Trace, history_of, pages_of
from refold.log.unfold import body_text
from refold.redaction import redacted
from refold.stores.protocol import Store
from refold.strategies.hide import PRESETS


class SlotSize(Struct, frozen=True, kw_only=True):
    """One place of the page; `edits` are the seqs of those on it."""

    handle: str
    role: str
    tokens: int
    characters: int
    edits: tuple[int, ...]
    is_pinned: bool


class Impact(Struct, frozen=True, kw_only=True):
    """What the page lost against all that was said, in characters: `saved` is a share from 0 to 1.
    `batches` have the tokens before and after each compaction."""

    characters_before: int
    characters_after: int
    saved: float
    batches: tuple[Batch, ...]


class Ranges(Struct, frozen=True, kw_only=True):
    """What stands for others on the page now, and what each preset of `hide` would take next."""

    hidden: tuple[str, ...]
    next: dict[str, tuple[str, ...]]


class Dump(Result, frozen=True, kw_only=True):
    conversation: str
    version: str
    head: int
    model: str
    tokens: int
    due: str
    due_reason: str
    budget: Budget
    page: tuple[SlotSize, ...]
    history: tuple[Trace, ...]
    impact: Impact
    ranges: Ranges

    def show(self, screen: Screen) -> None:
        screen.document([msgspec.json.format(msgspec.json.encode(self), indent=2), b"\n"])


def dump(session: Session) -> Dump:
    """The page of the conversation, and everything that shaped it."""
    from refold import __version__

    with session.context() as context:
        view, stats = context.view, context.stats()
        return Dump(
            conversation=context.id,
            version=__version__,
            head=view.head,
            model=stats.model,
            tokens=stats.current,
            due=stats.due,
            due_reason=stats.due_reason,
            budget=context.budget,
            page=tuple(_size(slot, view) for slot in view.slots),
            history=tuple(map(_shown, history_of(_events(session.store, view.head, context.id)))),
            impact=_impact(session.store, context),
            ranges=_ranges(context),
        )


def _size(slot: Slot, view: View) -> SlotSize:
    return SlotSize(
        handle=str(slot.span),
        role=slot.message.role,
        tokens=slot.tokens,
        characters=len(body_text(slot.message)),
        edits=tuple(edit.seq for edit in slot.edits),
        is_pinned=slot.seq in view.pins,
    )


def _events(store: Store, head: int, id: str) -> Iterator[Event]:
    return (event for page in pages_of(store, id, last=head) for event in page)


def _shown(trace: Trace) -> Trace:
    return replace(trace, reason=redacted(trace.reason))


def _impact(store: Store, context: Context) -> Impact:
    view = context.view
    bodies = map(decode, _events(store, view.head, context.id))
    before = sum(len(body_text(body)) for body in bodies if isinstance(body, Message))
    after = sum(len(body_text(slot.message)) for slot in view.slots)
    return Impact(
        characters_before=before,
        characters_after=after,
        saved=round(max(0, before - after) / before, 4) if before else 0.0,
        batches=tuple(context.log.batches()),
    )


def _ranges(context: Context) -> Ranges:
    planned = {preset: context.plan("hide", preset=preset).items for preset in PRESETS}
    return Ranges(
        hidden=tuple(str(slot.span) for slot in context.view.slots if slot.standin),
        next={preset: tuple(item.handle for item in items) for preset, items in planned.items()},
    )
