"""Runs the server: one process, or several that share a socket.

Problems that would keep it from serving are found before it listens (`checked`), because a process
that cannot start would only be restarted. A process gets its settings in one environment variable,
because workers are spawned and not forked. Neighbours: `app` is the application, the command
`serve` runs this.
"""

from __future__ import annotations

import gc
import importlib.util
import ipaddress
import json
import logging
import multiprocessing
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from refold import decoding
from refold.checked import quoted
from refold.edges.server.access import Orgs, Tokens
from refold.edges.server.connection import SETTINGS, listen, log_to_stderr
from refold.edges.server.observability import Shared
from refold.edges.server.rate_limits import Limits
from refold.errors import Denied, Invalid, Unavailable, install_hint
from refold.stores import hints_of
from refold.system import own_python

if TYPE_CHECKING:
    import uvicorn

    from refold.edges.server.app import Server

GIVEN = "REFOLD_SERVE"
PACKAGES = ("starlette", "uvicorn")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
START_AGAIN_S = 1.0
GARBAGE = 20_000  # objects between two collections; most objects live only for one call


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a server. `names` are the host names that clients may use; empty means any.
    `direct` is the address of the store's database without a pooler. `trusted_proxies` are
    addresses and networks whose X-Forwarded-For is believed. `limits` are for all workers
    together."""

    store: str
    direct: str = ""
    host: str = "127.0.0.1"
    port: int = 8_741
    names: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    workers: int = 1
    certificate: str = ""
    key: str = ""
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)
    folder: str = ""  # for the counts of several workers


# --- before anything listens ---


def checked(given: ServerSettings) -> str:
    """The place to serve, without its password. Raises an error for a missing package, name,
    certificate or token, or a direct address without hints."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"the team server needs {' and '.join(missing)}"
        raise Unavailable(message, hint=install_hint("server"))
    if not _is_loopback(given.host) and not given.names:
        message = f"{given.host} can be reached from other machines, but has no host name"
        hint = "--name refold.example.com, and --certificate, or a proxy with TLS"
        raise Invalid(message, hint=hint)
    _check_proxies(given.trusted_proxies)
    _check_certificate(given)
    orgs = Orgs(given.store)
    try:
        now_ms = time.time_ns() // 1_000_000
        if not any(token.state(now_ms) == "valid" for token in Tokens(orgs.own).list()):
            hint = f"refold token create --org NAME --store {orgs.shown_place}"
            raise Denied("there is no valid token, so no client could use this server", hint=hint)
        _check_direct(orgs, given.direct)
        return orgs.shown_place
    finally:
        orgs.close()


def _check_proxies(proxies: Sequence[str]) -> None:
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            message = f"{quoted(proxy)} is not the address of a proxy"
            hint = "an address such as 10.0.0.7, or a network such as 10.0.0.0/24"
            raise Invalid(message, hint=hint) from error


def _check_certificate(given: ServerSettings) -> None:
    if bool(given.certificate) != bool(given.key):
        raise Invalid("a certificate and a key belong together", hint="--certificate and --key")
    if not given.certificate:
        return

    def no_password() -> str:
        raise Invalid(f"{given.key} has a password, and a server cannot ask for one")

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given.certificate, given.key, password=no_password)
    except (OSError, ssl.SSLError) as error:
        message = f"{given.certificate} and {given.key} cannot be used: {error}"
        raise Invalid(message, hint="pass a certificate and its own key, both as PEM") from error


def _check_direct(orgs: Orgs, direct: str) -> None:
    """Raises an error for a direct address that can never deliver hints. A temporary failure does
    not keep the server from starting."""
    hints = hints_of(orgs.own, direct)
    if hints is None or not direct:
        return
    try:
        with hints.receiver():
            return
    except Unavailable as error:
        if error.retry_after_s is None:
            raise


def url_of(given: ServerSettings) -> str:
    """The address of this server for clients."""
    scheme = "https" if given.certificate else "http"
    host = given.names[0] if given.names else given.host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{given.port}"


# --- serving ---


