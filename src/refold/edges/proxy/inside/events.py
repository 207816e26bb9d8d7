"""A stream of server-sent events, cut into events: each as the bytes it came in, and what it says.

What is passed on unchanged goes on as those bytes. Neighbours: `endpoints.server_events` reads
streams whose bytes nobody needs; the dialects here look at each event.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

EVENT_BYTES_MAX = 32 * 1024 * 1024
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_END_BYTES_MAX = 4
DONE = b"[DONE]"


class ServerEvent(Struct, frozen=True):
    """One event. `said` is empty for what is no object: a comment, an end mark."""

    raw: bytes
    said: dict[str, Any] = {}
    is_done: bool = False


class Cutter:
    """Cuts what comes into events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that are whole now. An event may come in thousands of pieces: what was
        searched is not searched again."""
        searched = max(0, len(self._rest) - _END_BYTES_MAX + 1)
        self._rest += chunk
        ends = [end.end() for end in _END.finditer(self._rest, searched)]
        places = pairwise([0, *ends])
        events = [_event(bytes(self._rest[begin:end])) for begin, end in places]
        del self._rest[: max(ends, default=0)]
        if len(self._rest) > EVENT_BYTES_MAX:
            return [*events, *self.rest()]
        return events

    def rest(self) -> list[ServerEvent]:
        """What is left once the stream has ended."""
        left, self._rest = bytes(self._rest), bytearray()
        return [_event(left)] if left else []


def _event(raw: bytes) -> ServerEvent:
    data = b"\n".join(
        line[5:].removeprefix(b" ") for line in raw.splitlines() if line.startswith(b"data:")
    )
    if data.strip() == DONE:
        return ServerEvent(raw, is_done=True)
    try:
        said = msgspec.json.decode(data) if data else {}
    except msgspec.DecodeError:
        said = {}
    return ServerEvent(raw, said if isinstance(said, dict) else {})


def own_event(said: dict[str, Any], *, named: bool) -> ServerEvent:
    """An event of ours, as if it had come."""
    return ServerEvent(encoded(said, named=named), said)


def encoded(said: dict[str, Any], *, named: bool) -> bytes:
    """An event of ours, with its name in a line of its own where the provider has one."""
    name = f"event: {said['type']}\n".encode() if named else b""
    return name + b"data: " + msgspec.json.encode(said) + b"\n\n"
