"""Runs the server: one process, or several that share a socket.

What a process is told travels in one environment variable, because the others are started afresh
and not by a copy of this one. Neighbours: `app` runs, the command `serve` asks for it.
"""

from __future__ import annotations

import logging
import os
import sys

import msgspec
from msgspec import Struct, field

from refold.edges.server.app import Server
from refold.edges.server.limits import Limits
from refold.edges.server.orgs import Orgs
from refold.errors import Invalid, Unavailable

GIVEN = "REFOLD_SERVE"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
KEEP_ALIVE_S = 75
BACKLOG = 4_096
STOP_S = 10


class Given(Struct, frozen=True, kw_only=True):
    """What a server is told. `names` are those by which clients call it; empty means any."""

    store: str
    host: str = "127.0.0.1"
    port: int = 8_741
    names: tuple[str, ...] = ()
    workers: int = 1
    certificate: str = ""
    key: str = ""
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)


def application() -> Server:
    """The application of one process, as the environment says."""
    given = msgspec.json.decode(os.environ[GIVEN], type=Given)
    _log_to_stderr(given.log_level)
    return Server(Orgs(given.store), given.limits, hosts=_hosts(given))


def _hosts(given: Given) -> frozenset[str]:
    """The names that this server goes by: those it was given, and its own address if that is
    this machine's alone."""
    if given.names:
        return LOOPBACK | {name.lower() for name in given.names}
    return LOOPBACK if _is_loopback(given.host) else frozenset()


def _is_loopback(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")


def run(given: Given) -> None:
    """Serves until it is stopped."""
    try:
        import uvicorn
    except ImportError as error:
        hint = "pip install 'refold[server]'"
        raise Unavailable("the packages of the server are not installed", hint=hint) from error
    _check(given)
    os.environ[GIVEN] = msgspec.json.encode(given).decode()
    config = uvicorn.Config(
        "refold.edges.server.serve:application",
        factory=True,
        host=given.host,
        port=given.port,
        workers=given.workers,
        http="refold.edges.server.connection:Connection",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=given.certificate or None,
        ssl_keyfile=given.key or None,
    )
    if given.workers > 1:
        from uvicorn.supervisors import Multiprocess

        Multiprocess(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise Unavailable("the server could not start; its log says why")


def _check(given: Given) -> None:
    if bool(given.certificate) != bool(given.key):
        raise Invalid("a certificate and a key belong together", hint="--certificate and --key")
    if not given.certificate and not _is_loopback(given.host) and not given.names:
        said = f"{given.host} can be reached by others, and nothing says by which name"
        raise Invalid(
            said, hint="--name refold.example.com, and --certificate, or a proxy with TLS"
        )


def _log_to_stderr(level: str) -> None:
    log = logging.getLogger("refold.server")
    log.setLevel(level.upper())
    log.handlers = [logging.StreamHandler(sys.stderr)]
    log.propagate = False
