"""What hooks keep between two calls: files in a folder of the user's own, one for each session.

`pending/` has large outputs that are not in the log yet, `kept` how much was kept off the page,
`offer` what is said after a compaction, `followed` when the session was last written to the log;
`errors.log` says what went wrong. Everything but `pending/` can be deleted. The standard library
only. A session's id comes from another program: it is never used as a path before it is made one.

The settings of Claude Code with our hooks in them, and without them again.

Only what is ours is ever touched: an entry whose command calls `refold hook claude-code`, and a
status line that calls `refold statusline`. Everything else stays as it is, in its order.
Neighbours: `hosts.host_file` reads and writes, `commands.hook.claude_code` shows the change and
asks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import time
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from refold.checked import quoted
from refold.edges.hosts import Settings
from refold.errors import Invalid

PENDING = "pending"
ERRORS = "errors.log"
ERRORS_BYTES_MAX = 256_000
ERROR_CHARS = 500
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,51}")


def root() -> str:
    """The folder for all sessions."""
    named = os.environ.get("XDG_STATE_HOME", "")
    base = named if os.path.isabs(named) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "refold", "hooks")


def folder_of(session: str) -> str:
    """The folder for a session."""
    return os.path.join(root(), _name_of(session))


def conversation_of(session: str) -> str:
    """The conversation that a session is written to: the one that `refold import` gives it."""
    return f"claude-code-{_name_of(session)}"


def _name_of(session: str) -> str:
    if _PLAIN.fullmatch(session):
        return session
    import hashlib  # a status line is made many times a minute, and needs it for no usual name

    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]


def make(folder: str) -> None:
    """Makes a folder of ours, for this user's eyes only."""
    for path in (root(), folder):
        os.makedirs(path, mode=0o700, exist_ok=True)


def sweep(older_s: float) -> None:
    """Removes what was kept for sessions that nobody went on with for so long; not what still
    waits to be put into a store."""
    import shutil

    for entry in list(os.scandir(root())):
        is_old = time.time() - entry.stat().st_mtime > older_s
        if entry.is_dir(follow_symlinks=False) and is_old and not _is_waiting(entry.path):
            shutil.rmtree(entry.path, ignore_errors=True)


