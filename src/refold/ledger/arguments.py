r"""What the arguments of a tool call mean, whatever shape they came in: paths, line ranges,
commands, patches.

Nothing here raises: arguments are whatever a model wrote, and what cannot be understood is simply
not there. Neighbours: `core.arguments` reads their JSON, `actions` asks these questions of every
call.

When two spellings name the same file: lexically, without asking a disk.

`./a`, `a`, `x/../a` and `a//b` are brought to one form; a path under a known `cwd` is made relative
to it. Case counts, unless the configuration says that it does not. Backslashes are slashes only in
a path that shows it is a Windows one: by a drive or a share, by a `cwd` that has one, or because it
has no slash and each of them stands before what can begin a name. Otherwise they are a part of the
name or an escape (`a\1b.txt`, `my\ file`). In doubt two spellings are two files: a copy that is
not found costs room, one that is found wrongly hides what nothing else shows. Neighbours:
`actions`, `shell`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from refold.core.call_arguments import arguments_object
from refold.core.model import ToolCall
from refold.ledger.shell_words import END, names

JSON_MAX = 4_000_000
PATHS_MAX = 100
DEPTH_MAX = 3
NAME_MAX = 64
NUMBER_MAX = 10**9
RAW = ""  # the key of arguments that are not an object
NO_KEY = " "  # the key of what cannot be an argument's name

_PATH_KEYS = names(
    "path filepath targetfile filename file notebookpath absolutepath abspath relativepath "
    "relativeworkspacepath targetpath notebookfile fileuri"
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
_NUMBER_KEYS = _FIRST_KEYS | _LAST_KEYS | _COUNT_KEYS
_WHOLE_KEYS = names("shouldreadentirefile readentirefile")
_FILE_KEYS = _PATH_KEYS | _WHOLE_KEYS
_TEXT_KEYS = names("content contents filetext text newcontent")


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments as an object; text that is not one has the key `RAW`."""
    text = call.arguments
    if not isinstance(text, str):
        return text if isinstance(text, dict) else {}
    decoded = arguments_object(call) if len(text) <= JSON_MAX else None
    return {RAW: text} if decoded is None else decoded


@lru_cache(maxsize=2_048)
def key_of(name: str) -> str:
    """An argument's name without case and separators."""
    return "".join(char for char in name.lower() if char.isalnum())


def _key(name: object) -> str:
    """The same of whatever is used as a name."""
    return key_of(name) if isinstance(name, str) and len(name) <= NAME_MAX else NO_KEY


def argument(arguments: Mapping[str, Any], keys: frozenset[str]) -> Any:
    """The first argument whose name is one of these."""
    for name, value in arguments.items():
        if value is not None and _key(name) in keys:
            return value
    return None


# --- files ---


def paths_of(arguments: Mapping[str, Any], named: str = "") -> list[str]:
    """The files that the arguments name; `named` is the argument to look at, if the
    configuration says so."""
    if named:
        return _paths_in(arguments.get(named))
    for name, value in arguments.items():
        if _key(name) in _PATH_KEYS and is_path(value):
            return [value]
    several = argument(arguments, _PATHS_KEYS)
    return [] if isinstance(several, str) else _paths_in(several)


def _paths_in(value: object, depth: int = 0) -> list[str]:
    """A path, or those in a list of paths or of objects that have one."""
    if isinstance(value, str):
        return [value] if is_path(value) else []
    if depth >= DEPTH_MAX or isinstance(value, bytes):
        return []
    if isinstance(value, Mapping):
        return _paths_of_entry(value, depth)
    if not isinstance(value, Sequence):
        return []
    paths = [path for item in value[:PATHS_MAX] for path in _paths_in(item, depth + 1)]
    return paths[:PATHS_MAX]


def _paths_of_entry(entry: Mapping[str, Any], depth: int) -> list[str]:
    """The path of an entry of a list, or those of the files in it."""
    own = [path for name in ("path", "file_path") if is_path(path := entry.get(name))]
    return own or _paths_in(entry.get("file") or entry.get("files"), depth + 1)


def folder_of(arguments: Mapping[str, Any]) -> str:
    """Where a command is run."""
    value = argument(arguments, _FOLDER_KEYS)
    return value if is_path(value) else ""


# --- texts ---


def command_of(arguments: Mapping[str, Any]) -> str | list[str] | None:
    """The shell command that the arguments give: a line, or its words."""
    value = argument(arguments, _COMMAND_KEYS)
    if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
        return list(value)
    return value if isinstance(value, str) else None


def code_of(arguments: Mapping[str, Any]) -> str:
    """Code or input that is not a shell command."""
    return _text_argument(arguments, _CODE_KEYS)


def patch_of(arguments: Mapping[str, Any]) -> str:
    """The patch that the arguments carry."""
    return _text_argument(arguments, _PATCH_KEYS)


def whole_text(arguments: Mapping[str, Any]) -> str:
    """The text that a call which writes a whole file carries."""
    return _text_argument(arguments, _TEXT_KEYS)


def _text_argument(arguments: Mapping[str, Any], keys: frozenset[str]) -> str:
    value = argument(arguments, keys)
    return value if isinstance(value, str) else ""


# --- lines ---


