"""The settings of Claude Code with our hooks in them, and without them again.

Only what is ours is ever touched: an entry whose command calls `refold hook claude-code`, and a
status line that calls `refold statusline`. Everything else stays as it is, in its order.
Neighbours: `hosts.host_file` reads and writes, `commands.hook.claude_code` shows the change and
asks.
"""

from __future__ import annotations

import os
import re
import shlex
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from refold.checked import quoted
from refold.edges.hosts import Settings
from refold.errors import Invalid

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
