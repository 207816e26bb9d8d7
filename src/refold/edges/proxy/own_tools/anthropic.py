"""The Messages API: blocks by their index, and an end with a reason and a usage.

Blocks of all rounds get consecutive indexes; the first round begins the message, the last one ends
it.
Neighbour: `events.Shape` is the interface.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.artifacts.intake import is_own
from refold.core.model import ToolCall
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

CALLS, ENDS = "tool_use", "end_turn"


def _is_our_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == CALLS and is_own(str(block["name"]))


class AnthropicStream(SeenStream):
    """One message from several rounds."""

    error_name = b"event: error\n"

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[object, int | None] = {}  # indexes of this round's blocks; None for ours
        self._blocks = 0  # sent to the client

    def begin(self) -> None:
        self._rounds += 1
        self._places, self._held = {}, []

    def take(self, event: ServerEvent) -> bytes:
        match event.fields.get("type"):
            case "message_start":
                return event.raw if self._rounds == 1 else b""
            case "content_block_start":
                is_ours = _is_our_call(event.fields.get("content_block"))
                self._places[event.fields.get("index")] = None if is_ours else self._blocks
                self._blocks += not is_ours
                return self._placed(event)
            case "content_block_delta" | "content_block_stop":
                return self._placed(event)
            case "message_delta" | "message_stop":
                self._held.append(event)
                return b""
            case _:
                return event.raw

    def _placed(self, event: ServerEvent) -> bytes:
        """The event with the client's index of its block."""
        index = event.fields.get("index")
        place = self._places.get(index)
        if place is None:
            return b""
        return (
            event.raw if place == index else encoded({**event.fields, "index": place}, named=True)
        )

    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        if event.fields["type"] != "message_delta":
            return event.raw
        delta = {**event.fields["delta"], "stop_reason": response["stop_reason"]}
        fields = {**event.fields, "delta": delta, "usage": response["usage"]}
        return encoded(fields, named=True)


class AnthropicShape(Shape):
    """The Messages API."""

    def stream(self) -> AnthropicStream:
        return AnthropicStream()

    def has_ended_well(self, response: Response) -> bool:
        return bool(response["stop_reason"] == CALLS)

    def one(self, responses: Sequence[Response]) -> Response:
        first, last = responses[0], responses[-1]
        content = [
            block for one in responses for block in one["content"] if not _is_our_call(block)
        ]
        reason = last["stop_reason"]
        if reason == CALLS and not any(block["type"] == CALLS for block in content):
            reason = ENDS
        usage = summed([one["usage"] for one in responses])
        made = {"id": first["id"], "content": content, "stop_reason": reason, "usage": usage}
        return {**last, **made}

    def messages(self, response: Response) -> list[Wire]:
        content = response["content"]
        if not self.has_ended_well(response):
            content = [block for block in content if not _is_our_call(block)]
        return [{"role": "assistant", "content": content}] if content else []

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in answered
        ]
        return [{"role": "user", "content": blocks}]

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        block = {"type": "text", "text": text}
        response = {**last, "content": [block], "usage": {}}
        delta = {"type": "text_delta", "text": text}
        ended = {key: last.get(key) for key in ("stop_reason", "stop_sequence")}
        events: list[Wire] = [
            {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {}},
            {"type": "message_stop"},
        ]
        return response, [own_event(one, named=True) for one in events]
