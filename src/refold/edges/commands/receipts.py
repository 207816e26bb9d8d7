"""`refold receipts`: every compaction of a conversation: which batch, by which strategy, when,
what it saved, and whether it holds or was undone.

Sizes are those of the page right before and right after the batch, as `list` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import current_tokens, factor_of
from refold.core.codec import decode
from refold.core.fold import Fold, folded, switches
from refold.core.model import Edit, Event, Hide, Replace, Summarize
from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_undo
from refold.log.reading import pages_of
from refold.tokens.models import model_info

Read = Callable[[int], Iterable[Event]]  # the events up to a seq


class BatchRow(Struct, frozen=True, kw_only=True):
    """One compaction, of the edits from `seq` to `last`; `live` if one of them holds now."""

    batch: str
    seq: int
    last: int
    at_ms: int
    strategies: tuple[str, ...]
    reason: str
    edits: int
    tokens_before: int
    tokens_after: int
    live: bool


class Receipts(Result, frozen=True, kw_only=True):
    """Oldest first."""

    conversation: str
    batches: tuple[BatchRow, ...]


def run(session: Session, arguments: Arguments) -> Receipts:
    store, id = session.store, session.conversation
    head = store.conversation(id).head

    def read(last: int) -> Iterator[Event]:
        for events in pages_of(store, id, last=last):
            yield from events

    return Receipts(conversation=id, batches=tuple(_batches(read, head).values()))


def _batches(read: Read, head: int) -> dict[str, BatchRow]:
    """The compactions of a log, from one walk over it."""
    off = switches(read(head)).off
    state = Fold()
    rows: dict[str, BatchRow] = {}
    for event in read(head):
        tokens = _tokens(state) if event.kind == "edit" else 0
        if not state.add(event):
            state = folded(read(event.seq), switches(read(event.seq)))
        edit = decode(event) if event.kind == "edit" else None
        if isinstance(edit, Replace | Hide | Summarize):
            row = rows.get(edit.batch) or _begun(event, edit, tokens)
            rows[edit.batch] = _continued(row, event, _tokens(state), live=event.seq not in off)
    return rows


def _tokens(state: Fold) -> int:
    return current_tokens(state, factor_of(state, model_info(state.meta.model).name))


def _begun(event: Event, edit: Edit, tokens: int) -> BatchRow:
    """A batch before its first edit."""
    return BatchRow(
        batch=edit.batch,
        seq=event.seq,
        last=event.seq,
        at_ms=event.at_ms,
        strategies=(),
        reason=edit.reason,
        edits=0,
        tokens_before=tokens,
        tokens_after=tokens,
        live=False,
    )


def _continued(row: BatchRow, event: Event, tokens: int, *, live: bool) -> BatchRow:
    """The batch with one edit more."""
    return replace(
        row,
        last=event.seq,
        strategies=tuple(dict.fromkeys((*row.strategies, event.by))),
        edits=row.edits + 1,
        tokens_after=tokens,
        live=row.live or live,
    )


# --- shown ---


def show(receipts: Receipts, screen: Screen) -> None:
    id = receipts.conversation
    if not receipts.batches:
        screen.line(f"{id} was never compacted.")
        return
    heads = ("BATCH", ">SEQ", "AT", "BY", ">EDITS", ">TOKENS", "STATE")
    screen.table(heads, [_cells(row) for row in receipts.batches])
    live = [row for row in receipts.batches if row.live]
    undone = len(receipts.batches) - len(live)
    screen.line(f"{number(len(live), 'compaction')} on the page, {undone:,} undone.")
    if live:
        screen.line(("dim", f"Take one back with: refold revert {id} BATCH"))
        show_undo(id, screen)


def _cells(row: BatchRow) -> tuple[str, ...]:
    sizes = f"{row.tokens_before:,} -> {row.tokens_after:,}"
    by = short_line(", ".join(row.strategies), 60)
    state = "live" if row.live else "undone"
    return row.batch, f"#{row.seq}", moment(row.at_ms), by, f"{row.edits:,}", sizes, state


COMMAND = Command(
    name="receipts",
    arguments=Arguments,
    run=run,
    show=show,
)
