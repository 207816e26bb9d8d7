"""A stream of server-sent events, cut into events: each as the bytes it came in, and what it says.

What is passed on unchanged goes on as those bytes. Neighbours: `endpoints.server_events` reads
streams whose bytes nobody needs; the dialects here look at each event.

What a client sees of an answer that took several rounds: one answer, without our calls.

A shape knows how one dialect puts answers together, whole and as a stream. Of a stream everything
is passed on as it comes, but our calls and the end: only then is it known whether another round
follows. An answer without a call of ours goes on as the bytes that came. Neighbours: `anthropic`,
`chat`, `gemini` and `responses` are shapes, `rounds` uses them.
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


Response = dict[str, Any]


class Inside(Struct, frozen=True):
    """An exchange that the client sees a part of: its messages as the client has them, and for
    each place of these where more was said, all of it."""

    seen: list[Wire]
    inner: dict[int, list[Wire]]


class SeenStream(Protocol):
    """One stream made of several."""

    def begin(self) -> None:
        """Another round begins."""
        ...

    def take(self, event: ServerEvent) -> bytes:
        """What is passed on for an event; nothing for what is ours, or may not be the end."""
        ...

    def end(self, response: Response | None) -> bytes:
        """The end, of the one answer that was seen; None if the client saw all there was."""
        ...

    def failed(self, error: bytes) -> bytes:
        """An error of the provider's, in the middle of the stream."""
        ...


class Shape(Protocol):
    """One dialect."""

    def stream(self) -> SeenStream: ...

    def has_ended_well(self, response: Response) -> bool:
        """Whether the model ended the answer itself, so that its calls are complete."""
        ...

    def one(self, responses: Sequence[Response]) -> Response:
        """The answers of all rounds as one, without our calls."""
        ...

    def messages(self, response: Response) -> list[Wire]:
        """An answer as it stands in the next request; without our calls if they are cut off."""
        ...

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        """What calls gave."""
        ...

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        """An answer of ours that says this after the last one, whole and as a stream."""
        ...

    def inside(self, said: Sequence[Sequence[Wire]], seen: Response) -> Inside:
        """What was said in all rounds, with the results in between, as the client has it."""
        ...


def summed(usages: Sequence[Any]) -> Any:
    """Counts added up by their names; of what is no count, the last."""
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
    """For dialects in which an answer is one message: all that was said takes its place."""
    messages = [one for part in said for one in part]
    is_more = messages != list(seen)
    return Inside(list(seen), {0: messages} if is_more and seen else {})
