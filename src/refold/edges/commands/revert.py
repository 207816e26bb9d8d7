"""`refold revert`: switches one compaction off, whichever it is."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.checked import quoted
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.errors import Invalid

BATCHES_NAMED = 5
BATCH = Meta(
    description="The batch, as refold receipts and refold why name it, or how it begins.",
    extra={"positional": True, "completes": "batch"},
)


class RevertArguments(Arguments, frozen=True, kw_only=True):
    batch: Annotated[str, BATCH]


class Reverted(PageChange, frozen=True, kw_only=True):
    batch: str


def run(session: Session, arguments: RevertArguments) -> Reverted:
    with session.context(writes=True) as context:
        before = page_size(context)
        batch = _batch_meant(context, arguments.batch)
        context.revert(batch)
        after = page_size(context)
    return Reverted(conversation=context.id, batch=batch, **sizes(before, after))


def _batch_meant(context: Context, typed: str) -> str:
    """The batch of that id, or the only one that begins so; what is neither, as it was typed."""
    known = {batch for _, batch in context.view.undoable if batch.startswith(typed)}
    if typed in known or not typed or not known:
        return typed
    if len(known) > 1:
        names = ", ".join(sorted(known)[:BATCHES_NAMED])
        raise Invalid(f"several batches begin with {quoted(typed, 40)}", hint=f"one of {names}")
    return known.pop()


def show(reverted: Reverted, screen: Screen) -> None:
    what = f"Reverted the compaction {reverted.batch}"
    screen.line(("bold", what), f": {sizes_text(reverted)}.")
    screen.line(("dim", f"Redo with: {screen.call('redo', reverted.conversation)}"))


COMMAND = Command(
    name="revert",
    details="Later compactions stay. refold undo takes the newest back, this command any.",
    arguments=RevertArguments,
    run=run,
    show=show,
)
