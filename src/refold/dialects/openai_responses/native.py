"""OpenAI's compaction: what users said, and one sealed item for everything else.

`responses.compact` gives the list that stands for its input, and all of it goes back as it came.
Neighbours: `dialects.native` says who else offers this.
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
CHARS_PER_TOKEN = 8  # of a sealed item, where nobody says what it holds


def compacts(model: str) -> bool:
    """Whether the model takes and writes compactions: its name does not tell."""
    return True


def body(request: Mapping[str, Any]) -> dict[str, Any]:
    """A usual request as one for a compaction of all its items."""
    return {key: request[key] for key in _FIT if key in request}


call = body  # the keyword arguments of `client.responses.compact`


def written(response: Any) -> Written:
    """The items of a response. Invalid if no sealed one is there."""
    wire = plain(response)
    fields = wire if isinstance(wire, dict) else {}
    items = objects_in(fields.get("output"))
    sealed = [one for one in items if one.get("type") == "compaction"]
    if len(sealed) != 1 or not text_in(sealed[0], "encrypted_content"):
        accepted = "a response whose output holds one compaction item"
        raise refused("the answer to a request for a compaction", wire, accepted)
    usage = usage_of(fields)
    size = usage.output if usage is not None else 0
    size = size or len(sealed[0]["encrypted_content"]) // CHARS_PER_TOKEN
    return Written(messages=items, sealed_tokens=size, usage=usage)
