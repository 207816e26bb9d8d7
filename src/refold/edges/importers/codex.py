"""Codex's rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, also packed with zstd.

Items of the Responses API are messages. Usage has lines of its own, after the items it was billed
for. A `compacted` line replaces everything before it with its text, or with the readable part of
the new history. A rollback takes whole turns back. Event lines that only repeat items are skipped;
all others are notes. Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refold.config import NUMBER_MAX
from refold.core.model import Usage
from refold.edges.importers.entry import (
    Entry,
    MessageEntry,
    NoteEntry,
    RewindEntry,
    SessionFacts,
    SummaryEntry,
    UnreadLine,
    UsageEntry,
    Where,
)
from refold.edges.importers.lines import Lines, Reader, counts, digest, guarded, time_ms

Payload = dict[str, Any]

_TYPES = ("session_meta", "response_item", "turn_context", "event_msg", "compacted")
WINDOW_MIN = 1_000  # tokens; no model has a smaller window
# Events that repeat the content of items.
REPEATS = frozenset({
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "exec_command_begin",
    "exec_command_end", "exec_command_output_delta", "mcp_tool_call_begin", "mcp_tool_call_end",
    "patch_apply_begin", "patch_apply_end", "user_message", "web_search_begin", "web_search_end",
})  # fmt: skip
# Items without content for the model.
BESIDE_ITEMS = frozenset({"ghost_snapshot", "compaction_trigger", "configuration_update"})


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these are the first lines of a rollout."""
    return any(line.get("type") in _TYPES and "payload" in line for line in lines)


def session_of(lines: Lines) -> str:
    """The id of the session in the file."""
    for _, line, _ in lines.objects():
        payload = line.get("payload")
        if line.get("type") == "session_meta" and isinstance(payload, dict):
            return str(payload.get("id") or lines.path.name.split(".")[0])
    return lines.path.name.split(".")[0]


def entries(lines: Lines) -> Iterator[Entry]:
    """The session, in the order of the file."""
    turns = _Turns()
    for number, line, raw in lines.objects():
        payload, kind = line.get("payload"), str(line.get("type") or "line")
        where = Where(line=number, at_ms=time_ms(line.get("timestamp")))
        key = f"{number}:{digest(raw)}"
        if not isinstance(payload, dict) or kind not in _TYPES:
            if kind not in _TYPES:
                yield UnreadLine(reason=f"a line of an unknown type: {kind[:40]}", **where)
            yield NoteEntry(kind=kind[:80], data=line, key=key, **where)
        else:
            yield from guarded(_READERS[kind](payload, key, where), where)
            turns.add(kind, payload, key)
            if payload.get("type") == "thread_rolled_back":
                [count] = counts(payload, "num_turns")
                yield RewindEntry(keys=turns.roll_back(count), key=f"{key}<", **where)


def _meta(payload: Payload, key: str, where: Where) -> Iterator[Entry]:
    instructions = payload.get("base_instructions") or payload.get("instructions")
    if isinstance(instructions, dict):
        instructions = instructions.get("text")
    names = ("cwd", "cli_version", "originator")
    metadata = {name: payload[name] for name in names if isinstance(payload.get(name), str)}
    yield SessionFacts(system=instructions or None, metadata=metadata, **where)
    rest = {name: value for name, value in payload.items() if "instructions" not in name}
    yield NoteEntry(kind="session_meta", data=rest, key=key, **where)


def _context(payload: Payload, key: str, where: Where) -> Iterator[Entry]:
    if isinstance(payload.get("model"), str):
        yield SessionFacts(model=payload["model"], **where)
    yield NoteEntry(kind="turn_context", data=payload, key=key, **where)


def _item(payload: Payload, key: str, where: Where) -> Iterator[Entry]:
    if payload.get("type") in BESIDE_ITEMS:
        yield NoteEntry(kind=payload["type"], data=payload, key=key, **where)
    else:
        yield MessageEntry(message=payload, key=key, **where)


def _event(payload: Payload, key: str, where: Where) -> Iterator[Entry]:
    kind = str(payload.get("type") or "event")
    window = _window_of(payload)
    if window:
        yield SessionFacts(window=window, **where)
    usage = _usage_of(payload, key) if kind == "token_count" else None
    if usage is not None:
        yield UsageEntry(usage=usage, key=key, **where)
    elif kind not in REPEATS:
        yield NoteEntry(kind=kind[:80], data=payload, key=key, **where)


def _usage_of(payload: Payload, key: str) -> Usage | None:
    """The usage of the newest reply; other lines have totals."""
    info = payload.get("info")
    last = info.get("last_token_usage") if isinstance(info, dict) else None
    if not isinstance(last, dict):
        return None
    read, written, cached = counts(last, "input_tokens", "output_tokens", "cached_input_tokens")
    return Usage(input=read, output=written, cache_read=cached, response=key)


def _window_of(payload: Payload) -> int:
    """The window that the agent has for its model, where an event says so; else 0."""
    info = payload.get("info")
    window = (info if isinstance(info, dict) else payload).get("model_context_window")
    return window if isinstance(window, int) and WINDOW_MIN <= window <= NUMBER_MAX else 0


def _compacted(payload: Payload, key: str, where: Where) -> Iterator[Entry]:
    text = str(payload.get("message") or "").strip() or _readable(payload)
    yield NoteEntry(kind="compacted", data=payload, key=f"{key}+", **where)
    if text:
        yield SummaryEntry(text=text, key=key, **where)


def _readable(payload: Payload) -> str:
    """The readable text of the history that replaces everything before it."""
    texts: list[str] = []
    for item in payload.get("replacement_history") or ():
        content = item.get("content") if isinstance(item, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
    return "\n\n".join(texts)


_READERS = {
    "session_meta": _meta,
    "turn_context": _context,
    "response_item": _item,
    "event_msg": _event,
    "compacted": _compacted,
}


class _Turns:
    """The keys of the items so far, and which of them begin a turn, for rollbacks."""

    def __init__(self) -> None:
        self._items: list[tuple[str, bool]] = []

    def add(self, kind: str, payload: Payload, key: str) -> None:
        if kind in ("response_item", "compacted"):
            begins = payload.get("type") == "message" and payload.get("role") == "user"
            self._items.append((key, begins))

    def roll_back(self, turns: int) -> frozenset[str]:
        """Removes the last turns; returns the keys of their items."""
        taken: list[str] = []
        for _ in range(turns):
            begins = not self._items
            while self._items and not begins:
                key, begins = self._items.pop()
                taken.append(key)
            if not self._items:
                break
        return frozenset(taken)


READER = Reader(is_lines=is_mine, entries=entries, session_of=session_of)
