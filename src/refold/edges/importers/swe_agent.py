"""SWE-agent's trajectories, by their documented format only: the program was not run here.

A `*.traj` file is one JSON object with `trajectory` and `history`. The history is what the model
was sent, with the program's own words beside each message; a demonstration at its beginning was
sent as well. Where there is none, thoughts, actions and observations of the steps are what was
said. Neighbours: `plain` reads one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refold.edges.importers.entry import About, Entry, Noted, Unread
from refold.edges.importers.lines import Lines, document
from refold.edges.importers.messages import entry_of, is_message


def is_document(value: Any) -> bool:
    """Whether a JSON value is such a trajectory."""
    return isinstance(value, dict) and isinstance(value.get("trajectory"), list)


def of_document(lines: Lines) -> Iterator[Entry]:
    """The session."""
    value = document(lines.path)
    yield About(line=1, title=_environment(value))
    yield Noted(line=1, kind="info", data=value.get("info"), key="info")
    history = value.get("history")
    messages = history if isinstance(history, list) and history else list(_steps(value))
    for place, one in enumerate(messages):
        if is_message(one):
            yield entry_of(one, place, place + 1)
        else:
            yield Unread(line=place + 1, reason="no message")


def _environment(value: dict[str, Any]) -> str | None:
    found = value.get("environment") or value.get("instance_id")
    return found[:200] if isinstance(found, str) and found else None


def _steps(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in value["trajectory"]:
        if not isinstance(step, dict):
            continue
        said = step.get("response") or f"{step.get('thought') or ''}\n{step.get('action') or ''}"
        yield {"role": "assistant", "content": str(said)}
        yield {"role": "user", "content": str(step.get("observation") or "(no output)")}
