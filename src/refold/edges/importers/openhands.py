"""OpenHands' conversations: a folder with `base_state.json` and one file per event in `events/`.

The state has the model, the usage of its replies, and the current event: that event and its parents
are the session, abandoned events are notes. Consecutive actions are the calls of one answer. A
condensation hides single messages, which a summary of everything before it cannot express: it is a
note. Apart from the state, only files with the name of an event are opened, and no link is
followed. Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from refold.core.model import Usage
from refold.edges.importers.entry import (
    LEFT_BRANCH,
    Entry,
    MessageEntry,
    NoteEntry,
    SessionFacts,
    UnreadLine,
    Where,
)
from refold.edges.importers.lines import Lines, Reader, counts, document, guarded, time_ms
from refold.errors import RefoldError

Value = dict[str, Any]
EVENTS_MAX = 200_000
_EVENT = re.compile(r"event-(\d{1,9})-[\w-]{1,80}\.json")
_ANSWERS = {
    "ObservationEvent": "observation",
    "AgentErrorEvent": "error",
    "UserRejectObservation": "rejection_reason",
}


def is_document(value: Any) -> bool:
    """Whether a JSON value is the state of a conversation."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return False
    return "execution_status" in value and "confirmation_policy" in value


def session_of(lines: Lines) -> str:
    """The id of the conversation."""
    return str(document(lines.path)["id"])


def of_document(lines: Lines) -> Iterator[Entry]:
    """The conversation."""
    state = document(lines.path)
    yield SessionFacts(line=1, model=_model_of(state))
    events: list[tuple[int, Value]] = []
    for number, path in _files(lines.path.parent / "events"):
        try:
            events.append((number, document(path)))
        except RefoldError as error:
            yield UnreadLine(line=number, reason=error.message)
    whole = [(number, one) for number, one in events if isinstance(one, dict)]
    yield from _session(whole, live_of(whole, state.get("leaf_event_id")), _bills_of(state))


def _files(folder: Path) -> list[tuple[int, Path]]:
    """The files of events, in their order, each with its number from 1."""
    names = islice(folder.iterdir(), EVENTS_MAX) if folder.is_dir() else ()
    found = ((_EVENT.fullmatch(path.name), path) for path in names if not path.is_symlink())
    return sorted((int(match[1]) + 1, path) for match, path in found if match)


def live_of(events: list[tuple[int, Value]], leaf: Any) -> set[str]:
    """The ids of the current branch of events: all of them, if they have no parents."""
    parents = {str(one.get("id")): one.get("parent_id") for _, one in events}
    if not isinstance(leaf, str) or leaf not in parents or not any(parents.values()):
        return set(parents)
    live: set[str] = set()
    at: Any = leaf
    while isinstance(at, str) and at in parents and at not in live:
        live.add(at)
        at = parents[at]
    return live


def _session(
    events: list[tuple[int, Value]], live: set[str], bills: dict[str, list[Usage]]
) -> Iterator[Entry]:
    actions: list[tuple[Where, Value]] = []
    for number, one in events:
        where = Where(line=number, at_ms=time_ms(one.get("timestamp")))
        kind, key = str(one.get("kind") or "event"), str(one.get("id") or number)
        if key not in live:
            of = str(one.get("llm_response_id") or key)  # the calls of one answer are one message
            yield NoteEntry(kind=LEFT_BRANCH, data=one, key=key[:400], message=of, **where)
            continue
        if kind == "ActionEvent":
            actions.append((where, one))
            continue
        if actions:
            yield from guarded(_answer(actions, bills), actions[0][0])
            actions = []
        yield from guarded(_event(one, kind, key[:400], where, bills), where)
    if actions:
        yield from guarded(_answer(actions, bills), actions[0][0])


def _event(
    one: Value, kind: str, key: str, where: Where, bills: dict[str, list[Usage]]
) -> Iterator[Entry]:
    if kind == "SystemPromptEvent":
        yield SessionFacts(system=_text([one["system_prompt"]]) or None, **where)
    elif kind == "MessageEvent":
        message = one["llm_message"]
        text = _text([*(message.get("content") or ()), *(one.get("extended_content") or ())])
        role = "assistant" if message["role"] == "assistant" else "user"
        usage = _billed(one, bills) if role == "assistant" else None
        yield MessageEntry(message={"role": role, "content": text}, key=key, usage=usage, **where)
    elif kind in _ANSWERS:
        given = one.get(_ANSWERS[kind])
        text = _text(given["content"]) if isinstance(given, dict) else str(given)
        answer = {"role": "tool", "tool_call_id": one["tool_call_id"], "content": text}
        yield MessageEntry(message=answer, key=key, **where)
    else:
        yield NoteEntry(kind=kind[:80], data=one, key=key, **where)


def _answer(actions: list[tuple[Where, Value]], bills: dict[str, list[Usage]]) -> Iterator[Entry]:
    """One answer with all its calls."""
    where, first = actions[0]
    message: Value = {"role": "assistant", "content": _text(first.get("thought") or ())}
    if isinstance(first.get("reasoning_content"), str) and first["reasoning_content"]:
        message["reasoning_content"] = first["reasoning_content"]
    message["tool_calls"] = [_call(one["tool_call"]) for _, one in actions]
    key = "+".join(str(one.get("id")) for _, one in actions)[:400]
    yield MessageEntry(message=message, key=key, usage=_billed(first, bills), **where)


def _call(call: Value) -> Value:
    function = {"name": call["name"], "arguments": call.get("arguments") or "{}"}
    return {"id": call["id"], "type": "function", "function": function}


def _text(parts: Any) -> str:
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


# --- usage ---


def _model_of(state: Value) -> str | None:
    agent = state.get("agent")
    llm = agent.get("llm") if isinstance(agent, dict) else None
    name = llm.get("model") if isinstance(llm, dict) else None
    return name.rpartition("/")[2] if isinstance(name, str) and name else None


def _bills_of(state: Value) -> dict[str, list[Usage]]:
    """The usages of each response, in order: some servers repeat ids."""
    found: dict[str, list[Usage]] = {}
    stats = state.get("stats")
    metrics = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
    for one in metrics.values() if isinstance(metrics, dict) else ():
        for usage in (one.get("token_usages") or ()) if isinstance(one, dict) else ():
            if isinstance(usage, dict):
                found.setdefault(str(usage.get("response_id")), []).append(_usage(usage))
    return found


def _usage(usage: Value) -> Usage:
    names = ("prompt", "completion", "cache_read", "cache_write", "reasoning")
    read, written, *cached, thought = counts(usage, *(f"{name}_tokens" for name in names))
    hit, made = cached
    return Usage(input=read, output=written, cache_read=hit, cache_write=made, reasoning=thought)


def _billed(one: Value, bills: dict[str, list[Usage]]) -> Usage | None:
    waiting = bills.get(str(one.get("llm_response_id")))
    return waiting.pop(0) if waiting else None


READER = Reader(
    is_document=is_document, of_document=of_document, session_of=session_of, document_unit="event"
)
