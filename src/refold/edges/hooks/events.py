"""What an event of Claude Code leads to.

After a tool, a large output becomes an artifact and a stub, in the shape of that tool's own output,
because anything else is ignored; before it is first sent, so nothing cached and no thinking is
broken. After a compaction, what the log knows is offered back. Everything else only has the session
written to the log, in a process of its own. The standard library only, but for large outputs.
Neighbours: `large` finds and shortens them, `follower` is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
        from refold.edges.hooks.large import shortened

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
