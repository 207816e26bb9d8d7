"""Trajectories of mini-SWE-agent (`*.traj.json`, written after every step) and of SWE-agent
(`*.traj`, by its documented format only: the program was not run here).

mini-SWE-agent's messages are those sent to its model, with time and usage in `extra`; the last one,
the reason it stopped, is a note. SWE-agent's `history` has its model's input, with demonstrations;
without one, the thoughts, actions and observations of its steps are the messages. Neighbours:
`messages` reads one message, `entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from refold.edges.importers.entry import Entry, MessageEntry, NoteEntry, SessionFacts, UnreadLine
from refold.edges.importers.lines import Lines, Reader, document, time_ms
from refold.edges.importers.messages import entry_of, is_message, usage_of


def is_mini_swe_agent(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    info = value.get("info")
    named = str(value.get("trajectory_format") or "").startswith("mini-swe-agent")
    return named or (isinstance(info, dict) and "mini_version" in info)


def of_mini_swe_agent(lines: Lines) -> Iterator[Entry]:
    value = document(lines.path)
    info = value.get("info") if isinstance(value.get("info"), dict) else {}
    yield SessionFacts(
        line=1, model=_model_of(info), title=str(value.get("instance_id") or "") or None
    )
    yield NoteEntry(line=1, kind="info", data=info, key="info")
    for place, one in enumerate(value["messages"]):
        if isinstance(one, dict) and one.get("role") == "exit":
            yield NoteEntry(line=place + 1, kind="exit", data=one, key=f"exit:{place}")
            continue
        if not is_message(one):
            yield UnreadLine(line=place + 1, reason="not a message")
            continue
        yield _with_extra(one, place)


def _with_extra(one: dict[str, Any], place: int) -> Entry:
    # `extra` may change without the message: the key follows from the rest.
    extra = one.get("extra")
    entry = entry_of({name: one[name] for name in one if name != "extra"}, place, place + 1)
    if not isinstance(extra, dict) or not isinstance(entry, MessageEntry):
        return entry
    response = extra.get("response")
    usage = usage_of(response.get("usage"), entry.key) if isinstance(response, dict) else None
    return replace(entry, at_ms=entry.at_ms or time_ms(extra.get("timestamp")), usage=usage)


def _model_of(info: dict[str, Any]) -> str | None:
    config = info.get("config")
    model = config.get("model") if isinstance(config, dict) else None
    name = model.get("model_name") if isinstance(model, dict) else None
    return name.rpartition("/")[2] if isinstance(name, str) and name else None


def is_swe_agent(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("trajectory"), list)


def of_swe_agent(lines: Lines) -> Iterator[Entry]:
    value = document(lines.path)
    name = value.get("environment") or value.get("instance_id")
    title = name[:200] if isinstance(name, str) and name else None
    yield SessionFacts(line=1, title=title)
    yield NoteEntry(line=1, kind="info", data=value.get("info"), key="info")
    history = value.get("history")
    messages = history if isinstance(history, list) and history else list(_steps(value))
    for place, one in enumerate(messages):
        if is_message(one):
            yield entry_of(one, place, place + 1)
        else:
            yield UnreadLine(line=place + 1, reason="not a message")


def _steps(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in value["trajectory"]:
        if not isinstance(step, dict):
            continue
        said = step.get("response") or f"{step.get('thought') or ''}\n{step.get('action') or ''}"
        yield {"role": "assistant", "content": str(said)}
        yield {"role": "user", "content": str(step.get("observation") or "(no output)")}


MINI_SWE_AGENT = Reader(is_document=is_mini_swe_agent, of_document=of_mini_swe_agent)
SWE_AGENT = Reader(is_document=is_swe_agent, of_document=of_swe_agent)
