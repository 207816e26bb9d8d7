"""What a call of LiteLLM says: its list, its session, who else shortens it, and its answer.

Neighbours: `litellm` folds the list, `proxy.reply` reads answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import litellm
from litellm.types.utils import CallTypes
from pydantic import BaseModel

from refold.edges.adapters.guest import Answered
from refold.edges.proxy.reply import reply_in

# The call → the dialect of its list, and where the list stands.
CALLS = {
    CallTypes.acompletion: ("openai_chat", "messages"),
    CallTypes.anthropic_messages: ("anthropic", "messages"),
    CallTypes.aresponses: ("openai_responses", "input"),
}
SYSTEM = {"anthropic": "system", "openai_responses": "instructions"}

Call = dict[str, Any]


def managers_of(call: Call) -> Iterator[str]:
    """What shortens the list of this call besides refold."""
    if call.get("context_management"):
        yield "`context_management` of the call"
    names = (type(callback).__name__ for callback in litellm.callbacks)
    yield from (name for name in names if name == "CompressionInterceptionLogger")


def id_of(call: Mapping[str, Any]) -> str:
    """LiteLLM's own name for a call."""
    return str(call.get("litellm_call_id"))


def plain(response: Any) -> Call:
    """A response as its JSON; empty for a stream, which is its caller's to read."""
    if isinstance(response, BaseModel):
        dumped: Call = response.model_dump(mode="json", exclude_none=True)
        return dumped
    return response if isinstance(response, dict) else {}


def answered(response: Call, call_type: Any) -> Answered:
    """What the model said, as the caller will repeat it, and what the call was billed."""
    # The end of a stream of another route may be told in the form of chat completions.
    dialect, _ = CALLS[CallTypes.acompletion if "choices" in response else call_type]
    reply = reply_in(response, dialect)
    return reply.messages if reply else [], _usage(response)


def _usage(response: Call) -> Any:
    """What the call was billed; None if nobody said: LiteLLM then puts zeros."""
    usage = response.get("usage") or {}
    return usage if usage.get("prompt_tokens") or usage.get("input_tokens") else None


def session_of(call: Mapping[str, Any]) -> str:
    """How the call names its session; empty if it does not."""
    metadata = call.get("litellm_metadata") or call.get("metadata") or {}
    named = call.get("litellm_session_id") or metadata.get("session_id")
    return named if isinstance(named, str) else ""
