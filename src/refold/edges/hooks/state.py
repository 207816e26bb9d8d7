"""State of the hooks between calls, and the hooks in the settings of Claude Code.

Each session has a folder: `pending/` has large outputs that are not in the log yet, `kept` the size
saved on the page, `offer` the notes for the next compaction, `followed` the time of the last write
to the log. `errors.log` is for all sessions. Only `pending/` must not be deleted. In the settings,
only refold's own hooks and status line are ever changed. Standard library only, because this loads
for every event and status line. Neighbours: `edges.host_config` reads and writes the settings,
`commands.install` shows the change and asks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Any, Literal

from refold.system import posix

if TYPE_CHECKING:
    from pathlib import Path

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
    """The folder of a session."""
    return os.path.join(root(), _name_of(session))


def conversation_of(session: str) -> str:
    """The conversation of a session, as `refold import` names it."""
    return f"claude-code-{_name_of(session)}"


def _name_of(session: str) -> str:
    """A name that is safe as a file name, because the id comes from another program."""
    if _PLAIN.fullmatch(session):
        return session
    import hashlib  # not needed for the usual names

    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]


def make(folder: str) -> None:
    """Creates a private folder, and the folder for all sessions."""
    for path in (root(), folder):
        os.makedirs(path, mode=0o700, exist_ok=True)


def sweep(older_s: float) -> None:
    """Removes the folders of old sessions, unless they have pending outputs."""
    import shutil

    for entry in list(os.scandir(root())):
        is_old = time.time() - entry.stat().st_mtime > older_s
        if entry.is_dir(follow_symlinks=False) and is_old and not _has_pending(entry.path):
            shutil.rmtree(entry.path, ignore_errors=True)


def _has_pending(folder: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(os.listdir(os.path.join(folder, PENDING)))
    return False


# --- files ---


def opened(path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, created for its owner alone; OSError for a link or pipe.
    `system.disk` says why: it is not imported here."""
    fd = os.open(path, flags | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return fd


def read(folder: str, name: str, size_max: int) -> str:
    """A small file's text; empty if it cannot be read."""
    with (
        contextlib.suppress(OSError),
        open(opened(os.path.join(folder, name)), encoding="utf-8", errors="replace") as file,
    ):
        return file.read(size_max)
    return ""


def write(folder: str, name: str, content: bytes) -> None:
    """Writes a file atomically."""
    path = os.path.join(folder, name)
    make(os.path.dirname(path))
    temporary = f"{path}.{os.urandom(4).hex()}.new"
    with open(opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def is_due(folder: str, name: str, every_s: float) -> bool:
    """Whether this was last done more than `every_s` ago; then it counts as done now."""
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime < every_s:
            return False
    write(folder, name, b"")
    return True


# --- figures ---


def kept(folder: str) -> tuple[int, int]:
    """Number of a session's outputs that became artifacts, and of characters saved on its page."""
    try:
        figures = json.loads(read(folder, "kept", 1_000) or "{}")
        return int(figures["outputs"]), int(figures["chars"])
    except (ValueError, KeyError, TypeError):
        return 0, 0


def count_kept(folder: str, outputs: int, chars: int) -> None:
    """Adds to these figures. Two simultaneous calls may count as one."""
    outputs_before, chars_before = kept(folder)
    figures = {"outputs": outputs_before + outputs, "chars": chars_before + chars}
    write(folder, "kept", json.dumps(figures).encode())


# --- errors ---


def log_error(doing: str, error: BaseException) -> None:
    """Appends an error to refold's own log, which is rotated when it is long."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = " ".join(str(error).split())[:ERROR_CHARS]
    try:  # an error may quote an output, and so a secret
        from refold.redaction import redactor

        text = redactor(True, "logs")(text)
    except Exception:
        text = "(its text is left out)"
    line = f"{moment} {doing}: {type(error).__name__}: {text}\n"
    path = os.path.join(root(), ERRORS)
    with contextlib.suppress(OSError):
        make(root())
        if os.path.exists(path) and os.stat(path).st_size > ERRORS_BYTES_MAX:
            os.replace(path, f"{path}.1")
        with open(opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
            file.write(line.encode("utf-8", "replace"))


# --- the settings of Claude Code ---

Settings = dict[str, Any]
Scope = Literal["local", "project", "user"]

TIMEOUT_S = 10
STATUS_LINE, HOOKS = "statusLine", "hooks"
# The events with a hook, and the matcher of each; None if an event has no matcher.
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
    """The settings file of a scope: of this project, private or shared, or of the user."""
    from pathlib import Path

    environment = os.environ if environ is None else environ
    if scope == "user":
        named = environment.get("CLAUDE_CONFIG_DIR")
        return (Path(named) if named else Path.home() / ".claude") / "settings.json"
    name = "settings.local.json" if scope == "local" else "settings.json"
    return Path.cwd() / ".claude" / name


def with_hooks(settings: Settings, *, command: str, status_line: str) -> Settings:
    """The settings with refold's hooks, which replace older ones of refold. Another program's
    status line stays."""
    changed = without_hooks(settings)
    hooks = changed.setdefault(HOOKS, {})
    if not isinstance(hooks, dict):
        raise _malformed(HOOKS, hooks, "an object")
    for event, matcher in EVENTS.items():
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list):
            raise _malformed(f"{HOOKS}.{event}", entries, "a list")
        hook = {"type": "command", "command": command, "timeout": TIMEOUT_S}
        entries.append({**({"matcher": matcher} if matcher else {}), HOOKS: [hook]})
    if status_line and STATUS_LINE not in changed:
        changed[STATUS_LINE] = {"type": "command", "command": status_line, "padding": 0}
    return changed


def without_hooks(settings: Settings) -> Settings:
    """The settings without refold's hooks and status line, and without objects left empty."""
    from copy import deepcopy

    changed = deepcopy(settings)
    hooks = changed.get(HOOKS)
    if isinstance(hooks, dict):
        for event, entries in list(hooks.items()):
            foreign = _foreign_entries(entries)
            if foreign is not entries and not foreign:
                del hooks[event]
            else:
                hooks[event] = foreign
        if not hooks and settings[HOOKS]:
            del changed[HOOKS]
    if _calls(changed.get(STATUS_LINE), _OUR_LINE):
        del changed[STATUS_LINE]
    return changed


def _foreign_entries(entries: Any) -> Any:
    """The entries of an event without refold's; the same object if none is refold's."""
    if not isinstance(entries, list):
        return entries
    foreign = []
    for entry in entries:
        hooks = entry.get(HOOKS) if isinstance(entry, dict) else None
        others = (
            [hook for hook in hooks if not _calls(hook, _OURS)] if isinstance(hooks, list) else None
        )
        if others is None or len(others) == len(hooks or []):
            foreign.append(entry)
        elif others:
            foreign.append({**entry, HOOKS: others})
    return entries if foreign == entries else foreign


def _calls(setting: Any, pattern: re.Pattern[str]) -> bool:
    """Whether the command of a setting matches."""
    command = setting.get("command") if isinstance(setting, dict) else None
    return isinstance(command, str) and pattern.search(command) is not None


def _malformed(position: str, value: Any, accepted: str) -> Invalid:
    from refold.checked import quoted
    from refold.errors import Invalid

    what = f"{position} in the settings is {quoted(value, 40)}, not {accepted}"
    return Invalid(what, hint="fix the file first")


def hook_command(above: int, store: str | None, program: str) -> str:
    """The command that Claude Code calls for each event."""
    import shlex

    named = f" --store {shlex.quote(store)}" if store else ""
    return f"{program} hook claude-code event --above {above}{named}"
