"""A proxy for the life of one agent: started before it, restarted if it dies, stopped with it; and
the agents that `refold run` knows.

The socket belongs to this process, so it outlives a killed proxy: calls wait for the next one. A
proxy that no longer answers is killed, so that waiting calls fail and are repeated. One that dies
again and again is replaced by one that only passes on; if none answers at the start, the caller
decides whether the agent runs without. A running agent never stops because of us, and signals are
the agent's.

An agent gets the proxy's address by environment variables, and by arguments where a variable is not
enough; the variable's own value becomes the address that the proxy calls, so a gateway stays in
use. Unknown programs get the variables of all providers. Neighbours: `serve` is the process,
`savings.Tally` counts the outcomes of calls.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import FrameType
from typing import IO

import msgspec
from msgspec import Struct

from refold.checked import quoted
from refold.edges.proxy.savings import Tally
from refold.edges.proxy.serve import GIVEN, ProxySettings
from refold.edges.proxy.upstream import Provider
from refold.edges.server.connection import listen
from refold.errors import Denied, NotFound, RefoldError
from refold.system import own_python, posix

READY_PATH, READY_S, ASK_S = "/refold/ready", 20.0, 1.0
RESTARTS_MAX = 5  # then the proxy is replaced by one that only passes on
STOP_S, LOOK_S, PAUSE_S_MAX = 15.0, 0.2, 5.0
PROBE_S, SILENT_S = 2.0, 15.0  # the interval of probes, and the longest silence
_Handler = Callable[[int, FrameType | None], object] | int | None
MAIN = "from refold.edges.proxy.serve import main; main()"


def _always() -> bool:
    return True


class Supervisor:
    """Keeps a proxy alive on a socket of its own."""

    def __init__(self, given: ProxySettings, log: IO[bytes] | int = subprocess.DEVNULL) -> None:
        posix.check("a proxy with an agent", "refold proxy --fold, and its address for the agent")
        self._socket = listen(given.host, 0)
        read, self._tells = os.pipe()
        self.tally = Tally(read)
        self._given = msgspec.structs.replace(
            given,
            port=self._socket.getsockname()[1],
            socket=self._socket.fileno(),
            parent=os.getpid(),
            tells=self._tells,
        )
        self._log = log
        self._stopped = threading.Event()
        self._deaths = self.frozen = 0
        self._asked_s = self._heard_s = 0.0
        self.process = self._start()
        self._watch = threading.Thread(target=self._keep_alive, daemon=True)
        self._watch.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._given.port}"

    def _start(self) -> subprocess.Popen[bytes]:
        plain = self._given.plain or self._deaths >= RESTARTS_MAX
        if plain:
            self.tally.lose(f"the proxy died {self._deaths} times, and then only passed calls on")
        given = msgspec.structs.replace(self._given, plain=plain)
        self._heard_s = time.monotonic() + READY_S  # a start may take this long
        # In a session of its own: Ctrl-C is meant for the agent.
        return own_python.start(
            *("-c", MAIN),
            environ={**os.environ, GIVEN: msgspec.json.encode(given).decode()},
            pass_fds=[self._socket.fileno(), self._tells],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _keep_alive(self) -> None:
        while not self._stopped.wait(min(PAUSE_S_MAX, LOOK_S * (1 + self._deaths // RESTARTS_MAX))):
            if self.process.poll() is None and self._is_frozen():
                self.frozen += 1
                self._heard_s = time.monotonic()
                self.process.kill()
            elif self.process.poll() is not None:
                self._deaths += 1
                self.process = self._start()

    def _is_frozen(self) -> bool:
        """Whether a running proxy has not answered for too long."""
        now = time.monotonic()
        if now - self._asked_s < PROBE_S:
            return False
        self._asked_s = now
        if _answers(self._given.port):
            self._heard_s = now
            return False
        return now - self._heard_s > SILENT_S

    def is_ready(self, goes_on: Callable[[], bool] = _always, within_s: float = READY_S) -> bool:
        """Whether the proxy answers in time; asks only while `goes_on` returns true."""
        until = time.monotonic() + within_s
        while time.monotonic() < until and goes_on():
            if _answers(self._given.port):
                return True
            time.sleep(LOOK_S)
        return False

    def stop(self) -> None:
        """Stops the proxy, which first finishes its pending writes."""
        self._stopped.set()
        self._watch.join(STOP_S)
        self._socket.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)
        os.close(self._tells)
        self.tally.finish(STOP_S)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S)
    try:
        connection.request("GET", READY_PATH)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# --- the agent ---


class Ended(Struct, frozen=True, kw_only=True):
    """The end of an agent: its exit status, the outcomes of its calls (None without a proxy), and
    how often a silent proxy was restarted."""

    status: int
    tally: Tally | None = None
    frozen: int = 0


def run_agent(
    command: tuple[str, ...],
    given: ProxySettings | None,
    environ: Mapping[str, str],
    *,
    log: IO[bytes] | int = subprocess.DEVNULL,
    unkept: Callable[[str], None],
    started: Callable[[str], None] | None = None,
) -> Ended:
    """Runs an agent behind a proxy of its own; `started` gets what that changes for the agent. If
    no proxy answers, `unkept` gets the reason, and raises unless the agent may run without one;
    with None given, it may."""
    supervisor: Supervisor | None = None
    if given is not None:
        with _Signals() as signals:
            supervisor, reason = _started(given, log, signals)
            if supervisor is not None:
                start = start_of(command, environ, supervisor.url)
                if started is not None:
                    started(changes_of(start, command, environ))
                return _run_behind(supervisor, start, signals)
        if signals.status:
            return Ended(status=signals.status)
        # Outside of the signals, so that Ctrl-C ends a question.
        unkept(reason)
    with _Signals() as signals:
        return Ended(status=_run(start_of(command, environ, ""), signals))


def _run_behind(supervisor: Supervisor, start: Start, signals: _Signals) -> Ended:
    try:
        status = signals.status or _run(start, signals)
    finally:
        supervisor.stop()
    return Ended(status=status, tally=supervisor.tally, frozen=supervisor.frozen)


def _started(
    given: ProxySettings, log: IO[bytes] | int, signals: _Signals
) -> tuple[Supervisor | None, str]:
    """A proxy that answers; None, with the reason, if it does not."""
    try:
        supervisor = Supervisor(given, log)
    except (RefoldError, OSError) as error:
        return None, f"no proxy could be started ({error})"
    is_ready = False
    try:
        is_ready = supervisor.is_ready(goes_on=lambda: not signals.status)
    finally:
        if not is_ready:
            supervisor.stop()
    return (supervisor, "") if is_ready else (None, "the proxy does not answer")


def _run(start: Start, signals: _Signals) -> int:
    try:
        process = subprocess.Popen(list(start.command), env=start.environ)
    except FileNotFoundError as error:
        message = f"there is no program {start.command[0]!r}"
        raise NotFound(message, hint="install it, or give its path") from error
    except OSError as error:
        message = f"{quoted(start.command[0])} cannot be started: {error.strerror or error}"
        raise Denied(message, hint="name an executable program") from error
    signals.give_to(process)
    status = process.wait()
    return status if status >= 0 else 128 - status


# Sent by a terminal to its whole foreground group: Ctrl-C and Ctrl-\.
_OF_TERMINALS = posix.signals("SIGINT", "SIGQUIT")
_HANDED_ON = posix.signals("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


class _Signals:
    """Passes signals to the agent, as without us: a terminal sends Ctrl-C to both, and signals to
    us alone are passed on. Before the agent runs, `status` is the exit status."""

    def __init__(self) -> None:
        self.status = 0
        self._agent: subprocess.Popen[bytes] | None = None
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> _Signals:
        for number in (*_OF_TERMINALS, *_HANDED_ON):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, _: object) -> None:
        if self._agent is None:
            self.status = 128 + number
        elif number in _HANDED_ON or not _is_in_front():
            self._agent.send_signal(number)

    def give_to(self, agent: subprocess.Popen[bytes]) -> None:
        """Passes signals to the agent from now on; one that came before ends it."""
        self._agent = agent
        if self.status:
            agent.send_signal(self.status - 128)


def _is_in_front() -> bool:
    """Whether a terminal sends Ctrl-C to this process, and so to the agent as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | posix.O_NOCTTY)
    except OSError:
        return False
    try:
        return posix.is_in_front(terminal)
    except OSError:
        return False
    finally:
        os.close(terminal)


