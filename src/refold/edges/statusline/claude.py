"""The status line of Claude Code, from the JSON that it gives: model, size of the context, cost.

Only the standard library. What refold's own hooks kept off the page is told as well. What an older
version does not say of the context is read from the end of its transcript. Nothing of the input is
trusted: a field of another type counts as missing.
"""

from __future__ import annotations

import json
import os
import stat

from refold.edges.displays.phrases import percent_of, short_number
from refold.edges.hooks import state
from refold.edges.statusline.parts import (
    cache_part,
    context_part,
    cost_part,
    joined,
    name_part,
    urgent_part,
)

PRODUCT = "Claude Code"
WINDOW_DEFAULT, WINDOW_LARGE = 200_000, 1_000_000
TAIL_BYTES = 256_000
CHARS_PER_TOKEN = 4
USED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

Fields = dict[str, object]


def claude_line(given: bytes, *, short: bool, color: bool) -> str:
    """The line; empty if the input is not what Claude Code gives."""
    try:
        fields = _object(json.loads(given))
    except (ValueError, RecursionError):
        return ""
    if not fields:
        return ""
    window, usage = _window(fields), _usage(fields)
    used = _used(fields, usage, window)
    percent = 0 if used is None else percent_of(used, window)
    parts = [context_part(used, window, short=short)]
    if not short:
        parts = [_product(fields), name_part(_model(fields)), *parts]
        parts += [cost_part(_cost(fields)), _cache(usage), _kept(fields)]
        parts.append(urgent_part(percent, "/compact"))
    return joined(parts, percent, color=color)


def _window(fields: Fields) -> int:
    told = _whole(_object(fields.get("context_window")).get("context_window_size"))
    return told or (WINDOW_LARGE if fields.get("exceeds_200k_tokens") else WINDOW_DEFAULT)


def _cache(usage: Fields) -> str:
    read = _whole(usage.get("cache_read_input_tokens"))
    return cache_part(read, sum(_whole(usage.get(name)) for name in USED))


def _kept(fields: Fields) -> str:
    """What the hooks of refold kept off this session's page, if they are installed."""
    session = fields.get("session_id")
    outputs, chars = state.kept(state.folder_of(session)) if isinstance(session, str) else (0, 0)
    if not outputs:
        return ""
    noun = "output" if outputs == 1 else "outputs"
    return f"refold: {outputs} {noun}, {short_number(chars // CHARS_PER_TOKEN)} tokens kept off"


def _product(fields: Fields) -> str:
    version = fields.get("version")
    return f"{PRODUCT} v{name_part(version)}" if isinstance(version, str) and version else PRODUCT


def _model(fields: Fields) -> str:
    model = _object(fields.get("model"))
    for name in ("display_name", "id"):
        value = model.get(name)
        if isinstance(value, str) and value:
            return value
    return "unknown model"


def _cost(fields: Fields) -> float | None:
    cost = _object(fields.get("cost")).get("total_cost_usd")
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    # NaN and infinity are JSON for Python, and no money.
    return float(cost) if is_number and abs(cost) < 1e9 else None  # type: ignore[arg-type]


def _used(fields: Fields, usage: Fields, window: int) -> int | None:
    """The tokens of the context; None where nobody knows, as right after a compaction."""
    if usage:
        return sum(_whole(usage.get(name)) for name in USED)
    percent = _object(fields.get("context_window")).get("used_percentage")
    if isinstance(percent, int | float) and 0 <= percent <= 100:
        return int(window * percent / 100)
    return None


def _usage(fields: Fields) -> Fields:
    """What the last call was billed: as it is said, or as the transcript has it."""
    if "context_window" in fields:
        return _object(_object(fields["context_window"]).get("current_usage"))
    path = fields.get("transcript_path")
    return _last_usage(path) if isinstance(path, str) else {}


def _last_usage(path: str) -> Fields:
    """The usage of the newest reply in a transcript, looked for in its last lines. A boundary
    after it says that the context was compacted since."""
    for line in reversed(_tail(path).split(b"\n")):
        try:
            entry = _object(json.loads(line)) if line.strip() else {}
        except (ValueError, RecursionError):
            continue
        if entry.get("isSidechain"):
            continue
        if entry.get("subtype") == "compact_boundary":
            return {}
        usage = _object(_object(entry.get("message")).get("usage"))
        if usage:
            return usage
    return {}


def _tail(path: str) -> bytes:
    """The end of a regular file; nothing if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(fd, TAIL_BYTES, max(0, found.st_size - TAIL_BYTES))
    except OSError:
        return b""
    finally:
        os.close(fd)


def _object(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    """A number of tokens; 0 for anything else."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value < 10**12 else 0  # type: ignore[operator, return-value]
