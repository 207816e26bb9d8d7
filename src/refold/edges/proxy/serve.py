"""Runs the proxy: one process, on a port of its own or on an inherited socket.

Problems that would keep it from serving are found before it listens. A proxy started by `refold
run` gets its settings in one environment variable, and exits once its parent process is gone and no
call has come for a while: until then an agent may still need it. Neighbours: `app` is the
application, `supervisor` starts this as a process, the command `proxy` runs it in its own.
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
from refold.core.model import Message
from refold.edges.proxy.upstream import Limits
from refold.edges.server.connection import SETTINGS, log_to_stderr
from refold.edges.server.connection import listen as listen  # for the command `proxy`
from refold.errors import Invalid, Unavailable

if TYPE_CHECKING:
    import uvicorn

    from refold.edges.proxy.app import Proxy

GIVEN, TOKEN = "REFOLD_PROXY", "REFOLD_PROXY_TOKEN"
PORT = 8_743
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOOK_S, ALONE_S = 5.0, 600.0
GARBAGE = 20_000  # objects between two collections; most objects of a call are strings


class ProxySettings(Struct, frozen=True, kw_only=True):
    """The settings of a proxy. `bases` are unusual addresses of providers, `opening` is put on the
    page of each new conversation; it `defers` tools that nobody called; with `plain` it only passes
    on."""

    store: str
    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    token: str = ""
    folds: bool = False
    native: bool = False
    tools: bool = False
    defers: bool = False
    window: int | None = None
    opening: Message | None = None
    bases: dict[str, str] = {}
    plain: bool = False
    log_level: str = "info"
    socket: int | None = None  # the descriptor of a listening socket
    parent: int = 0  # the process that started this one
    tells: int | None = None  # the descriptor for the outcome of each call
    limits: Limits = field(default_factory=Limits)


def check_options(given: ProxySettings) -> None:
    """Invalid if options contradict each other."""
    if given.native and not given.folds:
        message = "--native needs --fold: the provider writes the compactions, and without --fold"
        raise Invalid(f"{message} there are none", hint="--fold --native")


def checked(given: ProxySettings) -> ProxySettings:
    """The complete settings. Invalid for a missing host name."""
    check_options(given)
    from refold.edges.proxy.upstream import PROVIDERS, base_checked

    for name, base in given.bases.items():
        if name not in PROVIDERS:
            raise Invalid(f"{name!r} is not a provider", hint=f"one of {', '.join(PROVIDERS)}")
        base_checked(base)
    if given.host in LOOPBACK:
        return given
    if not given.names:
        message = f"{given.host} can be reached from other machines, but has no host name"
        raise Invalid(message, hint="--name proxy.example.com, behind a TLS terminator")
    return msgspec.structs.replace(given, token=given.token or secrets.token_urlsafe(24))


def url_of(given: ProxySettings) -> str:
    """The address of this proxy for clients."""
    host = given.names[0] if given.names else given.host
    return f"http://{f'[{host}]' if ':' in host else host}:{given.port}"


def serve(given: ProxySettings) -> None:
    """Serves until it is stopped."""
    import uvicorn

    if given.socket is None:
        listening = listen(given.host, given.port)
    else:
        listening = socket.socket(fileno=given.socket)
    # Of uvicorn only fatal errors are logged: an interrupted stream is normal.
    formatter = logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S")
    log_to_stderr(formatter, {"refold.proxy": given.log_level.upper(), "uvicorn": "CRITICAL"})
    proxy = proxy_of(given)
    _search_once("sniffio")
    if given.folds:
        _load_strategies()
    # Objects from the start stay for good: no collection has to visit them again.
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)
    server = uvicorn.Server(uvicorn.Config(proxy, **SETTINGS))
    if given.parent:
        watch = threading.Thread(target=_stop_without_parent, args=(server, proxy, given.parent))
        watch.daemon = True
        watch.start()
    server.run(sockets=[listening])
    if not server.started:
        raise Unavailable("the proxy could not start")


def _search_once(name: str) -> None:
    """Makes the import of a missing package fail at once: httpcore tries this one several times per
    call, and each time every folder of the path is searched."""
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = None  # type: ignore[assignment]


def _load_strategies() -> None:
    """Loads the compaction's modules now, while no agent waits for them."""
    from refold.config import Config
    from refold.strategies.registry import strategy

    for name in Config().ladder:
        strategy(name)


def main() -> None:
    """The entry point of a proxy in a process of its own."""
    serve(decoding.decode(os.environ.pop(GIVEN), ProxySettings))


def proxy_of(given: ProxySettings) -> Proxy:
    """The application, with its store open."""
    from refold.conversations.listing import newest, tools_called
    from refold.edges.local_access import Gate
    from refold.edges.proxy.app import Proxy
    from refold.edges.proxy.conversation_registry import ConversationRegistry
    from refold.edges.proxy.deferred_tools import READ_MAX
    from refold.edges.proxy.folding import Folding
    from refold.edges.proxy.observer import Observer
    from refold.edges.proxy.savings import teller
    from refold.edges.proxy.upstream import PROVIDERS, Upstream
    from refold.stores import open_store

    bases = {name: given.bases[name] for name in PROVIDERS if name in given.bases}
    upstream = Upstream(bases, given.limits)
    hint = "call 127.0.0.1, or name your own host: refold proxy --name NAME"
    gate = Gate(names=given.names, token=given.token, hint=hint)
    if given.plain:
        return Proxy(upstream, gate=gate, limits=given.limits)
    store = open_store(given.store)
    found = newest(store, limit=READ_MAX) if given.defers else ()
    folding = Folding(
        folds=given.folds,
        native=given.native,
        tools=given.tools,
        opening=given.opening,
        called=frozenset(tools_called(store, found)),
        window=given.window,
    )
    registry = ConversationRegistry(store, folding, given.limits)
    return Proxy(
        upstream,
        Observer(registry),
        gate=gate,
        limits=given.limits,
        close=registry.close,
        report=teller(given.tells),
    )


def _stop_without_parent(server: uvicorn.Server, proxy: Proxy, parent: int) -> None:
    """Stops the server once its parent process is gone and no call has come for a while."""
    while not server.should_exit:
        time.sleep(LOOK_S)
        is_alone = os.getppid() != parent
        if is_alone and time.monotonic() - proxy.called_at > ALONE_S:
            server.should_exit = True
