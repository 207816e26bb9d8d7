"""What an event of Claude Code leads to.

After a tool, a large output becomes an artifact and a stub, in the shape of that tool's own output,
because anything else is ignored; before it is first sent, so nothing cached and no thinking is
broken. After a compaction, what the log knows is offered back. Everything else only has the session
written to the log, in a process of its own. The standard library only, but for large outputs.
Neighbours: `large` finds and shortens them, `follower` is that process.

A large output of a tool: kept whole, and a stub in its place.

Only texts give way, and only where tools put what they have to say, so the output keeps the shape
that its tool gives it. Files that are read, and what sub-agents and refold itself say, are left as
they are: the agent asked for exactly that. Claude Code itself cuts what is very long, and keeps the
whole in a file of the session: then that file is what is kept, and where it cannot be read, the
stub says that the output was cut. The content waits in the session's folder until `follower` puts
it into the store, under the handle that the stub names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from typing import Any

import msgspec

from refold.artifacts.intake import type_of_output
from refold.artifacts.stub import described, stub_of
from refold.core.codec import artifact_id
from refold.core.model import Artifact, Origin
from refold.edges.hooks import state

OFFER_CHARS = 9_000  # Claude Code puts what is longer than 10,000 characters into a file
FOLLOW_EVERY_S = 20.0
FOLLOWED = "followed"
# After these the session is written at once; after a tool, every now and then.
_FOLLOWED_AT_ONCE = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")

Event = dict[str, object]


def answer(given: bytes, above: int, store: str) -> str:
    """What is said back, as JSON; empty if nothing is."""
    event = json.loads(given) if given.strip() else {}
    session = event.get("session_id") if isinstance(event, dict) else None
    if not isinstance(session, str) or not session:
        return ""
    match event.get("hook_event_name"):
        case "PostToolUse":
            # What is shorter than this as JSON holds nothing that is longer.
            return _after_tool(event, session, above if len(given) > above else 0, store)
        case "SessionStart" if event.get("source") == "compact":
            return _after_compaction(session)
        case name if name in _FOLLOWED_AT_ONCE:
            follow(event, session, store)
    return ""


def _after_tool(event: Event, session: str, above: int, store: str) -> str:
    """With `above` 0 nothing is large."""
    updated = None
    if above:
        updated = shortened(event, session, above)
    is_due = state.is_due(state.folder_of(session), FOLLOWED, FOLLOW_EVERY_S)
    if updated is not None or is_due:
        follow(event, session, store)
    return "" if updated is None else _output("PostToolUse", updatedToolOutput=updated)


def _after_compaction(session: str) -> str:
    offer = state.read(state.folder_of(session), "offer", OFFER_CHARS)
    return _output("SessionStart", additionalContext=offer) if offer else ""


def _output(name: str, **said: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, **said}})


def follow(event: Event, session: str, store: str) -> None:
    """Starts the process that writes the session to the log, and does not wait for it."""
    transcript = event.get("transcript_path")
    if not isinstance(transcript, str) or not transcript:
        return
    here = os.environ.get("CLAUDE_PROJECT_DIR") or event.get("cwd")
    # Without -P, modules of the project would be imported in place of ours.
    command = [
        sys.executable,
        "-P",
        "-m",
        "refold.edges.hooks.follower",
        session,
        transcript,
        store,
    ]
    subprocess.Popen(
        command,
        cwd=here if isinstance(here, str) and os.path.isdir(here) else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


ARGUMENTS_CHARS = 512
WHOLE, WHOLE_BYTES_MAX, PROBE_CHARS = "persistedOutputPath", 64 * 1024 * 1024, 1_000
CUT = "cut off by Claude Code, what was left of it kept"
_SHORTENED = re.compile(r"\.\.\. \[[\d,]+ (lines|characters) truncated\] \.\.\.")
_SAYING = ("stdout", "stderr", "output", "result", "content", "text", "message")
_LEFT = (
    "Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "TodoWrite", "Task",
    "Agent", "Skill", "ExitPlanMode", "AskUserQuestion",
)  # fmt: skip
_OURS = re.compile(r"mcp__refold__|(^|[\s/;&|(])refold\s", re.ASCII)

LargeEvent = dict[str, Any]


def shortened(event: LargeEvent, session: str, above: int) -> Any:
    """The output with stubs for its large texts; None if nothing of it is large."""
    tool, given = str(event.get("tool_name") or "tool"), event.get("tool_input")
    if _is_left(tool, given):
        return None
    response = event.get("tool_response")
    keeper = _Keeper(session, _origin(tool, given), above, _whole_of(response, event))
    updated = keeper.with_stubs(response)
    if not keeper.sizes:
        return None
    state.count_kept(state.folder_of(session), len(keeper.sizes), sum(keeper.sizes))
    return updated


def _is_left(tool: str, given: object) -> bool:
    """Whether the agent asked for exactly this."""
    command = given.get("command") if isinstance(given, dict) else ""
    return tool in _LEFT or any(_OURS.search(str(said)) for said in (tool, command))


def _origin(tool: str, given: object) -> Origin:
    arguments = json.dumps(given, ensure_ascii=False)
    description = described(tool, arguments, lambda _: None, str)
    return Origin(tool=tool, arguments=arguments[:ARGUMENTS_CHARS], description=description)


class _Keeper:
    """Keeps the large texts of one output. `sizes` are theirs, in characters; `whole` is what the
    output was before it was cut, None if it was not, empty if nobody can tell any more."""

    def __init__(self, session: str, origin: Origin, above: int, whole: str | None) -> None:
        self._session, self._origin, self._above = session, origin, above
        self._whole = whole
        self.sizes: list[int] = []

    def with_stubs(self, value: Any, *, says: bool = True) -> Any:
        """The value with a stub for each large text that stands where something is said."""
        if isinstance(value, list):
            return [self.with_stubs(one, says=says) for one in value]
        if isinstance(value, dict):
            return {key: self.with_stubs(one, says=key in _SAYING) for key, one in value.items()}
        is_large = says and isinstance(value, str) and len(value) > self._above
        return self._stub_of(value) if is_large else value

    def _stub_of(self, text: str) -> str:
        self.sizes.append(len(text))
        is_cut = self._whole is not None or _SHORTENED.search(text) is not None
        kept = CUT if is_cut else "kept whole"
        if self._whole and _is_cut_from(text, self._whole):
            text, kept = self._whole, "kept whole"
        content = text.encode("utf-8", "surrogatepass")
        artifact = _artifact_of(text, content, self._origin)
        folder = os.path.join(state.folder_of(self._session), state.PENDING)
        # The content is there before what names it: whoever finds the name finds both.
        state.write(folder, f"{artifact.id}.content", content)
        state.write(folder, f"{artifact.id}.json", msgspec.json.encode(artifact))
        reach = f"In a shell, {_program()} artifact show {state.conversation_of(self._session)}"
        stub = stub_of(text, self._origin, lambda _: None, tool=reach)
        return msgspec.structs.replace(stub, kept=kept).text(artifact, None)


# --- what Claude Code cut ---


def _whole_of(response: object, event: LargeEvent) -> str | None:
    """The output before it was cut, from the file of the session that has it; None if it was not
    cut, empty if the file cannot be read."""
    path = response.get(WHOLE) if isinstance(response, dict) else None
    if not isinstance(path, str) or not path:
        return None
    if not _is_in_session(path, event.get("transcript_path")):
        return ""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(WHOLE_BYTES_MAX + 1) if is_file else b""
    except OSError:
        return ""
    return content.decode("utf-8", "replace") if len(content) <= WHOLE_BYTES_MAX else ""


def _is_in_session(path: str, transcript: object) -> bool:
    """Whether this is a file that Claude Code keeps beside a session's transcript."""
    if not isinstance(transcript, str) or not transcript:
        return False
    folder = os.path.realpath(os.path.dirname(transcript))
    held = os.path.dirname(os.path.realpath(path))
    return os.path.basename(held) == "tool-results" and held.startswith(f"{folder}{os.sep}")


def _is_cut_from(text: str, whole: str) -> bool:
    """Whether a text is the beginning or the end of another, longer one."""
    probe = PROBE_CHARS
    return len(whole) > len(text) and (
        text[:probe] == whole[:probe] or text.rstrip()[-probe:] == whole.rstrip()[-probe:]
    )


def _artifact_of(text: str, content: bytes, origin: Origin) -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(
        id=artifact_id(digest),
        digest=digest,
        type=type_of_output(origin),
        name=origin.description or origin.tool,
        mime="text/plain",
        size_bytes=len(content),
        size_chars=len(text),
        lines=text.count("\n") + (not text.endswith("\n")),
        origin=origin,
    )


def _program() -> str:
    """How refold is called here: by its name, if a shell finds it."""
    return "refold" if shutil.which("refold") else shlex.quote(sys.argv[0])
