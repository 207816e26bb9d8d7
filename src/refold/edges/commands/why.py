"""`refold why`: what was done to a message, by whom, when and for which reason; and what it is
worth to the work, by which factors, which decides whether `importance` would take it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.core.model import View
from refold.display import moment
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.events import MessageRow, State, named_messages
from refold.edges.commands.position import seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import short_line
from refold.log.trace import Trace
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


def run(session: Session, arguments: WhyArguments) -> Explained:
    seq = seq_of(arguments.seq)
    with session.context() as context:
        [message] = named_messages(session.store, context.id, [seq])
        view = context.view
        traces = tuple(context.log.why(seq))
        scores = {one.seq: one for one in context.scores()}
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


def show(explained: Explained, screen: Screen) -> None:
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


COMMAND = Command(
    name="why",
    reads=True,
    arguments=WhyArguments,
    run=run,
    show=show,
)
