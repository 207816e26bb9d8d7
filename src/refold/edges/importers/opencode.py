"""opencode's sessions: its database (`~/.local/share/opencode/opencode.db`), and the files of
`opencode export`.

A model's message is a row with parts: text, reasoning, calls with their results, and step marks. A
step is one answer, followed by the results of its calls. A message marked as a summary replaces
everything before it; reverted messages are left out. The database is never changed, and its schema
is not trusted: only known columns of three tables are read.
Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from refold.conversations.listing import PART_OF
from refold.core.model import Usage
from refold.edges.importers.entry import (
    Entry,
    MessageEntry,
    NoteEntry,
    SessionFacts,
    SummaryEntry,
    Where,
)
from refold.edges.importers.lines import (
    UNREADABLE,
    Lines,
    Reader,
    counts,
    document,
    guarded,
    message_names,
    time_ms,
)
from refold.errors import Invalid

Value = dict[str, Any]
_ANSWERED = ("completed", "error")


def is_document(value: Any) -> bool:
    """Whether a JSON value is an exported session."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    info = value.get("info")
    return isinstance(info, dict) and str(info.get("id") or "").startswith("ses_")


def of_document(lines: Lines) -> Iterator[Entry]:
    """The session of an export."""
    value = document(lines.path)
    yield from _session(value["info"], value["messages"], None)


def of_database(lines: Lines) -> Iterator[Entry]:
    """All sessions of a database."""
    for number, (info, messages) in enumerate(sessions(lines.path), start=1):
        yield from _session(info, messages, number)


def _session(info: Value, messages: list[Any], line: int | None) -> Iterator[Entry]:
    """The entries of one session. Without `line`, each message is an element of the file."""
    session = str(info.get("id"))
    title, parent = info.get("title"), info.get("parentID")
    yield SessionFacts(
        line=line or 1,
        session=session,
        title=title[:200] if isinstance(title, str) and title.strip() else None,
        metadata={PART_OF: f"opencode-{parent}"[:64]} if parent else None,
    )
    for place, one in enumerate(_without_reverted(info, messages), start=1):
        where = Where(line=line or place, session=session)
        yield from guarded(_message(one, where), where)


def _without_reverted(info: Value, messages: list[Any]) -> list[Any]:
    """The messages before the one to which the user reverted, if any."""
    revert = info.get("revert")
    back_to = revert.get("messageID") if isinstance(revert, dict) else None
    if not isinstance(back_to, str):
        return messages
    ids = [one["info"].get("id") if _is_message(one) else None for one in messages]
    return messages[: ids.index(back_to)] if back_to in ids else messages


def _is_message(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("info"), dict)


def _message(one: Value, where: Where) -> Iterator[Entry]:
    info, parts = one["info"], [part for part in one.get("parts") or () if isinstance(part, dict)]
    where["at_ms"] = time_ms((info.get("time") or {}).get("created"))
    key, response = message_names(info.get("id"), parts)
    if info.get("role") == "user":
        yield from _beside(parts, key, where)
        content = [block for part in parts for block in _visible_content(part)]
        if content:
            yield MessageEntry(message={"role": "user", "content": content}, key=key, **where)
        return
    if isinstance(info.get("modelID"), str):
        yield SessionFacts(model=info["modelID"], **where)
    yield from _beside(parts, key, where)
    if info.get("summary") is True:
        text = "\n".join(str(part.get("text") or "") for part in parts if part["type"] == "text")
        yield SummaryEntry(text=text, key=key, **where)
        return
    usage = _usage(info.get("tokens"), info.get("cost"), response)
    for at, step in enumerate(_steps(parts)):
        at_ms = where["at_ms"]
        later = Where(**{**where, "at_ms": None if at_ms is None else at_ms + at})
        yield from _step(step, f"{key}/{at}", usage if at == 0 else None, later)


