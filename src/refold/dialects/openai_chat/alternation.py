"""Chat Completions for servers whose chat template wants user and assistant in turns.

Messages of one role that follow each other are said as one, and what the system says after the
beginning is said by the user. Calls and their results stay as they are. Neighbours: `engine.pages`
asks for it where the setting `alternate_roles` says so; `request` made the messages.
"""

from __future__ import annotations

from typing import Any

from refold.dialects.system import as_system

_SYSTEM = ("system", "developer")

Wire = dict[str, Any]


def alternating(request: dict[str, Any]) -> dict[str, Any]:
    """The request with its messages in turns; the messages given are never changed."""
    out: list[Wire] = []
    for message in request["messages"]:
        said = _in_role(message, opens=all(one["role"] in _SYSTEM for one in out))
        if out and _joins(out[-1], said):
            out[-1] = _joined(out[-1], said)
        else:
            out.append(said)
    return {**request, "messages": out}


def _in_role(message: Wire, *, opens: bool) -> Wire:
    """The message, said by the user if it is the system's and the conversation has begun."""
    if opens or message["role"] not in _SYSTEM:
        return message
    text = "\n".join(part.get("text", "") for part in _parts(message["content"]))
    return {"role": "user", "content": as_system(text)}


def _joins(last: Wire, message: Wire) -> bool:
    """Whether two messages that follow each other must be one."""
    if last["role"] in _SYSTEM and message["role"] in _SYSTEM:
        return True
    is_turn = message["role"] in ("user", "assistant")
    return is_turn and last["role"] == message["role"] and "tool_calls" not in last


def _joined(last: Wire, message: Wire) -> Wire:
    before, after = last.get("content"), message.get("content")
    if isinstance(before, str) and isinstance(after, str):
        content: Any = "\n\n".join(text for text in (before, after) if text)
    else:
        content = [*_parts(before), *_parts(after)] or None
    return {**last, **message, "role": last["role"], "content": content}


def _parts(content: Any) -> list[Wire]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []
