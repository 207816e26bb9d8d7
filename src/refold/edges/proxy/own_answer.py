"""Answers of the proxy's own, where there is none of a provider's: in a form that SDKs read.

Neighbours: `app` answers, `errors` has the codes of the rest of refold.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from refold.edges.proxy.gate import Header
from refold.errors import OUTCOMES, RefoldError, Unavailable

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

STATUSES = {"unauthorized": 401, "upgrade": 426, "upstream": 502, "slow": 504}


class Refused(RefoldError):
    """An answer of the proxy's own, by a code of STATUSES."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code  # type: ignore[misc]


async def send_error(send: Send, error: RefoldError) -> None:
    """An error in a form that the providers' SDKs read."""
    status = STATUSES.get(error.code) or OUTCOMES.get(error.code, (500, 1))[0]
    retry = [(b"retry-after", b"1")] if isinstance(error, Unavailable) else []
    await send_json(send, status, error_body(error), retry)


def error_body(error: RefoldError) -> bytes:
    """What an answer says of an error."""
    said = {"type": f"refold_{error.code}".replace("-", "_"), "message": f"refold proxy: {error}"}
    return json.dumps({"type": "error", "error": said}).encode()


async def send_json(send: Send, status: int, body: bytes, more: Sequence[Header] = ()) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start = {"type": "http.response.start", "status": status, "headers": [*headers, *more]}
    await send(start)
    await send({"type": "http.response.body", "body": body})
