"""Chat Completions: one message whose text and calls come in deltas.

Texts of several rounds make one text, a paragraph each; calls are counted anew without ours, and
the chunks of later rounds go under the id of the first. The end is the chunk that says why, the
one with the usage, and the end mark. Neighbour: `seen` says what a shape is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.artifacts.offload import is_own
from refold.edges.proxy.body import Wire
from refold.edges.proxy.inside.events import ServerEvent, encoded
from refold.edges.proxy.inside.seen import Inside, Response, summed, whole_in_one

CALLS, ENDS = "tool_calls", "stop"
_WELL = frozenset({CALLS, ENDS})
_OF_THE_FIRST = ("id", "created", "model", "system_fingerprint")
_KEPT = ("role", "content", "tool_calls", "reasoning_content")


def _name_in(call: Any) -> str:
    return str((call.get("function") or {}).get("name") or "")


def _is_our_call(call: Any) -> bool:
    return is_own(_name_in(call))


def _between(before: str) -> str:
    """What stands between the texts of two rounds."""
    return "\n\n" if before and not before.endswith("\n") else ""


class ChatStream:
    """One message made of several."""

    def __init__(self) -> None:
        self._places: dict[object, int | None] = {}  # of this round's calls; None is ours
        self._rounds = self._calls = 0
        self._first: dict[str, Any] = {}
        self._last_text = ""  # that the client has
        self._has_spoken = False  # in this round
        self._held: list[ServerEvent] = []

    def begin(self) -> None:
        self._rounds += 1
        self._places, self._held, self._has_spoken = {}, [], False

    def take(self, event: ServerEvent) -> bytes:
        said = event.said
        choices = said.get("choices")
        if event.is_done or (choices == [] and said.get("usage")):
            self._held.append(event)
            return b""
        if not choices or not isinstance(choices[0], dict):
            return event.raw
        self._first = self._first or {key: said[key] for key in _OF_THE_FIRST if key in said}
        choice = choices[0]
        delta = self._seen(choice.get("delta") or {})
        if choice.get("finish_reason") is None:
            return self._encoded(event, choice, delta) if delta else b""
        self._held.append(event)
        # What some servers say in their last chunk goes on before it.
        return encoded(self._chunk(said, {**choice, "delta": delta, "finish_reason": None}),
                       named=False) if delta else b""  # fmt: skip

    def _encoded(self, event: ServerEvent, choice: Any, delta: Wire) -> bytes:
        if self._rounds == 1 and delta == choice.get("delta"):
            return event.raw
        return encoded(self._chunk(event.said, {**choice, "delta": delta}), named=False)

    def _chunk(self, said: Wire, choice: Wire) -> Wire:
        """A chunk of the one message."""
        rest = {key: value for key, value in said.items() if key != "usage"}
        return {**rest, **self._first, "choices": [choice]}

    def _seen(self, delta: Wire) -> Wire:
        """A delta without what is ours, and without a beginning where there was one."""
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
        """A part of a call under the number that it has for the client; None if it is ours."""
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

    def end(self, response: Response | None) -> bytes:
        if response is None:
            return b"".join(event.raw for event in self._held)
        return b"".join(self._ended(event, response) for event in self._held)

    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        if event.is_done:
            return event.raw
        said = {**event.said, **self._first}
        if said.get("usage"):
            said["usage"] = response["usage"]
        if said["choices"]:
            reason = response["choices"][0]["finish_reason"]
            said["choices"] = [{**said["choices"][0], "delta": {}, "finish_reason": reason}]
        return encoded(said, named=False)

    def failed(self, error: bytes) -> bytes:
        return b"data: " + b" ".join(error.split()) + b"\n\n"


class ChatShape:
    """Chat Completions."""

    def stream(self) -> ChatStream:
        return ChatStream()

    def has_ended_well(self, response: Response) -> bool:
        return response["choices"][0]["finish_reason"] in _WELL

    def one(self, responses: Sequence[Response]) -> Response:
        first, last = responses[0], responses[-1]
        message = dict(last["choices"][0]["message"])
        text = ""
        thought = ""
        for response in responses:
            said = response["choices"][0]["message"]
            now = said.get("content") or ""
            text += (_between(text) if now else "") + now
            thought += said.get("reasoning_content") or ""
        calls = [one for one in message.get("tool_calls") or () if not _is_our_call(one)]
        message.pop("tool_calls", None)
        message |= {"content": text if text or not calls else None}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": thought} if thought else {}
        reason = last["choices"][0]["finish_reason"]
        reason = ENDS if reason == CALLS and not calls else reason
        choice = {**last["choices"][0], "message": message, "finish_reason": reason}
        usages = [one["usage"] for one in responses if one.get("usage")]
        made = {"id": first.get("id"), "choices": [choice]}
        return {**last, **made, **({"usage": summed(usages)} if usages else {})}

    def messages(self, response: Response) -> list[Wire]:
        message = response["choices"][0]["message"]
        kept = {name: message[name] for name in _KEPT if message.get(name) is not None}
        if not self.has_ended_well(response) and "tool_calls" in kept:
            kept["tool_calls"] = [one for one in kept["tool_calls"] if not _is_our_call(one)]
            if not kept["tool_calls"]:
                del kept["tool_calls"]
        return [kept] if kept.get("content") or kept.get("tool_calls") else []

    def results(self, answered: Sequence[tuple[str, str]]) -> list[Wire]:
        return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in answered]

    def inside(self, said: Sequence[Sequence[Wire]], seen: Response) -> Inside:
        return whole_in_one(said, self.messages(seen))
