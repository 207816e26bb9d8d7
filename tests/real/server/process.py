"""`refold serve` as real processes, in a group of their own: started, stopped and killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from refold.edges.server.access import Orgs, Scope, Token, Tokens
from refold.settings import logins

PROGRAM = (sys.executable, "-c", "from refold.edges.cli import main; main()")
START_S = 120.0  # a machine that does much else may take long


class Team:
    """A place for organizations, and a server in front of it."""

    def __init__(
        self, root: Path, *, store: str = "", workers: int = 2, options: Sequence[str] = ()
    ) -> None:
        self.root, self._options = root, [*options, "--workers", str(workers)]
        self.store = store or f"sqlite:{root}/orgs"
        self.port = free_port()
        self.is_secure = "--certificate" in options
        self._orgs = Orgs(self.store)
        self.tokens = Tokens(self._orgs.own)
        self.tokens.create("first", "admin")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Starts the server, and does not wait for it."""
        command = (*PROGRAM, "serve", "--store", self.store, "--port", str(self.port))
        with open(self.root / "log", "ab") as log:
            self.process = subprocess.Popen(
                (*command, *self._options), stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Returns once the server is ready."""
        assert self.process is not None
        end = time.monotonic() + START_S
        while not self.is_ready():
            assert self.process.poll() is None, (self.root / "log").read_text()[-2_000:]
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.05)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", verify=False, timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """Every process of the server at once, without a warning."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(START_S)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(START_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """The processes that serve, without the one that watches them."""
        assert self.process is not None
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [pid for pid in map(int, listed.split()) if b"spawn_main" in _command(pid)]

    def token(self, org: str, scope: Scope = "admin") -> tuple[Token, str]:
        return self.tokens.create(org, scope)

    def place(self, org: str = "") -> str:
        """The address of an organization that this user is logged in to."""
        org = org or f"org-{secrets.token_hex(4)}"
        _, secret = self.token(org)
        place = f"{self.url}/{org}"
        logins.keep(place, secret, os.environ)
        self.wait_for(org, secret)
        return place

    def wait_for(self, org: str, secret: str) -> None:
        """Returns once every worker knows the token: each asks for new ones in a second."""
        known, end = 0, time.monotonic() + START_S
        while known < 12:
            assert time.monotonic() < end, "the token is not known"
            known = known + 1 if self.get(f"orgs/{org}/context/token", secret).is_success else 0
            if not known:
                time.sleep(0.2)

    def get(self, path: str, secret: str, **given: object) -> httpx.Response:
        """A call on a connection of its own, so that any worker may take it."""
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"{self.url}/api/v1/{path}"
        given = {"timeout": START_S, **given}
        return httpx.get(url, headers=headers, verify=False, **given)  # type: ignore[arg-type]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def running(root: Path, **given: object) -> Iterator[Team]:
    team = Team(root, **given)  # type: ignore[arg-type]
    team.start()
    try:
        yield team
    finally:
        team.stop()
