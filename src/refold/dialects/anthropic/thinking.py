"""A request with thinking on, in the middle of a tool loop that began without it.

While thinking is on, Anthropic wants every answer of the open tool loop to begin with thinking. An
answer of another model has none that Claude takes: its calls and their results are said as text, so
nothing of them is lost and the loop is not open any more. Neighbours: `request` made the request;
`Context.request` calls this once the caller's keywords are in it.
"""

from __future__ import annotations

import json
from typing import Any

from refold.dialects.wire import objects_in

_THINKING = ("thinking", "redacted_thinking")

Wire = dict[str, Any]


def is_thinking_on(request: Wire) -> bool:
    """Whether the request asks the model to think."""
    thinking = request.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def ready_to_think(request: Wire) -> Wire:
    """The request, valid with thinking on; as it is where thinking is off or every answer of the
    open tool loop begins with thinking. The messages given are never changed."""
    messages = request["messages"]
    first = _loop_begins(messages)
    if not is_thinking_on(request) or not any(map(_calls_unthinking, messages[first:])):
        return request
    said = [_as_text(message) for message in messages[first:]]
    return {**request, "messages": [*messages[:first], *said]}


def _loop_begins(messages: list[Wire]) -> int:
    """Where the open tool loop begins: after the last user message that is not only results."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] == "user" and not _has(message, "tool_result"):
            return index + 1
    return 0


def _has(message: Wire, kind: str) -> bool:
    return any(block.get("type") == kind for block in objects_in(message["content"]))


def _calls_unthinking(message: Wire) -> bool:
    """Whether an answer calls tools and does not begin with thinking."""
    if message["role"] != "assistant" or not _has(message, "tool_use"):
        return False
    return message["content"][0].get("type") not in _THINKING


def _as_text(message: Wire) -> Wire:
    """The message with its calls and results as text, and without thinking, which would belong to
    calls that are no longer there."""
    if not isinstance(message["content"], list):
        return message
    kept = [_said(block) for block in message["content"] if block.get("type") not in _THINKING]
    return {**message, "content": kept}


def _said(block: Wire) -> Wire:
    match block.get("type"):
        case "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            text = f"[I called {block['name']} with {arguments}]"
        case "tool_result":
            text = f"[result]\n{_content_text(block.get('content', ''))}"
        case _:
            return block
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return {"type": "text", "text": text, **mark}


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or f"[{block['type']}]" for block in objects_in(content))
