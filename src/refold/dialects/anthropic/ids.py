"""Call ids once per page. Anthropic refuses a page on which two calls have the same id; other
providers, and servers that count their calls from zero in every turn, give such ids out.

A repeated id gets a number behind it, and so does its result; the same page always gets the same
ids. Nothing is changed where ids are distinct already, as Anthropic's own are. Neighbour:
`anthropic` calls this for every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_FIELDS = {"tool_use": "id", "tool_result": "tool_use_id"}


def distinct(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with distinct call ids; those given are never changed."""
    ids = [
        part["id"]
        for message in messages
        for part in _parts(message)
        if part.get("type") == "tool_use"
    ]
    if len(set(ids)) == len(ids):
        return messages
    names = _Names(ids)
    return [_renamed(message, names) for message in messages]


class _Names:
    """The names that ids have come to stand for, one call after the other."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.taken = set(ids)
        self.now: dict[str, str] = {}

    def called(self, id: str) -> str:
        number, name = 2, id
        while id in self.now and name in self.taken:
            name, number = f"{id}_{number}", number + 1
        self.taken.add(name)
        self.now[id] = name
        return name

    def answered(self, id: str) -> str:
        return self.now.get(id, id)


def _renamed(message: dict[str, Any], names: _Names) -> dict[str, Any]:
    if not any(part.get("type") in _FIELDS for part in _parts(message)):
        return message
    return {**message, "content": [_renamed_part(part, names) for part in _parts(message)]}


def _renamed_part(part: dict[str, Any], names: _Names) -> dict[str, Any]:
    field = _FIELDS.get(part.get("type", ""))
    if field is None:
        return part
    name = names.called(part[field]) if field == "id" else names.answered(part[field])
    return part if name == part[field] else {**part, field: name}


def _parts(message: dict[str, Any]) -> Sequence[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else ()
