"""Importers: sessions of other programs, one module per source, each a generator of entries.

An importer reads a file and says what stands in it; it writes nothing, runs nothing and opens no
other file. `recognition` says whose a file is, `importer` writes, `places` knows where programs
keep their sessions. A source has either `is_mine` and `entries` (JSON Lines) or `is_document` and
`of_document` (one JSON value), or both.
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
DOCUMENTED = "the documented format only: the program was not run here"

# In the order in which they are asked: whoever comes first is the more particular.
SOURCES = {
    "claude-code": Source("claude_code", "Claude Code", "~/.claude/projects/*/*.jsonl", REAL),
    "codex": Source("codex", "Codex CLI", "~/.codex/sessions/**/*.jsonl[.zst]", REAL),
    "gemini-cli": Source("gemini_cli", "Gemini CLI", "~/.gemini/tmp/*/chats/*.jsonl", DOCUMENTED),
    "aider": Source("aider", "aider's chat history", ".aider.chat.history.md", DOCUMENTED),
    "mini-swe-agent": Source(
        "mini_swe_agent", "mini-SWE-agent trajectories", "*.traj.json", DOCUMENTED
    ),
    "swe-agent": Source("swe_agent", "SWE-agent trajectories", "*.traj", DOCUMENTED),
    "messages": Source(
        "messages",
        "lists of messages: OpenAI, Anthropic, Gemini, ShareGPT, Cline",
        "*.json, *.jsonl, api_conversation_history.json",
        "real sessions, as lists",
    ),
}
REFOLD = "refold"  # an export of refold's own, which is copied and not followed
