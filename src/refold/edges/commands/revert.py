"""`refold revert`: switches one compaction off, whichever it is."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.session import Session

BATCH = Meta(
    description="The batch, as refold receipts and refold why name it.",
    extra={"positional": True, "completes": "batch"},
)


class RevertArguments(Arguments, frozen=True, kw_only=True):
    batch: Annotated[str, BATCH]


class Reverted(PageChange, frozen=True, kw_only=True):
    batch: str


def run(session: Session, arguments: RevertArguments) -> Reverted:
    with session.context(writes=True) as context:
        before = page_size(context)
        context.revert(arguments.batch)
        after = page_size(context)
    return Reverted(conversation=context.id, batch=arguments.batch, **sizes(before, after))


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
