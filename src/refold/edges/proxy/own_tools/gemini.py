"""generateContent: one content whose parts come in chunks.

Parts of several rounds become one content, without our calls, with a paragraph of text per round;
chunks of later rounds have the id of the first. The end is the chunk with the finish reason and all
after it, and may have parts too. In some versions a call has no id, and its result goes by its
name. Neighbour: `events.Shape` is the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.artifacts.intake import is_own
from refold.core.model import ToolCall
from refold.dialects.gemini.render import is_made
from refold.dialects.streams import joined_parts
from refold.edges.proxy.body import Wire
from refold.edges.proxy.own_tools.events import (
    Response,
    SeenStream,
    ServerEvent,
    Shape,
    encoded,
    own_event,
    summed,
)

ENDS = "STOP"
_ID = "responseId"


def _is_our_call(part: Any) -> bool:
    call = part.get("functionCall") if isinstance(part, dict) else None
    return isinstance(call, dict) and is_own(str(call.get("name")))


def _candidate_in(fields: Wire) -> Wire | None:
    candidates = fields.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    return first if isinstance(first, dict) else None


def _parts_of(candidate: Wire) -> list[Any]:
    return list((candidate.get("content") or {}).get("parts") or ())


def _without_ours(parts: Sequence[Any]) -> list[Any]:
    return [part for part in parts if not _is_our_call(part)]


def _with_parts(candidate: Wire, parts: Sequence[Any]) -> Wire:
    content = candidate.get("content") or {"role": "model"}
    return {**candidate, "content": {**content, "parts": list(parts)}}


class _Paragraphs:
    """Puts a gap between the texts of two rounds."""

    def __init__(self) -> None:
        self._last = ""  # sent to the client
        self._has_spoken = False  # in this round

    def begin(self) -> None:
        self._has_spoken = False

    def seen(self, parts: Sequence[Any]) -> list[Any]:
        """The parts for the client."""
        return [self._placed(part) for part in _without_ours(parts)]

    def _placed(self, part: Any) -> Any:
        text = part.get("text") if isinstance(part, dict) and not part.get("thought") else None
        if not isinstance(text, str) or not text:
            return part
        gap = "" if self._has_spoken or not self._last or self._last.endswith("\n") else "\n\n"
        self._has_spoken, self._last = True, text
        return {**part, "text": gap + text} if gap else part


class GeminiStream(SeenStream):
    """One content from several rounds."""

    def __init__(self) -> None:
        super().__init__()
        self._paragraphs = _Paragraphs()
        self._first: dict[str, Any] = {}
        self._before = b""

    def begin(self) -> None:
        self._rounds += 1
        self._before += b"".join(map(self._seen, self._held))
        self._held = []
        self._paragraphs.begin()

    def take(self, event: ServerEvent) -> bytes:
        candidate = _candidate_in(event.fields)
        if _ID in event.fields and not self._first:
            self._first = {_ID: event.fields[_ID]}
        if self._held or (candidate is not None and candidate.get("finishReason") is not None):
            self._held.append(event)
            return b""
        if candidate is None:
            return event.raw
        if self._rounds == 1 and not any(map(_is_our_call, _parts_of(candidate))):
            self._paragraphs.seen(_parts_of(candidate))
            return event.raw
        return self._late() + self._seen(event)

    def _late(self) -> bytes:
        """The parts in the last chunk of the round before."""
        late, self._before = self._before, b""
        return late

    def _seen(self, event: ServerEvent) -> bytes:
        """A chunk without our calls and without an end; empty if nothing else is in it."""
        candidate = _candidate_in(event.fields) or {}
        parts = self._paragraphs.seen(_parts_of(candidate))
        if not parts:
            return b""
        going_on = {key: value for key, value in candidate.items() if key != "finishReason"}
        made = {"candidates": [_with_parts(going_on, parts)]}
        return encoded({**event.fields, **self._first, **made}, named=False)

    def end(self, response: Response | None) -> bytes:
        return super().end(response) if response is None else self._late() + super().end(response)

    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        fields = {**event.fields, **self._first}
        candidate = _candidate_in(fields)
        if candidate is not None:
            parts = self._paragraphs.seen(_parts_of(candidate))
            fields["candidates"] = [_with_parts(candidate, parts)]
        if "usageMetadata" in fields and "usageMetadata" in response:
            fields["usageMetadata"] = response["usageMetadata"]
        return encoded(fields, named=False)


class GeminiShape(Shape):
    """generateContent."""

    def stream(self) -> GeminiStream:
        return GeminiStream()

    def has_ended_well(self, response: Response) -> bool:
        return bool(response["candidates"][0].get("finishReason") == ENDS)

    def one(self, responses: Sequence[Response]) -> Response:
        first, last = responses[0], responses[-1]
        paragraphs, parts = _Paragraphs(), list[Any]()
        for one in responses:
            paragraphs.begin()
            parts += paragraphs.seen(_parts_of(one["candidates"][0]))
        made: Wire = {"candidates": [_with_parts(last["candidates"][0], joined_parts(parts))]}
        made |= {_ID: first[_ID]} if _ID in first else {}
        usages = [one["usageMetadata"] for one in responses if one.get("usageMetadata")]
        return {**last, **made, **({"usageMetadata": summed(usages)} if usages else {})}

    def messages(self, response: Response) -> list[Wire]:
        candidate = response["candidates"][0]
        parts = _parts_of(candidate)
        if not self.has_ended_well(response):
            parts = _without_ours(parts)
        return [_with_parts(candidate, joined_parts(parts))["content"]] if parts else []

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        parts = [{"functionResponse": _result(call, text)} for call, text in answered]
        return [{"role": "user", "parts": parts}]

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        fields = {**last, "candidates": [_with_parts(last["candidates"][0], [{"text": text}])]}
        whole = {key: value for key, value in fields.items() if key != "usageMetadata"}
        return whole, [own_event(fields, named=False)]


def _result(call: ToolCall, text: str) -> Wire:
    named = {} if is_made(call.id) else {"id": call.id}
    return {"name": call.name, **named, "response": {"output": text}}
