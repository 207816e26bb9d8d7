"""A usage that comes apart from its reply: which provider's it is, and what it says.

A middleware is told the usage behind the reply, a proxy before it, a log file lines later. The
names of the counts say whose shape it is; Anthropic and the Responses API share two of them, and
mean different things by them. Bedrock's Converse API is no dialect, but its usage is read, too.
Neighbours: each dialect reads its own shape; `record(usage=)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from refold import decoding
from refold.core.model import Usage
from refold.dialects import openai_responses
from refold.dialects.anthropic.parse import usage_of as anthropic_usage
from refold.dialects.gemini.parse import usage_of as gemini_usage
from refold.dialects.input import count_in, plain
from refold.dialects.openai_chat.parse import usage_of as chat_usage
from refold.dialects.openai_responses.parse import usage_of as responses_usage
from refold.display import failure
from refold.errors import Invalid

_RESPONSES_ONLY = ("input_tokens_details", "total_tokens")
_ACCEPTED = "a provider's usage object, or refold.Usage"


def read_usage(usage: Any, preferred: str) -> Usage:
    """What a provider's usage says, or a `Usage` as it is; Invalid for anything else."""
    if isinstance(usage, Usage):
        return _checked(usage)
    fields = plain(usage)
    if not isinstance(fields, dict):
        raise Invalid(f"usage is a {type(usage).__name__}", hint=f"give {_ACCEPTED}")
    read = _read(fields, preferred)
    if read is None:
        named = ", ".join(list(map(str, fields))[:5]) or "nothing"
        raise Invalid(f"usage has no counts that refold knows: {named}", hint=f"give {_ACCEPTED}")
    return read


def _checked(usage: Usage) -> Usage:
    """The usage, if every field has its type: constructors do not look."""
    try:
        return decoding.convert(msgspec.to_builtins(usage), Usage)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"usage: {failure(error)}", hint="counts are whole numbers") from error


def _read(fields: dict[str, Any], preferred: str) -> Usage | None:
    if "prompt_tokens" in fields:
        return chat_usage({"usage": fields})
    if "promptTokenCount" in fields or "prompt_token_count" in fields:
        return gemini_usage({"usageMetadata": fields})
    if "inputTokens" in fields:
        return _bedrock_usage(fields)
    if "input_tokens" not in fields:
        return None
    is_responses = preferred == openai_responses.name or any(
        key in fields for key in _RESPONSES_ONLY
    )
    if is_responses and not _is_anthropic(fields):
        return responses_usage({"usage": fields})
    return anthropic_usage({"usage": fields})


def _bedrock_usage(fields: dict[str, Any]) -> Usage:
    """Like Anthropic, it counts cached tokens beside the input."""
    cache_read = count_in(fields, "cacheReadInputTokens")
    cache_write = count_in(fields, "cacheWriteInputTokens")
    return Usage(
        input=count_in(fields, "inputTokens") + cache_read + cache_write,
        output=count_in(fields, "outputTokens"),
        cache_read=cache_read,
        cache_write=cache_write,
    )


def _is_anthropic(fields: Mapping[str, Any]) -> bool:
    return "cache_read_input_tokens" in fields or "cache_creation_input_tokens" in fields
