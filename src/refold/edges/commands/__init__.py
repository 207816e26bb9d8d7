"""The commands, each a value in a module of its own, and the table that names them all.

A module is imported when its command is used. Nothing here knows who offers the commands: no
command prints, and none imports a library for command lines or terminals. How to add one stands in
README.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from refold.edges.commands.command import Command


class Entry(NamedTuple):
    """Where a command is, and what it does, in one line: a list of commands loads none of them.
    One that is for the shell only makes no sense inside a conversation."""

    value: str
    summary: str
    is_shell_only: bool = False


COMMANDS = {
    "context": Entry("context.CONTEXT", "Show a conversation at a glance."),
    "context messages": Entry(
        "context.CONTEXT_MESSAGES", "List all messages, or those of one role."
    ),
    "context artifacts": Entry(
        "artifacts.ARTIFACTS_LIST", "List the artifacts, without their contents."
    ),
    "context show": Entry("artifacts.ARTIFACTS_SHOW", "Show what an artifact holds."),
    "context stats": Entry("stats.STATS", "Show tokens, counts and cost."),
    "context status": Entry(
        "context.CONTEXT_STATUS", "Show how full the window is, and with what."
    ),
    "context add": Entry("context_add.CONTEXT_ADD", "Keep a file, and show it to the model."),
    "context add-folder": Entry(
        "context_add.CONTEXT_ADD_FOLDER", "Show the model which files a folder has."
    ),
    "context add-search": Entry(
        "context_add.CONTEXT_ADD_SEARCH", "Show the model the lines that contain a text."
    ),
    "context prune": Entry("context.CONTEXT_PRUNE", "Hide the messages that matter least."),
    "context clear": Entry("page_edits.CLEAR", "Take everything but pins off the page."),
    "context compact": Entry("compact.COMPACT", "Make the page shorter."),
    "context summarize": Entry("context.CONTEXT_SUMMARIZE", "Turn older messages into a summary."),
    "context export": Entry("transfer.EXPORT", "Write the conversation to a file."),
    "context checkpoint": Entry("restore.CHECKPOINT", "Give this place a name."),
    "context restore": Entry("restore.RESTORE", "Go back to a place; without one, list them."),
    "context search": Entry(
        "context.CONTEXT_SEARCH", "Find messages and memories by what they say."
    ),
    "list": Entry("conversations.LIST", "List the conversations of the store, newest first."),
    "show": Entry("show.SHOW", "Show the page of a conversation as the model sees it."),
    "page": Entry("page.PAGE", "Show the page as the model reads it, with what is folded."),
    "unfold": Entry("page.UNFOLD", "Show the originals behind a handle."),
    "stats": Entry("stats.STATS", "Show size, counts and cost of a conversation."),
    "cost": Entry("stats.COST", "Show what was billed, and where the cached prefix broke."),
    "model": Entry("stats.MODEL", "Show the model, or continue with another."),
    "tools": Entry("stats.TOOLS", "List the tools that the model gets, and what they cost."),
    "update": Entry(
        "conversations.UPDATE", "Set the title, the tags, the names or the model of a conversation."
    ),
    "compact": Entry("compact.COMPACT", "Make the page of a conversation shorter."),
    "condense": Entry(
        "compact.CONDENSE", "Replace most of the page by a summary that the agent wrote."
    ),
    "undo": Entry("undo.UNDO", "Take back the newest compaction or restore."),
    "redo": Entry("undo.REDO", "Bring back what was undone last."),
    "revert": Entry("undo.REVERT", "Take back one compaction, however old."),
    "receipts": Entry(
        "undo.RECEIPTS", "List the compactions, what they saved, and which are undone."
    ),
    "points": Entry("restore.POINTS", "List the places that restore can go back to."),
    "checkpoint": Entry("restore.CHECKPOINT", "Give the current place in a conversation a name."),
    "restore": Entry("restore.RESTORE", "Take the page back to what it was at a point."),
    "fork": Entry("restore.FORK", "Start a new conversation from a point of another."),
    "diff": Entry("explain.DIFF", "Show how the page differs between two points."),
    "why": Entry("explain.WHY", "Show what was done to a message, and why."),
    "debug": Entry(
        "explain.DEBUG", "Print every edit, what it saved, and what would go next, as JSON."
    ),
    "pin": Entry("page_edits.PIN", "Keep messages on the page through every compaction."),
    "unpin": Entry("page_edits.UNPIN", "Let compactions take messages that were pinned."),
    "hide": Entry("page_edits.HIDE", "Take chosen messages off the page."),
    "clear": Entry("page_edits.CLEAR", "Take everything but pins off the page."),
    "export": Entry("transfer.EXPORT", "Write a conversation to a file."),
    "import": Entry(
        "transfer.IMPORT", "Read sessions of other agents, lists of messages, and exports."
    ),
    "replay": Entry("replay.REPLAY", "Compare refold with other policies on one of your sessions."),
    "copy": Entry("transfer.COPY", "Copy conversations to another store."),
    "sync": Entry("sync.SYNC", "Make this store and a far one the same, or say how they differ."),
    "sync verify": Entry("sync.SYNC_VERIFY", "Check that the far store keeps what was sent to it."),
    "sync devices": Entry(
        "sync_keys.SYNC_DEVICES", "List the devices that sync with the far store."
    ),
    "sync forget": Entry(
        "sync_keys.SYNC_FORGET", "Remove a device from the list, until it syncs again."
    ),
    "sync key new": Entry(
        "sync_keys.SYNC_KEY_NEW",
        "Make a key, so that the far store can read nothing.",
        is_shell_only=True,
    ),
    "sync key list": Entry(
        "sync_keys.SYNC_KEY_LIST", "List the keys of a file by their names.", is_shell_only=True
    ),
    "sync key apply": Entry(
        "sync_keys.SYNC_KEY_APPLY",
        "Encrypt everything in the far store again, with the newest key.",
        is_shell_only=True,
    ),
    "erase": Entry(
        "integrity.ERASE", "Erase messages for good, here and on every device that syncs."
    ),
    "delete": Entry("conversations.DELETE", "Remove conversations for good."),
    "sweep": Entry("conversations.SWEEP", "Remove old conversations for good."),
    "artifacts list": Entry(
        "artifacts.ARTIFACTS_LIST", "List the artifacts of a conversation, without their contents."
    ),
    "artifacts show": Entry(
        "artifacts.ARTIFACTS_SHOW", "Show what an artifact holds, all of it or some lines."
    ),
    "artifacts grep": Entry(
        "artifacts.ARTIFACTS_GREP", "Find lines of artifacts that contain a text."
    ),
    "artifacts clean": Entry(
        "artifacts.ARTIFACTS_CLEAN", "Remove old artifacts of one conversation or all."
    ),
    "artifacts delete": Entry(
        "artifacts.ARTIFACTS_DELETE", "Remove one artifact for good, even if the page names it."
    ),
    "memory list": Entry("memory", "List what is remembered across conversations."),
    "memory add": Entry("memory", "Remember something across conversations."),
    "memory search": Entry("memory", "Find what is remembered, with the reason."),
    "memory update": Entry("memory", "Change the words or the tags of what is remembered."),
    "memory forget": Entry("memory", "Erase what is remembered for good."),
    "memory history": Entry("memory", "Show what was remembered about the same thing before."),
    "memory log": Entry("memory_transfer", "Show every change of a memory, newest first."),
    "memory revert": Entry("memory_transfer", "Take a change of a memory back."),
    "memory export": Entry("memory_transfer", "Write a memory to a file, with its history."),
    "memory import": Entry("memory_transfer", "Read a memory that was exported."),
    "memory reindex": Entry("memory_transfer", "Rebuild the index of a memory."),
    "memory inbox": Entry("memory", "Show, accept or reject what waits to be remembered."),
    "search": Entry("search.SEARCH", "Find messages and artifacts by what they say."),
    "index": Entry("search.INDEX", "Bring the search index up to date."),
    "scan": Entry("integrity.SCAN", "Find secrets in stored conversations."),
    "verify": Entry("integrity.VERIFY", "Check that everything is as it was written."),
    "repair": Entry("integrity.REPAIR", "Make a damaged conversation readable again."),
    "allow": Entry(
        "server.ALLOW", "Allow the server and the key that the files of this project name."
    ),
    "serve": Entry("server.SERVE", "Serve a store to a team, over HTTP.", is_shell_only=True),
    "run": Entry(
        "proxy.RUN", "Start an agent behind a proxy that keeps what it says.", is_shell_only=True
    ),
    "proxy": Entry(
        "proxy.PROXY",
        "Pass agents' calls on to their providers, and keep what is said.",
        is_shell_only=True,
    ),
    "proxy report": Entry(
        "proxy.PROXY_REPORT",
        "Show what calls through the proxy used and saved.",
        is_shell_only=True,
    ),
    "mcp": Entry(
        "hosts.MCP",
        "Offer search and memory to other agents, as an MCP server.",
        is_shell_only=True,
    ),
    "mcp install": Entry(
        "hosts.MCP_INSTALL",
        "Add the MCP server to another agent's configuration.",
        is_shell_only=True,
    ),
    "mcp uninstall": Entry(
        "hosts.MCP_UNINSTALL",
        "Remove the MCP server from another agent's configuration.",
        is_shell_only=True,
    ),
    "hook claude-code install": Entry(
        "hosts.HOOK_CLAUDE_CODE_INSTALL", "Add refold to Claude Code's hooks.", is_shell_only=True
    ),
    "hook claude-code uninstall": Entry(
        "hosts.HOOK_CLAUDE_CODE_UNINSTALL",
        "Remove refold from Claude Code's hooks.",
        is_shell_only=True,
    ),
    "token create": Entry(
        "server.TOKEN_CREATE",
        "Create a token for an organization of a team server.",
        is_shell_only=True,
    ),
    "token list": Entry(
        "server.TOKEN_LIST", "List the tokens of a team server.", is_shell_only=True
    ),
    "token revoke": Entry("server.TOKEN_REVOKE", "End a token for good.", is_shell_only=True),
    "token audit": Entry(
        "server.TOKEN_AUDIT",
        "Show who read and erased what in an organization.",
        is_shell_only=True,
    ),
    "login": Entry(
        "server.LOGIN", "Check a token for a team server, and keep it.", is_shell_only=True
    ),
    "logout": Entry("server.LOGOUT", "Forget the token for a team server.", is_shell_only=True),
    "doctor": Entry("doctor.DOCTOR", "Check this installation."),
    "chat": Entry("chat.CHAT", "Talk to a model that works on this folder.", is_shell_only=True),
    "demo": Entry(
        "demo.DEMO", "Play an agent session with and without refold.", is_shell_only=True
    ),
    "watch": Entry(
        "watch.WATCH", "Follow a conversation that another process writes.", is_shell_only=True
    ),
    "statusline": Entry(
        "statusline.STATUSLINE", "Print one line for a status line or a prompt.", is_shell_only=True
    ),
    "completion": Entry(
        "shell.COMPLETION",
        "Print the script by which a shell completes commands.",
        is_shell_only=True,
    ),
    "help": Entry("shell.HELP", "List the commands, or explain one."),
}
GROUPS = {
    "context": "Show, fill and shorten what a conversation holds.",
    "artifacts": "List, show, search and remove stored artifacts.",
    "hook": "Add refold to the hooks of other agents.",
    "hook claude-code": "Add refold to Claude Code's hooks, or remove it.",
    "mcp": "Offer search and memory to other agents, and set them up for it.",
    "proxy": "Pass agents' calls on to their providers, and show what was saved.",
    "sync": "Sync this store with a far one, check it, and encrypt what is sent.",
    "sync key": "Make and list keys, and encrypt the far store again.",
    "token": "Create, list and revoke the tokens of a team server, and show its audit log.",
    "memory": "List, add, find, change and forget what outlives conversations.",
}


def load(name: str) -> Command[Any, Any]:
    """The command of that name; KeyError if there is none. One that stands in the table twice is
    the same command under either name."""
    from refold.edges.commands.command import DECLARED

    module, _, value = COMMANDS[name].value.rpartition(".")
    loaded = import_module(f"{__name__}.{module or value}")
    found: Command[Any, Any] = getattr(loaded, value) if module else DECLARED[name]
    return found if found.name == name else found.renamed(name)