def _steps(parts: list[Value]) -> list[list[Value]]:
    """The parts of a message by the answers they belong to."""
    steps: list[list[Value]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        if part.get("type") in ("text", "reasoning", "tool"):
            steps[-1].append(part)
    return [step for step in steps if step]


def _step(parts: list[Value], key: str, usage: Usage | None, where: Where) -> Iterator[Entry]:
    """One answer, and the results of its calls."""
    message: Value = {"role": "assistant", "content": _texts(parts, "text")}
    if reasoning := _texts(parts, "reasoning"):
        message["reasoning_content"] = reasoning
    tools = [part for part in parts if part["type"] == "tool"]
    if tools:
        message["tool_calls"] = [_call(part) for part in tools]
    yield MessageEntry(message=message, key=key, usage=usage, **where)
    for part in tools:
        state = part.get("state") or {}
        if state.get("status") in _ANSWERED:
            given = state.get("output") if state["status"] == "completed" else state.get("error")
            answer = {"role": "tool", "tool_call_id": part.get("callID"), "content": str(given)}
            yield MessageEntry(message=answer, key=f"{key}+{part.get('callID')}"[:400], **where)


def _texts(parts: list[Value], kind: str) -> str:
    texts = (str(part.get("text") or "") for part in parts if part["type"] == kind)
    return "\n\n".join(filter(None, texts))


def _call(part: Value) -> Value:
    given = (part.get("state") or {}).get("input")
    arguments = msgspec.json.encode(given if isinstance(given, dict) else {}).decode()
    function = {"name": part.get("tool"), "arguments": arguments}
    return {"id": part.get("callID"), "type": "function", "function": function}


def _visible_content(part: Value) -> Iterator[Value]:
    """The content of a user's part that is sent to the model."""
    if part.get("type") == "text" and not part.get("ignored"):
        yield {"type": "text", "text": str(part.get("text") or "")}
    elif part.get("type") == "file":
        url = str(part.get("url") or "")
        if url.startswith("data:image/"):
            yield {"type": "image_url", "image_url": {"url": url}}
        else:
            yield {"type": "text", "text": f"[file {part.get('filename') or url[:200]}]"}


def _beside(parts: list[Value], key: str, where: Where) -> Iterator[Entry]:
    """The parts outside the message, as notes."""
    for at, part in enumerate(parts):
        kind = str(part.get("type") or "part")
        if kind not in ("text", "reasoning", "tool"):
            yield NoteEntry(kind=kind[:80], data=part, key=f"{key}:{at}"[:400], **where)


def _usage(tokens: Any, cost: Any, key: str) -> Usage | None:
    """The usage of a message; the program counts cached tokens separately."""
    if not isinstance(tokens, dict):
        return None
    cache = tokens.get("cache")
    read, written, thought = counts(tokens, "input", "output", "reasoning")
    kept = counts(cache if isinstance(cache, dict) else {}, "read", "write")
    return Usage(
        input=read + sum(kept),
        output=written + thought,
        reasoning=thought,
        cache_read=kept[0],
        cache_write=kept[1],
        cost=float(cost) if type(cost) in (int, float) and cost > 0 else None,
        response=key,
    )


MAGIC = b"SQLite format 3\0"
CELL_BYTES_MAX = 64 << 20
STEPS_MAX = 2_000_000_000
_SESSIONS = "select id, parent_id, title, {revert} from session order by time_created, id"
_MESSAGES = "select id, data from message where session_id = ? order by time_created, id"
_PARTS = "select message_id, data from part where session_id = ? order by id"

Row = dict[str, Any]


def is_database(first: bytes) -> bool:
    """Whether a file with this beginning is a database."""
    return first.startswith(MAGIC)


def sessions(path: Path) -> Iterator[tuple[Row, list[Row]]]:
    """Each session, with its messages and their parts. Invalid if it is another database."""
    import apsw

    from refold.system import sqlite_file

    has_log = os.path.exists(f"{path}-wal")
    how = "mode=ro&readonly_shm=1" if has_log else "mode=ro&immutable=1"
    address = f"file:{quote(str(path.absolute()))}?{how}"
    try:
        connection = sqlite_file.connect(address, sqlite_file.READ)
    except apsw.Error as error:
        raise Invalid(f"{path} cannot be read: {error}", hint="refold import --list") from error
    try:
        _restrict(connection)
        columns = connection.execute("select name from pragma_table_info('session')").fetchall()
        query = _SESSIONS.format(revert="revert" if ("revert",) in columns else "null")
        for id, parent, title, revert in connection.execute(query).fetchall():
            about = {"id": id, "parentID": parent, "title": title, "revert": _object(revert)}
            yield about, _messages(connection, str(id))
    except apsw.Error as error:
        hint = "refold import --list shows what can be read"
        raise Invalid(f"{path} is not a database of opencode: {error}", hint=hint) from error
    finally:
        connection.close()


def _restrict(connection: Any) -> None:
    import apsw

    connection.pragma("query_only", True)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, CELL_BYTES_MAX)
    left = iter(range(STEPS_MAX // 1_000_000))
    # A query on a hostile database could run forever.
    connection.set_progress_handler(lambda: next(left, None) is None, 1_000_000)
    tables = dict(connection.execute("select name, type from sqlite_schema").fetchall())
    if any(tables.get(name) != "table" for name in ("session", "message", "part")):
        raise apsw.SQLError("the tables session, message and part are missing")


def _messages(connection: Any, session: str) -> list[Row]:
    parts: dict[str, list[Row]] = {}
    for message, data in connection.execute(_PARTS, (session,)):
        parts.setdefault(message, []).append(_object(data))
    return [
        {"info": {**_object(data), "id": id}, "parts": parts.get(id, [])}
        for id, data in connection.execute(_MESSAGES, (session,))
    ]


def _object(data: Any) -> Row:
    """The JSON object of a cell; any other content as a part of type `unread`."""
    try:
        value = msgspec.json.decode(data) if isinstance(data, str | bytes) else None
    except UNREADABLE:
        value = None
    return value if isinstance(value, dict) else {"type": "unread", "data": str(data)[:10_000]}


READER = Reader(
    is_start=is_database,
    entries=of_database,
    unit="session",
    is_document=is_document,
    of_document=of_document,
    has_many=True,
)
