"""Chat Completions: one message whose text and calls come in deltas.

The texts of several rounds are joined as paragraphs; calls are renumbered without ours, and chunks
of later rounds have the id of the first. The end is the chunk with the finish reason, the one with
the usage, and the end mark. Neighbour: `events.Shape` is the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.artifacts.intake import is_own
from refold.core.model import ToolCall
from refold.edges.proxy.body import Wire
from refold.edges.proxy.own_tools.events import (
    DONE,
    Response,
    SeenStream,
    ServerEvent,
    Shape,
    encoded,
    own_event,
    summed,
)

CALLS, ENDS = "tool_calls", "stop"
_WELL = frozenset({CALLS, ENDS})
_OF_THE_FIRST = ("id", "created", "model", "system_fingerprint")
_KEPT = ("role", "content", "tool_calls", "reasoning_content")


def _is_our_call(call: Any) -> bool:
    return is_own(str((call.get("function") or {}).get("name") or ""))


def _between(before: str) -> str:
    """The separator between the texts of two rounds."""
    return "\n\n" if before and not before.endswith("\n") else ""


class ChatStream(SeenStream):
    """One message from several rounds."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[object, int | None] = {}  # indexes of this round's calls; None for ours
        self._calls = 0  # sent to the client
        self._first: dict[str, Any] = {}
        self._last_text = ""  # sent to the client
        self._has_spoken = False  # in this round
        self._unsaid: Wire = {}  # the delta in the last chunk of this round
        self._before = b""

    def begin(self) -> None:
        self._rounds += 1
        if self._unsaid:
            [event] = (one for one in self._held if one.fields.get("choices"))
            self._before += self._encoded(event.fields, event.fields["choices"][0], self._unsaid)
        self._places, self._held, self._has_spoken, self._unsaid = {}, [], False, {}

    def take(self, event: ServerEvent) -> bytes:
        fields = event.fields
        choices = fields.get("choices")
        if event.is_done or (choices == [] and fields.get("usage")):
            self._held.append(event)
            return b""
        if not choices or not isinstance(choices[0], dict):
            return event.raw
        self._first = self._first or {key: fields[key] for key in _OF_THE_FIRST if key in fields}
        choice = choices[0]
        delta = self._seen(choice.get("delta") or {})
        if choice.get("finish_reason") is not None:
            self._held.append(event)
            self._unsaid = delta
            return b""
        if self._rounds == 1 and delta == choice.get("delta"):
            return event.raw
        return self._late() + (self._encoded(event.fields, choice, delta) if delta else b"")

    def _late(self) -> bytes:
        """The content in the last chunk of the round before, as some servers send it."""
        late, self._before = self._before, b""
        return late

    def _encoded(self, fields: Wire, choice: Any, delta: Wire) -> bytes:
        """A chunk of the joined message."""
        rest = {key: value for key, value in fields.items() if key != "usage"}
        made = {**choice, "delta": delta, "finish_reason": None}
        return encoded({**rest, **self._first, "choices": [made]}, named=False)

    def _seen(self, delta: Wire) -> Wire:
        """A delta without our calls, and without a second beginning."""
        seen = dict(delta)
        if self._rounds > 1:
            seen.pop("role", None)
            seen = {key: value for key, value in seen.items() if value not in (None, "")}
        calls = [made for call in delta.get("tool_calls") or () if (made := self._placed(call))]
        if delta.get("tool_calls"):
            seen["tool_calls"] = calls
            if not calls:
                del seen["tool_calls"]
        text = seen.get("content")
        if isinstance(text, str) and text:
            seen["content"] = self._joined(text)
        return seen

    def _placed(self, call: Any) -> Wire | None:
        """A part of a call with the client's number; None for ours."""
        index = call.get("index", 0)
        if index not in self._places:
            is_ours = _is_our_call(call)
            self._places[index] = None if is_ours else self._calls
            self._calls += not is_ours
        place = self._places[index]
        return None if place is None else {**call, "index": place} if place != index else call

    def _joined(self, text: str) -> str:
        gap = "" if self._has_spoken else _between(self._last_text)
        self._has_spoken, self._last_text = True, text
        return gap + text

    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        if event.is_done:
            return event.raw
        fields = {**event.fields, **self._first}
        if fields.get("usage"):
            fields["usage"] = response["usage"]
        if fields["choices"]:
            reason = response["choices"][0]["finish_reason"]
            last = {"delta": self._unsaid, "finish_reason": reason}
            fields["choices"] = [{**fields["choices"][0], **last}]
        return self._late() + encoded(fields, named=False)


class ChatShape(Shape):
    """Chat Completions."""

    def stream(self) -> ChatStream:
        return ChatStream()

    def has_ended_well(self, response: Response) -> bool:
        return response["choices"][0]["finish_reason"] in _WELL

    def one(self, responses: Sequence[Response]) -> Response:
        first, last = responses[0], responses[-1]
        message = _joined_messages([one["choices"][0]["message"] for one in responses])
        reason = last["choices"][0]["finish_reason"]
        if reason == CALLS and "tool_calls" not in message:
            reason = ENDS
        choice = {**last["choices"][0], "message": message, "finish_reason": reason}
        usages = [one["usage"] for one in responses if one.get("usage")]
        made = {"id": first.get("id"), "choices": [choice]}
        return {**last, **made, **({"usage": summed(usages)} if usages else {})}

    def messages(self, response: Response) -> list[Wire]:
        message = response["choices"][0]["message"]
        kept = {name: message[name] for name in _KEPT if message.get(name) is not None}
        if not self.has_ended_well(response) and "tool_calls" in kept:
            kept["tool_calls"] = _without_ours(kept["tool_calls"])
            if not kept["tool_calls"]:
                del kept["tool_calls"]
        return [kept] if kept.get("content") or kept.get("tool_calls") else []

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        return [
            {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answered
        ]

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        message = {"role": "assistant", "content": text}
        reason = last["choices"][0]["finish_reason"]
        choice = {"index": 0, "message": message, "finish_reason": reason}
        head = {key: last[key] for key in _OF_THE_FIRST if key in last}
        head["object"] = "chat.completion.chunk"
        chunks: list[Wire] = [
            {**head, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        if last.get("usage"):
            chunks.append({**head, "choices": [], "usage": last["usage"]})
        events = [own_event(one, named=False) for one in chunks]
        events.append(ServerEvent(b"data: " + DONE + b"\n\n", is_done=True))
        return {**last, "choices": [choice], "usage": None}, events


def _joined_messages(messages: Sequence[Wire]) -> Wire:
    """Messages as one: their texts, their reasoning, and their calls without ours."""
    text = thought = ""
    calls: list[Wire] = []
    for message in messages:
        fields = message.get("content") or ""
        text += _between(text) + fields if fields else ""
        thought += message.get("reasoning_content") or ""
        calls += _without_ours(message.get("tool_calls") or ())
    joined = {**messages[-1], "content": text if text or not calls else None}
    joined.pop("tool_calls", None)
    joined |= {"tool_calls": calls} if calls else {}
    return joined | ({"reasoning_content": thought} if thought else {})


def _without_ours(calls: Sequence[Wire]) -> list[Wire]:
    return [one for one in calls if not _is_our_call(one)]
