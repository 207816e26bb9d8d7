"""uvicorn's HTTP, with an end to waiting: a connection that does not bring its headers in time is
closed. uvicorn loads this by its name, also in the processes that it starts."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from refold.edges.server.limits import Limits

HEADER_S = Limits().header_s


class Connection(H11Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._giving_up = loop.call_later(HEADER_S, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._giving_up.cancel()
        super().connection_lost(exc)
