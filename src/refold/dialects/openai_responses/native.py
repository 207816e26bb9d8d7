"""OpenAI's compaction: the users' messages, and one encrypted item that replaces everything else.

`responses.compact` returns the list that replaces its input, and all of it is sent back unchanged.
Neighbour: `dialects.native` has the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.dialects.input import plain, refused, text_in
from refold.dialects.native import Written
from refold.dialects.openai_responses.parse import usage_of
from refold.dialects.wire import objects_in

headers: Mapping[str, str] = {}
path = "/compact"
_FIT = (
    "model", "input", "instructions", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "service_tier",
)  # fmt: skip
CHARS_PER_TOKEN = 8  # of an encrypted item without a reported size


def compacts(model: str) -> bool:
    """Always True, because a model's name does not show whether it accepts and writes
    compactions."""
    return True


def body(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request to compact all items of a usual request."""
    return {key: request[key] for key in _FIT if key in request}


call = body  # the keyword arguments of `client.responses.compact`


def written(response: Any) -> Written:
    """The items of a response. Invalid unless one of them is encrypted."""
    wire = plain(response)
    fields = wire if isinstance(wire, dict) else {}
    items = objects_in(fields.get("output"))
    sealed = [item for item in items if item.get("type") == "compaction"]
    if len(sealed) != 1 or not text_in(sealed[0], "encrypted_content"):
        accepted = "a response whose output holds one compaction item"
        raise refused("the answer to a request for a compaction", wire, accepted)
    usage = usage_of(fields)
    size = usage.output if usage is not None else 0
    size = size or len(sealed[0]["encrypted_content"]) // CHARS_PER_TOKEN
    return Written(messages=items, sealed_tokens=size, usage=usage)
