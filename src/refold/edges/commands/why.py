"""Why a page is as it is: `show ID SEQ --why` for one message, `stats --debug` for a bug report.

`--why` shows the edits on a message, their reasons, and its score with the factors by which
`importance` decides. `--debug` prints one JSON object: the edits, their savings, hidden spans and
the next candidates; sizes, positions and reasons, but no message text and no secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.core.budget import Budget
from refold.core.codec import decode
from refold.core.model import Event, Message, Slot, View
from refold.display import moment
from refold.edges.commands.command import Result, Screen, short_line
from refold.edges.commands.page import MessageRow, State, named_messages
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.log.points import Batch
from refold.log.trace import Trace, history_of, pages_of
from refold.log.unfold import body_text
from refold.redaction import redacted
from refold.stores.protocol import Store
from refold.strategies.hide import PRESETS
from refold.strategies.importance import Score

STATES = {
    "whole": "is on the page as it came",
    "shortened": "is on the page, shortened",
    "hidden": "is not on the page",
}


class Explained(Result, frozen=True, kw_only=True):
    """How the page has the message (`shown`), what it is worth there, and what was done to it,
    oldest first."""

    conversation: str
    message: MessageRow
    shown: State
    pinned: bool
    traces: tuple[Trace, ...]
    score: Score | None

    def show(self, screen: Screen) -> None:
        message = self.message
        pinned = ", pinned" if self.pinned else ""
        heading = f"#{message.seq} {message.role or 'erased'}"
        screen.line(("bold", heading), f" {STATES[self.shown]}{pinned}.")
        screen.line("  ", short_line(message.text, 100))
        if self.score is not None:
            screen.line(("dim", f"Worth {_worth(self.score)}"))
        if not self.traces:
            screen.line("Nothing was done to it.")
        for trace in self.traces:
            _show_trace(trace, screen)
        _show_way_back(self, screen)


def explained(session: Session, seq: int) -> Explained:
    """The history of a message and its score; NotFound if there is no such message."""
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
    screen.line(("dim", f"The original: {screen.call('show', id, str(seq))}"))
    # A message may be under several: each has to be switched off, or the others still hold it.
    batches = [trace.batch for trace in reversed(explained.traces) if trace.batch and trace.live]
    reverts = [screen.call("undo", id, batch) for batch in dict.fromkeys(batches)]
    if reverts:
        then = " && " if screen.is_shell else ", then "
        screen.line(("dim", f"Undo with: {then.join(reverts)}"))


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