def lines_of(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The lines that a read asks for; (1, END) is the whole file, a negative first counts from
    the end."""
    if argument(arguments, _WHOLE_KEYS) is True:
        return 1, END
    return _asked_range(arguments) or _first_to_last(arguments) or _from_offset(arguments)


def _asked_range(arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """The lines of an argument that holds a range."""
    for name, value in arguments.items():
        found = _range(value) if _key(name) in _RANGE_KEYS else None
        if found:
            return found
    return None


def _first_to_last(arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """The lines of arguments for the first and the last."""
    first = _integer(argument(arguments, _FIRST_KEYS))
    last = _integer(argument(arguments, _LAST_KEYS))
    return _range([first or 1, last]) if first or last else None


def _from_offset(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The lines of an offset and a count, or of a count from one end."""
    tail = _number(arguments, "tail")
    if tail:
        return -abs(tail), END
    start = max(_number(arguments, "offset"), 1)
    count = _number(arguments, "limit") or _number(arguments, "head")
    return start, start + count - 1 if count > 0 else END


def _number(arguments: Mapping[str, Any], name: str) -> int:
    return _integer(arguments.get(name)) or 0


def lines_are_known(arguments: Mapping[str, Any], named: str = "") -> bool:
    """Whether nothing else in the arguments of a read could choose a part of the file: a number
    or a list under a name that is not known here, or a range that cannot be read."""
    return all(
        name == named or _is_understood(_key(name), value) for name, value in arguments.items()
    )


def _is_understood(key: str, value: object) -> bool:
    """Whether an argument of a read chooses no lines, or lines that can be read."""
    if key in _FILE_KEYS or value is None or isinstance(value, bool):
        return True
    if key in _RANGE_KEYS:
        return _range(value) is not None
    if key in _NUMBER_KEYS:
        return _integer(value) is not None
    return isinstance(value, str) and not any(char.isdigit() for char in value[:200])


def _range(value: object) -> tuple[int, int] | None:
    """`[10, 20]`, `[10, -1]` or `"10-20"`."""
    if isinstance(value, str) and len(value) < 40:
        value = value.replace(",", "-").split("-")
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    first, last = _integer(value[0]), _integer(value[1])
    if first is None:
        return None
    return max(first, 1), last if last and last > 0 else END


def _integer(value: object) -> int | None:
    """A number as an integer, also where it was written as text."""
    if isinstance(value, str):
        return _written_integer(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < NUMBER_MAX else None


def _written_integer(text: str) -> int | None:
    """The integer that a short text is."""
    is_number = len(text) <= 9 and text.strip().removeprefix("-").isdecimal()
    return int(text) if is_number else None


PATH_MAX = 4_096
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\\w")  # `C:\`, or the `\\server` of a share
# A backslash before anything but a letter, an underscore or a dot.
_ESCAPE = re.compile(r"\\(?![^\W\d]|\.)")


def is_path(text: object) -> TypeGuard[str]:
    """Whether this can be the name of a file at all."""
    if not isinstance(text, str):
        return False
    return 0 < len(text) <= PATH_MAX and "\n" not in text and "\x00" not in text


class Spellings:
    """One form for every spelling of a path. Where case does not count, the spelling that came
    first is the form: it is shown to people, who would not know `readme.md` for `README.md`."""

    def __init__(self, cwd: str = "", *, ignore_case: bool = False) -> None:
        self.cwd = cwd
        self.ignore_case = ignore_case
        self.seen: dict[str, str] = {}

    def form(self, path: str) -> str:
        whole = normal(path, self.cwd, ignore_case=self.ignore_case)
        return self.seen.setdefault(whole.casefold(), whole) if self.ignore_case else whole


def normal(path: str, cwd: str = "", *, ignore_case: bool = False) -> str:
    """The one form of a path; relative to `cwd` if it lies under it."""
    text = _with_slashes(path.removeprefix("file://"), cwd)
    whole = _collapsed(text)
    if cwd:
        whole = _seen_from(cwd, whole, ignore_case)
    is_folder = text.endswith("/") and whole not in ("/", ".")
    return whole + "/" if is_folder else whole


def _seen_from(cwd: str, path: str, ignore_case: bool) -> str:
    """The path relative to the folder, if it lies under it."""
    root = _collapsed(_with_slashes(cwd)).rstrip("/")
    start, rest = path[: len(root)], path[len(root) :]
    if not _is_same(start, root, ignore_case):
        return path
    if not rest:
        return "."
    return rest[1:] if rest.startswith("/") else path


def _is_same(one: str, other: str, ignore_case: bool) -> bool:
    if one == other:
        return True
    return ignore_case and one.casefold() == other.casefold()


def joined(folder: str, path: str) -> str:
    """A path given inside a folder, from where the folder is given."""
    if not folder or _is_rooted(path):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


def _is_rooted(path: str) -> bool:
    return path.startswith(("/", "~", "\\")) or (path[1:2] == ":" and path[:1].isalpha())


def _with_slashes(path: str, cwd: str = "") -> str:
    return path.replace("\\", "/") if "\\" in path and _is_windows(path, cwd) else path


def _is_windows(path: str, cwd: str) -> bool:
    """Whether the backslashes of a path separate its parts."""
    if _DRIVE.match(path) or _DRIVE.match(cwd):
        return True
    return "/" not in path and not _ESCAPE.search(path)


def _collapsed(path: str) -> str:
    """The path without empty parts, `.` and `..`, as far as they can be resolved."""
    if _is_collapsed(path):
        return path
    is_rooted = path.startswith("/")
    text = "/".join(_resolved_parts(path.split("/"), is_rooted=is_rooted))
    return f"/{text}" if is_rooted else text or "."


def _is_collapsed(path: str) -> bool:
    """Most paths are: a quick look saves the work."""
    if "//" in path or "./" in path:
        return False
    return not path.endswith(("/", "/.", "/..")) and path not in (".", "..")


def _resolved_parts(parts: list[str], *, is_rooted: bool) -> list[str]:
    out: list[str] = []
    for part in parts:
        if part == ".." and out and out[-1] != "..":
            out.pop()
        elif (part == ".." and not is_rooted) or part not in ("", ".", ".."):
            out.append(part)
    return out
