"""Configuration files of the programs that host refold: read, changed and written.

Only refold's own entries are ever changed. A file is written atomically, and not if it changed in
the meantime; a malformed file is left alone; a file that refold created is deleted once it is
empty. Claude Code and Cursor list servers in a JSON object, which keeps its order, Codex in a TOML
table, which is changed as text, so that comments stay; the result is parsed to verify that only
that table differs. Neighbours: `edges/mcp` is the server, `edges/hooks` has the hooks,
`commands.install` shows the change and asks.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import msgspec

from refold.checked import quoted
from refold.errors import Conflict, Invalid
from refold.settings.sources import check_owner
from refold.system.disk import os_failure, replace_file

FILE_BYTES_MAX = 4_000_000
FIX = "fix the file first"

Settings = dict[str, Any]


def program(*, is_shared: bool = False) -> str:
    """The command for refold: its full path, because hosts may have another PATH; its name in a
    shared file, because other users have it elsewhere."""
    if is_shared:
        return "refold"
    running = Path(sys.argv[0])
    beside_python = Path(sys.executable).parent / "refold"
    named = [running] if running.name == "refold" else []
    for path in (*named, beside_python, Path(shutil.which("refold") or "")):
        if path.is_file() and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise Invalid("the program refold is not found", hint="install refold, or put it on the PATH")


def read(path: Path) -> bytes:
    """The bytes of a file; empty if there is no file. Raises Denied if it may be another user's."""
    is_here = path.is_relative_to(Path.cwd())
    check_owner(path, above=(*((Path.cwd(),) if is_here else ()), path.parent))
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise os_failure(error, f"read {path}") from error
    if len(raw) > FILE_BYTES_MAX:
        raise Invalid(f"{path} has more than {FILE_BYTES_MAX:,} bytes", hint="change it by hand")
    return raw


def json_in(raw: bytes, path: Path) -> Settings:
    """The object in a JSON file; empty for an empty file."""
    try:
        settings = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not JSON: {error}", hint=FIX) from error
    if not isinstance(settings, dict):
        raise Invalid(f"{path} does not contain an object", hint=FIX)
    return settings


def json_text(settings: Settings, raw: bytes) -> str:
    """The settings as text, indented like the original, or on one line if it was."""
    end = "" if raw and not raw.endswith(b"\n") else "\n"
    if raw.strip() not in (b"", b"{}") and b"\n" not in raw.strip():
        separators = (", ", ": ") if b'": ' in raw else (",", ":")
        return json.dumps(settings, separators=separators, ensure_ascii=False) + end
    match = re.search(rb"^([ \t]+)\S", raw, re.MULTILINE)
    indent = match[1].decode() if match else "  "
    return json.dumps(settings, indent=indent, ensure_ascii=False) + end


def difference(before: bytes, after: str, name: str) -> list[str]:
    """The changed lines, as a patch."""
    old = before.decode("utf-8", "replace").splitlines()
    new = after.splitlines()
    return list(difflib.unified_diff(old, new, name, name, lineterm="", n=2))


def write(path: Path, before: bytes, after: str) -> None:
    """Writes the file; deletes it instead if refold created it and it would be empty. Conflict if
    it changed in the meantime. A link stays a link."""
    target = Path(os.path.realpath(path))
    if read(target) != before:
        raise Conflict(f"{path} was changed in the meantime", hint="do it again")
    is_deleted = after.strip() in ("", "{}") and not path.is_symlink()
    if is_deleted and path.suffix == ".json":
        # A file in refold's own layout was created by refold, or has no other content either.
        is_deleted = json_text(json_in(before, path), b"").encode() == before
    if is_deleted:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise os_failure(error, f"delete {path}") from error
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        replace_file(str(target), after.encode(), mode=mode)
    except OSError as error:
        raise os_failure(error, f"write {path}") from error


# --- the MCP server ---

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
    """The file in which a host lists servers, of this project or of the user."""
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
    """The entry with which a host starts the server."""
    named = ["--store", store] if store else []
    arguments = ["mcp", *named, *(["--read-only"] if read_only else [])]
    return {"command": program(is_shared=scope == "project"), "args": arguments}


def changed(raw: bytes, path: Path, entry: Entry | None) -> str | None:
    """The text of the file with refold's server, or without it if there is no entry; None if
    nothing changes."""
    if path.suffix == ".toml":
        return _changed_toml(raw, path, entry)
    before = json_in(raw, path)
    after = _with_entry(before, JSON_SERVERS, entry, path)
    return None if after == before else json_text(after, raw)


def _with_entry(settings: Settings, key: str, entry: Entry | None, path: Path) -> Settings:
    result = deepcopy(settings)
    servers = result.get(key, {})
    if not isinstance(servers, dict):
        what = f"{key} in {path} is {quoted(servers, 40)}, not a table of servers"
        raise Invalid(what, hint=FIX)
    if entry is not None:
        result[key] = {**servers, NAME: entry}
    elif servers.pop(NAME, None) and not servers:
        del result[key]  # it had no other server
    return result


def _changed_toml(raw: bytes, path: Path, entry: Entry | None) -> str | None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not text: {error}", hint=FIX) from error
    before = _toml_in(text, path)
    intended = _with_entry(before, TOML_SERVERS, entry, path)
    if intended == before:
        return None
    after = _TABLE.sub("\n", text, count=1)  # with the empty lines before it
    if entry is not None:
        lines = [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
        table = "\n".join([TABLE, *lines, ""])
        after = f"{after.rstrip()}\n\n{table}".lstrip()
    if _toml_in(after, path) != intended:
        what = f"{path} configures {NAME} in another way than a table {TABLE}"
        raise Invalid(what, hint="change it by hand")
    return after


def _toml_in(text: str, path: Path) -> Settings:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"{path} is not TOML: {error}", hint=FIX) from error


def _toml_value(value: str | list[str]) -> str:
    """A string or a list of strings; TOML reads JSON's escapes in the same way."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
