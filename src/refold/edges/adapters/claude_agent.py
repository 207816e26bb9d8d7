"""Claude Agent SDK: sessions stored by refold (the SDK's `session_store=` option).

    options = ClaudeAgentOptions(session_store=RefoldSessionStore("sqlite:work.db"))

Every entry of a transcript is stored unchanged as a note, so `load` returns exactly the appended
entries. An entry of the user or the model is also a message, so a session is searched, shown and
counted like any other conversation; a compaction by the host is adopted. A session is a
conversation, and so is the transcript of each of its sub-agents. Neighbours: `log.notes` stores
entries, `compaction.adoption` adopts the host's summaries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from claude_agent_sdk import fold_session_summary

import refold
from refold.conversations import Conversation
from refold.edges.adapters.guest import (
    Place,
    Sessions,
    check_version,
)

HOST, ENTRY, ENTRY_JSON = "claude-code", "claude-code-entry", "claude-code-entry-json"
SUMMARY = "claude-code-summary"  # in the metadata of a conversation

Key = Mapping[str, str]
Entry = dict[str, Any]


class RefoldSessionStore:
    """Satisfies the SDK's `SessionStore`, optional methods included. `store` is a URL, a path or a
    store; by default the store of this project."""

    def __init__(self, store: Place = None) -> None:
        check_version("claude-agent")
        self._sessions = Sessions(store)

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        if entries:
            await asyncio.to_thread(self._append, key, entries)

    async def load(self, key: Key) -> list[Entry] | None:
        return await asyncio.to_thread(self._load, key)

    async def list_sessions(self, project_key: str) -> list[Entry]:
        listed = await asyncio.to_thread(self._under, [project_key])
        return [
            {"session_id": path[1], "mtime": about.updated_ms}
            for path, about in listed
            if len(path) == 2
        ]

    async def list_session_summaries(self, project_key: str) -> list[Entry]:
        listed = await asyncio.to_thread(self._under, [project_key])
        return [
            {"session_id": path[1], "mtime": about.updated_ms, "data": about.metadata[SUMMARY]}
            for path, about in listed
            if len(path) == 2 and SUMMARY in about.metadata
        ]

    async def list_subkeys(self, key: Key) -> list[str]:
        listed = await asyncio.to_thread(self._under, _path(key)[:2])
        return [path[2] for path, _ in listed if len(path) == 3]

    async def delete(self, key: Key) -> None:
        await asyncio.to_thread(self._delete, key)

    def close(self) -> None:
        """Closes the sessions, and the store if it was opened here."""
        self._sessions.close()

    # --- in a thread ---

    def _append(self, key: Key, entries: Sequence[Entry]) -> None:
        with self._sessions.session(_name(_path(key))) as context:
            if not key.get("subpath"):
                # The SDK's own summary of a session, for its lists.
                metadata = dict(context.view.metadata)
                before = None
                if SUMMARY in metadata:
                    before = {"session_id": key["session_id"], "mtime": 0}
                    before["data"] = metadata[SUMMARY]
                summary = fold_session_summary(before, key, entries)
                context.update(metadata={**metadata, SUMMARY: summary["data"]})
            for entry in entries:
                _append_message(context, entry)
                _append_note(context, entry)
            context.flush()

    def _load(self, key: Key) -> list[Entry] | None:
        with self._sessions.session(_name(_path(key))) as context:
            notes = [note for note in context.log.notes() if note.kind in (ENTRY, ENTRY_JSON)]
        entries = [
            json.loads(note.data) if note.kind == ENTRY_JSON else note.data for note in notes
        ]
        return entries or None

    def _delete(self, key: Key) -> None:
        for path, about in self._under(_path(key)):
            self._sessions.forget(_name(path))
            refold.conversations.delete(self._sessions.store, [about.id])

    def _under(self, prefix: Sequence[str]) -> list[tuple[list[str], Conversation]]:
        """The conversations whose path begins with the prefix, each with its path."""
        listed = refold.conversations.list(self._sessions.store)
        named = [(_path_in(name), about) for about in listed for name in about.names]
        return [(path, about) for path, about in named if path[: len(prefix)] == list(prefix)]


def _path(key: Key) -> list[str]:
    subpath = key.get("subpath")
    return [key["project_key"], key["session_id"], *([subpath] if subpath else [])]


def _name(path: Sequence[str]) -> str:
    return "/".join([HOST, *(quote(part, safe="") for part in path)])


def _path_in(name: str) -> list[str]:
    """The path in a conversation's name; empty for a name by another program."""
    host, *parts = name.split("/")
    return [unquote(part) for part in parts] if host == HOST else []


def _append_note(context: refold.Context, entry: Entry) -> None:
    """Stores the entry unchanged. An entry that is JSON but not valid in a log (an unpaired
    surrogate, a huge number) is stored as the text of its JSON."""
    key = str(entry.get("uuid") or "")
    try:
        context.note(ENTRY, entry, by=HOST, key=key)
    except refold.Invalid:
        context.note(ENTRY_JSON, json.dumps(entry), by=HOST, key=key)


def _append_message(context: refold.Context, entry: Entry) -> None:
    """Appends the message of an entry. An unparseable one is only a note, so nothing is lost."""
    message, uuid = entry.get("message"), entry.get("uuid")
    if entry.get("type") not in ("user", "assistant") or not isinstance(message, dict) or not uuid:
        return
    try:
        if entry.get("isCompactSummary") and context.view.slots:
            _adopt(context, message)
            return
        wire = {"role": message.get("role"), "content": message.get("content")}
        context.append(wire, at=_moment(entry.get("timestamp")), key=f"message {uuid}")
    except refold.Invalid:
        return


def _adopt(context: refold.Context, message: Mapping[str, Any]) -> None:
    """Replaces the page with the host's summary."""
    content = message.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content or []
    text = "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))
    slots = context.view.slots
    context.compact(span=(slots[0].seq, slots[-1].seq), summary=text, author=HOST)


def _moment(stamp: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
