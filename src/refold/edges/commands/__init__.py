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

    module: str
    summary: str
    is_shell_only: bool = False


COMMANDS = {
    "context": Entry("context.summary", "Show a conversation at a glance."),
    "context messages": Entry("context.messages", "List all messages, or those of one role."),
    "context artifacts": Entry("artifacts.list_", "List the artifacts, without their contents."),
    "context show": Entry("artifacts.show", "Show what an artifact holds."),
    "context stats": Entry("stats", "Show tokens, counts and cost."),
    "context status": Entry("context.status", "Show how full the window is, and with what."),
    "context add": Entry("context.add", "Keep a file, and show it to the model."),
    "context add-folder": Entry("context.add_folder", "Show the model which files a folder has."),
    "context add-search": Entry(
        "context.add_search", "Show the model the lines that contain a text."
    ),
    "context prune": Entry("context.prune", "Hide the messages that matter least."),
    "context clear": Entry("clear", "Take everything but pins off the page."),
    "context compact": Entry("compact", "Make the page shorter."),
    "context summarize": Entry("context.summarize", "Turn older messages into a summary."),
    "context export": Entry("export", "Write the conversation to a file."),
    "context checkpoint": Entry("checkpoint", "Give this place a name."),
    "context restore": Entry("restore", "Go back to a place; without one, list them."),
    "context search": Entry("context.search", "Find messages and memories by what they say."),
    "list": Entry("list_", "List the conversations of the store, newest first."),
    "show": Entry("show", "Show the page of a conversation as the model sees it."),
    "page": Entry("page", "Show the page as the model reads it, with what is folded."),
    "unfold": Entry("unfold", "Show the originals behind a handle."),
    "stats": Entry("stats", "Show size, counts and cost of a conversation."),
    "cost": Entry("cost", "Show what was billed, and where the cached prefix broke."),
    "model": Entry("model", "Show the model, or continue with another."),
    "tools": Entry("tools", "List the tools that the model gets, and what they cost."),
    "update": Entry("update", "Set the title, the tags, the names or the model of a conversation."),
    "compact": Entry("compact", "Make the page of a conversation shorter."),
    "condense": Entry("condense", "Replace most of the page by a summary that the agent wrote."),
    "undo": Entry("undo", "Take back the newest compaction or restore."),
    "redo": Entry("redo", "Bring back what was undone last."),
    "revert": Entry("revert", "Take back one compaction, however old."),
    "receipts": Entry("receipts", "List the compactions, what they saved, and which are undone."),
    "points": Entry("points", "List the places that restore can go back to."),
    "checkpoint": Entry("checkpoint", "Give the current place in a conversation a name."),
    "restore": Entry("restore", "Take the page back to what it was at a point."),
    "fork": Entry("fork", "Start a new conversation from a point of another."),
    "diff": Entry("diff", "Show how the page differs between two points."),
    "why": Entry("why", "Show what was done to a message, and why."),
    "debug": Entry("debug", "Print every edit, what it saved, and what would go next, as JSON."),
    "pin": Entry("pin", "Keep messages on the page through every compaction."),
    "unpin": Entry("unpin", "Let compactions take messages that were pinned."),
    "hide": Entry("hide", "Take chosen messages off the page."),
    "clear": Entry("clear", "Take everything but pins off the page."),
    "export": Entry("export", "Write a conversation to a file."),
    "import": Entry("import_", "Read sessions of other agents, lists of messages, and exports."),
    "replay": Entry("replay", "Compare refold with other policies on one of your sessions."),
    "copy": Entry("copy", "Copy conversations to another store."),
    "sync": Entry("sync.sync", "Make this store and a far one the same, or say how they differ."),
    "sync verify": Entry("sync.verify", "Check that the far store keeps what was sent to it."),
    "sync devices": Entry("sync.devices", "List the devices that sync with the far store."),
    "sync forget": Entry("sync.forget", "Remove a device from the list, until it syncs again."),
    "sync key new": Entry(
        "sync.key.new", "Make a key, so that the far store can read nothing.", is_shell_only=True
    ),
    "sync key list": Entry(
        "sync.key.list_", "List the keys of a file by their names.", is_shell_only=True
    ),
    "sync key apply": Entry(
        "sync.key.apply",
        "Encrypt everything in the far store again, with the newest key.",
        is_shell_only=True,
    ),
    "erase": Entry("erase", "Erase messages for good, here and on every device that syncs."),
    "delete": Entry("delete", "Remove conversations for good."),
    "sweep": Entry("sweep", "Remove old conversations for good."),
    "artifacts list": Entry(
        "artifacts.list_", "List the artifacts of a conversation, without their contents."
    ),
    "artifacts show": Entry(
        "artifacts.show", "Show what an artifact holds, all of it or some lines."
    ),
    "artifacts grep": Entry("artifacts.grep", "Find lines of artifacts that contain a text."),
    "artifacts clean": Entry("artifacts.clean", "Remove old artifacts of one conversation or all."),
    "artifacts delete": Entry(
        "artifacts.delete", "Remove one artifact for good, even if the page names it."
    ),
    "memory list": Entry("memory.list_", "List what is remembered across conversations."),
    "memory add": Entry("memory.add", "Remember something across conversations."),
    "memory search": Entry("memory.search", "Find what is remembered, with the reason."),
    "memory update": Entry("memory.update", "Change the words or the tags of what is remembered."),
    "memory forget": Entry("memory.forget", "Erase what is remembered for good."),
    "memory history": Entry(
        "memory.history", "Show what was remembered about the same thing before."
    ),
    "memory log": Entry("memory.log", "Show every change of a memory, newest first."),
    "memory revert": Entry("memory.revert", "Take a change of a memory back."),
    "memory export": Entry("memory.export", "Write a memory to a file, with its history."),
    "memory import": Entry("memory.import_", "Read a memory that was exported."),
    "memory reindex": Entry("memory.reindex", "Rebuild the index of a memory."),
    "memory inbox": Entry("memory.inbox", "Show, accept or reject what waits to be remembered."),
    "search": Entry("search", "Find messages and artifacts by what they say."),
    "index": Entry("index", "Bring the search index up to date."),
    "scan": Entry("scan", "Find secrets in stored conversations."),
    "verify": Entry("verify", "Check that everything is as it was written."),
    "repair": Entry("repair", "Make a damaged conversation readable again."),
    "allow": Entry("allow", "Allow the server and the key that the files of this project name."),
    "serve": Entry("serve", "Serve a store to a team, over HTTP.", is_shell_only=True),
    "run": Entry(
        "run", "Start an agent behind a proxy that keeps what it says.", is_shell_only=True
    ),
    "proxy": Entry(
        "proxy.proxy",
        "Pass agents' calls on to their providers, and keep what is said.",
        is_shell_only=True,
    ),
    "proxy report": Entry(
        "proxy.report", "Show what calls through the proxy used and saved.", is_shell_only=True
    ),
    "mcp": Entry(
        "mcp.mcp", "Offer search and memory to other agents, as an MCP server.", is_shell_only=True
    ),
    "mcp install": Entry(
        "mcp.install", "Add the MCP server to another agent's configuration.", is_shell_only=True
    ),
    "mcp uninstall": Entry(
        "mcp.uninstall",
        "Remove the MCP server from another agent's configuration.",
        is_shell_only=True,
    ),
    "hook claude-code install": Entry(
        "hook.claude_code.install", "Add refold to Claude Code's hooks.", is_shell_only=True
    ),
    "hook claude-code uninstall": Entry(
        "hook.claude_code.uninstall", "Remove refold from Claude Code's hooks.", is_shell_only=True
    ),
    "token create": Entry(
        "token.create", "Create a token for an organization of a team server.", is_shell_only=True
    ),
    "token list": Entry("token.list_", "List the tokens of a team server.", is_shell_only=True),
    "token revoke": Entry("token.revoke", "End a token for good.", is_shell_only=True),
    "token audit": Entry(
        "token.audit", "Show who read and erased what in an organization.", is_shell_only=True
    ),
    "login": Entry("login", "Check a token for a team server, and keep it.", is_shell_only=True),
    "logout": Entry("logout", "Forget the token for a team server.", is_shell_only=True),
    "doctor": Entry("doctor", "Check this installation."),
    "chat": Entry("chat", "Talk to a model that works on this folder.", is_shell_only=True),
    "demo": Entry("demo", "Play an agent session with and without refold.", is_shell_only=True),
    "watch": Entry(
        "watch", "Follow a conversation that another process writes.", is_shell_only=True
    ),
    "statusline": Entry(
        "statusline", "Print one line for a status line or a prompt.", is_shell_only=True
    ),
    "completion": Entry(
        "completion", "Print the script by which a shell completes commands.", is_shell_only=True
    ),
    "help": Entry("help_", "List the commands, or explain one."),
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
    found: Command[Any, Any] = import_module(f"{__name__}.{COMMANDS[name].module}").COMMAND
    return found if found.name == name else found.renamed(name)
