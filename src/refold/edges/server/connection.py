"""HTTP connections, the listening socket, logging and uvicorn's settings, for team server and
proxy.

A client that connects and sends nothing is dropped; on shutdown, feed listeners end at once and a
new connection may still send its first call. Writes that occur together are joined. Nothing here
needs Starlette: the proxy has only uvicorn. Neighbours: `serve` here and in `edges/proxy`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from uvicorn.protocols.http.h11_impl import H11Protocol

from refold.display import visible
from refold.edges.server.rate_limits import Limits
from refold.errors import Unavailable

ENDING = "refold.ending"  # state key of an application: its function to call on shutdown
FIRST_CALL_S = 2.0  # a client starved of CPU connects long before it sends
HEADER_S = Limits().header_s


class Connection(H11Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        loop = asyncio.get_running_loop()
        super().connection_made(JoinedWrites(transport, loop))  # type: ignore[arg-type]
        self._giving_up = loop.call_later(HEADER_S, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, and closes. If the fault is in the rest of a call that already
        has an answer, a second one would be taken for that of the next call."""
        cycle = self.cycle
        if cycle is not None and cycle.response_started and cycle.more_body:
            self.transport.close()
            return
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        super().send_400_response(msg)

    def shutdown(self) -> None:
        """Stops the connection. Feed listeners end now, because their calls would not; a new
        connection may have a call on the way."""
        end = self.app_state.get(ENDING)
        if end is not None:
            end()
        if self.cycle is None:
            self.loop.call_later(FIRST_CALL_S, super().shutdown)
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._giving_up.cancel()
        super().connection_lost(exc)


class JoinedWrites:
    """A transport that joins writes that occur together: a system call costs more than the rest of
    a short answer."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self._write_held)

    def _write_held(self) -> None:
        data, self._held = self._held, b""
        if data:
            self._transport.write(data)

    def close(self) -> None:
        self._write_held()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


BACKLOG = 4_096
HEAD_BYTES_MAX = 256 * 1024  # of a request; the team server refuses less, and says so
KEEP_ALIVE_S = 75
STOP_S = 10

SETTINGS: dict[str, Any] = {
    "http": "refold.edges.server.connection:Connection",
    "ws": "none",
    "loop": "asyncio",
    "lifespan": "on",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "proxy_headers": False,
    "backlog": BACKLOG,
    "h11_max_incomplete_event_size": HEAD_BYTES_MAX,
    "timeout_keep_alive": KEEP_ALIVE_S,
    "timeout_graceful_shutdown": STOP_S,
}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; Unavailable if the port is taken."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        message = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise Unavailable(message, hint="choose another with --port") from error
    return listening


class _VisibleLines(logging.StreamHandler[TextIO]):
    """Writes records without control characters: standard error may be a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def log_to_stderr(formatter: logging.Formatter, levels: Mapping[str, str]) -> None:
    """Sends the loggers with these names to standard error, from these levels up."""
    handler = _VisibleLines(sys.stderr)
    handler.setFormatter(formatter)
    for name, level in levels.items():
        log = logging.getLogger(name)
        log.setLevel(level)
        log.handlers = [handler]
        log.propagate = False
