"""`refold undo` and `refold redo`: compactions and restores, reverted and repeated.

If a complete step does not fit the window, some messages have to leave the page: `undo` tries the
step without writing it and asks first. `PageChange` has the size of the page before and after, as
`stats` counts it; `show_put_back` and `confirm_changes` handle files that are restored with a step.
Neighbours: `restore` and `page_edits` use both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import asdict

from refold.checked import beginning
from refold.compaction.trigger import PAUSE_RATIO, REASONS
from refold.display import number
from refold.edges.commands.command import (
    Result,
    Screen,
    Yes,
    batch_noun,
    command,
    short_line,
    show_undo,
)
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.errors import Conflict, Invalid
from refold.log.undo import Change, ChangeKind, FileChange, History, history
from refold.log.undo import Undone as Taken

SPANS_SHOWN = COVERS_SHOWN = 4
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
PUT_BACK = {
    "create": "is there again",
    "change": "is as it was then",
    "remove": "was not there then: removed",
    "same": "is as it was already",
    "impossible": "is left alone",
}


Files = Annotated[bool, Meta(description="Also put the files of this folder back.")]
BATCH = Meta(
    description="One compaction, however old: its batch in refold history, or how it begins.",
    extra={"positional": True, "completes": "batch"},
)


@command(
    "undo",
    details="Running undo again goes one step further back; refold redo comes forward again. With "
    "a BATCH, later compactions stay.",
)
def undo(
    session: Session,
    *,
    batch: Annotated[str, BATCH] | None = None,
    files: Files = False,
    yes: Yes = False,
) -> Undone | Reverted:
    if batch is not None:
        return _revert(session, batch)
    expect = None if yes else _agreed_head(session, "undo", files=files)
    step = _take_step(session, lambda context: context.undo(files=files, expect=expect))
    return Undone(**asdict(step), undone=step.kind != "none")


@command("redo", details="What refold undo switched off is on the page again.")
def redo(session: Session, *, files: Files = False, yes: Yes = False) -> Redone:
    expect = None if yes else _agreed_head(session, "redo", files=files)
    step = _take_step(session, lambda context: context.redo(files=files, expect=expect))
    return Redone(**asdict(step), redone=step.kind != "none")


# --- sizes of the page ---


class PageChange(Result, frozen=True, kw_only=True):
    conversation: str
    slots_before: int
    slots_after: int
    tokens_before: int
    tokens_after: int


class PageSize(NamedTuple):
    slots: int
    tokens: int


def page_size(context: Context) -> PageSize:
    return PageSize(len(context.view.slots), context.stats().current)


def sizes(before: PageSize, after: PageSize) -> dict[str, Any]:
    """The size fields of a `PageChange`."""
    return {
        "slots_before": before.slots,
        "slots_after": after.slots,
        "tokens_before": before.tokens,
        "tokens_after": after.tokens,
    }


def sizes_text(change: PageChange) -> str:
    """`4 -> 16 slots, 953 -> 1,778 tokens`."""
    slots = f"{change.slots_before:,} -> {number(change.slots_after, 'slot')}"
    return f"{slots}, {change.tokens_before:,} -> {number(change.tokens_after, 'token')}"


# --- one step ---


class Step(PageChange, frozen=True, kw_only=True):
    """One step of `undo` or `redo`: a compaction by its `batch`, or the restore written at `seq`;
    `kind` is `none` if there was nothing to do. `purpose` is the purpose of the batch. `made_room`
    is the batch that took the messages `left_out` off the page: with them the page would have
    `tokens_whole`, of which `tokens_max` fit. A full page is not compacted again before
    `pause_tokens` more have arrived; `is_capped` if `tokens_cap` makes it full, not the window.
    `undo_steps` and `redo_steps` count the active and the undone changes: an undone restore
    reinstates the changes it had switched off. `changes` are the restored files."""

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
    refused_thinking: tuple[int, ...] = ()
    changes: tuple[FileChange, ...] = ()


class Undone(Step, frozen=True, kw_only=True):
    undone: bool

    def show(self, screen: Screen) -> None:
        if self.undone:
            _show_step(self, screen, done="Undone")
        else:
            screen.line(
                "There is nothing left to undo." if self.redo_steps else "There is nothing to undo."
            )
        if self.undo_steps:
            further = screen.call("undo", self.conversation)
            screen.line(("dim", f"Further back with: {further}"))
        if self.redo_steps:
            words = ("--files",) if self.changes else ()
            screen.line(("dim", f"Redo with: {screen.call('redo', self.conversation, *words)}"))


class Redone(Step, frozen=True, kw_only=True):
    redone: bool

    def show(self, screen: Screen) -> None:
        if not self.redone:
            screen.line("There is nothing to redo.")
            return
        _show_step(self, screen, done="Redone")
        if self.redo_steps:
            further = screen.call("redo", self.conversation)
            screen.line(("dim", f"Further with: {further}"))
        show_undo(self.conversation, screen, files=bool(self.changes))


def _take_step(session: Session, take: Callable[[Context], Taken]) -> Step:
    """Undoes or redoes one step, and reports it."""
    with session.context(writes=True) as context:
        before = page_size(context)
        done = take(context)
        after, stats = page_size(context), context.stats()
        budget, cap = context.budget, context.config.tokens_cap
        past = _past(context)
    is_paused = stats.due_reason == REASONS["undone"]
    return Step(
        conversation=context.id,
        kind=done.kind,
        batch=done.batch,
        seq=done.seq,
        purpose=done.purpose,
        made_room=done.made_room,
        left_out=_left_out(done),
        tokens_whole=done.tokens_whole,
        tokens_max=budget.input_max,
        pause_tokens=round(PAUSE_RATIO * stats.window) if is_paused else 0,
        is_capped=budget.compact_at == cap,
        undo_steps=len(past.active),
        redo_steps=len(past.undone),
        refused_thinking=done.refused_thinking,
        changes=tuple(done.changes),
        **sizes(before, after),
    )


def _past(context: Context) -> History:
    """The active and the undone changes of the conversation."""
    with context._open.reading() as state:
        return history(state.controls.all())


def _show_step(step: Step, screen: Screen, *, done: str) -> None:
    """Prints the step and its effect on the page."""
    what = (
        f"the {batch_noun(step.purpose)} {step.batch}" if step.batch else f"the restore #{step.seq}"
    )
    screen.line(("bold", f"{done}: {what}"), f", {sizes_text(step)}.")
    show_put_back(step.changes, screen)
    if step.refused_thinking:
        count = number(len(step.refused_thinking), "message")
        cause = "the model accepts it only on the page it was written under"
        screen.line(f"The thinking of {count} is left out: {cause}.")
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
        edit = screen.call("edit", step.conversation)
        screen.line(f"  a larger window: {edit} --window N")
        screen.line(f"  a model that has one: {edit} --model NAME")


def _agreed_head(session: Session, act: Literal["undo", "redo"], *, files: bool) -> int | None:
    """Asks before a step puts files back or leaves messages out. Returns the head that the answers
    were given for, None if there was nothing to ask."""
    with session.context() as context:
        head, is_asked = context.view.head, False
        if files:
            is_asked = _confirm_files(session, context, act)
        if act == "undo":
            is_asked |= _confirm_room(session, context)
    return head if is_asked else None


def _confirm_room(session: Session, context: Context) -> bool:
    """Asks before messages leave the page because the restored ones do not all fit. Returns whether
    there was something to ask."""
    tried, most = context.log.rehearse("undo").undone, context.budget.input_max
    if not tried.made_room:
        return False
    sizes = f"all of it would be {number(tried.tokens_whole, 'token')}, and {most:,} fit"
    after = number(tried.tokens_after, "token")
    change = f"the page would go from {tried.tokens_before:,} to {after}"
    effect = f"{sizes}: {_left_out(tried)} would be left out, and {change}"
    if session.ask(f"{effect[0].upper()}{effect[1:]}. Take it back all the same?"):
        return True
    id = session.conversation
    ways = f"for all of it: refold edit {id} --window N, or a model with a larger window"
    hint = f"{ways}; --yes takes it back all the same"
    raise Invalid(f"nothing was changed: {effect}", hint=hint)


def _left_out(undone: Taken) -> str:
    """The handles of the messages that left the page to make room."""
    spans = undone.left_out
    if not undone.made_room:
        return ""
    more = ["..."] if len(spans) > SPANS_SHOWN else []
    return ", ".join([*map(str, spans[:SPANS_SHOWN]), *more]) or "nothing"


def _confirm_files(session: Session, context: Context, act: Literal["undo", "redo"]) -> bool:
    """Asks before a step changes files: they may have been edited since. Returns whether there was
    something to ask."""
    past = _past(context)
    steps = past.active if act == "undo" else past.undone
    step = steps[-1] if steps else Change()
    if step.kind != "restore":
        return False
    planned = partial(context.files.changes, step.undone_at or step.seq)
    return confirm_changes(session, planned(), planned, yes=False)


# --- one compaction, however old ---


class Reverted(PageChange, frozen=True, kw_only=True):
    """`covered_by` are later compactions that keep some of its messages off the page."""

    batch: str
    covered_by: tuple[str, ...] = ()

    def show(self, screen: Screen) -> None:
        what = f"Reverted the compaction {self.batch}"
        screen.line(("bold", what), f": {sizes_text(self)}.")
        if self.covered_by:
            newest = self.covered_by[::-1]
            some = ", ".join(newest[:COVERS_SHOWN]) + (", ..." if newest[COVERS_SHOWN:] else "")
            screen.line(
                ("yellow", f"Later compactions cover some of its messages (newest first): {some}.")
            )
            screen.line("These messages come back when those are undone, too:")
            screen.line(f"  {screen.call('undo', self.conversation, newest[0])}")
        screen.line(("dim", f"Redo with: {screen.call('redo', self.conversation)}"))


def _revert(session: Session, typed: str) -> Reverted:
    with session.context(writes=True) as context:
        before = page_size(context)
        batch = _batch_meant(context, typed)
        covered_by = context.undo(batch).covered_by
        after = page_size(context)
    return Reverted(
        conversation=context.id, batch=batch, covered_by=covered_by, **sizes(before, after)
    )


def _batch_meant(context: Context, typed: str) -> str:
    """The batch with this id, or the only one with this prefix; an unknown id is returned as
    typed."""
    live = {batch for _, batch in context.view.undoable if batch}
    if found := beginning(typed, sorted(live), "batches"):
        return found
    undone = [one.id for one in context.log.batches() if not one.live]
    if found := beginning(typed, undone, "undone batches"):
        again = f"refold redo {context.id} redoes the last step"
        raise Invalid(f"the batch {found} is undone already", hint=again)
    return typed


# --- files ---


def show_put_back(changes: Iterable[FileChange], screen: Screen, *, dry_run: bool = False) -> None:
    """Prints the result for each file; in a dry run, its diff."""
    for one in changes:
        reason = f": {one.reason}" if one.reason else ""
        if dry_run and one.diff:
            _show_change(one, screen)
        else:
            screen.line(short_line(f"  {one.path} {PUT_BACK[one.change]}{reason}", 300))


def confirm_changes(
    session: Session,
    changes: Sequence[FileChange],
    planned: Callable[[], Sequence[FileChange]],
    *,
    yes: bool,
) -> bool:
    """Shows the differences and asks before files are put back. Returns whether there was something
    to ask: the act then has to expect the head of these changes. Conflict if other changes are
    `planned` when the answer comes."""
    pending = [one for one in changes if one.change not in ("same", "impossible")]
    if not pending or yes:
        return False
    screen = session.screen
    if screen is not None and not screen.json_output:
        for one in pending:
            _show_change(one, screen)
        if screen.ask(_question(pending)):
            if [*planned()] != [*changes]:
                reason = "the files to put back changed while you were asked"
                raise Conflict(reason, hint="nothing was changed; look at them again")
            return True
    raise Invalid("nothing was changed", hint="--yes puts files back without a question")


def _question(changes: Sequence[FileChange]) -> str:
    removed = sum(one.change == "remove" for one in changes)
    back = len(changes) - removed
    acts = [
        f"put {number(back, 'file')} back" if back else "",
        f"remove {number(removed, 'file')}" if removed else "",
    ]
    return " and ".join(filter(None, acts)).capitalize() + "?"


def _show_change(change: FileChange, screen: Screen) -> None:
    """Prints the path, size and mode that a file will have, and its diff."""
    if change.change == "remove":
        screen.line(short_line(f"{change.path} will be removed", 300))
    else:
        before = f"{change.mode_before:o} -> " if change.mode_before else ""
        mode = f"mode {'' if change.mode == change.mode_before else before}{change.mode:o}"
        size = number(change.size_bytes, "byte")
        screen.line(short_line(f"{change.path} will have {size}, {mode}", 300))
    show_diff(change.diff, screen)


def show_diff(diff: str, screen: Screen) -> None:
    """Prints a unified diff, its lines colored by kind."""
    for line in diff.splitlines():
        screen.line((DIFF_STYLES.get(line[:1], ""), line))
