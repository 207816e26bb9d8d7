"""Answers to events of Claude Code, with the standard library only unless an output is large.

After a tool call, each large text in its output becomes a stub. The output keeps the shape of that
tool's own output, because Claude Code ignores any other. This happens before the output is first
sent, so neither the cache nor any thinking is invalidated. File contents, and outputs of sub-agents
and of refold itself, stay unchanged, because the agent asked for exactly that. Claude Code
truncates very long outputs and keeps them in a file of the session; refold then stores that file.
After a compaction, notes from the log are offered. Neighbour: `follower`, a separate process,
writes the session and the stored outputs to the log.
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
from typing import TYPE_CHECKING, Any

from refold.edges.hooks import state
from refold.system import own_python, posix

if TYPE_CHECKING:
    from refold.core.model import Origin

OFFER_CHARS = 9_000  # Claude Code moves text of more than 10,000 characters into a file
FOLLOW_EVERY_S = 20.0
FOLLOWED = "followed"
# After these events the session is written at once; after a tool, at intervals.
_FOLLOWED_AT_ONCE = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")

Event = dict[str, Any]


def answer(given: bytes, above: int, store: str) -> str:
    """The answer to an event, as JSON; empty if there is none. Text longer than `above` characters
    is large."""
    event = json.loads(given) if given.strip() else {}
    session = event.get("session_id") if isinstance(event, dict) else None
    if not isinstance(session, str) or not session:
        return ""
    folder, name = state.folder_of(session), event.get("hook_event_name")
    fields: dict[str, object] = {}
    if name == "PostToolUse":
        # A shorter event cannot contain longer text.
        updated = shortened(event, session, above) if len(given) > above > 0 else None
        is_due = state.is_due(folder, FOLLOWED, FOLLOW_EVERY_S)
        if updated is not None or is_due:
            follow(event, session, store)
        if updated is not None:
            fields = {"updatedToolOutput": updated}
    elif name == "SessionStart" and event.get("source") == "compact":
        if offer := state.read(folder, "offer", OFFER_CHARS):
            fields = {"additionalContext": offer}
    elif name in _FOLLOWED_AT_ONCE:
        follow(event, session, store)
    if not fields:
        return ""
    return json.dumps({"hookSpecificOutput": {"hookEventName": name, **fields}})


def follow(event: Event, session: str, store: str) -> None:
    """Starts the process that writes the session to the log, and does not wait for it."""
    transcript = event.get("transcript_path")
    if not isinstance(transcript, str) or not transcript:
        return
    here = os.environ.get("CLAUDE_PROJECT_DIR") or event.get("cwd")
    own_python.start(
        *("-m", "refold.edges.hooks.follower", session, transcript, store),
        cwd=here if isinstance(here, str) and os.path.isdir(here) else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


# --- large outputs ---

ARGUMENTS_CHARS = 512
WHOLE, WHOLE_BYTES_MAX, PROBE_CHARS = "persistedOutputPath", 64 * 1024 * 1024, 1_000
PREVIEW_CHARS = 2_000  # what Claude Code shows of an output that it keeps in a file
CUT = "cut off by Claude Code, only the rest was kept"
_SHORTENED = re.compile(r"\.\.\. \[[\d,]+ (lines|characters) truncated\] \.\.\.")
_SAYING = ("stdout", "stderr", "output", "result", "content", "text", "message")
_LEFT = (
    "Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead", "TodoWrite", "Task",
    "Agent", "Skill", "ExitPlanMode", "AskUserQuestion",
)  # fmt: skip
_OURS = re.compile(r"mcp__refold__|(^|[\s/;&|(])refold\s", re.ASCII)


def shortened(event: Event, session: str, above: int) -> Any:
    """The tool's output with stubs for its large texts; None without any."""
    tool, tool_input = str(event.get("tool_name") or "tool"), event.get("tool_input")
    command = tool_input.get("command") if isinstance(tool_input, dict) else ""
    if tool in _LEFT or _OURS.search(tool) or _OURS.search(str(command)):
        return None
    from refold.artifacts.stub import call_description
    from refold.core.model import Origin

    arguments = json.dumps(tool_input, ensure_ascii=False)
    description = call_description(tool, arguments, lambda _: None, str)
    origin = Origin(tool=tool, arguments=arguments[:ARGUMENTS_CHARS], description=description)
    response = event.get("tool_response")
    keeper = _Keeper(session, origin, above, _whole_output(response, event))
    updated = keeper.with_stubs(response)
    if not keeper.saved:
        return None
    state.count_kept(state.folder_of(session), len(keeper.saved), sum(keeper.saved))
    return updated


