"""`refold statusline`: one line for the bottom of a program, a shell prompt or tmux.

What Claude Code gives on standard input is read by the standard library alone, because such a line
is asked for many times a minute; a conversation of ours is opened for reading, and nothing is
written. It never fails: whoever shows a status line has no place for an error, so then the line is
empty; only a person who names a conversation at a terminal is told why. Neighbours: `edges/cli`
comes here before it imports anything else.

The status line of Claude Code, from the JSON that it gives: model, size of the context, cost.

Only the standard library. What refold's own hooks kept off the page is told as well. What an older
version does not say of the context is read from the end of its transcript. Nothing of the input is
trusted: a field of another type counts as missing.

The status line of a conversation of ours, from its folded log: opened for reading, nothing is
written, and nothing is imported that only compacts or renders.

How a status line is put together. Content in it (names of models) is made harmless.
"""

from __future__ import annotations

import json
import os
import stat
import sys

from refold import __version__
from refold.compaction.limits import budget_of
from refold.config import config_for
from refold.conversations.listing import id_of
from refold.core.budget import Budget, current_tokens
from refold.core.fold import Fold
from refold.core.model import ADOPTED, NATIVE
from refold.display import visible
from refold.edges.displays.phrases import percent_of, short_number, tokens_of
from refold.edges.hooks import state
from refold.log.log import Log
from refold.settings.sources import default_store, loaded_for
from refold.stores import is_there, open_store
from refold.stores.protocol import Store
from refold.tokens.models import model_info

WAIT_S = 2.0
INPUT_BYTES_MAX = 4_000_000
OPTIONS = ("--short", "--color")


def main(args: list[str]) -> bool:
    """Prints the line that these arguments ask for; False if they are not understood here."""
    asked = _asked(args)
    if asked is None:
        return False
    print(line(asked["name"], asked["store"], short="--short" in args, color="--color" in args))
    return True


def _asked(args: list[str]) -> dict[str, str] | None:
    """The conversation and the store that are named; None for anything but the plain form."""
    found = {"name": "", "store": ""}
    rest = [arg for arg in args if arg not in OPTIONS]
    while rest:
        word = rest.pop(0)
        if word == "--store" and rest:
            found["store"] = rest.pop(0)
        elif word.startswith("-") or found["name"]:
            return None
        else:
            found["name"] = word
    return found


def line(name: str = "", store: str = "", *, short: bool = False, color: bool = False) -> str:
    """The line: of the conversation that is named, of what stands on standard input, or of the
    newest conversation of this project."""
    try:
        given = b"" if name or store else given_input()
        if given.strip():
            return claude_line(given, short=short, color=color)

        return conversation_line(name or "@1", store, short=short, color=color)
    except Exception as error:
        if name or store:
            _explain(error)
        return ""


def _explain(error: Exception) -> None:
    """Tells a person who named something at a terminal why the line is empty."""
    if sys.stderr is not None and sys.stderr.isatty():
        from refold.edges.displays.wrap import harmless

        print(f"refold: {harmless(str(error))}", file=sys.stderr)


def given_input(size_max: int = INPUT_BYTES_MAX, wait_s: float = WAIT_S) -> bytes:
    """What stands on standard input: nothing on a terminal, and nothing if nobody writes there."""
    try:
        if sys.stdin is None or sys.stdin.isatty():
            return b""
        return _read(sys.stdin.fileno(), size_max, wait_s)
    except (OSError, ValueError):
        return b""


def _read(fd: int, size_max: int, wait_s: float) -> bytes:
    """Everything up to the end, within a bound of time and size."""
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


CONVERSATION_PRODUCT = "refold"


def conversation_line(name: str, url: str, *, short: bool, color: bool) -> str:
    """The line of the conversation of that name (`@1` for the newest); empty if there is none."""
    store = open_store(url or default_store(), read_only=True)
    try:
        if not is_there(store):
            return ""
        return _line(store, id_of(store, name), short=short, color=color)
    finally:
        store.close()


def _line(store: Store, id: str, *, short: bool, color: bool) -> str:
    state = Log(store, store.conversation(id).id).state
    budget = _budget(state)
    used = current_tokens(state, budget.factor)
    parts = [context_part(used, budget.window, short=short)]
    if not short:
        model = name_part(state.meta.model or "unknown model")
        urgent = "refold compact soon" if used >= budget.warn_at else ""
        parts = [f"{CONVERSATION_PRODUCT} v{__version__}", model, *parts, *_bill(state), urgent]
    return joined(parts, percent_of(used, budget.window), color=color)


def _budget(state: Fold) -> Budget:
    info = model_info(state.meta.model or None)
    config = config_for(loaded_for(state.meta.metadata or {}), (state.meta.model or "", info.name))
    return budget_of(state, config, info)


def _bill(state: Fold) -> list[str]:
    totals = state.totals
    cost = None if totals.unpriced or not totals.calls else totals.cost
    batches = [batch for _, batch in state.undoable if batch]
    purposes = [state.purposes.get(batch, ADOPTED) for batch in batches]
    compactions = sum(purpose in (ADOPTED, NATIVE) for purpose in purposes)
    noun = "compaction" if compactions == 1 else "compactions"
    return [
        cost_part(cost),
        cache_part(totals.cache_read, totals.input),
        f"{compactions} {noun}" if compactions else "",
    ]


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
    """The parts that are there, on one line; with colors, as urgent as the page is full."""
    text = visible(SEPARATOR.join(part for part in parts if part).replace("\n", " "))
    if not color or percent < WARN_PERCENT:
        return text
    return f"{RED if percent >= COMPACT_PERCENT else YELLOW}{text}{END}"


def name_part(name: str) -> str:
    """A name of others, on one line and not too long."""
    return " ".join(name.split())[:NAME_CHARS]


def cost_part(dollars: float | None) -> str:
    """`$0.51`; nothing where it is not known."""
    return "" if dollars is None else f"${dollars:.2f}"


def cache_part(read: int, whole: int) -> str:
    """`cache 92%`; nothing where nothing was read."""
    return f"cache {percent_of(read, whole)}%" if read and whole else ""


def urgent_part(percent: int, command: str) -> str:
    """What to do, once the page is getting full."""
    return f"{command} soon" if percent >= WARN_PERCENT else ""
