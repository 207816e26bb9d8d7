"""`refold undo`: takes the newest compaction or restore back that stands, one step at a time.

Where all of it would not fit the window, messages must leave the page for it: then it is asked
first, with the sizes before, after and whole, and the ways to have all of it. Neighbours:
`rehearsal` finds out, `redo` goes the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from refold.compaction.trigger import PAUSE_RATIO, REASONS
from refold.core.codec import decode
from refold.core.model import Hide
from refold.edges.commands.batch_names import batch_noun
from refold.edges.commands.command import Arguments, Command, Screen
from refold.edges.commands.file_changes import confirm_changes, show_put_back
from refold.edges.commands.page_change import PageChange, page_size, sizes, sizes_text
from refold.edges.commands.rehearsal import rehearsal
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.file_versions import FileChange
from refold.log.reading import pages_of
from refold.log.undo import Change, ChangeKind, History, history
from refold.log.undo import Undone as Taken

SPANS_SHOWN = 4
FILES = Meta(description="Where a restore put files back, take that back as well.")


YES = Meta(description="Do not ask before files are put back, or messages leave the page.")


class StepArguments(Arguments, frozen=True, kw_only=True):
    files: Annotated[bool, FILES] = False
    yes: Annotated[bool, YES] = False


class Step(PageChange, frozen=True, kw_only=True):
    """One step of `undo` or `redo`: a compaction by its `batch`, or the restore written at `seq`;
    `kind` is none if there was nothing to do. `purpose` is what the batch was for.
    `made_room` is the batch by which the messages `left_out` had to leave: with them the page
    would have `tokens_whole`, and `tokens_max` fit. `pause_tokens` must come before a page that
    is full is compacted again; `is_capped` says that `tokens_cap` makes it full, not the window.
    The counts say how many changes stand and how many are undone now:
    an undone restore lets those stand again that it had switched off. `changes` are the files
    that were put back."""

    kind: ChangeKind
    batch: str
    seq: int
    purpose: str = ""
    made_room: str
    left_out: str = ""
    tokens_whole: int = 0
    tokens_max: int = 0
    pause_tokens: int = 0
    is_capped: bool = False
    undo_steps: int
    redo_steps: int
    changes: tuple[FileChange, ...] = ()


class Undone(Step, frozen=True, kw_only=True):
    undone: bool


def run(session: Session, arguments: StepArguments) -> Undone:
    if arguments.files:
        confirm_files(session, past_of(session).standing, yes=arguments.yes)
    if not arguments.yes:
        _confirm_room(session)
    step = take_step(session, lambda context: context.undo(files=arguments.files))
    return Undone(**asdict(step), undone=step.kind != "none")


def _confirm_room(session: Session) -> None:
    """Asks before messages leave the page because all that comes back does not fit."""
    with rehearsal(session) as context:
        head = context.view.head
        tried = context.undo()
        if not tried.made_room:
            return
        most = context.budget.input_max
        left_out = _left_out(context, tried.made_room, head)
    sizes = f"all of it would be {number(tried.tokens_whole, 'token')}, and {most:,} fit"
    after = number(tried.tokens_after, "token")
    change = f"the page would go from {tried.tokens_before:,} to {after}"
    told = f"{sizes}: {left_out} would be left out, and {change}"
    if session.ask(f"{told[0].upper()}{told[1:]}. Take it back all the same?"):
        return
    id = session.conversation
    ways = f"for all of it: refold model {id} --window N, or a model with a larger window"
    raise Invalid(f"nothing was changed: {told}", hint=f"{ways}; --yes takes it back all the same")


def _left_out(context: Context, batch: str, head: int) -> str:
    """The messages that a batch written after that place took off the page, as handles."""
    bodies = (decode(event) for event in context.log.events(after=head) if event.kind == "edit")
    spans = [body.span for body in bodies if isinstance(body, Hide) and body.batch == batch]
    more = ["..."] if len(spans) > SPANS_SHOWN else []
    return ", ".join([*map(str, spans[:SPANS_SHOWN]), *more]) or "nothing"


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
        before, head = page_size(context), context.view.head
        done = take(context)
        left_out = _left_out(context, done.made_room, head) if done.made_room else ""
        after = page_size(context)
        pause = _pause(context)
        budget, cap = context.budget, context.config.tokens_cap
    past = past_of(session)
    return Step(
        conversation=context.id,
        kind=done.kind,
        batch=done.batch,
        seq=done.seq,
        purpose=done.purpose,
        made_room=done.made_room,
        left_out=left_out,
        tokens_whole=done.tokens_whole,
        tokens_max=budget.input_max,
        pause_tokens=pause,
        is_capped=budget.compact_at == cap,
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
        further = screen.call("undo", step.conversation)
        screen.line(("dim", f"Further back with: {further}"))
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
    if step.made_room:
        sizes = (
            f"All of it would be {number(step.tokens_whole, 'token')}, and {step.tokens_max:,} fit"
        )
        screen.line(("yellow", f"{sizes}: {step.left_out} left the page (batch {step.made_room})."))
        screen.line("Nothing is lost. To have all of it on the page:")
    elif step.pause_tokens:
        waits = f"refold waits until {number(step.pause_tokens, 'token')} more have come"
        screen.line(
            ("yellow", f"The page is full. Before it is compacted automatically again, {waits}.")
        )
        setting, end = ("tokens_cap", ".") if step.is_capped else ("compact_ratio", ", or")
        screen.line(f"To wait longer: a higher {setting} or auto = false in refold.toml{end}")
    if step.made_room or (step.pause_tokens and not step.is_capped):
        window = screen.call("model", step.conversation, "--window", "N")
        screen.line(f"  a larger window: {window}")
        screen.line(f"  a model that has one: {screen.call('model', step.conversation, 'NAME')}")


COMMAND = Command(
    name="undo",
    details="Running undo again goes one step further back; refold redo comes forward again.",
    arguments=StepArguments,
    run=run,
    show=show,
)
