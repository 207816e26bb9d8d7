"""`refold statusline`: one line for the bottom of a program, a shell prompt or tmux.

`claude_line` reads the JSON of Claude Code with the standard library alone, because such a line is
shown many times a minute; a field of an unexpected type counts as missing. `conversation_line`
reads a conversation of refold, writes nothing, and imports nothing that only compacts or renders.
On an error the line is empty; only a person who names a conversation at a terminal sees the reason.
Neighbour: `edges/cli` calls this before it imports anything else.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING

from refold.display import percent_of, short_number, tokens_of, visible
from refold.edges.hooks import state
from refold.system import posix

if TYPE_CHECKING:
    from refold.core.fold import Fold

WAIT_S = 2.0
INPUT_BYTES_MAX = 4_000_000
OPTIONS = ("--short", "--color")


def main(args: list[str]) -> bool:
    """Prints the line for these arguments. Returns False, and prints nothing, for anything but the
    plain form."""
    name, store = "", ""
    rest = [arg for arg in args if arg not in OPTIONS]
    while rest:
        word = rest.pop(0)
        if word == "--store" and rest:
            store = rest.pop(0)
        elif word.startswith("-") or name:
            return False
        else:
            name = word
    print(line(name, store, short="--short" in args, color="--color" in args))
    return True


def line(name: str = "", store: str = "", *, short: bool = False, color: bool = False) -> str:
    """The line for the named conversation, for the JSON on standard input, or for the newest
    conversation of this project."""
    try:
        given = b"" if name or store else given_input()
        if given.strip():
            return claude_line(given, short=short, color=color)
        return conversation_line(name or "@1", store, short=short, color=color)
    except Exception as error:
        if (name or store) and sys.stderr is not None and sys.stderr.isatty():
            from refold.edges.displays.wrap import harmless

            print(f"refold: {harmless(str(error))}", file=sys.stderr)
        return ""


def given_input(size_max: int = INPUT_BYTES_MAX, wait_s: float = WAIT_S) -> bytes:
    """The content of standard input; empty on a terminal, or if no program writes to it."""
    try:
        if sys.stdin is None or sys.stdin.isatty():
            return b""
        return _read(sys.stdin.fileno(), size_max, wait_s)
    except (OSError, ValueError):
        return b""


def _read(fd: int, size_max: int, wait_s: float) -> bytes:
    """Everything up to the end, within limits of time and size."""
    import select
    import time

    pieces: list[bytes] = []
    size, deadline = 0, time.monotonic() + wait_s
    while size < size_max:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        piece = os.read(fd, 65_536)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


# --- Claude Code ---

PRODUCT = "Claude Code"
WINDOW_DEFAULT, WINDOW_LARGE = 200_000, 1_000_000
TAIL_BYTES = 256_000
CHARS_PER_TOKEN = 4
USED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

Fields = dict[str, object]


def claude_line(given: bytes, *, short: bool, color: bool) -> str:
    """The line; empty if the input is not the JSON of Claude Code."""
    try:
        fields = _object(json.loads(given))
    except (ValueError, RecursionError):
        return ""
    if not fields:
        return ""
    context = _object(fields.get("context_window"))
    default = WINDOW_LARGE if fields.get("exceeds_200k_tokens") else WINDOW_DEFAULT
    window = _count(context.get("context_window_size")) or default
    usage, path = _object(context.get("current_usage")), fields.get("transcript_path")
    if "context_window" not in fields and isinstance(path, str):
        usage = _last_usage(path)  # an older version does not report it
    total = sum(_count(usage.get(name)) for name in USED)
    used = total if usage else None  # unknown right after a compaction
    percentage = context.get("used_percentage")
    if not usage and isinstance(percentage, int | float) and 0 <= percentage <= 100:
        used = int(window * percentage / 100)
    percent = 0 if used is None else percent_of(used, window)
    parts = [context_part(used, window, short=short)]
    if not short:
        cache = cache_part(_count(usage.get("cache_read_input_tokens")), total)
        cost = _object(fields.get("cost")).get("total_cost_usd")
        bill = ""
        if isinstance(cost, int | float) and not isinstance(cost, bool) and abs(cost) < 1e9:
            bill = f"${float(cost):.2f}"  # not for NaN and infinity, which Python's JSON has
        parts = [*_heading(fields), *parts, bill, cache, _kept(fields)]
        parts.append("/compact soon" if percent >= WARN_PERCENT else "")
    return joined(parts, percent, color=color)


def _heading(fields: Fields) -> list[str]:
    """The product with its version, and the model."""
    version, model = fields.get("version"), _object(fields.get("model"))
    has_version = isinstance(version, str) and version
    names = [model.get(name) for name in ("display_name", "id")]
    name = next((name for name in names if isinstance(name, str) and name), "unknown model")
    return [f"{PRODUCT} v{name_part(str(version))}" if has_version else PRODUCT, name_part(name)]


def _kept(fields: Fields) -> str:
    """Tokens that refold's hooks, if installed, saved on this session's page."""
    session = fields.get("session_id")
    outputs, chars = state.kept(state.folder_of(session)) if isinstance(session, str) else (0, 0)
    if not outputs:
        return ""
    noun = "output" if outputs == 1 else "outputs"
    return f"refold: {outputs} {noun}, {short_number(chars // CHARS_PER_TOKEN)} tokens kept off"


def _last_usage(path: str) -> Fields:
    """The usage of the newest reply in the last lines of a transcript; empty if the context was
    compacted since."""
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
    """The end of a regular file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(fd, TAIL_BYTES, max(0, status.st_size - TAIL_BYTES))
    except OSError:
        return b""
    finally:
        os.close(fd)


