"""Server-sent events as bytes and values, and the interface of a dialect that makes one answer from
several rounds.

Unchanged events are passed on as the bytes they came in. A shape joins the answers of one dialect,
whole and as a stream, without our calls. Everything in a stream is passed on at once, except our
calls and the end: only then is it known whether another round follows. An answer without our calls
is passed on as the bytes that came. Neighbours: `anthropic`, `chat`, `gemini` and `responses` are
shapes, `rounds` uses them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from refold.core.model import ToolCall
from refold.edges.proxy.body import Wire

EVENT_BYTES_MAX = 32 * 1024 * 1024
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_END_BYTES_MAX = 4
DONE = b"[DONE]"


class ServerEvent(Struct, frozen=True):
    """One event. `said` is empty for a comment or an end mark."""

    raw: bytes
    said: dict[str, Any] = {}
    is_done: bool = False


class Cutter:
    """Cuts a stream into events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The complete events. An event may come in thousands of pieces, and nothing is searched
        twice."""
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
        """The bytes left at the end of the stream."""
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
    """An event made here, as if it had come."""
    return ServerEvent(encoded(said, named=named), said)


def encoded(said: dict[str, Any], *, named: bool) -> bytes:
    """The bytes of an event made here, with its name on a line of its own if the provider sends
    one."""
    name = f"event: {said['type']}\n".encode() if named else b""
    return name + b"data: " + msgspec.json.encode(said) + b"\n\n"


Response = dict[str, Any]


class Inside(Struct, frozen=True):
    """An exchange of which the client sees a part: its messages in the client's list, and all
    messages for each of them that has more."""

    seen: list[Wire]
    inner: dict[int, list[Wire]]


class SeenStream(Protocol):
    """One stream from several rounds."""

    def begin(self) -> None:
        """Begins another round."""
        ...

    def take(self, event: ServerEvent) -> bytes:
        """The events to pass on for an event; none for our calls and a possible end."""
        ...

    def end(self, response: Response | None) -> bytes:
        """The end of the one answer; None if the client saw everything."""
        ...

    def failed(self, error: bytes) -> bytes:
        """An error of the provider in the middle of the stream."""
        ...


class Shape(Protocol):
    """The joining of answers in one dialect."""

    def stream(self) -> SeenStream: ...

    def has_ended_well(self, response: Response) -> bool:
        """Whether the model ended the answer itself, so that its calls are complete."""
        ...

    def one(self, responses: Sequence[Response]) -> Response:
        """The answers of all rounds as one, without our calls."""
        ...

    def messages(self, response: Response) -> list[Wire]:
        """The messages of an answer in the next request; without our calls if they are cut off."""
        ...

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        """The messages with the results of calls."""
        ...

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        """An answer with this text after the last one, whole and as a stream."""
        ...

    def inside(self, said: Sequence[Sequence[Wire]], seen: Response) -> Inside:
        """All rounds, with the results in between, for the client's messages."""
        ...


def summed(usages: Sequence[Any]) -> Any:
    """Counts added up by name; for other values, the last one."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items() if isinstance(usage, dict) else ():
            total[name] = _added(total.get(name), value)
    return total


def _added(before: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return summed([before, value])
    if value is None:
        return before
    is_count = isinstance(value, int | float) and not isinstance(value, bool)
    return before + value if is_count and isinstance(before, int | float) else value


def whole_in_one(said: Sequence[Sequence[Wire]], seen: Sequence[Wire]) -> Inside:
    """The exchange in dialects with one message per answer: all rounds in its place."""
    messages = [one for part in said for one in part]
    is_more = messages != list(seen)
    return Inside(list(seen), {0: messages} if is_more and seen else {})
