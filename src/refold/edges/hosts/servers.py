"""The server of tools in the configuration of an agent: put in, and taken out again.

Claude Code and Cursor have an object of servers in a JSON file, Codex a table in a TOML file. JSON
is read and written again in its own order. TOML is changed as text, so that comments stay, and what
comes out is read once more: if anything but our table differs, the change is refused. Neighbours:
`host_file` reads and writes, `commands.mcp` shows the change and asks.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import msgspec

from refold.checked import quoted
from refold.edges.hosts.host_file import MEND, Settings, json_in, json_text, program
from refold.errors import Invalid

Host = Literal["claude-code", "codex", "cursor"]
Scope = Literal["project", "user"]
Entry = dict[str, Any]

NAME = "refold"
JSON_SERVERS, TOML_SERVERS = "mcpServers", "mcp_servers"
TABLE = f"[{TOML_SERVERS}.{NAME}]"
_TABLE = re.compile(
    rf"\n*^[ \t]*\[\s*{TOML_SERVERS}\s*\.\s*{NAME}\s*\][^\n]*\n?(?:(?![ \t]*\[)[^\n]*\n?)*",
    re.MULTILINE,
)


def place_of(host: Host, scope: Scope) -> Path:
    """The file in which a host looks for servers, of this project or of the user."""
    here, home = Path.cwd(), Path.home()
    match host, scope:
        case "claude-code", "project":
            return here / ".mcp.json"
        case "claude-code", _:
            named = os.environ.get("CLAUDE_CONFIG_DIR")
            return Path(named) / ".claude.json" if named else home / ".claude.json"
        case "cursor", _:
            return (here if scope == "project" else home) / ".cursor" / "mcp.json"
        case _ if scope == "user":
            named = os.environ.get("CODEX_HOME")
            return (Path(named) if named else home / ".codex") / "config.toml"
        case _:
            raise Invalid("Codex has its servers in the user's file only", hint="--scope user")


def entry_for(scope: Scope, store: str | None, *, read_only: bool) -> Entry:
    """How a host starts the server."""
    named = ["--store", store] if store else []
    arguments = ["mcp", *named, *(["--read-only"] if read_only else [])]
    return {"command": program(is_shared=scope == "project"), "args": arguments}


def changed(raw: bytes, path: Path, entry: Entry | None) -> str | None:
    """The text of the file with our server, or without it where there is no entry; None if it is
    so already."""
    if path.suffix == ".toml":
        return _changed_toml(raw, path, entry)
    before = json_in(raw, path)
    after = _with_entry(before, JSON_SERVERS, entry, path)
    return None if after == before else json_text(after, raw)


def _with_entry(settings: Settings, key: str, entry: Entry | None, path: Path) -> Settings:
    made = deepcopy(settings)
    servers = made.get(key, {})
    if not isinstance(servers, dict):
        what = f"{key} in {path} is {quoted(servers, 40)}, not a table of servers"
        raise Invalid(what, hint=MEND)
    had = bool(servers.pop(NAME, None)) if entry is None else False
    if entry is not None:
        made[key] = {**servers, NAME: entry}
    elif had and not servers:
        del made[key]  # it held nothing but ours
    return made


# --- TOML ---


def _changed_toml(raw: bytes, path: Path, entry: Entry | None) -> str | None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not text: {error}", hint=MEND) from error
    before = _toml_in(text, path)
    wanted = _with_entry(before, TOML_SERVERS, entry, path)
    if wanted == before:
        return None
    made = _without_table(text)
    if entry is not None:
        made = f"{made.rstrip()}\n\n{_table(entry)}".lstrip()
    if _toml_in(made, path) != wanted:
        what = f"{path} says what it says of {NAME} in another way than a table {TABLE}"
        raise Invalid(what, hint="change it by hand")
    return made


def _toml_in(text: str, path: Path) -> Settings:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"{path} is not TOML: {error}", hint=MEND) from error


def _without_table(text: str) -> str:
    """The text without our table, and without the empty lines before it."""
    return _TABLE.sub("\n", text, count=1)


def _table(entry: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
    return "\n".join([TABLE, *lines, ""])


def _toml_value(value: str | list[str]) -> str:
    """A text or a list of texts; what JSON escapes, TOML reads the same way."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
