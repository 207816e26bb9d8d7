"""`refold undo`: takes the newest compaction or restore back that stands, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from refold.compaction.trigger import PAUSE_RATIO, REASONS
from refold.edges.commands.batch_names import batch_noun
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.file_changes import confirm_changes, show_put_back
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.engine.context import Context
from refold.log.file_versions import FileChange
from refold.log.reading import pages_of
from refold.log.undo import Change, ChangeKind, History, history
from refold.log.undo import Undone as Taken

FILES = Meta(description="Where a restore put files back, take that back as well.")


YES = Meta(description="Do not ask before files are put back.")


class StepArguments(Arguments, frozen=True, kw_only=True):
    files: Annotated[bool, FILES] = False
    yes: Annotated[bool, YES] = False


class Step(PageChange, frozen=True, kw_only=True):
    """One step of `undo` or `redo`: a compaction by its `batch`, or the restore written at `seq`;
    `kind` is none if there was nothing to do. `purpose` is what the batch was for.
    `made_room` is the batch by which the oldest messages had to leave: with them the page would
    have `tokens_whole`, and `tokens_max` fit. `pause_tokens` must come before a page that is full
    is compacted again. The counts say how many steps are possible now. `changes` are the files
    that were put back."""

    kind: ChangeKind
    batch: str
    seq: int
    purpose: str = ""
    made_room: str
    tokens_whole: int = 0
    tokens_max: int = 0
    pause_tokens: int = 0
    undo_steps: int
    redo_steps: int
    changes: tuple[FileChange, ...] = ()


class Undone(Step, frozen=True, kw_only=True):
    undone: bool


def run(session: Session, arguments: StepArguments) -> Undone:
    if arguments.files:
        confirm_files(session, past_of(session).standing, yes=arguments.yes)
    step = take_step(session, lambda context: context.undo(files=arguments.files))
    return Undone(**asdict(step), undone=step.kind != "none")


def confirm_files(session: Session, steps: Sequence[Change], *, yes: bool) -> None:
    """Asks before the last of these steps changes files: they may have been edited since."""
    step = steps[-1] if steps else Change()
    if step.kind != "restore":
        return
    with session.context() as context:
        changes = context.files.changes(step.undone_at or step.seq)
    confirm_changes(session, changes, yes=yes)


def take_step(session: Session, take: Callable[[Context], Taken]) -> Step:
    """Undoes or redoes one step, and says what it did."""
    with session.context(writes=True) as context:
        before = page_size(context)
        done = take(context)
        after = page_size(context)
        pause = _pause(context)
        most = context.budget.input_max
    past = past_of(session)
    return Step(
        conversation=context.id,
        kind=done.kind,
        batch=done.batch,
        seq=done.seq,
        purpose=done.purpose,
        made_room=done.made_room,
        tokens_whole=done.tokens_whole,
        tokens_max=most,
        pause_tokens=pause,
        undo_steps=len(past.standing),
        redo_steps=len(past.undone),
        changes=tuple(done.changes),
        **sizes(before, after),
    )


def _pause(context: Context) -> int:
    """How many tokens are waited for before the page, although full, is compacted again."""
    stats = context.stats()
    is_paused = stats.due_reason == REASONS["undone"]
    return round(PAUSE_RATIO * stats.window) if is_paused else 0


def past_of(session: Session) -> History:
    """What stands in the conversation asked for, and what was undone."""
    store, id = session.store, session.conversation
    pages = pages_of(store, id, last=store.conversation(id).head)
    return history(event for events in pages for event in events)


def show(step: Undone, screen: Screen) -> None:
    if step.undone:
        show_step(step, screen, done="Undone")
    else:
        screen.line(
            "There is nothing left to undo." if step.redo_steps else "There is nothing to undo."
        )
    if step.undo_steps:
        steps = number(step.undo_steps, "step")
        further = screen.call("undo", step.conversation)
        screen.line(("dim", f"Further back with: {further} ({steps} left)"))
    if step.redo_steps:
        words = ("--files",) if step.changes else ()
        screen.line(("dim", f"Redo with: {screen.call('redo', step.conversation, *words)}"))


def show_step(step: Step, screen: Screen, *, done: str) -> None:
    """What was done, and what it did to the page."""
    what = (
        f"the {batch_noun(step.purpose)} {step.batch}" if step.batch else f"the restore #{step.seq}"
    )
    screen.line(("bold", f"{done}: {what}"), f", {sizes_text(step)}.")
    show_put_back(step.changes, screen)
    larger = f"a model with a larger window: {screen.call('model', step.conversation, 'NAME')}"
    if step.made_room:
        sizes = (
            f"All of it would be {number(step.tokens_whole, 'token')}, and {step.tokens_max:,} fit"
        )
        screen.line(
            ("yellow", f"{sizes}: the oldest messages are left out (batch {step.made_room}).")
        )
        screen.line(f"Nothing is lost. To have all of it on the page, use {larger}")
    elif step.pause_tokens:
        waits = f"refold waits until {number(step.pause_tokens, 'token')} more have come"
        screen.line(
            ("yellow", f"The page is full. Before it is compacted by itself again, {waits}.")
        )
        screen.line(
            f"For longer: a higher compact_ratio or auto = false in refold.toml, or {larger}"
        )


COMMAND = Command(
    name="undo",
    details="Running undo again goes one step further back; refold redo comes forward again.",
    arguments=StepArguments,
    run=run,
    show=show,
)
