"""`refold receipts`: every compaction of a conversation: which batch, by which strategy, when,
what it saved, and whether it holds or was undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from refold.display import moment
from refold.edges.commands.batch_names import batch_noun
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line, show_undo
from refold.log.batches import Batch


class Receipts(Result, frozen=True, kw_only=True):
    """Oldest first."""

    conversation: str
    batches: tuple[Batch, ...]


def run(session: Session, arguments: Arguments) -> Receipts:
    with session.context() as context:
        return Receipts(conversation=context.id, batches=tuple(context.log.batches()))


def show(receipts: Receipts, screen: Screen) -> None:
    id = receipts.conversation
    if not receipts.batches:
        screen.line(f"{id} was never compacted.")
        return
    heads = ("BATCH", "KIND", ">SEQ", "AT", "BY", ">EDITS", ">TOKENS", "STATE")
    screen.table(heads, [_cells(batch) for batch in receipts.batches])
    live = [batch for batch in receipts.batches if batch.live]
    undone = len(receipts.batches) - len(live)
    screen.line(f"{_counted(live)} on the page, {undone:,} undone.")
    if live:
        screen.line(("dim", f"Take one back with: {screen.call('revert', id, 'BATCH')}"))
        show_undo(id, screen)


def _counted(batches: Sequence[Batch]) -> str:
    """`2 compactions, 1 hide`."""
    nouns = Counter(batch_noun(batch.purpose) for batch in batches)
    return ", ".join(_number(count, noun) for noun, count in nouns.items()) or "Nothing"


def _number(count: int, noun: str) -> str:
    first, space, rest = noun.partition(" ")
    return f"{number(count, first)}{space}{rest}"


def _cells(batch: Batch) -> tuple[str, ...]:
    sizes = f"{batch.tokens_before:,} -> {batch.tokens_after:,}"
    by = short_line(batch.strategy, 60)
    state = "live" if batch.live else "undone"
    noun = batch_noun(batch.purpose)
    at, edits = moment(batch.at_ms), f"{batch.edits:,}"
    return batch.id, noun, f"#{batch.seq}", at, by, edits, sizes, state


COMMAND = Command(
    name="receipts",
    reads=True,
    arguments=Arguments,
    run=run,
    show=show,
)
