"""`refold memory forget`: an entry is erased for good. It asks first."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.memory import ENTRY, memory_of
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line
from refold.memory.entry import Forgotten

YES = Meta(description="Do not ask.")


class ForgetArguments(Arguments, frozen=True, kw_only=True):
    entry: Annotated[str, ENTRY]
    yes: Annotated[bool, YES] = False


class Gone(Result, frozen=True, kw_only=True):
    forgotten: Forgotten


def run(session: Session, arguments: ForgetArguments) -> Gone:
    with memory_of(session) as memory:
        name = short_line(memory.history(arguments.entry)[-1].content, 60)
        session.confirm(f"Forget {name!r} for good?", arguments.yes)
        return Gone(forgotten=memory.forget(arguments.entry))


def show(gone: Gone, screen: Screen) -> None:
    done = gone.forgotten
    messages = number(done.messages, "message")
    screen.line(f"Forgotten: {number(done.events, 'event')}, and {messages} that showed it.")
    screen.line("Out of reach: " + ", ".join(done.out_of_reach) + ".")


COMMAND = Command(
    name="memory forget",
    details="Every version is erased, and the messages that showed it. This cannot be undone.",
    on="store",
    arguments=ForgetArguments,
    run=run,
    show=show,
)
