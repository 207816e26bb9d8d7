"""`refold verify`: checks the store and says what is wrong, and where."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.conversations.log_check import Problem
from refold.conversations.verifier import verify
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line

NAME = Meta(
    description="The conversation; by default all.",
    extra={"positional": True, "metavar": "ID", "completes": "conversation"},
)


class VerifyArguments(Arguments, frozen=True, kw_only=True):
    conversation: Annotated[str, NAME] | None = None


class Verified(Result, frozen=True, kw_only=True):
    """What was checked. `remarks` are not damage: a text may name what never existed."""

    store: str
    ok: bool
    conversations: int
    events: int
    artifacts: int
    memories: int = 0
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...]

    @property
    def outcome(self) -> str:
        return "ok" if self.ok else "corrupt"


def run(session: Session, arguments: VerifyArguments) -> Verified:
    name = arguments.conversation
    id = None if name is None else session.find(name)
    with session.followed("checking", id) as store:
        report = verify(store, id)
    return Verified(
        store=session.store.url,
        ok=not report.problems,
        conversations=report.conversations,
        events=report.events,
        artifacts=report.artifacts,
        memories=report.memories,
        problems=report.problems,
        remarks=report.remarks,
    )


def show(verified: Verified, screen: Screen) -> None:
    for problem in verified.problems:
        what = f": {short_line(problem.what, 500)}"
        screen.line(("red", _location(problem)), what, ("dim", f" [{problem.file}]"))
    for remark in verified.remarks:
        screen.line(("yellow", _location(remark)), f": {short_line(remark.what, 500)}")
    counts = [
        number(verified.conversations, "conversation"),
        number(verified.memories, "memory log") if verified.memories else "",
        number(verified.events, "event"),
        number(verified.artifacts, "artifact"),
    ]
    counted = ", ".join(count for count in counts if count)
    screen.line(f"{counted} checked: ", _verdict(verified))


def _location(problem: Problem) -> str:
    place = problem.conversation or "the store"
    return f"{place} #{problem.seq}, {problem.part}" if problem.seq else f"{place}, {problem.part}"


def _verdict(verified: Verified) -> tuple[str, str]:
    if verified.ok:
        return "green", "everything is as it was written."
    return "red", f"{number(len(verified.problems), 'problem')}."


COMMAND = Command(
    name="verify",
    details="Checks every event, artifact, bookmark and page of the store, memories too, or of one "
    "conversation. An artifact that a text names and that does not exist is a remark, not damage.",
    on="store",
    reads=True,
    arguments=VerifyArguments,
    run=run,
    show=show,
)
