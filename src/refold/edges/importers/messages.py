"""Plain lists of messages: OpenAI-chat, Responses, Anthropic and Gemini JSON, ShareGPT, one message
per line or one list.

A file is a list of messages, an object that has one (`messages`, `conversations`, `input`,
`contents`, `history`) beside the system prompt, the tools and the model under their providers'
names, a list of such objects, or JSON Lines of any of these. What else such an object has becomes a
note. Several conversations in a file are sessions of their own. Neighbours: `plain` reads one
message, `lines` the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from refold.edges.importers.entry import About, Entry, Noted, Unread
from refold.edges.importers.lines import UNREADABLE, Lines, digest, document
from refold.edges.importers.plain import Calls, entry_of, is_message

LISTS = ("messages", "conversations", "conversation", "input", "contents", "history")
_TITLES = ("title", "task", "name")
_SYSTEMS = (
    "system", "instructions", "system_instruction", "systemInstruction", "system_prompt",
    "systemPrompt",
)  # fmt: skip
_TOOLS = ("tools", "functions")
CONFIG = "config"  # what Google's SDK takes beside the contents
BESIDE = "beside"  # the kind of the note on all else that stands beside a list


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
    place, calls = 0, Calls()
    for number, line, raw in lines.objects():
        if is_message(line):
            yield entry_of(line, place, number, raw=raw.strip(), calls=calls)
            place += 1
        elif list_in(line) is not None:
            yield from of_object(line, number, session=_name_of(line, number))
        else:
            yield _taken_from(dict(line), number)
            yield Noted(kind=str(line.get("kind") or "line")[:80], data=line, line=number,
                        key=f"{number}:{digest(raw)}")  # fmt: skip


def of_document(lines: Lines) -> Iterator[Entry]:
    """The messages of one JSON value."""
    value = document(lines.path)
    if isinstance(value, dict):
        yield from of_object(value, None)
        return
    place, calls = 0, Calls()
    for number, one in enumerate(value, start=1):
        if is_message(one):
            yield entry_of(one, place, number, calls=calls)
            place += 1
        elif list_in(one) is not None:
            yield from of_object(one, number, session=_name_of(one, number))
        else:
            yield Unread(line=number, reason="no message and no list of messages")


def of_object(value: dict[str, Any], line: int | None, session: str = "") -> Iterator[Entry]:
    """A conversation that is an object with a list of messages. Without a line of its own, each
    message is an element of the file."""
    listed, calls = list_in(value) or [], Calls()
    rest = {name: one for name, one in value.items() if one is not listed}
    if session:
        rest.pop("id", None)  # it names the session
    yield _taken_from(rest, line or 1, session)
    for place, one in enumerate(listed):
        if is_message(one):
            yield entry_of(one, place, line or place + 1, session, calls=calls)
        else:
            reason = f"number {place + 1} of its list is not a message"
            yield Unread(line=line or place + 1, session=session, reason=reason)
    # At the end: of a list that went on, what stands beside it may be another.
    if rest:
        key = f"{BESIDE}:{digest(msgspec.json.encode(rest))}"
        yield Noted(kind=BESIDE, data=rest, key=key, line=line or 1, session=session)


def _name_of(value: dict[str, Any], number: int) -> str:
    own = value.get("id")
    return str(own)[:40] if isinstance(own, str | int) and str(own) else str(number)


def _taken_from(rest: dict[str, Any], line: int, session: str = "") -> About:
    """What the fields beside a list say of its session. They are taken out; what is not understood
    stays, but for values that say nothing."""
    title = _take(rest, _TITLES, lambda value: isinstance(value, str) and bool(value.strip()))
    config = rest.get(CONFIG)
    inner = dict(config) if isinstance(config, dict) else {}
    system = _take(rest, _SYSTEMS, _is_prompt) or _take(inner, _SYSTEMS, _is_prompt)
    tools = _take(rest, _TOOLS, _tools_in) or _take(inner, _TOOLS, _tools_in)
    if isinstance(config, dict):
        rest[CONFIG] = inner
    for name in [name for name, value in rest.items() if value in (None, "", [], {})]:
        del rest[name]
    return About(
        line=line,
        session=session,
        model=_take(rest, ("model",), lambda value: isinstance(value, str)),
        tools=_tools_in(tools),
        system=system,
        title=" ".join(title.split())[:200] if title else None,
    )


def _take(fields: dict[str, Any], names: Iterable[str], fits: Callable[[Any], Any]) -> Any:
    """The first of these fields that says something, taken out; None if none does."""
    for name in names:
        if fields.get(name) and fits(fields[name]):
            return fields.pop(name)
    return None


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str | list | dict)


def _tools_in(value: Any) -> list[Any] | None:
    """A list of tools, which datasets write as JSON text."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except UNREADABLE:
            return None
    return value if isinstance(value, list) and value else None
