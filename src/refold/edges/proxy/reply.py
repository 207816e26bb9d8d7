"""The answer of a call, read from the copy of it: the messages that the client will hand over next.

Only a whole answer counts, one that the provider ended itself: what was cut off or refused, the
client may word as it likes. Neighbours: `usage` holds the copy, `observer` keeps the answer where
it may be the last of its session.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from refold.dialects import assemble, tool_calls
from refold.edges.endpoints.client import objects
from refold.edges.proxy.body import Wire, in_one_piece
from refold.errors import RefoldError

_WHOLE = frozenset({"end_turn", "stop_sequence", "tool_use", "stop", "tool_calls", "STOP"})
_CHAT_FIELDS = ("role", "content", "tool_calls", "reasoning_content")


class Copy(Struct, frozen=True):
    """The bytes of an answer, unpacked."""

    content: bytes
    is_stream: bool


class Reply(Struct, frozen=True):
    """A whole answer, as messages of its dialect. `calls` says that it asks for tools, so that it
    comes back with what they gave."""

    messages: list[Wire]
    calls: bool


def reply_of(copy: Copy, dialect: str) -> Reply | None:
    """What the model said; None if it did not come to its end, or cannot be read."""
    try:
        response = response_of(copy)
    except (RefoldError, msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return None
    return reply_in(response, dialect)


def reply_in(response: Any, dialect: str) -> Reply | None:
    """The same for a response that is read already: the provider's object as plain JSON."""
    try:
        messages = _MESSAGES[dialect](response)
        return Reply(messages, bool(tool_calls(response))) if messages else None
    except (RefoldError, LookupError, TypeError, AttributeError, ValueError):
        return None


def response_of(copy: Copy) -> Any:
    """The whole response, put together if it came as a stream."""
    if copy.is_stream:
        return assemble(objects([copy.content]))
    said = msgspec.json.decode(copy.content)
    return assemble(said) if isinstance(said, list) else said


def _of_anthropic(response: Any) -> list[Wire]:
    is_whole = response["stop_reason"] in _WHOLE and response["content"]
    return [{"role": "assistant", "content": response["content"]}] if is_whole else []


def _of_chat(response: Any) -> list[Wire]:
    [choice] = response["choices"]
    message = choice["message"]
    kept = {name: message[name] for name in _CHAT_FIELDS if message.get(name) is not None}
    return [kept] if choice["finish_reason"] in _WHOLE else []


def _of_responses(response: Any) -> list[Wire]:
    return list(response["output"]) if response["status"] == "completed" else []


def _of_gemini(response: Any) -> list[Wire]:
    [candidate] = response["candidates"]
    is_whole = candidate["finishReason"] in _WHOLE and candidate["content"]["parts"]
    return [in_one_piece(candidate["content"])] if is_whole else []


_MESSAGES = {
    "anthropic": _of_anthropic,
    "openai_chat": _of_chat,
    "openai_responses": _of_responses,
    "gemini": _of_gemini,
}
