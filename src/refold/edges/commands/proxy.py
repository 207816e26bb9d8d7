"""The commands of the proxy: serving it, and what it saved. What `proxy` and `run` both take is
here.

`refold proxy`: passes the calls of any agent on to their providers, until it is stopped.

With `--check` it looks whether it could start, and serves nothing. Neighbour: `edges.proxy` is the
proxy itself, imported when it runs.

`refold proxy report`: what the calls that came through a proxy took, and what was saved.

`refold run`: starts an agent behind a proxy of its own, which ends with it.

The agent is told by variables of its process alone. If the proxy does not answer, it is started
without them. Its exit status is ours. What the proxy has to say goes into a file, because the
terminal is the agent's. Neighbour: `edges.proxy.supervisor` does it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from refold.display import cut, number, one_line
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session
from refold.edges.proxy.savings import Sum, added, sums
from refold.errors import RefoldError
from refold.settings.sources import default_store
from refold.system.disk import make_folder
from refold.tokens.models import dollars

if TYPE_CHECKING:
    from refold.edges.proxy.supervisor import Ended

FOLD = Meta(description="Fold what is sent, instead of only saying what that would save.")
TOOLS = Meta(
    description="Give the model refold's own tools, answered inside the proxy; implies --fold."
)
NATIVE = Meta(
    description="With --fold: let the provider write compactions, if it offers that; else fold."
)
WINDOW = Meta(description="The window to fold into, in tokens; by default the model's.", ge=1_000)


HOST = Meta(description="The address to listen on; 127.0.0.1 is this machine alone.")
PORT = Meta(description="The port to listen on.", ge=1, le=65_535)
NAME = Meta(description="A name by which clients call this proxy; can be repeated.")
LOG = Meta(description="What is logged to standard error: every call, or only what is wrong.")
CHECK = Meta(description="Say whether it could start, and stop there.")
ANTHROPIC = Meta(
    description="The address to pass Anthropic's calls on to.", extra={"metavar": "URL"}
)
OPENAI = Meta(description="The address to pass OpenAI's calls on to.", extra={"metavar": "URL"})
GEMINI = Meta(description="The address to pass Gemini's calls on to.", extra={"metavar": "URL"})


class ProxyArguments(Arguments, frozen=True, kw_only=True):
    fold: Annotated[bool, FOLD] = False
    tools: Annotated[bool, TOOLS] = False
    native: Annotated[bool, NATIVE] = False
    window: Annotated[int, WINDOW] | None = None
    port: Annotated[int, PORT] = 8_743
    host: Annotated[str, HOST] = "127.0.0.1"
    name: Annotated[tuple[str, ...], NAME] = ()
    anthropic: Annotated[str, ANTHROPIC] = ""
    openai: Annotated[str, OPENAI] = ""
    gemini: Annotated[str, GEMINI] = ""
    log: Annotated[Literal["info", "warning", "error"], LOG] = "info"
    check: Annotated[bool, CHECK] = False


class ProxyServed(Result, frozen=True, kw_only=True):
    """What could be served, and where."""

    url: str
    store: str
    folds: bool
    tools: bool = False


def run_proxy(session: Session, arguments: ProxyArguments) -> ProxyServed:
    from refold.edges.proxy.serve import TOKEN, checked, listen, serve, url_of
    from refold.edges.proxy.serve import ProxySettings as Given

    bases = {name: getattr(arguments, name) for name in ("anthropic", "openai", "gemini")}
    given = checked(
        Given(
            store=session.store_url or default_store(),
            host=arguments.host,
            port=arguments.port,
            names=arguments.name,
            token=os.environ.get(TOKEN, ""),
            folds=arguments.fold or arguments.tools,
            tools=arguments.tools,
            native=arguments.native,
            window=arguments.window,
            bases={name: base for name, base in bases.items() if base},
            log_level=arguments.log,
        )
    )
    url = url_of(given)
    with listen(given.host, given.port) as listening:
        if not arguments.check:
            if session.screen is not None:
                _tell(session.screen, url, given.token if TOKEN not in os.environ else "")
            serve(msgspec.structs.replace(given, socket=listening.detach()))
    return ProxyServed(url=url, store=given.store, folds=given.folds, tools=given.tools)


def _tell(screen: Screen, url: str, token: str) -> None:
    screen.note(f"ANTHROPIC_BASE_URL={url}/anthropic")
    screen.note(f"OPENAI_BASE_URL={url}/openai/v1")
    screen.note(f"GOOGLE_GEMINI_BASE_URL={url}/gemini")
    if token:
        screen.note(f"with the header x-refold-token: {token}")
    screen.note("stop with Ctrl-C")


def show_proxy(served: ProxyServed, screen: Screen) -> None:
    doing = "folds" if served.folds else "observes"
    tools = " and answers refold's tools" if served.tools else ""
    screen.line(f"{served.url} {doing} into {served.store}{tools}.")


PROXY = Command(
    name="proxy",
    details="Set the base URL of an agent to this proxy. It observes, and says what folding would "
    "save; with --fold it folds. docs/guides/proxy.md says more.",
    on="store",
    arguments=ProxyArguments,
    run=run_proxy,
    show=show_proxy,
)


TITLE_CHARS = 30
LIMIT = Meta(description="Show at most this many conversations, the newest.", ge=1)


class ReportArguments(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, LIMIT] = 20


class Reported(Result, frozen=True, kw_only=True):
    """The newest conversations, and what all of them come to."""

    conversations: tuple[Sum, ...]
    total: Sum


def run_proxy_report(session: Session, arguments: ReportArguments) -> Reported:
    found = list(sums(session.store))
    return Reported(conversations=tuple(found[: arguments.limit]), total=added("all", found))


def show_proxy_report(reported: Reported, screen: Screen) -> None:
    if not reported.total.calls:
        screen.line(f"No call has come through a proxy yet: {screen.call('proxy')}")
        return
    heads = (
        "conversation",
        "title",
        "calls",
        "folded",
        "in",
        "sent",
        "cached",
        "saved",
        "cost",
        "saved $",
    )
    screen.table(heads, map(_row, (*reported.conversations, reported.total)))
    screen.line("Left out: titles, probes, first calls without tools, requests over 16 MiB.")
    if not reported.total.folded:
        screen.line("Nothing was folded: saved is what --fold would have saved.")


def _row(one: Sum) -> tuple[str, ...]:
    counts = (one.calls, one.folded, one.input, one.sent, one.cached, one.saved)
    money = (dollars(one.cost), dollars(one.saved_cost))
    return (
        one.conversation,
        cut(one_line(one.title), TITLE_CHARS),
        *(f"{count:,}" for count in counts),
        *money,
    )


PROXY_REPORT = Command(
    name="proxy report",
    on="store",
    reads=True,
    arguments=ReportArguments,
    run=run_proxy_report,
    show=show_proxy_report,
)


RUN_LOG = "proxy.log"
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


def run_run(session: Session, arguments: RunArguments) -> Ran:
    from refold.edges.proxy.serve import ProxySettings as Given
    from refold.edges.proxy.serve import check_options, checked
    from refold.edges.proxy.supervisor import bases_of, run_agent
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
            show_run(ran, session.screen)
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
    path = session.target.derived_path(RUN_LOG)
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


def show_run(ran: Ran, screen: Screen) -> None:
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


RUN = Command(
    name="run",
    details="Arguments after the program go to the program. refold proxy report says what was "
    "saved; refold watch @1 follows the agent.",
    on="store",
    arguments=RunArguments,
    run=run_run,
    show=show_run,
)
