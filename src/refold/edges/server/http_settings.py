"""How uvicorn serves an application of ours: its own lines, headers and guesses are off,
connections are bounded, and a stop waits for calls under way, but not for ever."""

from __future__ import annotations

from typing import Any

BACKLOG = 4_096
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
    "timeout_keep_alive": KEEP_ALIVE_S,
    "timeout_graceful_shutdown": STOP_S,
}
