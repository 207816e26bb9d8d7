"""Plain lists of messages: OpenAI-chat, Responses, Anthropic and Gemini JSON, ShareGPT, one message
per line or one list.

A file is a list of messages, an object that has one (`messages`, `conversations`, `input`,
`contents`, `history`) beside `system`, `tools` and `model`, a list of such objects, or JSON Lines
of any of these. Several conversations in a file are sessions of their own. Neighbours: `plain`
reads one message, `lines` the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refold.edges.importers.entry import About, Entry, Noted, Unread
from refold.edges.importers.lines import Lines, digest, document
from refold.edges.importers.plain import entry_of, is_message

LISTS = ("messages", "conversations", "conversation", "input", "contents", "history")
_TITLES = ("title", "task", "name")


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these are the first lines of a file with a message, or a whole list, per line."""
    return any(is_message(line) or list_in(line) is not None for line in lines)


def is_document(value: Any) -> bool:
    """Whether a JSON value is a list of messages, or has one."""
    if isinstance(value, dict):
        return list_in(value) is not None
    if not isinstance(value, list):
        return False
    return any(is_message(one) or list_in(one) is not None for one in value[:20])


def list_in(value: Any) -> list[Any] | None:
    """The list of messages that an object has."""
    if not isinstance(value, dict):
        return None
    for name in LISTS:
        found = value.get(name)
        if isinstance(found, list) and any(map(is_message, found[:20])):
            return found
    return None


def entries(lines: Lines) -> Iterator[Entry]:
    """The messages of JSON Lines."""
    place = 0
    for number, line, raw in lines.objects():
        if is_message(line):
            yield entry_of(line, place, number, raw=raw.strip())
            place += 1
        elif list_in(line) is not None:
            yield from of_object(line, number, session=_name_of(line, number))
        else:
            yield from _about(line, number)
            yield Noted(kind=str(line.get("kind") or "line")[:80], data=line, line=number,
                        key=f"{number}:{digest(raw)}")  # fmt: skip


def of_document(lines: Lines) -> Iterator[Entry]:
    """The messages of one JSON value."""
    value = document(lines.path)
    if isinstance(value, dict):
        yield from of_object(value, None)
        return
    place = 0
    for number, one in enumerate(value, start=1):
        if is_message(one):
            yield entry_of(one, place, number)
            place += 1
        elif list_in(one) is not None:
            yield from of_object(one, number, session=_name_of(one, number))
        else:
            yield Unread(line=number, reason="no message and no list of messages")


def of_object(value: dict[str, Any], line: int | None, session: str = "") -> Iterator[Entry]:
    """A conversation that is an object with a list of messages. Without a line of its own, each
    message is an element of the file."""
    yield from _about(value, line or 1, session)
    for place, one in enumerate(list_in(value) or ()):
        if is_message(one):
            yield entry_of(one, place, line or place + 1, session)
        else:
            reason = f"number {place + 1} of its list is no message"
            yield Unread(line=line or place + 1, session=session, reason=reason)


def _name_of(value: dict[str, Any], number: int) -> str:
    own = value.get("id")
    return str(own)[:40] if isinstance(own, str | int) and str(own) else str(number)


def _about(value: dict[str, Any], line: int, session: str = "") -> Iterator[About]:
    model, tools = value.get("model"), value.get("tools")
    titles = (value.get(name) for name in _TITLES)
    title = next((text for text in titles if isinstance(text, str) and text.strip()), None)
    system = value.get("system") or value.get("instructions")
    yield About(
        line=line,
        session=session,
        model=model if isinstance(model, str) and model else None,
        tools=tools if isinstance(tools, list) and tools else None,
        system=system if isinstance(system, str | list) and system else None,
        title=" ".join(title.split())[:200] if title else None,
    )
