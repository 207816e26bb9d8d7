"""Importers of other programs' sessions: one `Reader` per source, each a generator of entries.

A reader reads a file and yields its content as entries; it writes nothing, runs nothing and opens
no file named inside another one. `recognition` finds the source of a file and the folders where
programs keep their sessions; `importer` writes.
"""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """A source: the module and name of its reader, its files, and the sessions used to test it."""

    reader: str
    title: str
    files: str
    tried: str


REAL = "real sessions of the program"
RECORDED = "a session recorded here from the program itself"
DOCUMENTED = "the documented format only: the program was not run here"

# In the order of recognition: the more specific formats come first.
SOURCES = {
    "claude-code": Source(
        "claude_code.READER", "Claude Code", "~/.claude/projects/*/*.jsonl", REAL
    ),
    "codex": Source("codex.READER", "Codex CLI", "~/.codex/sessions/**/*.jsonl[.zst]", REAL),
    "gemini-cli": Source(
        "gemini_cli.READER", "Gemini CLI", "~/.gemini/tmp/*/chats/*.jsonl", RECORDED
    ),
    "opencode": Source(
        "opencode.READER", "opencode", "~/.local/share/opencode/opencode.db, exports", RECORDED
    ),
    "cline": Source("cline.READER", "Cline", "~/.cline/data/sessions/*/*.messages.json", RECORDED),
    "openhands": Source(
        "openhands.READER", "OpenHands", "~/.openhands/conversations/*/base_state.json", RECORDED
    ),
    "aider": Source("aider.READER", "aider's chat history", ".aider.chat.history.md", RECORDED),
    "mini-swe-agent": Source(
        "trajectories.MINI_SWE_AGENT", "mini-SWE-agent trajectories", "*.traj.json", RECORDED
    ),
    "swe-agent": Source("trajectories.SWE_AGENT", "SWE-agent trajectories", "*.traj", DOCUMENTED),
    "messages": Source(
        "messages.READER",
        "lists of messages: OpenAI, Anthropic, Gemini, ShareGPT, Cline's task folders",
        "*.json, *.jsonl, api_conversation_history.json",
        "real sessions, as lists",
    ),
}
REFOLD = "refold"  # refold's own exports, which are copied and not followed
