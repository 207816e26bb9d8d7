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
from refold.core.model import Event, Message
from refold.display import local_moment
from refold.edges.commands.command import Result, Screen, short_line
from refold.edges.commands.page import MessageRow, State, named_messages, state_of, whole_slots
from refold.edges.commands.session import Session
from refold.engine.context import Context
from refold.log.handles import body_text
from refold.log.message_history import Trace, history_of
from refold.log.message_states import Batch
from refold.log.stored_logs import pages_of
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
    """The state of the message on the page (`shown`), its score there, and the changes to it,
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
            # The largest factors first: `0.62 of 1: recency 0.95, role 0.60`.
            factors = sorted(self.score.factors.items(), key=lambda one: -one[1])
            shown = ", ".join(f"{name} {value:.2f}" for name, value in factors if value)
            screen.line(("dim", f"Worth {self.score.score:.2f} of 1: {shown}"))
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
    state = state_of(seq, whole_slots(view))
    return Explained(
        conversation=context.id,
        message=message,
        shown=state,
        pinned=seq in view.pins,
        traces=traces,
        # A stand-in for hidden messages has a score of its own.
        score=None if state == "hidden" else scores.get(seq),
    )


def _show_trace(trace: Trace, screen: Screen) -> None:
    off = "" if trace.live else " (no longer holds)"
    by = f" by {short_line(trace.by, 40)}" if trace.by else ""
    screen.line(
        ("cyan", f"  #{trace.seq}"), f" {local_moment(trace.at_ms)} {trace.action}{by}{off}"
    )
    facts = [f"batch {trace.batch}" if trace.batch else "", short_line(trace.reason, 200)]
    if any(facts):
        screen.line(("dim", "      " + "; ".join(fact for fact in facts if fact)))


def _show_way_back(explained: Explained, screen: Screen) -> None:
    """Prints the commands that show and restore the original."""
    if explained.shown == "whole":
        return
    id, seq = explained.conversation, explained.message.seq
    screen.line(("dim", f"The original: {screen.call('show', id, str(seq))}"))
    # Several batches may cover a message; it comes back only when all are reverted.
    batches = [trace.batch for trace in reversed(explained.traces) if trace.batch and trace.live]
    reverts = [screen.call("undo", id, batch) for batch in dict.fromkeys(batches)]
    if reverts:
        then = " && " if screen.is_shell else ", then "
        screen.line(("dim", f"Undo with: {then.join(reverts)}"))


class SlotSize(Struct, frozen=True, kw_only=True):
    """One slot of the page; `edits` are the seqs of its edits."""

    handle: str
    role: str
    tokens: int
    characters: int
    edits: tuple[int, ...]
    is_pinned: bool


class Impact(Struct, frozen=True, kw_only=True):
    """The characters of all messages and of the page; `saved` is the difference as a share from 0
    to 1. `batches` have the tokens before and after each compaction."""

    characters_before: int
    characters_after: int
    saved: float
    batches: tuple[Batch, ...]


class Ranges(Struct, frozen=True, kw_only=True):
    """The spans hidden now, and the spans that each preset of `hide` would hide next."""

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
        traces = history_of(_events(session.store, view.head, context.id))
        return Dump(
            conversation=context.id,
            version=__version__,
            head=view.head,
            model=stats.model,
            tokens=stats.current,
            due=stats.due,
            due_reason=stats.due_reason,
            budget=context.budget,
            page=tuple(
                SlotSize(
                    handle=str(slot.span),
                    role=slot.message.role,
                    tokens=slot.tokens,
                    characters=len(body_text(slot.message)),
                    edits=tuple(edit.seq for edit in slot.edits),
                    is_pinned=slot.seq in view.pins,
                )
                for slot in view.slots
            ),
            history=tuple(replace(trace, reason=redacted(trace.reason)) for trace in traces),
            impact=_impact(session.store, context),
            ranges=Ranges(
                hidden=tuple(str(slot.span) for slot in view.slots if slot.standin),
                next={
                    preset: tuple(item.handle for item in context.plan("hide", preset=preset).items)
                    for preset in PRESETS
                },
            ),
        )


def _events(store: Store, head: int, id: str) -> Iterator[Event]:
    return (event for page in pages_of(store, id, last=head) for event in page)


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
