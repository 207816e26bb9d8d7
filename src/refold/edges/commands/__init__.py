"""The table of commands by name, with their groups, and the aliases of the source designs.

A command's module is imported when the command is used, so listing commands loads none of them.
Commands are independent of the shell and the chat: they print nothing and import no library for
command lines or terminals. README.md explains how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from refold.edges.commands.command import Command


class Entry(NamedTuple):
    """A command's module, its one-line summary, and its group in the help. A chat does not offer
    commands that are `is_shell_only`."""

    module: str
    summary: str
    group: str
    is_shell_only: bool = False


class Alias(NamedTuple):
    """Another name for a command. `preset` options apply unless the line overrides them; `options`
    maps the alias's own options to the command's option and the start of its value. In a shell, the
    ID of an alias goes to `id_option` if its command takes no ID itself."""

    command: str
    summary: str
    preset: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, str]] = MappingProxyType({})
    id_option: str = ""


# The help lists these first.
DAILY = ("list", "show", "search", "stats", "compact", "undo", "restore", "add", "import", "run")
GROUPS = {
    "conversation": "Conversations",
    "artifact": "Artifacts",
    "memory": "Memory",
    "agents": "Agents",
    "team": "Team and upkeep",
}
COMMANDS = {
    "list": Entry(
        "conversations", "List the conversations of the store, newest first.", "conversation"
    ),
    "show": Entry(
        "show", "Show the page, the log, a message or a handle's originals.", "conversation"
    ),
    "search": Entry("search", "Find messages and artifacts by their words.", "conversation"),
    "stats": Entry("stats", "Show size, counts, cost and tools of a conversation.", "conversation"),
    "compact": Entry("compact", "Shorten the page of a conversation.", "conversation"),
    "undo": Entry(
        "undo", "Undo the newest compaction or restore, or a chosen batch.", "conversation"
    ),
    "redo": Entry("undo", "Redo the last undone step.", "conversation"),
    "history": Entry(
        "history", "List compactions or points, or compare two points.", "conversation"
    ),
    "restore": Entry("restore", "Restore the page to an earlier point.", "conversation"),
    "checkpoint": Entry("restore", "Name the current position in a conversation.", "conversation"),
    "fork": Entry("restore", "Start a new conversation from a point of another.", "conversation"),
    "pin": Entry(
        "page_edits", "Keep messages on the page through every compaction.", "conversation"
    ),
    "hide": Entry("page_edits", "Hide messages from the page.", "conversation"),
    "clear": Entry("page_edits", "Take everything but pins off the page.", "conversation"),
    "add": Entry(
        "add", "Show the model a file, a folder or the lines of a search.", "conversation"
    ),
    "edit": Entry(
        "conversations", "Show or set title, tags, names, model and window.", "conversation"
    ),
    "import": Entry(
        "import_export",
        "Import sessions of agents, messages, exports and memories.",
        "conversation",
    ),
    "export": Entry(
        "import_export", "Write a conversation or a memory to a file or a store.", "conversation"
    ),
    "ui": Entry(
        "ui",
        "See sessions in a browser: what the agent saw, what the model read.",
        "conversation",
        is_shell_only=True,
    ),
    "replay": Entry(
        "replay", "Say what your sessions cost, and what refold would have saved.", "conversation"
    ),
    "demo": Entry("replay", "Play an agent session with and without refold.", "conversation", True),
    "artifact list": Entry(
        "artifacts", "List the artifacts of a conversation, without their contents.", "artifact"
    ),
    "artifact show": Entry("artifacts", "Show an artifact, all of it or some lines.", "artifact"),
    "artifact grep": Entry(
        "artifacts", "Find lines of artifacts that contain some text.", "artifact"
    ),
    "artifact remove": Entry(
        "artifacts", "Remove one artifact, or old ones of one conversation or all.", "artifact"
    ),
    "handover": Entry(
        "handover", "Show what conversations settled and left open, to go on from.", "conversation"
    ),
    "memory list": Entry("memory", "List what is remembered across conversations.", "memory"),
    "memory add": Entry("memory", "Remember something across conversations.", "memory"),
    "memory search": Entry("memory", "Find what is remembered, with the reason.", "memory"),
    "memory edit": Entry("memory", "Change the words or the tags of an entry.", "memory"),
    "memory forget": Entry("memory", "Permanently erase entries.", "memory"),
    "memory log": Entry(
        "memory", "Show the changes of a memory or an entry, or revert one.", "memory"
    ),
    "memory inbox": Entry("memory", "Show, accept or reject pending entries.", "memory"),
    "resume": Entry(
        "resume",
        "Continue a session in the agent that held it.",
        "agents",
        is_shell_only=True,
    ),
    "run": Entry(
        "proxy",
        "Start an agent behind a proxy that records its calls.",
        "agents",
        is_shell_only=True,
    ),
    "proxy": Entry(
        "proxy",
        "Forward agents' calls to their providers, and record them.",
        "agents",
        is_shell_only=True,
    ),
    "mcp": Entry(
        "install",
        "Offer search and memory to other agents, as an MCP server.",
        "agents",
        is_shell_only=True,
    ),
    "install": Entry(
        "install",
        "Add refold to another agent's configuration, or remove it.",
        "agents",
        is_shell_only=True,
    ),
    "chat": Entry(
        "chat", "Talk to a model that works on this folder.", "agents", is_shell_only=True
    ),
    "statusline": Entry(
        "statusline", "Print one line for a status line or a prompt.", "agents", is_shell_only=True
    ),
    "sync": Entry("sync", "Sync this store with a far one, or compare the two.", "team"),
    "sync key new": Entry(
        "sync",
        "Make a key that encrypts the far store.",
        "team",
        is_shell_only=True,
    ),
    "sync key apply": Entry(
        "sync",
        "Encrypt the far store again, with the newest key.",
        "team",
        is_shell_only=True,
    ),
    "serve": Entry("server", "Serve a store to a team, over HTTP.", "team", is_shell_only=True),
    "login": Entry(
        "server", "Store a token for a team server, or forget it.", "team", is_shell_only=True
    ),
    "token create": Entry(
        "server", "Create a token for an organization of a team server.", "team", is_shell_only=True
    ),
    "token list": Entry("server", "List the tokens of a team server.", "team", is_shell_only=True),
    "token revoke": Entry("server", "Revoke a token permanently.", "team", is_shell_only=True),
    "token audit": Entry(
        "server", "Show who read and erased what in an organization.", "team", is_shell_only=True
    ),
    "doctor": Entry("doctor", "Check this installation.", "team"),
    "verify": Entry("verify_scan_erase", "Check the store for damage, or repair it.", "team"),
    "scan": Entry("verify_scan_erase", "Find secrets in stored conversations.", "team"),
    "erase": Entry(
        "verify_scan_erase", "Permanently erase messages, here and on every synced device.", "team"
    ),
    "delete": Entry(
        "conversations", "Permanently remove conversations, by name or by age.", "team"
    ),
    "allow": Entry("server", "Allow the server and key named in this project's files.", "team"),
    "completion": Entry(
        "help_and_completion", "Print a completion script for a shell.", "team", is_shell_only=True
    ),
    "help": Entry("help_and_completion", "List the commands, or explain one.", "team"),
}
# Prefixes of several commands, with their summaries.
PREFIXES = {
    "context": "Show, fill and shorten a conversation.",
    "artifact": "List, show, search and remove stored artifacts.",
    "sync": "Sync this store with a far one, check it, and encrypt what is sent.",
    "sync key": "Make keys, and encrypt the far store again.",
    "token": "Create, list and revoke the tokens of a team server, and show its audit log.",
    "memory": "List, add, find, change and forget what outlives conversations.",
}
# Names from the source designs, omitted from the main list of the help.
ALIASES = {
    "context": Alias("show", "Show a conversation at a glance.", ("--summary",)),
    "context messages": Alias("show", "List all messages, or those of one role.", ("--list",)),
    "context artifacts": Alias("artifact list", "List the artifacts, without their contents."),
    "context show": Alias("artifact show", "Show an artifact's content."),
    "context search": Alias(
        "search",
        "Find messages of this conversation, and memories.",
        ("--here",),
        id_option="--in",
    ),
    "context stats": Alias("stats", "Show tokens, counts and cost."),
    "context status": Alias(
        "stats", "Show how full the window is, and of what.", ("--format=usage",)
    ),
    "context add": Alias("add", "Store a file, and show it to the model."),
    "context add-folder": Alias("add", "Show the model which files a folder has."),
    "context add-search": Alias(
        "add", "Show the model the lines that contain some text.", ("--search",)
    ),
    "context prune": Alias(
        "compact",
        "Hide the least important messages.",
        ("--strategy=relevance", "--target=50%"),
        {"--max-tokens": ("--target", "")},
    ),
    "context clear": Alias("clear", "Take everything but pins off the page."),
    "context compact": Alias("compact", "Make the page shorter."),
    "context summarize": Alias(
        "compact",
        "Turn older messages into a summary.",
        ("--strategy=summarize",),
        {"--keep": ("--set", "keep=")},
    ),
    "context export": Alias("export", "Write the conversation to a file."),
    "context checkpoint": Alias("checkpoint", "Name the current position."),
    "context restore": Alias("restore", "Go back to a position; without one, list them."),
    "condense": Alias(
        "compact", "Replace most of the page by the agent's own summary.", ("--condense",)
    ),
}
# Names of the last release, each with its successor.
MOVED = {
    "page": "show --page",
    "unfold": "show ID HANDLE",
    "why": "show ID SEQ --why",
    "watch": "show --follow",
    "cost": "stats --cost",
    "tools": "stats --tools",
    "debug": "stats --debug",
    "model": "edit --model",
    "update": "edit",
    "revert": "undo ID BATCH",
    "receipts": "history",
    "points": "history --points",
    "diff": "history ID FIRST LAST --diff",
    "unpin": "pin --off",
    "copy": "export --to STORE",
    "index": "search --reindex",
    "sweep": "delete --older-than DAYS",
    "artifacts list": "artifact list",
    "artifacts show": "artifact show",
    "artifacts grep": "artifact grep",
    "artifacts clean": "artifact remove --older-than TIME",
    "artifacts delete": "artifact remove",
    "memory update": "memory edit",
    "memory history": "memory log ENTRY",
    "memory revert": "memory log --revert SEQ",
    "memory export": "export --memory FILE",
    "memory import": "import FILE",
    "memory reindex": "search --reindex --memory",
    "sync status": "sync --status",
    "sync verify": "sync --verify",
    "sync devices": "sync --devices",
    "sync key list": "sync --status",
    "sync forget": "sync --forget-device NAME",
    "logout": "login --forget",
    "proxy report": "proxy --report",
    "mcp install": "install HOST",
    "mcp uninstall": "install HOST --remove",
    "hook claude-code install": "install claude-code --hooks",
    "hook claude-code uninstall": "install claude-code --hooks --remove",
    "repair": "verify --repair",
}


def load(name: str) -> Command[Any, Any]:
    """Returns the command of that name or alias; KeyError if there is none."""
    from refold.edges.commands.command import DECLARED

    if name not in COMMANDS and name in ALIASES:
        return load(ALIASES[name].command)
    import_module(f"{__name__}.{COMMANDS[name].module}")
    return DECLARED[name]()