class _Keeper:
    """Stores the large texts of one output. `saved` has, for each, the characters that Claude Code
    would have sent less those of the stub; `whole` is the output before Claude Code truncated it,
    None if it did not, empty if it cannot be read."""

    def __init__(self, session: str, origin: Origin, above: int, whole: str | None) -> None:
        self._session, self._origin, self._above = session, origin, above
        self._whole = whole
        self.saved: list[int] = []

    def with_stubs(self, value: Any, *, says: bool = True) -> Any:
        """The value with a stub for each large text, if it is the kind of field that has output."""
        if isinstance(value, list):
            return [self.with_stubs(item, says=says) for item in value]
        if isinstance(value, dict):
            return {key: self.with_stubs(item, says=key in _SAYING) for key, item in value.items()}
        is_large = says and isinstance(value, str) and len(value) > self._above
        return self._stub_of(value) if is_large else value

    def _stub_of(self, text: str) -> str:
        """Stores text in the session's folder, from which `follower` puts it into the store under
        the handle in the stub."""
        import msgspec

        from refold.artifacts.intake import type_of_output
        from refold.artifacts.stub import stub_of
        from refold.core.ids import artifact_id
        from refold.core.model import Artifact

        would_send = len(text) if self._whole is None else min(len(text), PREVIEW_CHARS)
        is_cut = self._whole is not None or _SHORTENED.search(text) is not None
        kept = CUT if is_cut else "kept whole"
        if self._whole and _is_cut_from(text, self._whole):
            text, kept = self._whole, "kept whole"
        content, origin = text.encode("utf-8", "surrogatepass"), self._origin
        digest = hashlib.sha256(content).hexdigest()
        artifact = Artifact(
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
        folder = os.path.join(state.folder_of(self._session), state.PENDING)
        # The content is written first, so that a reader that finds the name finds both.
        state.write(folder, f"{artifact.id}.content", content)
        state.write(folder, f"{artifact.id}.json", msgspec.json.encode(artifact))
        reach = f"In a shell, {_program()} artifact show {state.conversation_of(self._session)}"
        stub = stub_of(text, self._origin, lambda _: None, tool=reach)
        shown = msgspec.structs.replace(stub, kept=kept).text(artifact, None)
        self.saved.append(max(0, would_send - len(shown)))
        return shown


# --- outputs truncated by Claude Code ---


def _whole_output(response: object, event: Event) -> str | None:
    """The output before it was truncated, from its file in the session; None if it was not
    truncated, empty if the file cannot be read, or is not one that Claude Code made."""
    path = response.get(WHOLE) if isinstance(response, dict) else None
    if not isinstance(path, str) or not path:
        return None
    transcript = event.get("transcript_path")
    if not isinstance(transcript, str) or not transcript:
        return ""
    session_folder = os.path.realpath(os.path.dirname(transcript)) + os.sep
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.basename(folder) != "tool-results" or not folder.startswith(session_folder):
        return ""
    try:
        with open(os.open(path, os.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(WHOLE_BYTES_MAX + 1) if is_file else b""
    except OSError:
        return ""
    return content.decode("utf-8", "replace") if len(content) <= WHOLE_BYTES_MAX else ""


def _is_cut_from(text: str, whole: str) -> bool:
    """Whether the text begins or ends like the longer one."""
    probe = PROBE_CHARS
    return len(whole) > len(text) and (
        text[:probe] == whole[:probe] or text.rstrip()[-probe:] == whole.rstrip()[-probe:]
    )


def _program() -> str:
    """The command for refold: its name, if a shell finds it."""
    return "refold" if shutil.which("refold") else shlex.quote(sys.argv[0])
