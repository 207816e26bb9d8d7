"""`refold run`: starts an agent behind a proxy of its own, which ends with it.

The agent is told by variables of its process alone. If the proxy does not answer, it is started
without them. Its exit status is ours. What the proxy has to say goes into a file, because the
terminal is the agent's. Neighbour: `edges.proxy.supervisor` does it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.proxy import FOLD, WINDOW
from refold.edges.commands.session import Session
from refold.errors import RefoldError

LOG = "proxy.log"
PROGRAM = Meta(
    description="The agent and what it is given: claude, codex, gemini, or any program.",
    extra={"positional": True, "metavar": "PROGRAM", "passes_on": True},
)


class RunArguments(Arguments, frozen=True, kw_only=True):
    program: Annotated[tuple[str, ...], PROGRAM]
    fold: Annotated[bool, FOLD] = False
    window: Annotated[int, WINDOW] | None = None


class Ran(Result, frozen=True, kw_only=True):
    """An agent that has ended, well."""

    program: str
    store: str


def run(session: Session, arguments: RunArguments) -> Ran:
    from refold.edges.proxy.agents import bases_of
    from refold.edges.proxy.serve import Given, checked
    from refold.edges.proxy.supervisor import run_agent
    from refold.settings.sources import default_store

    def tell(text: str) -> None:
        if session.screen is not None:
            session.screen.note(text)

    program = arguments.program[0]
    given = Given(
        store=session.store_url or default_store(),
        folds=arguments.fold,
        window=arguments.window,
        bases=bases_of(program, os.environ),
    )
    try:
        given = checked(given)
    except RefoldError as error:
        tell(f"no proxy: {error}")
    with _log_file(session) as log:
        status = run_agent(arguments.program, given, os.environ, log=log, tell=tell)
    if status:
        raise SystemExit(status)
    return Ran(program=program, store=given.store)


@contextmanager
def _log_file(session: Session) -> Iterator[IO[bytes] | int]:
    """Beside the store, where that is a place on this disk."""
    path = session.target.derived_path(LOG)
    session.close()
    with ExitStack() as opened:
        log: IO[bytes] | int = subprocess.DEVNULL
        if path is not None:
            with suppress(OSError):  # an agent is worth more than its proxy's log
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                log = opened.enter_context(Path(path).open("ab"))
        yield log


def show(ran: Ran, screen: Screen) -> None:
    # Beside the output, which is the agent's.
    screen.note(f"kept in {ran.store}; what was saved: {screen.call('proxy report')}")


COMMAND = Command(
    name="run",
    details="What comes after the program is the program's. refold proxy report says what was "
    "saved; refold watch @1 follows it.",
    on="store",
    arguments=RunArguments,
    run=run,
    show=show,
)
