"""The proxy between agents and their providers: `proxy` serves it and reports its savings, `run`
starts an agent behind a proxy of its own.

`run` configures the agent only through environment variables; if the proxy does not answer, it asks
before it starts the agent without them, and stops where nobody can be asked. It ends with what the
calls cost and what folding saved; where nothing was folded, the calls are replayed with the
settings of the fold. The agent's exit status becomes ours, and the proxy logs to a file, because
the agent uses the terminal. Neighbours: `edges.proxy` is the proxy, imported when it runs;
`edges.proxy.supervisor` starts agents.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from refold.compaction.limits import settings_of
from refold.config import Config
from refold.display import cut, number, one_line
from refold.edges.commands.command import Result, Screen, command
from refold.edges.commands.handover import HandsOver
from refold.edges.commands.session import Session
from refold.edges.proxy.savings import Sum, added, sums
from refold.engine.context import Context
from refold.engine.handover import handed_over, named, opening_of
from refold.errors import Invalid, RefoldError, Unavailable
from refold.log.log import now_ms
from refold.replay.recorded import measured, recorded
from refold.replay.verdict import SAVED_MIN, verdict_of, windows_for
from refold.settings.sources import default_store
from refold.stores import open_store
from refold.stores.protocol import Store
from refold.system.disk import make_folder, open_own
from refold.tokens.models import amount, dollars

if TYPE_CHECKING:
    from refold.edges.proxy.serve import ProxySettings

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
Defer = Annotated[
    bool,
    Meta(description="Leave tools that no kept conversation called to the provider's tool search."),
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
    """The newest conversations, and the total of all. What folding would have saved is forecast for
    these, and not for the `older` ones."""

    conversations: tuple[Sum, ...]
    total: Sum
    older: int = 0

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
        if not all(one.folded for one in self.conversations):
            screen.line("Where nothing was folded, saved is what --fold would have saved.")
        if self.older:
            older = number(self.older, "older conversation")
            screen.line(f"The total includes {older}, without what --fold would have saved there.")


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
    defer_tools: Defer = False,
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
        shown = [with_forecast(session.store, one) for one in all_sums[: limit or REPORTED]]
        total = added("all", [*shown, *all_sums[len(shown) :]])
        return Reported(conversations=tuple(shown), total=total, older=len(all_sums) - len(shown))
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
            defers=defer_tools,
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


def with_forecast(store: Store, one: Sum) -> Sum:
    """What a conversation saved or, if nothing was folded, what folding would have saved in its own
    window."""
    from refold.edges.proxy.forecast import forecast

    if one.folded:
        return one
    window = Context(store, one.conversation).budget.window
    said = forecast(store, one.conversation, window)
    saved_cost = None if said.cost is None or one.cost is None else one.cost - said.cost
    return replace(one, saved=one.sent - said.sent, saved_cost=saved_cost)


def _announce(screen: Screen, url: str, token: str) -> None:
    screen.note(f"ANTHROPIC_BASE_URL={url}/anthropic")
    screen.note(f"OPENAI_BASE_URL={url}/openai/v1")
    screen.note(f"GOOGLE_GEMINI_BASE_URL={url}/gemini")
    if token:
        screen.note(f"with the header x-refold-token: {token}")
    screen.note("stop with Ctrl-C")


class Spent(Struct, frozen=True, kw_only=True):
    """The kept calls of a run and their cost. If they were `folded`, or would have been if that had
    been due, `saved` is what the `compactions` saved, and `undo` is the conversation with the
    newest of them; otherwise it is what folding at `window` would have saved and `kept` (None: not
    worth it)."""

    calls: int
    cost: float | None
    folded: bool
    saved: float | None = None
    compactions: int = 0
    undo: str = ""
    window: int | None = None
    kept: float | None = None

    def sentence(self, screen: Screen) -> str:
        """One line: what was paid, and what folding saved or would have saved."""
        paid = f"{number(self.calls, 'call')}, {amount(self.cost)}"
        if self.folded and not self.saved and not self.compactions:
            return f"{paid} sent; nothing was due to be folded"
        if self.folded:
            undo = f", undo with: {screen.call('undo', self.undo)}" if self.undo else ""
            times = number(self.compactions, "compaction")
            return f"{paid} sent; folding saved {amount(self.saved)}, {times}{undo}"
        if self.window is None:
            return f"{paid}; folding would not have been worth it"
        kept = "" if self.kept is None else f" and kept {self.kept:.0%}"
        return f"{paid}; --fold --window {self.window} would have saved {amount(self.saved)}{kept}"


def spent(
    store: Store, config: Config, since_ms: int, window: int | None, *, folds: bool = False
) -> Spent | None:
    """What the calls since then cost, and what folding saved or, if nothing was folded and the run
    did not ask for it (`folds`), would have saved; None without calls. The forecast replays the
    requests that were sent, with the fold's own settings."""
    by_conversation = list(sums(store, since_ms))
    if not by_conversation:
        return None
    total = added("all", by_conversation)
    if total.folded or folds:
        # A fork also has its parent's compactions; the agent continues in the newest.
        made = {
            batch.id: (batch.at_ms, one.conversation)
            for one in reversed(by_conversation)
            for batch in Context(store, one.conversation, config=config).log.batches()
            if batch.at_ms >= since_ms and batch.live
        }
        return Spent(
            calls=total.calls,
            cost=total.cost,
            folded=True,
            saved=total.saved_cost,
            compactions=len(made),
            undo=max(made.values())[1] if made else "",
        )
    return _foreseen(store, config, by_conversation, window, since_ms)


