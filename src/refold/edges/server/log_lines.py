"""The log of the server: one JSON object a line, each with what happened and when.

Why a store is away is for who runs the server and not for who calls it: the log has the reason, the
answer does not. Contents, names of conversations and secrets stand in neither. Neighbours: `app`,
`feed` and `hints` tell, `serve` says where lines go.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import MutableMapping
from typing import Any

from refold.errors import Denied, RefoldError, Unavailable
from refold.redaction import redacted
from refold.stores import Encrypted

LINES_MAX = 500
REASON_CHARS_MAX = 500
STORE_AGAIN_S = 5.0
SYNCED_HINT = "a device with the key syncs it, and reads and writes it there"
log = logging.getLogger("refold.server")


def line(event: str, **said: object) -> str:
    """One line of the log."""
    return json.dumps({"event": event, "at": round(time.time(), 3), **said})


def warn(event: str, error: RefoldError, **said: object) -> None:
    """Says what failed, and why."""
    log.warning(line(event, **said, error=error.code, reason=_reason(error), hint=error.hint))


def _reason(error: RefoldError) -> str:
    """Why, without secrets. A path may have the name of a conversation in it, so of what the
    system refused only its own words are told."""
    cause = error.__cause__
    said = cause.strerror if isinstance(cause, OSError) and cause.strerror else error.message
    return redacted(said)[:REASON_CHARS_MAX]


def as_callers_see(error: RefoldError) -> RefoldError:
    """Where the store is, who may use it and which version it has is not for callers: to them it
    is away for a moment, and another server may have it. The log says what it is. What is encrypted
    stays so however often it is asked for: that is refused for good."""
    if isinstance(error, Encrypted):
        return Denied(f"{error.said}, which no server has", hint=SYNCED_HINT)
    warn("store", error)
    again_s = error.retry_after_s if isinstance(error, Unavailable) else None
    said = "the store of this server cannot serve now"
    hint = "try again; the log of the server says why"
    return Unavailable(said, retry_after_s=again_s or STORE_AGAIN_S, hint=hint)


class CallLines:
    """The lines of the last calls, written together: that costs less than one by one."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, scope: MutableMapping[str, Any], status: int, took_s: float) -> None:
        """One line a call, without contents, names of conversations, or secrets."""
        if log.isEnabledFor(logging.INFO):
            route, token = scope["refold.route"], scope.get("refold.token", "")
            # All of these are ours, and none has a character that JSON would escape.
            self._lines.append(
                f'{{"event": "call", "at": {time.time():.3f}, "route": "{route}", '
                f'"status": {status}, "ms": {took_s * 1_000:.2f}, "token": "{token}"}}'
            )
            if len(self._lines) >= LINES_MAX:
                self.write()

    def write(self) -> None:
        if self._lines:
            log.info("\n".join(self._lines))
            self._lines = []
