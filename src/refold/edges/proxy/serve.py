"""Runs the proxy: one process, on a port of its own or on a socket that was handed over.

What would keep it from serving is found before anything listens. A proxy that `refold run` started
is told everything in one environment variable, and leaves once whoever started it is gone and
nobody has called for a while: until then an agent may still need it. Neighbours: `app` runs,
`supervisor` starts this as a process, the command `proxy` runs it here.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import secrets
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from refold import decoding
from refold.edges.proxy.limits import Limits
from refold.edges.server.app import BACKLOG, SETTINGS
from refold.errors import Invalid, Unavailable, install_hint

if TYPE_CHECKING:
    import uvicorn

    from refold.edges.proxy.app import Proxy

GIVEN, TOKEN = "REFOLD_PROXY", "REFOLD_PROXY_TOKEN"
PORT = 8_743
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOOK_S, ALONE_S = 5.0, 600.0
GARBAGE = 20_000  # objects between two collections; most of a call are texts


class ProxySettings(Struct, frozen=True, kw_only=True):
    """What a proxy is told. `bases` are addresses of providers that are not the usual ones; with
    `plain` it only passes on."""

    store: str
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    token: str = ""
    folds: bool = False
    native: bool = False
    tools: bool = False
    window: int | None = None
    bases: dict[str, str] = {}
    plain: bool = False
    log_level: str = "info"
    socket: int | None = None  # the descriptor of a socket that listens
    parent: int = 0  # the process that started this one
    tells: int | None = None  # the descriptor to which it is said what became of each call
    limits: Limits = field(default_factory=Limits)


def check_options(given: ProxySettings) -> None:
    """Invalid if options contradict each other: a mistake, whatever else is there."""
    if given.native and not given.folds:
        said = "--native needs --fold: the provider writes the compactions, and without --fold"
        raise Invalid(f"{said} there are none", hint="--fold --native")


def checked(given: ProxySettings) -> ProxySettings:
    """What a proxy is told, complete. An error says what is missing: a package, a name."""
    check_options(given)
    check_packages()
    from refold.edges.proxy.gate import PROVIDERS
    from refold.edges.proxy.upstream import base_checked

    for name, base in given.bases.items():
        if name not in PROVIDERS:
            raise Invalid(f"{name!r} is not a provider", hint=f"one of {', '.join(PROVIDERS)}")
        base_checked(base)
    if given.host in LOOPBACK:
        return given
    if not given.names:
        said = f"{given.host} can be reached by others, and nothing says by which name"
        raise Invalid(said, hint="--name proxy.example.com, behind something that has TLS")
    return msgspec.structs.replace(given, token=given.token or secrets.token_urlsafe(24))


def check_packages() -> None:
    """Unavailable, with the extra that brings it, if the package that serves is not there."""
    if importlib.util.find_spec("uvicorn") is None:
        raise Unavailable("the proxy needs uvicorn", hint=install_hint("proxy"))


def url_of(given: ProxySettings) -> str:
    """How clients call this proxy."""
    host = given.names[0] if given.names else given.host
    return f"http://{f'[{host}]' if ':' in host else host}:{given.port}"


def serve(given: ProxySettings) -> None:
    """Serves until it is stopped."""
    import uvicorn

    listening = listen(given.host, given.port) if given.socket is None else _handed(given.socket)
    log_to_stderr(given.log_level)
    proxy = proxy_of(given)
    _search_once("sniffio")
    if given.folds:
        _load_strategies()
    # What is here at the start stays for good: no collection has to look at it again.
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)
    server = uvicorn.Server(_uvicorn_config(proxy))
    if given.parent:
        watch = threading.Thread(target=_leave_alone, args=(server, proxy, given.parent))
        watch.daemon = True
        watch.start()
    server.run(sockets=[listening])
    if not server.started:
        raise Unavailable("the proxy could not start")


def _search_once(name: str) -> None:
    """Lets an import of a package that is not there fail at once: httpcore tries this one several
    times a call, and each time every folder of the path is looked at."""
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = None  # type: ignore[assignment]


def _load_strategies() -> None:
    """Loads what a compaction needs now, while no agent waits for it."""
    from refold.config import Config
    from refold.strategies.registry import strategy

    for name in Config().ladder:
        strategy(name)


def main() -> None:
    """The entry point of a proxy that is a process of its own."""
    serve(decoding.decode(os.environ.pop(GIVEN), ProxySettings))


def proxy_of(given: ProxySettings) -> Proxy:
    """The application, with its store open."""
    from refold.edges.proxy.app import Proxy
    from refold.edges.proxy.book import Book
    from refold.edges.proxy.folding import Folding
    from refold.edges.proxy.gate import PROVIDERS, Gate
    from refold.edges.proxy.observer import Observer
    from refold.edges.proxy.savings import teller
    from refold.edges.proxy.upstream import Upstream
    from refold.stores import open_store

    bases = {name: given.bases[name] for name in PROVIDERS if name in given.bases}
    upstream = Upstream(bases, given.limits)
    gate = Gate(names=given.names, token=given.token)
    if given.plain:
        return Proxy(upstream, gate=gate, limits=given.limits)
    folding = Folding(
        folds=given.folds, native=given.native, tools=given.tools, window=given.window
    )
    book = Book(open_store(given.store), folding, given.limits)
    return Proxy(
        upstream,
        Observer(book),
        gate=gate,
        limits=given.limits,
        close=book.close,
        told=teller(given.tells),
    )


def _uvicorn_config(proxy: Proxy) -> uvicorn.Config:
    import uvicorn

    return uvicorn.Config(proxy, **SETTINGS)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; Unavailable if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        said = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise Unavailable(said, hint="--port chooses another") from error
    return listening


def _handed(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)


def log_to_stderr(level: str) -> None:
    """Our lines as they are; of uvicorn only what ends it: a stream that is cut off is no fault."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    for name, least in (("refold.proxy", level.upper()), ("uvicorn", "CRITICAL")):
        log = logging.getLogger(name)
        log.setLevel(least)
        log.handlers = [handler]
        log.propagate = False


def _leave_alone(server: uvicorn.Server, proxy: Proxy, parent: int) -> None:
    """Ends the server once the process that started it is gone and nobody has called for long."""
    while not server.should_exit:
        time.sleep(LOOK_S)
        is_alone = os.getppid() != parent
        if is_alone and time.monotonic() - proxy.called_at > ALONE_S:
            server.should_exit = True
