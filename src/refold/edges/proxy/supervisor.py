"""A proxy for the life of one agent: started before it, started again if it dies, ended with it.

The socket belongs to this process, so it outlives a proxy that was killed: calls wait in line for
the next one. A proxy that dies again and again is replaced by one that only passes on; one that
does not answer at all leaves the agent to call its provider directly. The agent never stops because
of us. Neighbours: `serve` is the process that is started, `agents` says how the agent is told.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

import msgspec

from refold.edges.proxy.agents import Start, start_of
from refold.edges.proxy.serve import GIVEN, Given, listen
from refold.errors import NotFound, RefoldError

READY_PATH, READY_S, ASK_S = "/refold/ready", 20.0, 1.0
RESTARTS_MAX = 5  # deaths after which a proxy is replaced by one that only passes on
STOP_S, LOOK_S, PAUSE_S_MAX = 15.0, 0.2, 5.0
MAIN = "from refold.edges.proxy.serve import main; main()"
Tell = Callable[[str], None]


class Supervisor:
    """Keeps a proxy alive on a socket of its own."""

    def __init__(self, given: Given, log: IO[bytes] | int = subprocess.DEVNULL) -> None:
        self._socket = listen(given.host, 0)
        self._given = msgspec.structs.replace(
            given,
            port=self._socket.getsockname()[1],
            socket=self._socket.fileno(),
            parent=os.getpid(),
        )
        self._log = log
        self._stopped = threading.Event()
        self._deaths = 0
        self.process = self._start()
        self._watch = threading.Thread(target=self._keep_alive, daemon=True)
        self._watch.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._given.port}"

    def _start(self) -> subprocess.Popen[bytes]:
        plain = self._given.plain or self._deaths >= RESTARTS_MAX
        given = msgspec.structs.replace(self._given, plain=plain)
        # In a session of its own: Ctrl-C is meant for the agent.
        return subprocess.Popen(
            [sys.executable, "-c", MAIN],
            env={**os.environ, GIVEN: msgspec.json.encode(given).decode()},
            pass_fds=[self._socket.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _keep_alive(self) -> None:
        while not self._stopped.wait(min(PAUSE_S_MAX, LOOK_S * (1 + self._deaths // RESTARTS_MAX))):
            if self.process.poll() is not None:
                self._deaths += 1
                self.process = self._start()

    def is_ready(self, within_s: float = READY_S) -> bool:
        """Whether the proxy answers."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if _answers(self._given.port):
                return True
            time.sleep(LOOK_S)
        return False

    def stop(self) -> None:
        """Ends the proxy; what it has in hand is written first."""
        self._stopped.set()
        self._watch.join(STOP_S)
        self._socket.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)


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


def run_agent(
    command: tuple[str, ...],
    given: Given,
    environ: Mapping[str, str],
    *,
    log: IO[bytes] | int = subprocess.DEVNULL,
    tell: Tell,
) -> int:
    """Runs an agent behind a proxy of its own, or without one if that does not answer; gives the
    agent's exit status."""
    supervisor = _started(given, log, tell)
    try:
        url = supervisor.url if supervisor is not None else ""
        return _run(start_of(command, environ, url))
    finally:
        if supervisor is not None:
            supervisor.stop()


def _started(given: Given, log: IO[bytes] | int, tell: Tell) -> Supervisor | None:
    """A proxy that answers; None, and a word about it, if there is none."""
    try:
        supervisor = Supervisor(given, log)
    except (RefoldError, OSError) as error:
        tell(f"no proxy could be started ({error}): the agent calls its provider directly")
        return None
    is_ready = False
    try:
        is_ready = supervisor.is_ready()
    finally:
        if not is_ready:
            supervisor.stop()
    if is_ready:
        return supervisor
    tell("the proxy does not answer: the agent calls its provider directly")
    return None


def _run(start: Start) -> int:
    try:
        process = subprocess.Popen(list(start.command), env=start.environ)
    except FileNotFoundError as error:
        said = f"there is no program {start.command[0]!r}"
        raise NotFound(said, hint="install it, or name it by its path") from error
    with _left_to_the_agent(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _left_to_the_agent(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals are the agent's, as they would be without us: a terminal sends Ctrl-C to both, and
    what only we are sent is handed on."""

    def hand_on(number: int, _: object) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
