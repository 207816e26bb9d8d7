"""Usage that arrives separately from its reply, in any provider's shape.

A middleware gets the usage after the reply, a proxy before it, a log file lines later. The names of
the counts identify the provider; Anthropic and the Responses API share two names with different
meanings. Bedrock's Converse API is not a dialect, but its usage is read as well. Neighbours: each
dialect reads its own shape; `record(usage=)`.
"""

from __future__ import annotations

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

_RESPONSES_ONLY = {"input_tokens_details", "total_tokens"}
_ACCEPTED = "a provider's usage object, or refold.Usage"


def read_usage(usage: Any, preferred: str) -> Usage:
    """The usage in a provider's object, or a `Usage` after a type check. Invalid for anything
    else."""
    if isinstance(usage, Usage):
        try:
            return decoding.convert(msgspec.to_builtins(usage), Usage)
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"usage: {failure(error)}", hint="counts are whole numbers") from error
    fields = plain(usage)
    if not isinstance(fields, dict):
        raise Invalid(f"usage is a {type(usage).__name__}", hint=f"give {_ACCEPTED}")
    counts = _usage_of(fields, preferred)
    if counts is None:
        named = ", ".join(list(map(str, fields))[:5]) or "nothing"
        raise Invalid(f"usage has no counts that refold knows: {named}", hint=f"give {_ACCEPTED}")
    return counts


def _usage_of(fields: dict[str, Any], preferred: str) -> Usage | None:
    """The usage, read by the shape of its fields; None if the shape is unknown."""
    if "prompt_tokens" in fields:
        return chat_usage({"usage": fields})
    if "promptTokenCount" in fields or "prompt_token_count" in fields:
        return gemini_usage({"usageMetadata": fields})
    if "inputTokens" in fields:
        # Bedrock, like Anthropic, does not include cached tokens in the input.
        cache_read = count_in(fields, "cacheReadInputTokens")
        cache_write = count_in(fields, "cacheWriteInputTokens")
        return Usage(
            input=count_in(fields, "inputTokens") + cache_read + cache_write,
            output=count_in(fields, "outputTokens"),
            cache_read=cache_read,
            cache_write=cache_write,
        )
    if "input_tokens" not in fields:
        return None
    is_anthropic = "cache_read_input_tokens" in fields or "cache_creation_input_tokens" in fields
    is_responses = preferred == openai_responses.name or bool(fields.keys() & _RESPONSES_ONLY)
    if is_responses and not is_anthropic:
        return responses_usage({"usage": fields})
    return anthropic_usage({"usage": fields})
