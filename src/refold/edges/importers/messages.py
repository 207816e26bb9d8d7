"""Plain lists of messages: OpenAI-chat, Responses, Anthropic and Gemini JSON, ShareGPT, one message
per line or one list.

A file is a list of messages, an object that has one (`messages`, `conversations`, `input`,
`contents`, `history`) along with the system prompt, tools and model, a list of such objects, or
JSON Lines of any of these; other fields become a note. Messages are brought into a provider's
shape: names of roles, calls without ids, `reasoning` beside the text. Several conversations in a
file are separate sessions. Neighbours: `trajectories` uses this too, `lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from refold.core.model import Usage
from refold.dialects.usage import read_usage
from refold.edges.importers.entry import (
    Entry,
    MessageEntry,
    NoteEntry,
    SessionFacts,
    SummaryEntry,
    UnreadLine,
)
from refold.edges.importers.lines import UNREADABLE, Lines, Reader, digest, document, time_ms
from refold.errors import Invalid

LISTS = ("messages", "conversations", "conversation", "input", "contents", "history")
_TITLES = ("title", "task", "name")
_SYSTEMS = (
    "system", "instructions", "system_instruction", "systemInstruction", "system_prompt",
    "systemPrompt",
)  # fmt: skip
_TOOLS = ("tools", "functions")
CONFIG = "config"  # of Google's SDK, beside the contents
BESIDE = "beside"  # the kind of the note with the other fields of a list's object


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these first lines have a message, or a list of messages, per line."""
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
            yield _session_facts(dict(line), number)
            yield NoteEntry(kind=str(line.get("kind") or "line")[:80], data=line, line=number,
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
            yield UnreadLine(line=number, reason="neither a message nor a list of messages")


def of_object(value: dict[str, Any], line: int | None, session: str = "") -> Iterator[Entry]:
    """The entries of an object with a list of messages. Without `line`, each message is an element
    of the file."""
    listed, calls = list_in(value) or [], Calls()
    rest = {name: one for name, one in value.items() if one is not listed}
    if session:
        rest.pop("id", None)  # it names the session
    yield _session_facts(rest, line or 1, session)
    for place, one in enumerate(listed):
        if is_message(one):
            yield entry_of(one, place, line or place + 1, session, calls=calls)
        else:
            reason = f"number {place + 1} of its list is not a message"
            yield UnreadLine(line=line or place + 1, session=session, reason=reason)
    # At the end: when the list grows, its other fields may change.
    if rest:
        key = f"{BESIDE}:{digest(msgspec.json.encode(rest))}"
        yield NoteEntry(kind=BESIDE, data=rest, key=key, line=line or 1, session=session)


def _name_of(value: dict[str, Any], number: int) -> str:
    own = value.get("id")
    return str(own)[:40] if isinstance(own, str | int) and str(own) else str(number)


def _session_facts(rest: dict[str, Any], line: int, session: str = "") -> SessionFacts:
    """The facts about a session in the other fields of its object. Removes them and empty values
    from `rest`; unknown fields stay."""
    title = _take(rest, _TITLES, lambda value: isinstance(value, str) and bool(value.strip()))
    config = rest.get(CONFIG)
    inner = dict(config) if isinstance(config, dict) else {}
    system = _take(rest, _SYSTEMS, _is_prompt) or _take(inner, _SYSTEMS, _is_prompt)
    tools = _take(rest, _TOOLS, _tools_in) or _take(inner, _TOOLS, _tools_in)
    if isinstance(config, dict):
        rest[CONFIG] = inner
    for name in [name for name, value in rest.items() if value in (None, "", [], {})]:
        del rest[name]
    return SessionFacts(
        line=line,
        session=session,
        model=_take(rest, ("model",), lambda value: isinstance(value, str)),
        tools=_tools_in(tools),
        system=system,
        title=" ".join(title.split())[:200] if title else None,
    )


def _take(fields: dict[str, Any], names: Iterable[str], fits: Callable[[Any], Any]) -> Any:
    """Removes and returns the first of these fields with a fitting value, or None."""
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


ROLES = {
    "human": "user", "gpt": "assistant", "ai": "assistant", "bot": "assistant",
    "chatgpt": "assistant",
}  # fmt: skip
# Roles of datasets: a call as JSON text, and its result.
_CALL, _RESULTS = "function_call", ("observation", "function_response")
# The fields of a message that a provider reads; any others are the program's own.
FIELDS = (
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio",
    "reasoning_content", "reasoning_details", "parts",
)  # fmt: skip
_TIMES = ("timestamp", "created_at", "createdAt", "time", "ts", "date")


def is_message(value: Any) -> bool:
    """Whether a value is a message of a plain list, or an item of the Responses API."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return "content" in value or "parts" in value or "tool_calls" in value
    has_text = isinstance(value.get("from"), str) and "value" in value
    return has_text or ("call_id" in value and "type" in value) or value.get("type") == "reasoning"


class Calls:
    """Pairs calls with their results in lists without ids: results follow their calls directly, in
    the same order."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def paired(self, value: dict[str, Any], place: int) -> dict[str, Any]:
        """The message with the ids of its calls. An unreadable call, and a result without a call,
        stay as they are."""
        role = str(value.get("role") or value.get("from") or "").lower()
        if role in _RESULTS:
            if not self._open:
                return value
            id = self._open.pop(0)
            return {"role": "tool", "tool_call_id": id, "content": _text_of(value)}
        calls = _calls_in(_text_of(value)) if role == _CALL else []
        named = [{**call, "id": f"call-{place}-{number}"} for number, call in enumerate(calls)]
        self._open = [call["id"] for call in named]
        return {"role": "assistant", "content": "", "tool_calls": named} if named else value


def _text_of(value: dict[str, Any]) -> Any:
    return value["content"] if "content" in value else value.get("value")


def _calls_in(text: Any) -> list[dict[str, Any]]:
    """The calls in a JSON text, one or a list of them; empty if one of them is invalid."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else text
    except UNREADABLE:
        return []
    calls = found if isinstance(found, list) else [found]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        return []
    return [{"name": call["name"], "arguments": call.get("arguments", {})} for call in calls]


def entry_of(
    value: dict[str, Any],
    place: int,
    line: int,
    session: str = "",
    raw: bytes = b"",
    calls: Calls | None = None,
) -> MessageEntry | SummaryEntry:
    """The entry of a message in a list. Its key is derived from its position and its content (the
    raw line, if it has one). `calls` pairs the calls of the list."""
    key = f"{place}:{digest(raw or msgspec.json.encode(value))}"
    at_ms = None
    for name in _TIMES:
        if name in value and (at_ms := time_ms(value[name])) is not None:
            break
    message = normal(calls.paired(value, place) if calls else value)
    if value.get("compact_summary") is True and isinstance(message.get("content"), str):
        text = message["content"]
        return SummaryEntry(text=text, key=key, line=line, session=session, at_ms=at_ms)
    usage = usage_of(value.get("usage"), key)
    return MessageEntry(
        message=message, key=key, line=line, session=session, at_ms=at_ms, usage=usage
    )


def usage_of(value: Any, response: str) -> Usage | None:
    """The usage of a message, if the file has it."""
    if not isinstance(value, dict):
        return None
    try:
        usage = read_usage(value, "openai_chat")
    except Invalid:
        return None
    return msgspec.structs.replace(usage, response=response)


def normal(value: dict[str, Any]) -> dict[str, Any]:
    """The message in its provider's shape. Items of the Responses API are already in theirs."""
    if "type" in value and ("role" not in value or value["type"] == "message"):
        return value
    if "from" in value and "role" not in value:
        value = {"role": str(value["from"]), "content": value.get("value")}
    message = {name: value[name] for name in FIELDS if name in value}
    message["role"] = ROLES.get(message["role"].lower(), message["role"])
    reasoning = value.get("reasoning")
    if isinstance(reasoning, str) and reasoning and "reasoning_content" not in message:
        message["reasoning_content"] = reasoning
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(call) for call in calls]
    elif "tool_calls" in message:
        del message["tool_calls"]
    ids = value.get("tool_call_ids")
    if message["role"] == "tool" and isinstance(ids, list) and ids and ids[0]:
        message["tool_call_id"] = ids[0]
    if message["role"] == "tool" and not message.get("tool_call_id"):
        message = {"role": "user", "content": message.get("content")}
    return message


def _call(call: Any) -> Any:
    """A call in the format of Chat Completions, from a bare name and arguments."""
    if not isinstance(call, dict) or "function" in call or "custom" in call or "name" not in call:
        return call
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call.get("id"), "type": "function", "function": function}


READER = Reader(is_lines=is_mine, entries=entries, is_document=is_document, of_document=of_document)
