"""The same server on a port of this machine, for hosts that start no programs.

Only this machine can reach it, only by its own names (a page in a browser cannot make it answer
under another), and only with the token. Neighbours: `server`; the SDK checks Host and Origin.
"""

from __future__ import annotations

import hmac
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

HOST, PATH = "127.0.0.1", "/mcp"


class Gate:
    """Lets only those in who have the token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or self._has_token(scope):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})

    def _has_token(self, scope: Any) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)


def application(server: MCPServer, port: int, token: str) -> Gate:
    """The guarded application of a server on this port."""
    names = [f"{HOST}:{port}", f"localhost:{port}"]
    allowed = TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )
    return Gate(
        server.streamable_http_app(streamable_http_path=PATH, transport_security=allowed), token
    )


def serve(server: MCPServer, port: int, token: str) -> None:
    """Serves until it is stopped."""
    uvicorn.run(
        application(server, port, token), host=HOST, port=port, log_level="warning", ws="none"
    )
