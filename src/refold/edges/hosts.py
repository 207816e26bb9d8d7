"""Other programs that refold is put into: where they are set up, and how that is changed.

Neighbours: `edges/mcp` is the server that they are told of, `edges/hooks` answers them.

Files by which other programs are set up: read, shown with a change, and written.

Only what is ours is ever changed, and only once it was shown and agreed to. A file is written whole
or not at all, and not if somebody changed it meanwhile; what is not understood is left as it is. A
file that we made goes once nothing is left in it.
Neighbours: `servers` and `hooks.settings_file` say what changes, their commands ask.

The server of tools in the configuration of an agent: put in, and taken out again.

Claude Code and Cursor have an object of servers in a JSON file, Codex a table in a TOML file. JSON
is read and written again in its own order. TOML is changed as text, so that comments stay, and what
comes out is read once more: if anything but our table differs, the change is refused. Neighbours:
`host_file` reads and writes, `commands.mcp` shows the change and asks.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import msgspec

from refold.checked import quoted
from refold.errors import Conflict, Invalid
from refold.system.disk import os_failure

FILE_BYTES_MAX = 4_000_000
MEND = "mend the file first"
_NOTHING = ("", "{}")

Settings = dict[str, Any]


def program(*, is_shared: bool = False) -> str:
    """How refold is called from anywhere: by its whole path, because others have another PATH; by
    its name in a file that others use too, who have it elsewhere."""
    if is_shared:
        return "refold"
    here = Path(sys.argv[0])
    beside = Path(sys.executable).parent / "refold"
    named = [here] if here.name == "refold" else []
    for path in (*named, beside, Path(shutil.which("refold") or "")):
        if path.is_file() and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise Invalid("the program refold is not found", hint="install refold, or put it on the PATH")


def read(path: Path) -> bytes:
    """The bytes of a file; none if there is no file."""
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
    """The object that a file holds; an empty one for an empty file."""
    try:
        settings = json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not JSON: {error}", hint=MEND) from error
    if not isinstance(settings, dict):
        raise Invalid(f"{path} holds no object", hint=MEND)
    return settings


def json_text(settings: Settings, raw: bytes) -> str:
    """The settings as they are written: indented as they were, or on one line if they were."""
    end = "" if raw and not raw.endswith(b"\n") else "\n"
    if raw.strip() not in (b"", b"{}") and b"\n" not in raw.strip():
        separators = (", ", ": ") if b'": ' in raw else (",", ":")
        return json.dumps(settings, separators=separators, ensure_ascii=False) + end
    found = re.search(rb"^([ \t]+)\S", raw, re.MULTILINE)
    indent = found[1].decode() if found else "  "
    return json.dumps(settings, indent=indent, ensure_ascii=False) + end


def difference(before: bytes, after: str, name: str) -> list[str]:
    """The lines that change, as a patch shows them."""
    old = before.decode("utf-8", "replace").splitlines()
    new = after.splitlines()
    return list(difflib.unified_diff(old, new, name, name, lineterm="", n=2))


def write(path: Path, before: bytes, after: str) -> None:
    """Writes the file, unless it is no longer what it was; deletes it if it was made by us and
    nothing is left in it. A link stays one."""
    target = Path(os.path.realpath(path))
    if read(target) != before:
        raise Conflict(f"{path} was changed in the meantime", hint="do it again")
    if after.strip() in _NOTHING and _is_our_work(before, path):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise os_failure(error, f"delete {path}") from error
        return
    made = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(after)
        os.replace(made, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            made.unlink()
        raise os_failure(error, f"write {path}") from error


def _is_our_work(before: bytes, path: Path) -> bool:
    """Whether the file is to the byte what we write where there was none. A file of somebody who
    had nothing in it either is like it, and says as much as no file."""
    if path.is_symlink():
        return False
    is_json = path.suffix == ".json"
    return not is_json or json_text(json_in(before, path), b"").encode() == before


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
