"""Server-sent events as bytes and values, and the interface of a dialect that makes one answer from
several rounds.

Unchanged events are passed on byte for byte. A shape joins the answers of one dialect, whole and as
a stream, without our calls. Everything in a stream is passed on at once, except our calls and the
end, which decides whether another round follows. An answer without our calls is passed on byte for
byte. Neighbours: `anthropic`, `chat`, `gemini` and `responses` are
shapes, `rounds` uses them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from refold import decoding
from refold.core.codec import EVENT_BYTES_MAX
from refold.core.model import ToolCall
from refold.edges.proxy.body import Wire

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_END_BYTES_MAX = 4
DONE = b"[DONE]"


class ServerEvent(Struct, frozen=True):
    """One event. `fields` is empty for comments and end marks."""

    raw: bytes
    fields: dict[str, Any] = {}
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
        fields = decoding.foreign_value(data) if data else {}
    except msgspec.DecodeError:
        fields = {}
    return ServerEvent(raw, fields if isinstance(fields, dict) else {})


def own_event(fields: dict[str, Any], *, named: bool) -> ServerEvent:
    """An event created here, as if it had been received."""
    return ServerEvent(encoded(fields, named=named), fields)


def encoded(fields: dict[str, Any], *, named: bool) -> bytes:
    """The bytes of an event made here, with its name on a line of its own if the provider sends
    one."""
    name = f"event: {fields['type']}\n".encode() if named else b""
    return name + b"data: " + msgspec.json.encode(fields) + b"\n\n"


Response = dict[str, Any]


class Inside(Struct, frozen=True):
    """An exchange of which the client sees a part: its messages in the client's list, and all
    messages for each of them that has more."""

    seen: list[Wire]
    inner: dict[int, list[Wire]]


class SeenStream(ABC):
    """One stream from several rounds. `_held` has the events that may be its end."""

    error_name = b""  # the line with the name of an error event, if the provider sends names

    def __init__(self) -> None:
        self._rounds = 0
        self._held: list[ServerEvent] = []

    @abstractmethod
    def begin(self) -> None:
        """Begins another round."""

    @abstractmethod
    def take(self, event: ServerEvent) -> bytes:
        """The events to pass on for an event; none for our calls and a possible end."""

    def end(self, response: Response | None) -> bytes:
        """The end of the joined answer; None if the client saw everything."""
        if response is None:
            return b"".join(event.raw for event in self._held)
        return b"".join(self._ended(event, response) for event in self._held)

    @abstractmethod
    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        """A held event, at the end of the joined answer."""

    def failed(self, error: bytes) -> bytes:
        """An error from the provider in the middle of the stream."""
        return self.error_name + b"data: " + b" ".join(error.split()) + b"\n\n"


class Shape(ABC):
    """The joining of answers in one dialect."""

    @abstractmethod
    def stream(self) -> SeenStream: ...

    @abstractmethod
    def has_ended_well(self, response: Response) -> bool:
        """Whether the model ended the answer itself, so that its calls are complete."""

    @abstractmethod
    def one(self, responses: Sequence[Response]) -> Response:
        """The answers of all rounds as one, without our calls."""

    @abstractmethod
    def messages(self, response: Response) -> list[Wire]:
        """The messages of an answer in the next request; without our calls if they are cut off."""

    @abstractmethod
    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        """The messages with the results of calls."""

    @abstractmethod
    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        """An answer with this text after the last one, whole and as a stream."""

    def inside(self, rounds: Sequence[Sequence[Wire]], response: Response) -> Inside:
        """All rounds, with the results in between, for the client's messages. In most dialects an
        answer is one message, and all rounds take its place."""
        messages, seen = [wire for part in rounds for wire in part], self.messages(response)
        return Inside(seen, {0: messages} if seen and messages != seen else {})


def summed(usages: Sequence[Any]) -> Any:
    """The sum of each count by name; for other values, the last one."""
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
