"""A server on a real socket, in a thread of this process, for stores that call it."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from pathlib import Path

import uvicorn

from refold.edges.server.access import Orgs
from refold.edges.server.app import Server
from refold.edges.server.rate_limits import Limits
from refold.settings import logins

START_S = 120.0


class Running:
    """One server. Each organization that is asked for gets a token and a login."""

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self.orgs = Orgs(f"sqlite:{root}/orgs")
        self.app = Server(self.orgs, limits or Limits(calls_per_s=1e6, burst=10**6))
        self.app.tokens.create("first", "admin")
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self.app,
            http="refold.edges.server.connection:Connection",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self._thread.start()
        end = time.monotonic() + START_S
        while not self._server.started:
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.005)

    def place(self, environ: dict[str, str], org: str = "") -> str:
        """The address of an organization that this user is logged in to."""
        org = org or f"org-{secrets.token_hex(4)}"
        _, secret = self.app.tokens.create(org, "admin")
        place = f"http://127.0.0.1:{self.port}/{org}"
        logins.keep(place, secret, environ)
        return place

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(START_S)
