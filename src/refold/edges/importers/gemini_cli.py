"""Gemini CLI's sessions: `~/.gemini/tmp/PROJECT/chats/session-*.jsonl`, a message per line after a
line about the session, or one JSON object with `messages` (older).

A later line with the same id replaces the earlier one; `$set` with `messages` replaces all of them;
`$rewindTo` takes back a message and all after it, an unknown id everything. The calls of a message
have their results beside its text; newer versions also write the results in a line of their own,
which then counts. Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refold.core.model import Usage
from refold.edges.importers.entry import Entry, MessageEntry, NoteEntry, SessionFacts, Where
from refold.edges.importers.lines import (
    Lines,
    Reader,
    counts,
    digest,
    document,
    guarded,
    message_names,
    time_ms,
)

_OUTPUT = "output"
_SPOKEN = ("user", "gemini")

Held = dict[str, tuple[int, dict[str, Any]]]  # each message by its id, with its line


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these are the first lines of a session of Gemini CLI."""
    return any("sessionId" in line and "projectHash" in line for line in lines)


def is_document(value: Any) -> bool:
    """Whether a JSON value is a session in the older form."""
    return isinstance(value, dict) and is_mine([value]) and isinstance(value.get("messages"), list)


def session_of(lines: Lines) -> str:
    """The id of the session in the file."""
    for _, line, _ in lines.objects():
        if isinstance(line.get("sessionId"), str):
            return str(line["sessionId"])
    return lines.path.name.split(".")[0]


def entries(lines: Lines) -> Iterator[Entry]:
    """The session at the end of the file."""
    held: Held = {}
    for number, line, raw in lines.objects():
        changed = line.get("$set")
        if "$rewindTo" in line:
            _rewind(held, str(line["$rewindTo"]))
        elif isinstance(changed, dict) and isinstance(changed.get("messages"), list):
            held = _held(changed["messages"], number)
        elif isinstance(line.get("id"), str):
            held[line["id"]] = (number, line)
        elif changed is None:
            key = f"{number}:{digest(raw)}"
            yield NoteEntry(kind="line", data=line, line=number, key=key)
    yield from _messages(held)


def of_document(lines: Lines) -> Iterator[Entry]:
    """The session in the older form."""
    yield from _messages(_held(document(lines.path)["messages"], 1))


def _held(messages: list[Any], number: int) -> Held:
    return {
        str(one.get("id") or at): (number, one)
        for at, one in enumerate(messages)
        if isinstance(one, dict)
    }


def _rewind(held: Held, id: str) -> None:
    ids = list(held)
    for removed in ids[ids.index(id) if id in held else 0 :]:
        del held[removed]


def _messages(held: Held) -> Iterator[Entry]:
    answered = {id for _, line in held.values() for id in _answered(line)}
    for number, line in held.values():
        where = Where(line=number, at_ms=time_ms(line.get("timestamp")))
        yield from guarded(_message(line, where, answered), where)


def _answered(line: dict[str, Any]) -> Iterator[str]:
    """The ids of the calls answered by a user's line."""
    content = line.get("content") if line.get("type") == "user" else None
    for part in content if isinstance(content, list) else ():
        response = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(response, dict):
            yield str(response.get("id"))


def _message(line: dict[str, Any], where: Where, answered: set[str]) -> Iterator[Entry]:
    # A message written again with its results has another key.
    key, response = message_names(line.get("id"), line)
    parts = _parts(line.get("content"))
    if line.get("type") not in _SPOKEN:
        yield NoteEntry(kind=str(line.get("type") or "line")[:80], data=line, key=key, **where)
    elif line["type"] == "user":
        yield MessageEntry(message={"role": "user", "parts": parts}, key=key, **where)
    else:
        if isinstance(line.get("model"), str):
            yield SessionFacts(model=line["model"], **where)
        calls = [call for call in line.get("toolCalls") or () if isinstance(call, dict)]
        parts += [{"functionCall": _call(call)} for call in calls]
        if parts:
            usage = _usage(line.get("tokens"), response)
            message = {"role": "model", "parts": parts}
            yield MessageEntry(message=message, key=key, usage=usage, **where)
        left = [call for call in calls if str(call.get("id")) not in answered]
        if left:
            results = [part for call in left for part in _results(call)]
            yield MessageEntry(message={"role": "user", "parts": results}, key=f"{key}+", **where)


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return list(content) if isinstance(content, list) else [content] if content else []


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"id": call.get("id"), "name": call.get("name"), "args": call.get("args") or {}}


def _results(call: dict[str, Any]) -> list[Any]:
    """The results of a call: the program's own parts, or its text, or an empty one."""
    result = call.get("result")
    parts = result if isinstance(result, list) else []
    found = [part for part in parts if isinstance(part, dict) and "functionResponse" in part]
    text = result if isinstance(result, str) else ""
    response = {"id": call.get("id"), "name": call.get("name"), "response": {_OUTPUT: text}}
    return found or [{"functionResponse": response}]


def _usage(tokens: Any, key: str) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    read, written, cached, thought = counts(tokens, "input", "output", "cached", "thoughts")
    return Usage(
        input=read, output=written + thought, cache_read=cached, reasoning=thought, response=key
    )


READER = Reader(
    is_lines=is_mine,
    entries=entries,
    is_document=is_document,
    of_document=of_document,
    session_of=session_of,
)
