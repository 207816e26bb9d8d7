"""Anthropic's compaction on demand: one signed block in the place of all messages before it.

The block is the first of the conversation, as it came, and each request that holds it names the
beta. A request for one holds nothing that forms an answer, because there is none. Neighbours:
`dialects.native` says who else offers this, `check` knows where a block may stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from refold.core.model import Usage
from refold.dialects.anthropic.check import version_of
from refold.dialects.anthropic.parse import usage_of
from refold.dialects.input import count_in, plain, refused
from refold.dialects.native import Written
from refold.dialects.wire import objects_in

BETA = "compact-2026-09-04"
headers: Mapping[str, str] = {"anthropic-beta": BETA}
path = ""
_UNFIT = ("context_management", "stop_sequences", "output_config", "output_format", "stream")
_CHOICES = ("auto", "none")
# The first version that offers it; names without one are of newer models.
_FIRST = (4, 6)


def compacts(model: str) -> bool:
    """Whether the model takes and writes compactions, as far as its name tells."""
    version = version_of(model)
    return version is None or version >= _FIRST


def body(request: Mapping[str, Any]) -> dict[str, Any]:
    """A usual request as one for a compaction of all its messages."""
    kept = {key: value for key, value in request.items() if key not in _UNFIT}
    choice = kept.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") not in _CHOICES:
        del kept["tool_choice"]
    return {**kept, "compaction": {"type": "summarize"}}


def call(request: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `client.beta.messages.create`."""
    return with_beta(body(request))


def with_beta(request: dict[str, Any]) -> dict[str, Any]:
    """The request with the beta named, beside those that are."""
    named = [one for one in request.get("betas") or () if one != BETA]
    return {**request, "betas": [*named, BETA]}


def has_block(request: Mapping[str, Any]) -> bool:
    """Whether the request begins with a signed block."""
    messages = objects_in(request.get("messages"))
    blocks = objects_in(messages[0].get("content")) if messages else []
    return bool(blocks) and is_signed(blocks[0])


def is_signed(block: Mapping[str, Any]) -> bool:
    """Whether this is a compaction that was asked for, and not one at a threshold."""
    return block.get("type") == "compaction" and bool(block.get("signature"))


def written(response: Any) -> Written:
    """The block of a response. Invalid if it is not there, says nothing, or is not signed: then it
    was not asked for, and could not be sent back as such."""
    wire = plain(response)
    fields = wire if isinstance(wire, dict) else {}
    blocks = [one for one in objects_in(fields.get("content")) if one.get("type") == "compaction"]
    text = blocks[0].get("content") if len(blocks) == 1 else None
    if not isinstance(text, str) or not text.strip() or not is_signed(blocks[0]):
        accepted = "a response that holds one signed compaction block with content"
        raise refused("the answer to a request for a compaction", wire, accepted)
    messages = [{"role": "assistant", "content": blocks}]
    return Written(messages=messages, text=text, usage=_billed(fields))


def _billed(response: dict[str, Any]) -> Usage | None:
    """What was billed. What the compaction itself took may stand beside the rest."""
    usage = usage_of(response)
    if usage is None:
        return None
    entries = objects_in(response["usage"].get("iterations"))
    apart = [one for one in entries if one.get("type") == "compaction"]
    read = sum(count_in(one, "cache_read_input_tokens") for one in apart)
    written = sum(count_in(one, "cache_creation_input_tokens") for one in apart)
    new = sum(count_in(one, "input_tokens") for one in apart)
    return replace(
        usage,
        input=usage.input + new + read + written,
        output=usage.output + sum(count_in(one, "output_tokens") for one in apart),
        cache_read=usage.cache_read + read,
        cache_write=usage.cache_write + written,
    )