class Variable(Struct, frozen=True):
    """The variable with a provider's address, and the default address, in the form of that
    variable."""

    name: str
    provider: Provider
    usual: str


CLAUDE = Variable("ANTHROPIC_BASE_URL", "anthropic", "https://api.anthropic.com")
OPENAI = Variable("OPENAI_BASE_URL", "openai", "https://api.openai.com/v1")
GEMINI = Variable("GOOGLE_GEMINI_BASE_URL", "gemini", "https://generativelanguage.googleapis.com")


class Agent(Struct, frozen=True, kw_only=True):
    """The ways in which a program gets an address. `setting` is the name of a setting for
    `-c NAME="URL"`; `besides` are variables that keep its behavior as without a proxy."""

    variables: tuple[Variable, ...]
    setting: str = ""
    besides: Mapping[str, str] = {}


AGENTS = {
    # Behind another host, Claude Code turns its tool search off unless this is set.
    "claude": Agent(variables=(CLAUDE,), besides={"ENABLE_TOOL_SEARCH": "true"}),
    # Codex reads its address from its settings, and the variable in older versions.
    "codex": Agent(variables=(OPENAI,), setting="openai_base_url"),
    "gemini": Agent(variables=(GEMINI,)),
}
ANY = Agent(variables=(CLAUDE, OPENAI, GEMINI))


class Start(Struct, frozen=True, kw_only=True):
    """The command line and environment of an agent."""

    command: tuple[str, ...]
    environ: dict[str, str]


def agent_of(program: str) -> Agent:
    return AGENTS.get(PurePath(program).stem, ANY)


def bases_of(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses that the proxy calls for this agent: those that the agent would have called."""
    return {one.provider: environ.get(one.name) or one.usual for one in agent_of(program).variables}


def start_of(command: tuple[str, ...], environ: Mapping[str, str], url: str) -> Start:
    """The start of an agent with the proxy at this address; without one, its usual start."""
    if not url:
        return Start(command=command, environ=dict(environ))
    agent = agent_of(command[0])
    addresses = {one.name: f"{url}/{one.provider}" for one in agent.variables}
    program, *rest = command
    if agent.setting:
        address = next(iter(addresses.values()))
        rest = ["-c", f'{agent.setting}="{address}"', *rest]
    return Start(command=(program, *rest), environ={**agent.besides, **environ, **addresses})


def changes_of(start: Start, command: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """What is different for the agent: variables and arguments, as in a shell."""
    changed = sorted(start.environ.items() - environ.items())
    given = [f"{name}={value}" for name, value in changed]
    return " ".join([*given, *start.command[1 : 1 + len(start.command) - len(command)]])
