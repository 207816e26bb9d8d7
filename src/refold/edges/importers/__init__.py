"""Importers: sessions of other programs, one module per source, each a generator of entries.

An importer reads a file and says what stands in it; it writes nothing, runs nothing and opens no
file that another one names. `recognition` says whose a file is, `importer` writes, `places` knows
where programs keep their sessions. A source has `is_mine` and `entries` (JSON Lines), `is_document`
and `of_document` (one JSON value), `is_text` and `entries`, `is_database` and `of_database`, or
some of these.
"""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """Where an importer is, what it reads, and what it was tried on."""

    module: str
    title: str
    files: str
    tried: str


REAL = "real sessions of the program"
RECORDED = "a session recorded here from the program itself"
DOCUMENTED = "the documented format only: the program was not run here"

# In the order in which they are asked: whoever comes first is the more particular.
SOURCES = {
    "claude-code": Source("claude_code", "Claude Code", "~/.claude/projects/*/*.jsonl", REAL),
    "codex": Source("codex", "Codex CLI", "~/.codex/sessions/**/*.jsonl[.zst]", REAL),
    "gemini-cli": Source("gemini_cli", "Gemini CLI", "~/.gemini/tmp/*/chats/*.jsonl", RECORDED),
    "opencode": Source(
        "opencode", "opencode", "~/.local/share/opencode/opencode.db, exports", RECORDED
    ),
    "cline": Source("cline", "Cline", "~/.cline/data/sessions/*/*.messages.json", RECORDED),
    "openhands": Source(
        "openhands", "OpenHands", "~/.openhands/conversations/*/base_state.json", RECORDED
    ),
    "aider": Source("aider", "aider's chat history", ".aider.chat.history.md", RECORDED),
    "mini-swe-agent": Source(
        "mini_swe_agent", "mini-SWE-agent trajectories", "*.traj.json", RECORDED
    ),
    "swe-agent": Source("swe_agent", "SWE-agent trajectories", "*.traj", DOCUMENTED),
    "messages": Source(
        "messages",
        "lists of messages: OpenAI, Anthropic, Gemini, ShareGPT, Cline's task folders",
        "*.json, *.jsonl, api_conversation_history.json",
        "real sessions, as lists",
    ),
}
REFOLD = "refold"  # an export of refold's own, which is copied and not followed
