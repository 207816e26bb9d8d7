"""`refold copy`: conversations from one store to another."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from refold.conversations.copier import Copied, CopyListener, copy
from refold.edges.commands.command import Arguments, Command, Progress, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line

STATES = {
    "copied": "copied",
    "continued": "brought up to date",
    "same": "there already",
    "ahead": "there, and went on",
}
SOURCE = Meta(description="The store to copy from.", extra={"positional": True, "metavar": "FROM"})
TARGET = Meta(description="The store to copy to.", extra={"positional": True, "metavar": "TO"})
NAMES = Meta(
    description="The conversations; by default all.", extra={"positional": True, "metavar": "ID"}
)


class CopyArguments(Arguments, frozen=True, kw_only=True):
    source: Annotated[str, SOURCE] = field(name="from")
    target: Annotated[str, TARGET] = field(name="to")
    conversations: Annotated[tuple[str, ...], NAMES] = ()


class CopyResult(Result, frozen=True, kw_only=True):
    source: str = field(name="from")
    target: str = field(name="to")
    conversations: tuple[Copied, ...]

    @property
    def outcome(self) -> str:
        return "corrupt" if any(one.problems for one in self.conversations) else "ok"


def run(session: Session, arguments: CopyArguments) -> CopyResult:
    source = session.open_store(arguments.source)
    target = session.open_store(arguments.target, creates=True)
    with session.progress("comparing") as progress:
        listener = _listener(progress) if progress else None
        copied = copy(source, target, arguments.conversations, progress=listener)
    return CopyResult(source=source.url, target=target.url, conversations=tuple(copied))


def _listener(progress: Progress) -> CopyListener:
    return lambda at: progress(at.conversation, at.done, at.total)


def show(result: CopyResult, screen: Screen) -> None:
    copied = result.conversations
    if not copied:
        screen.line(f"There are no conversations in {result.source}.")
        return
    screen.table(("ID", ">EVENTS", ">WRITTEN", ">ARTIFACTS", "STATE"), map(_cells, copied))
    for one in copied:
        _show_problems(one, screen)
    events = number(sum(one.events for one in copied), "event")
    artifacts = number(sum(one.artifacts for one in copied), "artifact")
    place = f"{number(len(copied), 'conversation')} in {result.target}"
    screen.line(f"{place}: {events} and {artifacts} written, all read again.")


def _show_problems(one: Copied, screen: Screen) -> None:
    """Which contents of a conversation are lost in the store that it was copied from."""
    for problem in one.problems:
        screen.line(("red", one.id), f": {short_line(problem, 500)}")


def _cells(one: Copied) -> tuple[str, ...]:
    return one.id, f"{one.head:,}", f"{one.events:,}", f"{one.artifacts:,}", STATES[one.state]


COMMAND = Command(
    name="copy",
    details="FROM and TO are stores, such as files:DIR or sqlite:PATH. Every event keeps its "
    "bytes, every fork its parent, and everything is read again at the end. A copy that was "
    "interrupted continues; a log that differs there is left as it is.",
    on="nothing",
    arguments=CopyArguments,
    run=run,
    show=show,
)