def _is_waiting(folder: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(os.listdir(os.path.join(folder, PENDING)))
    return False


# --- files ---


def read(folder: str, name: str, size_max: int) -> str:
    """A small file's text; empty if there is none."""
    with (
        contextlib.suppress(OSError),
        open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file,
    ):
        return file.read(size_max)
    return ""


def write(folder: str, name: str, content: bytes) -> None:
    """Writes a file whole, or not at all."""
    path = os.path.join(folder, name)
    make(os.path.dirname(path))
    made = f"{path}.{os.getpid()}.new"
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    os.replace(made, path)


def is_due(folder: str, name: str, every_s: float) -> bool:
    """Whether this was not done for so long; it counts as done from now on."""
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime < every_s:
            return False
    write(folder, name, b"")
    return True


# --- figures ---


def kept(folder: str) -> tuple[int, int]:
    """How many outputs of a session became artifacts, and how many characters that took off its
    page."""
    try:
        found = json.loads(read(folder, "kept", 1_000) or "{}")
        return int(found["outputs"]), int(found["chars"])
    except (ValueError, KeyError, TypeError):
        return 0, 0


def count_kept(folder: str, outputs: int, chars: int) -> None:
    """Adds to these figures. Two calls at the same moment may count as one."""
    before = kept(folder)
    now = {"outputs": before[0] + outputs, "chars": before[1] + chars}
    write(folder, "kept", json.dumps(now).encode())


# --- errors ---


def log_error(doing: str, error: BaseException) -> None:
    """Says in our own log what went wrong; nobody else has a place for it."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = _without_secrets(" ".join(str(error).split())[:ERROR_CHARS])
    line = f"{moment} {doing}: {type(error).__name__}: {text}\n"
    with contextlib.suppress(OSError):
        make(root())
        _append(os.path.join(root(), ERRORS), line.encode("utf-8", "replace"))


def _append(path: str, line: bytes) -> None:
    """Adds a line to a log, which starts anew when it is long."""
    if os.path.exists(path) and os.stat(path).st_size > ERRORS_BYTES_MAX:
        os.replace(path, f"{path}.1")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(line)


def _without_secrets(text: str) -> str:
    """An error may quote an output. Where secrets cannot be looked for, it is left out."""
    try:
        from refold.redaction import redactor

        return redactor(True, "logs")(text)
    except Exception:
        return "(its text is left out)"


Scope = Literal["local", "project", "user"]

TIMEOUT_S = 10
STATUS_LINE, HOOKS = "statusLine", "hooks"
# Which events are answered, and for which of their kinds; None where an event has none.
EVENTS: dict[str, str | None] = {
    "PostToolUse": "*",
    "PreCompact": None,
    "SessionStart": "compact",
    "Stop": None,
    "SessionEnd": None,
}
_OURS = re.compile(r"\bhook claude-code event\b")
_OUR_LINE = re.compile(r"\brefold'?\"? statusline\b")


def place_of(scope: Scope, environ: dict[str, str] | None = None) -> Path:
    """The file that Claude Code reads for a scope: of this project for oneself or for all, or of
    the user."""
    given = os.environ if environ is None else environ
    if scope == "user":
        named = given.get("CLAUDE_CONFIG_DIR")
        return (Path(named) if named else Path.home() / ".claude") / "settings.json"
    name = "settings.local.json" if scope == "local" else "settings.json"
    return Path.cwd() / ".claude" / name


# --- the settings as values ---


def with_hooks(settings: Settings, *, command: str, status_line: str) -> Settings:
    """The settings with our hooks, in place of those we may have put there before. A status line
    of somebody else stays."""
    made = without_hooks(settings)
    hooks = made.setdefault(HOOKS, {})
    if not isinstance(hooks, dict):
        raise _malformed(HOOKS, hooks, "an object")
    for event, matcher in EVENTS.items():
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list):
            raise _malformed(f"{HOOKS}.{event}", entries, "a list")
        called = {"type": "command", "command": command, "timeout": TIMEOUT_S}
        entries.append({**({"matcher": matcher} if matcher else {}), HOOKS: [called]})
    if status_line and STATUS_LINE not in made:
        made[STATUS_LINE] = {"type": "command", "command": status_line, "padding": 0}
    return made


def without_hooks(settings: Settings) -> Settings:
    """The settings without anything of ours, and without what only held it."""
    made = deepcopy(settings)
    hooks = made.get(HOOKS)
    if isinstance(hooks, dict):
        for event, entries in list(hooks.items()):
            kept = _foreign(entries)
            if kept is not entries and not kept:
                del hooks[event]
            else:
                hooks[event] = kept
        if not hooks and settings[HOOKS]:
            del made[HOOKS]
    if _is_our_line(made.get(STATUS_LINE)):
        del made[STATUS_LINE]
    return made


def _foreign(entries: Any) -> Any:
    """The entries of an event without ours; the very same value if none is ours."""
    if not isinstance(entries, list):
        return entries
    kept = []
    for entry in entries:
        held = entry.get(HOOKS) if isinstance(entry, dict) else None
        others = [one for one in held if not _is_ours(one)] if isinstance(held, list) else None
        if others is None or len(others) == len(held or []):
            kept.append(entry)
        elif others:
            kept.append({**entry, HOOKS: others})
    return entries if kept == entries else kept


def _is_ours(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def _is_our_line(line: Any) -> bool:
    command = line.get("command") if isinstance(line, dict) else None
    return isinstance(command, str) and _OUR_LINE.search(command) is not None


def _malformed(place: str, value: Any, wanted: str) -> Invalid:
    what = f"{place} in the settings is {quoted(value, 40)}, not {wanted}"
    return Invalid(what, hint="mend the file first")


# --- the command ---


def hook_command(above: int, store: str | None, program: str) -> str:
    named = f" --store {shlex.quote(store)}" if store else ""
    return f"{program} hook claude-code event --above {above}{named}"
