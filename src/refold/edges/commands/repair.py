"""`refold repair`: makes a damaged conversation readable again and says what it gave up."""

from __future__ import annotations

from refold.conversations.repairer import repair
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line


class RepairResult(Result, frozen=True, kw_only=True):
    """What was done. `erased` are events that lost their bodies; `ends_at` is set if the log was
    cut, and `rest` is the conversation that has what came after; `copy` is what was there."""

    conversation: str
    changed: bool
    erased: tuple[int, ...]
    ends_at: int | None
    rest: str
    copy: str
    lost: tuple[str, ...]
    recovered: tuple[str, ...]


def run(session: Session, arguments: Arguments) -> RepairResult:
    done = repair(session.store, session.conversation)
    recovered = session.store.recovered
    return RepairResult(
        conversation=done.conversation,
        changed=done.changed or bool(recovered),
        erased=done.erased,
        ends_at=done.ends_at,
        rest=done.rest,
        copy=done.copy,
        lost=done.lost,
        recovered=tuple(one.file for one in recovered),
    )


def show(repaired: RepairResult, screen: Screen) -> None:
    for what in repaired.lost:
        screen.line(("yellow", "given up: "), short_line(what, 500))
    if repaired.ends_at is not None:
        screen.line(_end_of(repaired))
    if repaired.rest:
        screen.line("What came after is the conversation ", ("bold", repaired.rest), ".")
    if repaired.copy:
        screen.line("What was there before is kept in ", repaired.copy)
    screen.line(("green", _verdict(repaired)))


def _end_of(repaired: RepairResult) -> str:
    if repaired.ends_at:
        return f"{repaired.conversation} ends at event {repaired.ends_at} now."
    return f"{repaired.conversation} has nothing before the damage: it is gone."


def _verdict(repaired: RepairResult) -> str:
    if not repaired.changed:
        return "nothing had to be repaired."
    if repaired.lost:
        return f"repaired: {number(len(repaired.erased), 'event')} erased."
    return "repaired: no event was given up."


COMMAND = Command(
    name="repair",
    details="Keeps a copy of the damaged log first. Removes what is not an event, puts events in "
    "order, turns a body that does not match its digest into an erased event, ends the log at a "
    "broken event and puts what follows into ID-rest.",
    on="conversation",
    arguments=Arguments,
    run=run,
    show=show,
)
