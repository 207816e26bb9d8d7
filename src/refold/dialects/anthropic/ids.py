"""Call ids once per page. Anthropic refuses a page on which two calls have the same id; other
providers, and servers that count their calls from zero in every turn, give such ids out.

A repeated id gets a number after it, and so does its result; the same page always gets the same
ids. Nothing is changed where ids are distinct already, as Anthropic's own are. Neighbour:
`request` calls this for every page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CALL = "tool_use"
_FIELDS = {_CALL: "id", "tool_result": "tool_use_id"}


def distinct(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with distinct call ids; those given are never changed."""
    # One walk without calls: this is done for every page.
    contents = [content for one in messages if type(content := one.get("content")) is list]
    ids = [part["id"] for content in contents for part in content if part.get("type") == _CALL]
    if len(set(ids)) == len(ids):
        return messages
    names = _Names(ids)
    return [_renamed(message, names) for message in messages]


class _Names:
    """The names that ids have come to stand for, one call after the other."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.taken = set(ids)
        self.now: dict[str, str] = {}

    def of_call(self, id: str) -> str:
        """A name for the next call with this id."""
        name = self._free(id) if id in self.now else id
        self.taken.add(name)
        self.now[id] = name
        return name

    def _free(self, id: str) -> str:
        number = 2
        while f"{id}_{number}" in self.taken:
            number += 1
        return f"{id}_{number}"

    def of_result(self, id: str) -> str:
        """The name of the call that a result with this id answers."""
        return self.now.get(id, id)


def _renamed(message: dict[str, Any], names: _Names) -> dict[str, Any]:
    parts = [_renamed_part(part, names) for part in _parts(message)]
    return {**message, "content": parts} if parts else message


def _renamed_part(part: dict[str, Any], names: _Names) -> dict[str, Any]:
    field = _FIELDS.get(part.get("type", ""))
    if field is None:
        return part
    id = part[field]
    name = names.of_call(id) if field == "id" else names.of_result(id)
    return part if name == id else {**part, field: name}


def _parts(message: dict[str, Any]) -> Sequence[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else ()
