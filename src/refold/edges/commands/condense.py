"""`refold condense`: a summary that the agent wrote takes the place of the conversation, once a
person accepts it.

The summary is the newest message of the page, so nothing is written for a person who only looks:
`--accept` leaves the first pair and the last one on the page, FEEDBACK says what is wrong with the
summary and goes to the model instead, and nothing leaves the page. It is a compaction like any
other: one batch, which `undo` takes back. Neighbours: the preset `condense` of `hide` chooses what
goes; a chat asks its model for the summary first (`edges.chat.condense`).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.core.laws import calls_of
from refold.core.model import View
from refold.edges.commands.command import TEXT, Arguments, Command, Result, Screen
from refold.edges.commands.compact import CompactArguments
from refold.edges.commands.compact import run as compact
from refold.edges.commands.compact_result import Compacted, Planned
from refold.edges.commands.compaction_shown import show as show_compaction
from refold.edges.commands.session import Session
from refold.errors import Invalid
from refold.log.unfold import body_text

FEEDBACK = Meta(
    description="What is wrong with the summary, for the model; nothing leaves the page.",
    extra=TEXT,
)
ACCEPT = Meta(description="Take everything but the first pair and the last one off the page.")
NO_SUMMARY = "there is no summary to accept: the newest message is not a text of the assistant"
FEEDBACK_TEXT = "This is what I say about the summary; write it again with that:\n\n"


class CondenseArguments(Arguments, frozen=True, kw_only=True):
    feedback: Annotated[str, FEEDBACK] = ""
    accept: Annotated[bool, ACCEPT] = False


class Condensing(Result, frozen=True, kw_only=True):
    """How a conversation is being condensed. `summary` is the newest message, if the assistant
    wrote it; `planned` says what would leave the page, `done` what has left it. With neither, the
    person's `feedback` is in the log as the message `seq`."""

    conversation: str
    summary: str = ""
    planned: Planned | None = None
    done: Compacted | None = None
    feedback: str = ""
    seq: int = 0


def run(session: Session, arguments: CondenseArguments) -> Condensing:
    feedback = arguments.feedback.strip()
    if feedback and arguments.accept:
        reason = "--accept and FEEDBACK exclude each other"
        raise Invalid(reason, hint="give --accept, or FEEDBACK")
    return _answered(session, feedback) if feedback else _condensed(session, arguments.accept)


def _condensed(session: Session, accept: bool) -> Condensing:
    with session.context() as context:
        id, summary = context.id, summary_of(context.view)
    if accept and not summary:
        raise Invalid(NO_SUMMARY, hint="let the agent answer first, then accept what it wrote")
    given = CompactArguments(
        strategies=("hide",), settings=("preset=condense",), dry_run=not accept
    )
    made = compact(session, given)
    if isinstance(made, Planned):
        return Condensing(conversation=id, summary=summary, planned=made)
    return Condensing(conversation=id, summary=summary, done=made)


def _answered(session: Session, feedback: str) -> Condensing:
    with session.context(writes=True) as context:
        context.append({"role": "user", "content": FEEDBACK_TEXT + feedback})
        seq = context.view.slots[-1].seq
        return Condensing(conversation=context.id, feedback=feedback, seq=seq)


def summary_of(view: View) -> str:
    """The newest message of the page, if the assistant wrote it and calls no tool in it; else
    nothing."""
    newest = view.slots[-1] if view.slots else None
    if newest is None or newest.standin or newest.message.role != "assistant":
        return ""
    return "" if calls_of(newest.message) else body_text(newest.message)


def show(condensing: Condensing, screen: Screen) -> None:
    if condensing.planned is not None:
        _show_proposal(condensing, condensing.planned, screen)
    elif condensing.done is not None:
        show_compaction(condensing.done, screen, aims=False)
    else:
        told = f"The model reads it as #{condensing.seq}, with the next request"
        screen.line(f"{told}. Nothing left the page.")


def _show_proposal(condensing: Condensing, planned: Planned, screen: Screen) -> None:
    if condensing.summary:
        screen.line(("bold", "The summary that would stay:"))
        screen.block(condensing.summary)
    else:
        screen.line(("yellow", f"{NO_SUMMARY[0].upper()}{NO_SUMMARY[1:]}."))
    show_compaction(planned, screen, aims=False)
    if planned.edits and condensing.summary:
        id = condensing.conversation
        screen.line(f"Accept it with: {screen.call('condense', id, '--accept')}")
        screen.line(f"Or say what is wrong: {screen.call('condense', id, 'FEEDBACK')}")


COMMAND = Command(
    name="condense",
    details="The summary is the newest message, if the assistant wrote it. Without --accept or "
    "FEEDBACK, shows what would stay and what would leave the page. Nothing is lost: undo takes it "
    "back.",
    arguments=CondenseArguments,
    run=run,
    show=show,
)
