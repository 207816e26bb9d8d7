"""The arguments of a tool call, whatever shape they came in: paths, line ranges, commands, patches.

Nothing here raises: arguments are whatever a model wrote, and what cannot be understood is simply
not there. Neighbour: `actions`, which asks these questions of every call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from refold.core.model import ToolCall
from refold.ledger.paths import is_path
from refold.ledger.shell_reads import END
from refold.ledger.shell_words import names

JSON_MAX = 4_000_000
PATHS_MAX = 100
RAW = ""  # the key under which arguments stand that are not an object

_PATH_KEYS = names(
    "path filepath targetfile filename file notebookpath absolutepath abspath relativepath relativeworkspacepath "
    "targetpath notebookfile fileuri"
)
_PATHS_KEYS = names("paths files filepaths fileslist filenames args")
_COMMAND_KEYS = names("command cmd commandline script")
_CODE_KEYS = names("code input chars text")
_FOLDER_KEYS = names("workdir cwd workingdirectory directory dir")
_PATCH_KEYS = frozenset({"input", "patch", "diff", "patchtext", RAW})
_FIRST_KEYS = names(
    "startline linestart startlineoneindexed firstline fromline start first from begin beginline"
)
_LAST_KEYS = names("endline lineend endlineoneindexedinclusive lastline toline end last to")
_RANGE_KEYS = names("viewrange linerange lines range")
_COUNT_KEYS = names("offset limit head tail")
_WHOLE_KEYS = names("shouldreadentirefile readentirefile")
_TEXT_KEYS = names("content contents filetext text newcontent")


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments as an object; text that is not one stands under `RAW`."""
    if isinstance(call.arguments, dict):
        return call.arguments
    text = call.arguments
    if not isinstance(text, str) or not text:
        return {}
    decoded: object = None
    if text.lstrip()[:1] == "{" and len(text) <= JSON_MAX:
        try:
            decoded = msgspec.json.decode(text.encode(errors="surrogatepass"))
        except (msgspec.DecodeError, RecursionError, ValueError):
            decoded = None
    return decoded if isinstance(decoded, dict) else {RAW: text}


@lru_cache(maxsize=2_048)
def key_of(name: str) -> str:
    """An argument's name without case and separators."""
    return "".join(char for char in name.lower() if char.isalnum())


def argument(arguments: Mapping[str, Any], keys: frozenset[str]) -> Any:
    """The first argument whose name is one of these."""
    for name, value in arguments.items():
        if isinstance(name, str) and len(name) <= 64 and key_of(name) in keys and value is not None:
            return value
    return None


def paths_of(arguments: Mapping[str, Any], named: str = "") -> list[str]:
    """The files that the arguments name; `named` is the argument to look at, if the
    configuration says so."""
    if named:
        found = arguments.get(named)
        return _listed(found) if not isinstance(found, str) else [found][: is_path(found)]
    for name, value in arguments.items():
        if (
            isinstance(value, str)
            and isinstance(name, str)
            and key_of(name[:64]) in _PATH_KEYS
            and is_path(value)
        ):
            return [value]
    return _listed(argument(arguments, _PATHS_KEYS))


def _listed(value: object, depth: int = 0) -> list[str]:
    """Paths in a list, of strings or of objects with a path in them."""
    if isinstance(value, Mapping) and depth < 3:
        own = [
            path
            for path in (value.get("path"), value.get("file_path"))
            if isinstance(path, str) and is_path(path)
        ]
        return own or _listed(value.get("file") or value.get("files"), depth + 1)
    if isinstance(value, str):
        return [value] if depth and is_path(value) else []
    if not isinstance(value, Sequence) or isinstance(value, bytes) or depth >= 3:
        return []
    return [path for item in value[:PATHS_MAX] for path in _listed(item, depth + 1)][:PATHS_MAX]


def command_of(arguments: Mapping[str, Any]) -> str | list[str] | None:
    """The shell command that the arguments give: a line, or its words."""
    value = argument(arguments, _COMMAND_KEYS)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        words = [word for word in value if isinstance(word, str)]
        return words if words and len(words) == len(value) else None
    return value if isinstance(value, str) else None


def code_of(arguments: Mapping[str, Any]) -> str:
    """Code or input that is not a shell command."""
    value = argument(arguments, _CODE_KEYS)
    return value if isinstance(value, str) else ""


def folder_of(arguments: Mapping[str, Any]) -> str:
    """Where a command is run."""
    value = argument(arguments, _FOLDER_KEYS)
    return value if isinstance(value, str) and is_path(value) else ""


def patch_of(arguments: Mapping[str, Any]) -> str:
    """The patch that the arguments carry."""
    value = argument(arguments, _PATCH_KEYS)
    return value if isinstance(value, str) else ""


def whole_text(arguments: Mapping[str, Any]) -> str:
    """The text that a call which writes a whole file carries."""
    value = argument(arguments, _TEXT_KEYS)
    return value if isinstance(value, str) else ""


def lines_of(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The lines that a read asks for; (1, END) is the whole file, a negative first counts from
    the end."""
    if argument(arguments, _WHOLE_KEYS) is True:
        return 1, END
    for name, value in arguments.items():
        if isinstance(name, str) and key_of(name[:64]) in _RANGE_KEYS and (found := _range(value)):
            return found
    first, last = _whole(argument(arguments, _FIRST_KEYS)), _whole(argument(arguments, _LAST_KEYS))
    if first or last:
        return max(first or 1, 1), last if last and last > 0 else END
    offset, limit = _whole(arguments.get("offset")), _whole(arguments.get("limit"))
    if tail := _whole(arguments.get("tail")):
        return -abs(tail), END
    limit = limit or _whole(arguments.get("head"))
    start = max(offset or 1, 1)
    return start, start + limit - 1 if limit and limit > 0 else END


def lines_are_known(arguments: Mapping[str, Any], named: str = "") -> bool:
    """Whether nothing else in the arguments of a read could choose a part of the file: a number
    or a list under a name that is not known here, or a range that cannot be read."""
    for name, value in arguments.items():
        key = key_of(name[:64]) if isinstance(name, str) else ""
        if (
            name == named
            or key in _PATH_KEYS
            or key in _WHOLE_KEYS
            or value is None
            or isinstance(value, bool)
        ):
            continue
        if key in _RANGE_KEYS:
            understood = _range(value) is not None
        elif key in _FIRST_KEYS or key in _LAST_KEYS or key in _COUNT_KEYS:
            understood = _whole(value) is not None
        else:
            understood = isinstance(value, str) and not any(char.isdigit() for char in value[:200])
        if not understood:
            return False
    return True


def _range(value: object) -> tuple[int, int] | None:
    """`[10, 20]`, `[10, -1]` or `"10-20"`."""
    parts: Sequence[object] = (
        value.replace(",", "-").split("-") if isinstance(value, str) and len(value) < 40 else ()
    )
    if isinstance(value, list | tuple):
        parts = value
    if len(parts) != 2:
        return None
    first, last = _whole(parts[0]), _whole(parts[1])
    if first is None:
        return None
    return max(first, 1), last if last and last > 0 else END


def _whole(value: object) -> int | None:
    """A number as a number, also where it was written as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= 9 and value.strip().lstrip("-").isdecimal():
        return int(value)
    if isinstance(value, float) and abs(value) < 1e9:
        return int(value)
    return value if isinstance(value, int) and abs(value) < 10**9 else None
