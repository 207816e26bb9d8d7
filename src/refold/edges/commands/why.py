"""The edits on one message and their reasons: `refold show ID SEQ --why`.

Beside the edits it shows the message's score and its factors, by which `importance` decides.
"""

from __future__ import annotations

from refold.core.model import View
from refold.display import moment
from refold.edges.commands.command import (
    Result,
    Screen,
    short_line,
)
from refold.edges.commands.messages import (
    MessageRow,
    State,
    named_messages,
)
from refold.edges.commands.session import Session
from refold.log.trace import Trace
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