def _object(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    """A token count; 0 for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value < 10**12 else 0


# --- conversations of refold ---


def conversation_line(name: str, url: str, *, short: bool, color: bool) -> str:
    """The line for the conversation of that name (`@1` for the newest); empty if there is none."""
    # Imported here, because the status line of Claude Code needs none of it.
    from refold import __version__
    from refold.compaction.limits import budget_of
    from refold.config import config_for
    from refold.conversations.listing import id_of
    from refold.core.budget import current_tokens
    from refold.log.log import Log
    from refold.settings.sources import default_store, loaded_for
    from refold.stores import is_there, open_store
    from refold.tokens.models import model_info

    store = open_store(url or default_store(), read_only=True)
    try:
        if not is_there(store):
            return ""
        fold = Log(store, store.conversation(id_of(store, name)).id).state
    finally:
        store.close()
    model = fold.meta.model or ""
    info = model_info(model or None)
    config = config_for(loaded_for(fold.meta.metadata or {}), (model, info.name))
    budget = budget_of(fold, config, info)
    used = current_tokens(fold, budget.factor)
    parts = [context_part(used, budget.window, short=short)]
    if not short:
        urgent = "refold compact soon" if used >= budget.warn_at else ""
        heading = [f"refold v{__version__}", name_part(model or "unknown model")]
        parts = [*heading, *parts, *_bill(fold), urgent]
    return joined(parts, percent_of(used, budget.window), color=color)


def _bill(fold: Fold) -> list[str]:
    """The cost, the cached share and the number of compactions."""
    from refold.core.model import ADOPTED, NATIVE

    totals = fold.totals
    cost = None if totals.unpriced or not totals.calls else totals.cost
    batches = [batch for _, batch in fold.undoable if batch]
    purposes = [fold.purposes.get(batch, ADOPTED) for batch in batches]
    compactions = sum(purpose in (ADOPTED, NATIVE) for purpose in purposes)
    noun = "compaction" if compactions == 1 else "compactions"
    return [
        "" if cost is None else f"${cost:.2f}",
        cache_part(totals.cache_read, totals.input),
        f"{compactions} {noun}" if compactions else "",
    ]


# --- parts ---

WARN_PERCENT, COMPACT_PERCENT = 80, 90
YELLOW, RED, END = "\x1b[33m", "\x1b[31m", "\x1b[0m"
SEPARATOR = " | "
NAME_CHARS = 60


def context_part(used: int | None, window: int, *, short: bool) -> str:
    """`Context: 45% (58K/128K tokens)`, or `45%` for a short line."""
    if used is None:
        return "?" if short else f"Context: ? (of {short_number(window)} tokens)"
    return f"{percent_of(used, window)}%" if short else f"Context: {tokens_of(used, window)}"


def joined(parts: list[str], percent: int, *, color: bool) -> str:
    """The parts that are not empty, on one line, without control characters; colored if the page
    is nearly full."""
    text = visible(SEPARATOR.join(part for part in parts if part).replace("\n", " "))
    if not color or percent < WARN_PERCENT:
        return text
    return f"{RED if percent >= COMPACT_PERCENT else YELLOW}{text}{END}"


def name_part(name: str) -> str:
    """A foreign name, on one line and not too long."""
    return " ".join(name.split())[:NAME_CHARS]


def cache_part(read: int, total: int) -> str:
    """`cache 92%`; empty if no token was read from the cache."""
    return f"cache {percent_of(read, total)}%" if read and total else ""