def serve(given: ServerSettings, announce: Callable[[], None]) -> None:
    """Serves until it is stopped, by SIGTERM or Ctrl-C. Calls `announce` once it listens."""
    listening = listen(given.host, given.port)
    listening.set_inheritable(True)
    announce()
    _log_lines(given.log_level)
    config = uvicorn_config(given)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.workers > 1:
            _serve_by_workers(given, config, listening)
        else:
            _serve_here(given, config, listening)
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve_here(given: ServerSettings, config: uvicorn.Config, listening: socket.socket) -> None:
    import uvicorn

    _export_settings(given)
    # After SIGTERM or Ctrl-C this raises KeyboardInterrupt: it returns only if nobody stopped it.
    uvicorn.Server(config).run(sockets=[listening])
    raise Unavailable("the server stopped unexpectedly; its log says why")


def _serve_by_workers(
    given: ServerSettings, config: uvicorn.Config, listening: socket.socket
) -> None:
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors.multiprocess import Multiprocess, Process

    class Workers(Multiprocess):
        def terminate_all(self) -> None:
            """Closes the port first, so that no client connects that no worker will answer."""
            listening.close()
            super().terminate_all()

        def keep_subprocess_alive(self) -> None:
            """Replaces workers that ended. One that could not start would end all the others, so it
            is replaced, too, after a pause: the cause may pass."""
            is_asked = self.should_exit.is_set()
            super().keep_subprocess_alive()
            if is_asked or not self.should_exit.is_set():
                return
            time.sleep(START_AGAIN_S)
            for at, worker in enumerate(self.processes):
                if worker.exitcode == STARTUP_FAILURE:
                    self.processes[at] = Process(self.config, self.sockets)
                    self.processes[at].start()
            self.should_exit.clear()

    with tempfile.TemporaryDirectory(prefix="refold-serve-") as folder:
        _export_settings(replace(given, folder=folder))
        with own_python.safe_spawns():
            Workers(config, sockets=[listening]).run()


def _end_with_parent() -> None:
    """Stops this worker once its parent process is gone: otherwise it would keep running, and keep
    the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _export_settings(given: ServerSettings) -> None:
    os.environ[GIVEN] = msgspec.json.encode(given).decode()


def uvicorn_config(given: ServerSettings) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(
        "refold.edges.server.serve:application",
        factory=True,
        workers=given.workers,
        **{**SETTINGS, "proxy_headers": bool(given.trusted_proxies)},
        forwarded_allow_ips=list(given.trusted_proxies),
        ssl_certfile=given.certificate or None,
        ssl_keyfile=given.key or None,
    )


def application() -> Server:
    """The application of one process, with the settings in the environment."""
    from refold.edges.server import connection
    from refold.edges.server.app import Server

    given = decoding.decode(os.environ[GIVEN], ServerSettings)
    _log_lines(given.log_level)
    _end_with_parent()
    # Objects from the start live forever, so no collection has to visit them again.
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)
    connection.HEADER_S = given.limits.header_s
    orgs = Orgs(given.store, workers=given.workers)
    limits = given.limits.share(given.workers)
    shared = Shared(given.folder) if given.folder else None
    return Server(orgs, limits, hosts=_hosts(given), direct=given.direct, shared=shared)


def _hosts(given: ServerSettings) -> frozenset[str]:
    """The host names of this server: the given ones, and the loopback names unless other machines
    can reach it without a name; empty means any."""
    if given.names:
        return LOOPBACK | {name.lower() for name in given.names}
    return LOOPBACK if _is_loopback(given.host) else frozenset()


def _is_loopback(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")


class OneLine(logging.Formatter):
    """Formats every record as one JSON object. Our own lines are JSON already; other records have
    the name of an exception but not its text, which may quote a request."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == "refold.server":
            return record.getMessage()
        fields = {"event": record.name, "at": round(record.created, 3)}
        fields |= {"level": record.levelname, "message": record.getMessage()}
        raised = record.exc_info[0] if record.exc_info else None
        return json.dumps(fields if raised is None else {**fields, "error": raised.__name__})


def _log_lines(level: str) -> None:
    """Logs our lines, and uvicorn's warnings in the same form."""
    log_to_stderr(OneLine(), {"refold.server": level.upper(), "uvicorn": "WARNING"})
