"""`refold why`: what was done to a message, by whom, when and for which reason; and what it is
worth to the work, by which factors, which decides whether `importance` would take it.

`refold debug`: one JSON object that says how a page came to be what it is, for a report of a
fault.

Three questions: what was done (`history`), what that saved (`impact`), what is hidden now and what
would be next (`ranges`). It has sizes, positions and reasons, and no message's text, so it can be
handed on; reasons may name files, and lose their secrets. Neighbours: `why` is the same for one
message and for a person, `receipts` lists the compactions.

`refold diff`: how the page at one point differs from the page at another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.core.budget import Budget
from refold.core.codec import decode
from refold.core.model import Event, Message, Slot, View
from refold.display import moment, plural
from refold.edges.commands.command import (
    POINT_HELP,
    Arguments,
    Command,
    Result,
    Screen,
    number,
    point_seq,
    seq_of,
    short_line,
)
from refold.edges.commands.session import Session
from refold.edges.commands.show import (
    MessageRow,
    State,
    message_rows,
    named_messages,
    show_messages,
)
from refold.edges.commands.undo import show_diff
from refold.engine.context import Context
from refold.log.points import Batch
from refold.log.trace import Trace, history_of, pages_of
from refold.log.undo import FileChange
from refold.log.unfold import body_text
from refold.redaction import redacted
from refold.stores.protocol import Store
from refold.strategies.hide import PRESETS
from refold.strategies.importance import Score

SEQ = Meta(
    description="The message, by its seq: 41 or #41.",
    extra={"positional": True, "metavar": "SEQ"},
)
STATES = {
    "whole": "is on the page as it came",
    "shortened": "is on the page, shortened",
    "hidden": "is not on the page",
}


class WhyArguments(Arguments, frozen=True, kw_only=True):
    seq: Annotated[str, SEQ]


class Explained(Result, frozen=True, kw_only=True):
    """How the page has the message (`shown`), what it is worth there, and what was done to it,
    oldest first."""

    conversation: str
    message: MessageRow
    shown: State
    pinned: bool
    traces: tuple[Trace, ...]
    score: Score | None


def run_why(session: Session, arguments: WhyArguments) -> Explained:
    seq = seq_of(arguments.seq)
    with session.context() as context:
        [message] = named_messages(session.store, context.id, [seq])
        view = context.view
        traces = tuple(context.log.why(seq))
        scores = {one.seq: one for one in context.log.scores()}
    state = _state(view, seq)
    return Explained(
        conversation=context.id,
        message=message,
        shown=state,
        pinned=seq in view.pins,
        traces=traces,
        # What stands for a hidden message is worth something of its own.
        score=None if state == "hidden" else scores.get(seq),
    )


def _state(view: View, seq: int) -> State:
    for slot in view.slots:
        if slot.seq == seq and not slot.standin:
            return "shortened" if slot.edits else "whole"
    return "hidden"


def show_why(explained: Explained, screen: Screen) -> None:
    message = explained.message
    pinned = ", pinned" if explained.pinned else ""
    heading = f"#{message.seq} {message.role or 'erased'}"
    screen.line(("bold", heading), f" {STATES[explained.shown]}{pinned}.")
    screen.line("  ", short_line(message.text, 100))
    if explained.score is not None:
        screen.line(("dim", f"Worth {_worth(explained.score)}"))
    if not explained.traces:
        screen.line("Nothing was done to it.")
    for trace in explained.traces:
        _show_trace(trace, screen)
    _show_way_back(explained, screen)


def _worth(score: Score) -> str:
    """`0.62 of 1: recency 0.95, role 0.60, ...`, what counts most first."""
    factors = sorted(score.factors.items(), key=lambda one: -one[1])
    told = ", ".join(f"{name} {value:.2f}" for name, value in factors if value)
    return f"{score.score:.2f} of 1: {told}"


def _show_trace(trace: Trace, screen: Screen) -> None:
    off = "" if trace.live else " (no longer holds)"
    by = f" by {short_line(trace.by, 40)}" if trace.by else ""
    screen.line(("cyan", f"  #{trace.seq}"), f" {moment(trace.at_ms)} {trace.action}{by}{off}")
    facts = [f"batch {trace.batch}" if trace.batch else "", short_line(trace.reason, 200)]
    if any(facts):
        screen.line(("dim", "      " + "; ".join(fact for fact in facts if fact)))


def _show_way_back(explained: Explained, screen: Screen) -> None:
    """Names the commands that show the original and that bring it back."""
    if explained.shown == "whole":
        return
    id, seq = explained.conversation, explained.message.seq
    screen.line(("dim", f"The original: {screen.call('unfold', id, str(seq))}"))
    # A message may be under several: each has to be switched off, or the others still hold it.
    batches = [trace.batch for trace in reversed(explained.traces) if trace.batch and trace.live]
    reverts = [screen.call("revert", id, batch) for batch in dict.fromkeys(batches)]
    if reverts:
        then = " && " if screen.is_shell else ", then "
        screen.line(("dim", f"Undo with: {then.join(reverts)}"))


WHY = Command(
    name="why",
    reads=True,
    arguments=WhyArguments,
    run=run_why,
    show=show_why,
)


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


def run_debug(session: Session, arguments: Arguments) -> Dump:
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


def show_debug(dump: Dump, screen: Screen) -> None:
    screen.document([msgspec.json.format(msgspec.json.encode(dump), indent=2), b"\n"])


DEBUG = Command(
    name="debug",
    details="Always prints JSON: sizes, positions and reasons, and no message's text.",
    reads=True,
    arguments=Arguments,
    run=run_debug,
    show=show_debug,
)


FIRST = Meta(
    description=POINT_HELP, extra={"positional": True, "metavar": "A", "completes": "point"}
)
LAST = Meta(
    description="The other point; by default, the end.",
    extra={"positional": True, "metavar": "B", "completes": "point"},
)
NAMES_SHOWN = 20


class DiffArguments(Arguments, frozen=True, kw_only=True):
    first: Annotated[str, FIRST]
    last: Annotated[str, LAST] | None = None


class Compared(Result, frozen=True, kw_only=True):
    """How the page at `last` differs from that at `first`: messages that only it has, that it has
    no more, that it has with other edits; and what happened between: batches, artifacts, files
    that tool calls changed. `changes` are the files that were kept before writes, each with how it
    differs; one that was not written to since is compared as it is in this folder."""

    conversation: str
    first: int
    last: int
    added: tuple[MessageRow, ...]
    removed: tuple[MessageRow, ...]
    changed: tuple[MessageRow, ...]
    batches: tuple[str, ...]
    artifacts: tuple[str, ...]
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()


def run_diff(session: Session, arguments: DiffArguments) -> Compared:
    with session.context() as context:
        view = context.view
        first = point_seq(view, arguments.first)
        last = view.head if arguments.last is None else point_seq(view, arguments.last)
        found = context.log.diff(first, last)
        changes = context.files.diff(first, last)
    store, id = session.store, context.id
    return Compared(
        conversation=id,
        first=first,
        last=last,
        added=message_rows(store, id, found.added),
        removed=message_rows(store, id, found.removed),
        changed=message_rows(store, id, found.changed),
        batches=found.batches,
        artifacts=found.artifacts,
        files=found.files,
        changes=tuple(one for one in changes if one.change != "same"),
    )


def diff_show(compared: Compared, screen: Screen) -> None:
    places = f"{compared.conversation} #{compared.first} -> #{compared.last}"
    added, removed = len(compared.added), len(compared.removed)
    messages = plural("message", added + removed + len(compared.changed))
    counts = f"+{added:,} -{removed:,} ~{len(compared.changed):,} {messages}"
    screen.line(("bold", places), f": {counts} on the page")
    show_messages(compared.added, screen, "+ ")
    show_messages(compared.removed, screen, "- ")
    show_messages(compared.changed, screen, "~ ")
    _show_names("compaction", compared.batches, screen)
    _show_names("artifact", compared.artifacts, screen)
    _show_names("changed file", compared.files, screen)
    _show_changes(compared.changes, screen)


def _show_changes(changes: tuple[FileChange, ...], screen: Screen) -> None:
    """How files differ, line by line, and of how many."""
    if changes:
        lines = [line for one in changes for line in _changed_lines(one)]
        more, fewer = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        counts = f"+{more:,} -{fewer:,} {plural('line', more + fewer)}"
        screen.line(f"{number(len(changes), 'file')} of this folder: {counts}")
    for one in changes:
        if one.change == "impossible":
            screen.line(short_line(f"  {one.path} cannot be compared: {one.reason}", 300))
        else:
            show_diff(one.diff, screen)


def _changed_lines(one: FileChange) -> list[str]:
    """The lines of a difference without the two that name the file."""
    return one.diff.splitlines()[2:]


def _show_names(what: str, names: tuple[str, ...], screen: Screen) -> None:
    if not names:
        return
    shown = ", ".join(short_line(name, 100) for name in names[:NAMES_SHOWN])
    more = f", +{len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    screen.line(f"{number(len(names), what)}: {shown}{more}")


DIFF = Command(
    name="diff",
    reads=True,
    arguments=DiffArguments,
    run=run_diff,
    show=diff_show,
)
