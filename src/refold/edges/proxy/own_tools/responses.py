"""The Responses API: items by position, events by number, and an end that repeats everything.

An answer is several items of the client's list. Items hidden from the client come before the next
visible one, or after the last. Neighbour: `events.Shape` is the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.artifacts.intake import is_own
from refold.core.model import ToolCall
from refold.edges.proxy.body import Wire
from refold.edges.proxy.own_tools.events import (
    Inside,
    Response,
    SeenStream,
    ServerEvent,
    Shape,
    encoded,
    own_event,
    summed,
)

CALL, RESULT = "function_call", "function_call_output"
_BEGINS = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _is_our_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == CALL and is_own(str(item.get("name")))


class ResponsesStream(SeenStream):
    """One response from several rounds."""

    error_name = b"event: error\n"

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[object, int | None] = {}  # indexes of this round's items; None for ours
        self._items = self._events = 0  # sent to the client
        self._id = ""

    def begin(self) -> None:
        self._rounds += 1
        self._places, self._held = {}, []

    def take(self, event: ServerEvent) -> bytes:
        fields = event.fields
        kind = fields.get("type")
        if kind in _ENDS:
            self._held.append(event)
            return b""
        if kind in _BEGINS:
            self._id = self._id or str((fields.get("response") or {}).get("id", ""))
            return self._numbered(event, {}) if self._rounds == 1 else b""
        if "output_index" not in fields:
            return self._numbered(event, {}) if fields else event.raw
        if kind == "response.output_item.added":
            is_ours = _is_our_call(fields.get("item"))
            self._places[fields["output_index"]] = None if is_ours else self._items
            self._items += not is_ours
        place = self._places.get(fields["output_index"])
        return b"" if place is None else self._numbered(event, {"output_index": place})

    def _numbered(self, event: ServerEvent, changed: Wire) -> bytes:
        """The event with the client's number."""
        number = event.fields.get("sequence_number")
        if isinstance(number, int):
            changed = {**changed, "sequence_number": self._events}
            self._events += 1
        is_same = all(event.fields.get(key) == value for key, value in changed.items())
        return event.raw if is_same else encoded({**event.fields, **changed}, named=True)

    def _ended(self, event: ServerEvent, response: Response) -> bytes:
        return self._numbered(event, {"response": {**response, "id": self._id or response["id"]}})


class ResponsesShape(Shape):
    """The Responses API."""

    def stream(self) -> ResponsesStream:
        return ResponsesStream()

    def has_ended_well(self, response: Response) -> bool:
        return bool(response["status"] == "completed")

    def one(self, responses: Sequence[Response]) -> Response:
        output = [item for one in responses for item in one["output"] if not _is_our_call(item)]
        usages = [one["usage"] for one in responses if one.get("usage")]
        made = {"id": responses[0]["id"], "output": output}
        return {**responses[-1], **made, **({"usage": summed(usages)} if usages else {})}

    def messages(self, response: Response) -> list[Wire]:
        if self.has_ended_well(response):
            return list(response["output"])
        return [item for item in response["output"] if not _is_our_call(item)]

    def results(self, answered: Sequence[tuple[ToolCall, str]]) -> list[Wire]:
        return [{"type": RESULT, "call_id": call.id, "output": text} for call, text in answered]

    def words(self, last: Response, text: str) -> tuple[Response, list[ServerEvent]]:
        part = {"type": "output_text", "text": text, "annotations": []}
        id = f"msg_{last['id']}"
        item = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
        whole = {**item, "content": [part]}
        at = {"output_index": 0, "item_id": id, "content_index": 0}
        empty, begun = {**part, "text": ""}, {**item, "content": [], "status": "in_progress"}
        response = {**last, "output": [whole], "usage": None}
        events: list[Wire] = [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.content_part.added", "part": empty, **at},
            {"type": "response.output_text.delta", "delta": text, "logprobs": [], **at},
            {"type": "response.output_text.done", "text": text, "logprobs": [], **at},
            {"type": "response.content_part.done", "part": part, **at},
            {"type": "response.output_item.done", "output_index": 0, "item": whole},
            {"type": f"response.{last['status']}", "response": response},
        ]
        return response, [own_event({**one, "sequence_number": 0}, named=True) for one in events]

    def inside(self, rounds: Sequence[Sequence[Wire]], response: Response) -> Inside:
        items = [item for part in rounds for item in part]
        visible: list[Wire] = []
        groups: dict[int, list[Wire]] = {}
        waiting: list[Wire] = []
        for item in items:
            if item.get("type") == RESULT or _is_our_call(item):
                waiting.append(item)
                continue
            if waiting:
                groups[len(visible)] = [*waiting, item]
                waiting = []
            visible.append(item)
        if len(response["output"]) > len(visible):
            # The proxy's own text, which the provider never sees.
            groups[len(visible)] = waiting
            visible.append(response["output"][-1])
        elif waiting and visible:
            last = len(visible) - 1
            groups[last] = [*groups.get(last, [visible[last]]), *waiting]
        return Inside(visible, groups)
