"""The proxy between agents and their providers: `proxy` serves it and reports its savings, `run`
starts an agent behind a proxy of its own.

`run` configures the agent only through environment variables; if the proxy does not answer, the
agent is started without them. The agent's exit status becomes ours, and the proxy logs to a file,
because the agent uses the terminal. Neighbours: `edges.proxy` is the proxy, imported when it runs;
`edges.proxy.supervisor` starts agents.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from refold.display import cut, number, one_line
from refold.edges.commands.command import Result, Screen, command
from refold.edges.commands.handover import HandsOver
from refold.edges.commands.session import Session
from refold.edges.proxy.savings import Sum, added, sums
from refold.engine.handover import handed_over, named, opening_of
from refold.errors import Invalid, RefoldError
from refold.settings.sources import default_store
from refold.system.disk import make_folder, open_own
from refold.tokens.models import dollars

LOG_FILE = "proxy.log"
TITLE_CHARS = 30
REPORTED = 20
Fold = Annotated[
    bool, Meta(description="Fold what is sent, instead of only saying what that would save.")
]
Tools = Annotated[
    bool,
    Meta(
        description="Give the model refold's own tools, answered inside the proxy; implies --fold."
    ),
]
Native = Annotated[
    bool,
    Meta(
        description="With --fold: let the provider write compactions, if it offers that; else fold."
    ),
]
FoldWindow = Annotated[int, Meta(description="The model's window, in tokens.", ge=1_000)]


class ProxyServed(Result, frozen=True, kw_only=True):
    url: str
    store: str
    folds: bool
    tools: bool = False

    def show(self, screen: Screen) -> None:
        doing = "folds" if self.folds else "observes"
        tools = " and answers refold's tools" if self.tools else ""
        screen.line(f"{self.url} {doing} into {self.store}{tools}.")


class Reported(Result, frozen=True, kw_only=True):
    """The newest conversations, and the total of all."""

    conversations: tuple[Sum, ...]
    total: Sum

    def show(self, screen: Screen) -> None:
        if not self.total.calls:
            screen.line(f"No call has come through a proxy yet: {screen.call('proxy')}")
            return
        counts = ("calls", "folded", "in", "sent", "cached", "saved")
        rows = [
            (
                one.conversation,
                cut(one_line(one.title), TITLE_CHARS),
                f"{one.calls:,}",
                f"{one.folded:,}",
                f"{one.input:,}",
                f"{one.sent:,}",
                f"{one.cached:,}",
                f"{one.saved:,}",
                dollars(one.cost),
                dollars(one.saved_cost),
            )
            for one in (*self.conversations, self.total)
        ]
        screen.table(("conversation", "title", *counts, "cost", "saved $"), rows)
        screen.line("Left out: titles, probes, first calls without tools, requests over 16 MiB.")
        if not self.total.folded:
            screen.line("Nothing was folded: saved is what --fold would have saved.")


@command(
    "proxy",
    details="Set the base URL of an agent to this proxy. It observes, and says what folding would "
    "save; with --fold it folds. docs/guides/proxy.md says more.",
    on="store",
    reads=True,  # the proxy itself opens the store by its URL, in its own process
)
def proxy(
    session: Session,
    *,
    report: Annotated[
        bool, Meta(description="Serve nothing: show what calls through the proxy used and saved.")
    ] = False,
    limit: Annotated[int, Meta(description="At most this many.", ge=1)] | None = None,
    fold: Fold = False,
    tools: Tools = False,
    native: Native = False,
    window: FoldWindow | None = None,
    port: Annotated[int, Meta(description="The port to listen on.", ge=1, le=65_535)] = 8_743,
    host: Annotated[
        str, Meta(description="The address to listen on; 127.0.0.1 is this machine alone.")
    ] = "127.0.0.1",
    name: Annotated[
        tuple[str, ...],
        Meta(description="A name by which clients call it; may be repeated."),
    ] = (),
    anthropic: Annotated[
        str,
        Meta(description="The address to pass Anthropic's calls on to.", extra={"metavar": "URL"}),
    ] = "",
    openai: Annotated[
        str,
        Meta(description="The address to pass OpenAI's calls on to.", extra={"metavar": "URL"}),
    ] = "",
    gemini: Annotated[
        str,
        Meta(description="The address to pass Gemini's calls on to.", extra={"metavar": "URL"}),
    ] = "",
    log: Annotated[
        Literal["info", "warning", "error"],
        Meta(description="What is logged to standard error: every call, or only what is wrong."),
    ] = "info",
    check: Annotated[bool, Meta(description="Say whether it could start, and stop there.")] = False,
) -> ProxyServed | Reported:
    if report:
        all_sums = list(sums(session.store))
        shown = tuple(all_sums[: limit or REPORTED])
        return Reported(conversations=shown, total=added("all", all_sums))
    if limit is not None:
        raise Invalid("--limit is for a report", hint="add --report")
    from refold.edges.proxy.serve import TOKEN, ProxySettings, checked, listen, serve, url_of

    bases = {"anthropic": anthropic, "openai": openai, "gemini": gemini}
    settings = checked(
        ProxySettings(
            store=session.store_url or default_store(),
            host=host,
            port=port,
            names=name,
            token=os.environ.get(TOKEN, ""),
            folds=fold or tools,
            tools=tools,
            native=native,
            window=window,
            bases={provider: base for provider, base in bases.items() if base},
            log_level=log,
        )
    )
    url = url_of(settings)
    with listen(host, port) as listening:
        if not check:
            if session.screen is not None:
                _announce(session.screen, url, settings.token if TOKEN not in os.environ else "")
            serve(replace(settings, socket=listening.detach()))
    return ProxyServed(url=url, store=settings.store, folds=settings.folds, tools=tools)


def _announce(screen: Screen, url: str, token: str) -> None:
    screen.note(f"ANTHROPIC_BASE_URL={url}/anthropic")
    screen.note(f"OPENAI_BASE_URL={url}/openai/v1")
    screen.note(f"GOOGLE_GEMINI_BASE_URL={url}/gemini")
    if token:
        screen.note(f"with the header x-refold-token: {token}")
    screen.note("stop with Ctrl-C")


class Ran(Result, frozen=True, kw_only=True):
    """An agent that has ended. `kept` and `unkept` count calls; `why` is the reason for lost ones,
    `frozen` counts restarts of an unresponsive proxy."""

    program: str
    store: str
    kept: int
    unkept: int
    why: str = ""
    frozen: int = 0

    def show(self, screen: Screen) -> None:
        # In notes: the output is the agent's.
        if self.frozen:
            times = "once" if self.frozen == 1 else f"{self.frozen} times"
            screen.note(f"the proxy no longer answered and was started again, {times}")
        if self.why:
            unkept = f"{number(self.unkept, 'call')} " if self.kept and self.unkept else ""
            screen.note(f"{unkept}NOT kept, because {one_line(self.why)}")
        if self.kept:
            report = screen.call("proxy", "", "--report")
            screen.note(f"kept in {self.store}; to see what was saved: {report}")
        elif not self.why:
            screen.note("nothing was kept: no call of a conversation came through")


@command(
    "run",
    details="Arguments after the program go to the program. refold proxy --report says what was "
    "saved; refold show @1 --follow follows the agent.",
    on="store",
)
def run_agent_behind_proxy(
    session: Session,
    *,
    program: Annotated[
        tuple[str, ...],
        Meta(
            description="The agent and its arguments: claude, codex, gemini, or any program.",
            extra={"positional": True, "metavar": "PROGRAM", "passes_on": True},
        ),
    ],
    fold: Fold = False,
    tools: Tools = False,
    native: Native = False,
    window: FoldWindow | None = None,
    handover: HandsOver = False,
) -> Ran:
    from refold.edges.proxy.serve import ProxySettings, check_options, checked
    from refold.edges.proxy.supervisor import bases_of, run_agent

    def tell(text: str) -> None:
        if session.screen is not None:
            session.screen.note(text)

    settings = ProxySettings(
        store=session.store_url or default_store(),
        folds=fold or tools or handover,
        tools=tools,
        native=native,
        window=window,
        bases=bases_of(program[0], os.environ),
    )
    check_options(settings)
    if handover:
        earlier = named(session.target, ())
        opening = opening_of(handed_over(session.target, earlier, session.config))
        if opening is None:
            tell("there is nothing to hand over yet")
        settings = replace(settings, opening=opening)
    usable: ProxySettings | None = None
    try:
        usable = checked(settings)
    except RefoldError as error:
        tell(f"no proxy: {error}")
    with _log_file(session) as log:
        ended = run_agent(program, usable, os.environ, log=log, tell=tell)
    tally = ended.tally
    ran = Ran(
        program=program[0],
        store=settings.store,
        kept=tally.kept if tally else 0,
        unkept=tally.unkept if tally else 0,
        why=tally.why if tally else "there was no proxy",
        frozen=ended.frozen if tally else 0,
    )
    if ended.status:
        if session.screen is not None:
            ran.show(session.screen)
        raise SystemExit(ended.status)
    return ran


@contextmanager
def _log_file(session: Session) -> Iterator[IO[bytes] | int]:
    """The log file next to the store, if the store is on this disk; otherwise a null device."""
    path = session.target.derived_path(LOG_FILE)
    session.close()
    with ExitStack() as opened:
        log: IO[bytes] | int = subprocess.DEVNULL
        if path is not None:
            try:
                make_folder(os.path.dirname(path), durable=False)
                fd = open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                log = opened.enter_context(open(fd, "ab"))
            except (OSError, RefoldError) as error:  # the agent runs even without a log
                if session.screen is not None:
                    session.screen.note(f"the proxy writes no log: {error}")
        yield log
