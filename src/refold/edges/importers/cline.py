"""Cline's sessions: `~/.cline/data/sessions/ID/ID.messages.json`, one JSON object.

Messages have Anthropic's blocks, with an id, a time and their usage beside them; tool results may
be lists of the program's own objects, which become text. Task folders of older versions
(`api_conversation_history.json`) are plain lists, which `messages` reads. Neighbours: `entry`,
`lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from refold.core.model import Usage
from refold.edges.importers.entry import Entry, MessageEntry, SessionFacts, UnreadLine, Where
from refold.edges.importers.lines import (
    Lines,
    Reader,
    counts,
    document,
    guarded,
    message_names,
    time_ms,
)

_PARTS = ("text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking")


def is_document(value: Any) -> bool:
    """Whether a JSON value is a session of Cline."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return isinstance(value.get("sessionId"), str) and "agent" in value and "origin" in value


def session_of(lines: Lines) -> str:
    """The id of the session in the file."""
    return str(document(lines.path)["sessionId"])


def of_document(lines: Lines) -> Iterator[Entry]:
    """The session."""
    value = document(lines.path)
    system = value.get("system_prompt")
    yield SessionFacts(line=1, system=system if isinstance(system, str) and system else None)
    for place, one in enumerate(value["messages"], start=1):
        where = Where(line=place)
        if not isinstance(one, dict) or one.get("role") not in ("user", "assistant"):
            yield UnreadLine(reason="not a message", **where)
            continue
        where["at_ms"] = time_ms(one.get("ts"))
        yield from guarded(_message(one, where), where)


def _message(one: dict[str, Any], where: Where) -> Iterator[Entry]:
    info = one.get("modelInfo")
    if isinstance(info, dict) and isinstance(info.get("id"), str):
        yield SessionFacts(model=info["id"], **where)
    content = one.get("content")
    if isinstance(content, list):
        content = [_part(part) for part in content]
    key, response = message_names(one.get("id"), content)
    message = {"role": one["role"], "content": content}
    usage = _usage(one.get("metrics"), response)
    yield MessageEntry(message=message, key=key, usage=usage, **where)


def _part(part: Any) -> Any:
    """The part as Anthropic's block; the program's own objects become text."""
    if not isinstance(part, dict) or part.get("type") not in _PARTS:
        return {"type": "text", "text": msgspec.json.encode(part).decode()}
    if part["type"] != "tool_result" or not isinstance(part.get("content"), list):
        return part
    return {
        "type": "tool_result",
        "tool_use_id": part.get("tool_use_id"),
        "content": [_part(one) for one in part["content"]],
        "is_error": part.get("is_error") is True,
    }


def _usage(metrics: Any, key: str) -> Usage | None:
    if not isinstance(metrics, dict):
        return None
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    read, written, cache_read, cache_write = counts(metrics, *names)
    return Usage(
        input=max(read, cache_read + cache_write),
        output=written,
        cache_read=cache_read,
        cache_write=cache_write,
        response=key,
    )


READER = Reader(is_document=is_document, of_document=of_document, session_of=session_of)