def _foreseen(
    store: Store, config: Config, ran: list[Sum], window: int | None, since_ms: int
) -> Spent:
    """What folding into this window would have saved, or into the best one that keeps enough: a
    replay says what is kept, the fold itself what is sent."""
    from refold.edges.proxy.forecast import forecast

    total = added("all", ran)
    played = [recorded(store, one.conversation, config) for one in ran]
    windows = (window,) if window is not None else windows_for(one.peak for one in played)
    verdict = verdict_of([measured(one, windows, settings_of(one.model)) for one in played], "")
    made = Spent(calls=total.calls, cost=total.cost, folded=False)
    for option in verdict.options:
        if window is None and not option.keeps_enough:
            continue
        calls = [forecast(store, one.conversation, option.window, since_ms) for one in ran]
        compactions = sum(one.compactions for one in calls)
        costs = [one.cost for one in calls if one.cost is not None]
        if not compactions or total.cost is None or not costs:
            continue
        saved = total.cost - sum(costs)
        if window is None and saved < max(SAVED_MIN * total.cost, made.saved or 0.0):
            continue
        made = replace(
            made, saved=saved, compactions=compactions, window=option.window, kept=option.kept
        )
    return made


class Ran(Result, frozen=True, kw_only=True):
    """An agent that has ended. `kept` and `unkept` count calls; `why` is the reason for lost ones,
    `frozen` counts restarts of an unresponsive proxy; `spent` is about the kept calls."""

    program: str
    store: str
    kept: int
    unkept: int
    why: str = ""
    frozen: int = 0
    spent: Spent | None = None

    def show(self, screen: Screen) -> None:
        # In notes: the output is the agent's.
        if self.frozen:
            times = "once" if self.frozen == 1 else f"{self.frozen} times"
            screen.note(f"the proxy no longer answered and was started again, {times}")
        if self.why:
            unkept = f"{number(self.unkept, 'call')} " if self.kept and self.unkept else ""
            screen.note(f"{unkept}NOT kept, because {one_line(self.why)}")
        if self.kept:
            if self.spent is not None:
                screen.note(self.spent.sentence(screen))
            report = screen.call("proxy", "", "--report")
            screen.note(f"kept in {self.store}; call by call: {report}")
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
    defer_tools: Defer = False,
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
        defers=defer_tools,
        window=window,
        bases=bases_of(program[0], os.environ),
    )
    check_options(settings)
    if handover:
        earlier = named(session.target, (), os.getcwd())
        opening = opening_of(handed_over(session.target, earlier, session.config))
        if opening is None:
            tell("there is nothing to hand over yet")
        settings = replace(settings, opening=opening)

    def unkept(reason: str) -> None:
        """Asks; nobody to ask means no."""
        if not session.ask(f"{reason}. Start {program[0]} all the same, without keeping anything?"):
            missing = f"{reason}, so {program[0]} was not started: nothing would be kept"
            raise Unavailable(missing, hint=f"without refold: {shlex.join(program)}")

    def started(changes: str) -> None:
        if session.screen is not None and session.screen.json_output:
            return
        doing = "kept, and pass unchanged"
        if settings.folds:
            doing = f"folded into {number(window, 'token')}" if window else "folded"
        elif settings.defers:
            doing = "kept; tools that were never called are left to the provider's tool search"
        tell(f"{os.path.basename(program[0])} gets {changes}; its requests are {doing}")

    usable: ProxySettings | None = None
    try:
        usable = checked(settings)
    except RefoldError as error:
        unkept(f"no proxy: {error.message}")
    began_ms = now_ms()
    with _log_file(session) as log:
        ended = run_agent(program, usable, os.environ, log=log, unkept=unkept, started=started)
    tally = ended.tally
    ran = Ran(
        program=program[0],
        store=settings.store,
        kept=tally.kept if tally else 0,
        unkept=tally.unkept if tally else 0,
        why=tally.why if tally else "there was no proxy",
        frozen=ended.frozen if tally else 0,
        spent=_spent(session, settings, began_ms) if tally and tally.kept else None,
    )
    if ended.status:
        if session.screen is not None:
            ran.show(session.screen)
        raise SystemExit(ended.status)
    return ran


def _spent(session: Session, settings: ProxySettings, began_ms: int) -> Spent | None:
    """The cost of the calls since then; the agent has ended, so an error costs only this line."""
    try:
        with closing(open_store(settings.store)) as store:
            return spent(store, session.config, began_ms, settings.window, folds=settings.folds)
    except RefoldError as error:
        if session.screen is not None:
            session.screen.note(f"the cost cannot be said: {error.message}")
        return None


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
