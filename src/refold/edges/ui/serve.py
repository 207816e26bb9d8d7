"""Runs the web view: on 127.0.0.1 only, until it is stopped.

The address is printed with a key that works once; Enter prints another one. Neighbours: `app` is
the application, the command `ui` runs this.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable

from refold.edges.ui.access import HOST, Access
from refold.edges.ui.answers import Answers

CONNECTIONS_MAX = 64


def bound(port: int) -> socket.socket:
    """A listening socket on this machine alone; port 0 takes a free one."""
    from refold.edges.server.connection import listen

    return listen(HOST, port)


def serve(
    listening: socket.socket, answers: Answers, access: Access, tell: Callable[[str], None]
) -> None:
    """Serves until it is stopped. `tell` receives further addresses, which Enter asks for."""
    import uvicorn

    from refold.edges.server.connection import SETTINGS, log_to_stderr
    from refold.edges.ui.app import App

    formatter = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
    log_to_stderr(formatter, {"uvicorn": "CRITICAL"})

    settings = {**SETTINGS, "limit_concurrency": CONNECTIONS_MAX}
    server = uvicorn.Server(uvicorn.Config(App(answers, access), **settings))
    if sys.stdin is not None and sys.stdin.isatty():
        asking = threading.Thread(target=_print_addresses, args=(access, tell), daemon=True)
        asking.start()
    server.run(sockets=[listening])


def _print_addresses(access: Access, tell: Callable[[str], None]) -> None:
    for _ in sys.stdin:
        tell(access.address())
