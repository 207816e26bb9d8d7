"""A large output of a tool: kept whole, and a stub in its place.

Only texts give way, and only where tools put what they have to say, so the output keeps the shape
that its tool gives it. Files that are read, and what sub-agents and refold itself say, are left as
they are: the agent asked for exactly that. The content waits in the session's folder until
`follower` puts it into the store, under the handle that the stub names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from typing import Any

import msgspec

from refold.artifacts.describe import described
from refold.artifacts.stub import stub_of
from refold.core.codec import artifact_id
from refold.core.model import Artifact, Origin
from refold.edges.hooks import state

ARGUMENTS_CHARS = 512
_SAYING = ("stdout", "stderr", "output", "result", "content", "text", "message")
_LEFT = (
    "Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "TodoWrite", "Task",
    "Agent", "Skill", "ExitPlanMode", "AskUserQuestion",
)  # fmt: skip
_OURS = re.compile(r"mcp__refold__|(^|[\s/;&|(])refold\s", re.ASCII)

Event = dict[str, Any]


def shortened(event: Event, session: str, above: int) -> Any:
    """The output with stubs for its large texts; None if nothing of it is large."""
    tool, given = str(event.get("tool_name") or "tool"), event.get("tool_input")
    if tool in _LEFT or _OURS.search(tool) or _OURS.search(_command(given)):
        return None
    origin = _origin(tool, given)
    found: list[str] = []

    def stubbed(text: str) -> str:
        found.append(text)
        return _kept(text, origin, session)

    output = event.get("tool_response")
    updated = _with_stubs(output, above, stubbed) if not isinstance(output, str) else None
    if isinstance(output, str) and len(output) > above:
        updated = stubbed(output)
    if not found:
        return None
    state.count_kept(state.folder_of(session), len(found), sum(map(len, found)))
    return updated


def _command(given: object) -> str:
    command = given.get("command") if isinstance(given, dict) else ""
    return command if isinstance(command, str) else ""


def _with_stubs(value: Any, above: int, stubbed: Any) -> Any:
    """The value with a stub for each large text under a key that says something."""
    if isinstance(value, list):
        return [_with_stubs(one, above, stubbed) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: stubbed(one)
        if isinstance(one, str) and key in _SAYING and len(one) > above
        else _with_stubs(one, above, stubbed)
        for key, one in value.items()
    }


def _origin(tool: str, given: object) -> Origin:
    arguments = json.dumps(given, ensure_ascii=False)
    description = described(tool, arguments, lambda _: None, str)
    return Origin(tool=tool, arguments=arguments[:ARGUMENTS_CHARS], description=description)


def _kept(text: str, origin: Origin, session: str) -> str:
    """The stub of a text that waits to be put into the store."""
    content = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()
    artifact = Artifact(
        id=artifact_id(digest),
        digest=digest,
        type="command_output",
        name=origin.description or origin.tool,
        mime="text/plain",
        size_bytes=len(content),
        size_chars=len(text),
        lines=text.count("\n") + (not text.endswith("\n")),
        origin=origin,
    )
    folder = os.path.join(state.folder_of(session), state.PENDING)
    # The content is there before what names it: whoever finds the name finds both.
    state.write(folder, f"{artifact.id}.content", content)
    state.write(folder, f"{artifact.id}.json", msgspec.json.encode(artifact))
    reach = f"In a shell, {_program()} artifacts show {state.conversation_of(session)}"
    return stub_of(text, origin, lambda _: None, tool=reach).text(artifact, None)


def _program() -> str:
    """How refold is called here: by its name, if a shell finds it."""
    return "refold" if shutil.which("refold") else shlex.quote(sys.argv[0])
