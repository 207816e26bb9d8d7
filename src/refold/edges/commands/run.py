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
from typing import IO, TYPE_CHECKING, Annotated

from msgspec import Meta

from refold.display import number, one_line
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.proxy import FOLD, NATIVE, TOOLS, WINDOW
from refold.edges.commands.session import Session
from refold.errors import RefoldError
from refold.system.disk import make_folder

if TYPE_CHECKING:
    from refold.edges.proxy.supervisor import Ended

LOG = "proxy.log"
PROGRAM = Meta(
    description="The agent and its arguments: claude, codex, gemini, or any program.",
    extra={"positional": True, "metavar": "PROGRAM", "passes_on": True},
)


class RunArguments(Arguments, frozen=True, kw_only=True):
    program: Annotated[tuple[str, ...], PROGRAM]
    fold: Annotated[bool, FOLD] = False
    tools: Annotated[bool, TOOLS] = False
    native: Annotated[bool, NATIVE] = False
    window: Annotated[int, WINDOW] | None = None


class Ran(Result, frozen=True, kw_only=True):
    """An agent that has ended, well."""

    program: str
    store: str
    kept: int  # calls
    unkept: int
    why: str = ""  # something was not kept
    frozen: int = 0  # times that the proxy no longer answered


def run(session: Session, arguments: RunArguments) -> Ran:
    from refold.edges.proxy.agents import bases_of
    from refold.edges.proxy.serve import Given, check_options, checked
    from refold.edges.proxy.supervisor import run_agent
    from refold.settings.sources import default_store

    def tell(text: str) -> None:
        if session.screen is not None:
            session.screen.note(text)

    program = arguments.program[0]
    given = Given(
        store=session.store_url or default_store(),
        folds=arguments.fold or arguments.tools,
        tools=arguments.tools,
        native=arguments.native,
        window=arguments.window,
        bases=bases_of(program, os.environ),
    )
    check_options(given)
    behind: Given | None = None
    try:
        behind = checked(given)
    except RefoldError as error:
        tell(f"no proxy: {error}")
    with _log_file(session) as log:
        ended = run_agent(arguments.program, behind, os.environ, log=log, tell=tell)
    ran = _ran(program, given.store, ended)
    if ended.status:
        if session.screen is not None:
            show(ran, session.screen)
        raise SystemExit(ended.status)
    return ran


def _ran(program: str, store: str, ended: Ended) -> Ran:
    tally = ended.tally
    if tally is None:
        return Ran(program=program, store=store, kept=0, unkept=0, why="there was no proxy")
    return Ran(
        program=program,
        store=store,
        kept=tally.kept,
        unkept=tally.unkept,
        why=tally.why,
        frozen=ended.frozen,
    )


@contextmanager
def _log_file(session: Session) -> Iterator[IO[bytes] | int]:
    """Beside the store, where that is a place on this disk."""
    path = session.target.derived_path(LOG)
    session.close()
    with ExitStack() as opened:
        log: IO[bytes] | int = subprocess.DEVNULL
        if path is not None:
            with suppress(OSError):  # an agent is worth more than its proxy's log
                make_folder(os.path.dirname(path), durable=False)
                log = opened.enter_context(open(path, "ab", opener=_for_the_owner))
        yield log


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def show(ran: Ran, screen: Screen) -> None:
    """Beside the output, which is the agent's."""
    if ran.frozen:
        screen.note(f"the proxy no longer answered and was started again, {_times(ran.frozen)}")
    if ran.why:
        what = f"{number(ran.unkept, 'call')} NOT kept" if ran.kept and ran.unkept else "NOT kept"
        screen.note(f"{what}, because {one_line(ran.why)}")
    if ran.kept:
        screen.note(f"kept in {ran.store}; to see what was saved: {screen.call('proxy report')}")
    elif not ran.why:
        screen.note("nothing was kept: no call of a conversation came through")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


COMMAND = Command(
    name="run",
    details="Arguments after the program go to the program. refold proxy report says what was "
    "saved; refold watch @1 follows the agent.",
    on="store",
    arguments=RunArguments,
    run=run,
    show=show,
)
