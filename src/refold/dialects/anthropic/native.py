"""Anthropic's compaction on demand: one signed block that replaces all messages before it.

The block is the first in the conversation and is sent back unchanged; each request that has one
names the beta. A request for a compaction has no options that shape an answer, because there is no
answer. Neighbours: `dialects.native` has the protocol, `check` knows the allowed position of a
block.
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
# The first version that offers it; names without a version belong to newer models.
_FIRST = (4, 6)


def compacts(model: str) -> bool:
    """Whether the model accepts and writes compactions, judged by its name."""
    version = version_of(model)
    return version is None or version >= _FIRST


def body(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request to compact all messages of a usual request."""
    fields = {key: value for key, value in request.items() if key not in _UNFIT}
    choice = fields.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") not in _CHOICES:
        del fields["tool_choice"]
    return {**fields, "compaction": {"type": "summarize"}}


def call(request: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `client.beta.messages.create`."""
    return with_beta(body(request))


def with_beta(request: dict[str, Any]) -> dict[str, Any]:
    """The request with the beta added to the others."""
    others = [beta for beta in request.get("betas") or () if beta != BETA]
    return {**request, "betas": [*others, BETA]}


def has_block(request: Mapping[str, Any]) -> bool:
    """Whether the request begins with a signed block."""
    messages = objects_in(request.get("messages"))
    blocks = objects_in(messages[0].get("content")) if messages else []
    return bool(blocks) and is_signed(blocks[0])


def is_signed(block: Mapping[str, Any]) -> bool:
    """Whether this is a requested compaction, and not an automatic one at a threshold."""
    return block.get("type") == "compaction" and bool(block.get("signature"))


def written(response: Any) -> Written:
    """The block of a response. Invalid if it is missing, empty, or unsigned: an unsigned one was
    not requested, and could not be sent back as such."""
    wire = plain(response)
    fields = wire if isinstance(wire, dict) else {}
    content = objects_in(fields.get("content"))
    blocks = [block for block in content if block.get("type") == "compaction"]
    text = blocks[0].get("content") if len(blocks) == 1 else None
    if not isinstance(text, str) or not text.strip() or not is_signed(blocks[0]):
        accepted = "a response that holds one signed compaction block with content"
        raise refused("the answer to a request for a compaction", wire, accepted)
    messages = [{"role": "assistant", "content": blocks}]
    return Written(messages=messages, text=text, usage=_billed_usage(fields))


def _billed_usage(response: dict[str, Any]) -> Usage | None:
    """The usage, including the compaction's own, which the response may count separately."""
    usage = usage_of(response)
    if usage is None:
        return None
    iterations = objects_in(response["usage"].get("iterations"))
    compactions = [entry for entry in iterations if entry.get("type") == "compaction"]
    read = sum(count_in(entry, "cache_read_input_tokens") for entry in compactions)
    written = sum(count_in(entry, "cache_creation_input_tokens") for entry in compactions)
    written_1h = sum(
        count_in(entry.get("cache_creation"), "ephemeral_1h_input_tokens") for entry in compactions
    )
    new = sum(count_in(entry, "input_tokens") for entry in compactions)
    return replace(
        usage,
        input=usage.input + new + read + written,
        output=usage.output + sum(count_in(entry, "output_tokens") for entry in compactions),
        cache_read=usage.cache_read + read,
        cache_write=usage.cache_write + written,
        cache_write_1h=usage.cache_write_1h + written_1h,
    )
