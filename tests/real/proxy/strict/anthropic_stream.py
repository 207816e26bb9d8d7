"""A message as the events in which the Messages API streams it."""

from __future__ import annotations

import json

from tests.real.proxy.strict.replies import halves
from tests.real.proxy.strict.wire import Json


def events_of(message: Json) -> list[Json]:
    usage = {**message["usage"], "output_tokens": 1}
    begun = {**message, "content": [], "stop_reason": None, "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += ({"type": "content_block_delta", "index": index, "delta": one} for one in deltas)
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    return [
        *events,
        {"type": "message_delta", "delta": stopped, "usage": usage},
        {"type": "message_stop"},
    ]


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
            return {**block, "text": ""}, deltas
        case "thinking":
            said = [
                {"type": "thinking_delta", "thinking": one} for one in halves(block["thinking"])
            ]
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*said, sealed]
        case "tool_use":
            pieces = halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            return {**block, "input": {}}, deltas
        case "compaction":
            delta = {"type": "compaction_delta", "content": block["content"]}
            return {**block, "content": None}, [delta]
        case _:
            return block, []
