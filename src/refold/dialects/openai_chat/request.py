"""OpenAI Chat Completions: the keyword arguments of `client.chat.completions.create`.

Neighbours: `render` made the messages, `dialects.tools` reads definitions of every shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from refold.dialects.openai_chat.repair import NAME
from refold.dialects.outside import plain, remove_marks
from refold.dialects.protocol import REFOLDS, CacheMarks
from refold.dialects.system import text_blocks
from refold.dialects.tools import functions
from refold.dialects.wire import EMPTY, at

_FUNCTION = "function"
_ROLE = itemgetter("role")

Wire = dict[str, Any]


def request(
    messages: list[dict[str, Any]],
    *,
    system: Any,
    tools: list[Any] | None,
    marks: Sequence[int],
    lost: list[str],
    caching: CacheMarks = REFOLDS,
) -> dict[str, Any]:
    """The keyword arguments of the call. The provider finds what it can cache automatically: no
    marks."""
    said = _answering(messages) if _FUNCTION in map(_ROLE, messages) else messages
    kwargs: Wire = {"messages": [*_system_messages(system), *said]}
    defined = definitions(tools, lost)
    if defined:
        kwargs["tools"] = defined
    return kwargs


def definitions(tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
    """The tools as Chat Completions takes them."""
    return functions(tools, NAME, lost)


def _answering(messages: list[Wire]) -> list[Wire]:
    """The messages; what a function gave stands only directly after the call of that function, and
    is said by the user anywhere else."""
    before: list[Wire] = [{}, *messages]
    return [_said(message, last) for message, last in zip(messages, before)]


def _said(message: Wire, last: Wire) -> Wire:
    if message["role"] != _FUNCTION or message.get("name") == _called(last):
        return message
    return {"role": "user", "content": message.get("content") or EMPTY}


def _called(message: Wire) -> Any:
    """The function that an answer calls in the legacy way."""
    return at(message, ("function_call", "name"))


def _system_messages(system: Any) -> list[dict[str, Any]]:
    """The system prompt as leading messages; what already is such a message stays as it is."""
    if not system:
        return []
    if isinstance(system, str):
        return [{"role": "system", "content": system}]
    given = plain(system)
    entries = given if isinstance(given, list) else [given]
    if all(isinstance(entry, dict) and {"role", "content"} <= entry.keys() for entry in entries):
        return [remove_marks(entry) for entry in entries]
    # One message per block: where the system prompt stands apart, each system message that led the
    # page is a block of it.
    return [_system_message(block) for block in text_blocks(entries)]


def _system_message(block: dict[str, Any]) -> dict[str, Any]:
    """A block that is nothing but text as text, any other as the only part of a content."""
    is_text = block.keys() <= {"type", "text"}
    content = block["text"] if is_text else [{"type": "text", **block}]
    return {"role": "system", "content": content}
