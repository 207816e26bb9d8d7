r"""The meaning of tool call arguments in any shape: paths, line ranges, commands, patches; and one
form for every spelling of a path.

Nothing here raises: a model may write anything as arguments, and unintelligible ones are ignored.
Paths are compared lexically, without a disk: `./a`, `a`, `x/../a` and `a//b` get one form, relative
to a known `cwd`. Case counts, unless the configuration ignores it. Backslashes separate only in a
Windows path: with a drive or a share, under such a `cwd`, or without slashes and with a backslash
only before characters that can begin a name. Otherwise they belong to the name or escape something
(`a\1b.txt`, `my\ file`). In doubt two spellings are two files: a missed copy costs room, a wrong
match hides text that is shown nowhere else. Neighbours: `actions`, `shell`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from refold.core.call_arguments import arguments_object
from refold.core.model import ToolCall
from refold.ledger.shell_words import END, names
from refold.patterns import regex

JSON_MAX = 4_000_000
PATHS_MAX = 100
DEPTH_MAX = 3
NAME_MAX = 64
NUMBER_MAX = 10**9
RAW = ""  # the key of arguments that are not an object
NO_KEY = " "  # the key of anything that cannot be an argument's name
PATH_MAX = 4_096

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
    """The key of a name of any type."""
    return key_of(name) if isinstance(name, str) and len(name) <= NAME_MAX else NO_KEY


def argument(arguments: Mapping[str, Any], keys: frozenset[str]) -> Any:
    """The first argument with one of these keys."""
    for name, value in arguments.items():
        if value is not None and _key(name) in keys:
            return value
    return None


# --- files ---


def paths_of(arguments: Mapping[str, Any], named: str = "") -> list[str]:
    """The files in the arguments; `named` is the path argument in the configuration, if any."""
    if named:
        return _paths_in(arguments.get(named))
    for name, value in arguments.items():
        if _key(name) in _PATH_KEYS and is_path(value):
            return [value]
    several = argument(arguments, _PATHS_KEYS)
    return [] if isinstance(several, str) else _paths_in(several)


def _paths_in(value: object, depth: int = 0) -> list[str]:
    """A path, or the paths in a list of paths or of objects with a path."""
    if isinstance(value, str):
        return [value] if is_path(value) else []
    if depth >= DEPTH_MAX or isinstance(value, bytes):
        return []
    if isinstance(value, Mapping):
        own = [path for name in ("path", "file_path") if is_path(path := value.get(name))]
        return own or _paths_in(value.get("file") or value.get("files"), depth + 1)
    if not isinstance(value, Sequence):
        return []
    paths = [path for item in value[:PATHS_MAX] for path in _paths_in(item, depth + 1)]
    return paths[:PATHS_MAX]


def folder_of(arguments: Mapping[str, Any]) -> str:
    """The folder of a command."""
    value = argument(arguments, _FOLDER_KEYS)
    return value if is_path(value) else ""


# --- texts ---


def command_of(arguments: Mapping[str, Any]) -> str | list[str] | None:
    """The shell command in the arguments: a line, or its words."""
    value = argument(arguments, _COMMAND_KEYS)
    if isinstance(value, list | tuple) and value and all(isinstance(word, str) for word in value):
        return list(value)
    return value if isinstance(value, str) else None


def is_command_key(key: str) -> bool:
    """Whether an argument with this key is a shell command."""
    return key in _COMMAND_KEYS


def code_of(arguments: Mapping[str, Any]) -> str:
    """Code or input that is not a shell command."""
    return _text_argument(arguments, _CODE_KEYS)


def patch_of(arguments: Mapping[str, Any]) -> str:
    """The patch in the arguments."""
    return _text_argument(arguments, _PATCH_KEYS)


def whole_text(arguments: Mapping[str, Any]) -> str:
    """The text in a call that writes a whole file."""
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
    for name, value in arguments.items():
        if _key(name) in _RANGE_KEYS and (lines := _range(value)):
            return lines
    first = _integer(argument(arguments, _FIRST_KEYS))
    last = _integer(argument(arguments, _LAST_KEYS))
    if (first or last) and (lines := _range([first or 1, last])):
        return lines
    if tail := _number(arguments, "tail"):
        return -abs(tail), END
    start = max(_number(arguments, "offset"), 1)
    count = _number(arguments, "limit") or _number(arguments, "head")
    return start, start + count - 1 if count > 0 else END


def _number(arguments: Mapping[str, Any], name: str) -> int:
    return _integer(arguments.get(name)) or 0


def lines_are_known(arguments: Mapping[str, Any], named: str = "") -> bool:
    """Whether no other argument of a read could choose a part of the file: a number or a list under
    an unknown name, or an unintelligible range."""
    for name, value in arguments.items():
        key = _key(name)
        if name == named or key in _FILE_KEYS or value is None or isinstance(value, bool):
            continue
        if key in _RANGE_KEYS:
            is_known = _range(value) is not None
        elif key in _NUMBER_KEYS:
            is_known = _integer(value) is not None
        else:
            is_known = isinstance(value, str) and not any(char.isdigit() for char in value[:200])
        if not is_known:
            return False
    return True


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
    """A number as an integer, also if it was written as text."""
    if isinstance(value, str):
        is_number = len(value) <= 9 and value.strip().removeprefix("-").isdecimal()
        return int(value) if is_number else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < NUMBER_MAX else None


# --- paths ---

_DRIVE = regex(r"[A-Za-z]:[\\/]|\\\\\w")  # `C:\`, or the `\\server` of a share
# A backslash before anything but a letter, an underscore or a dot.
_ESCAPE = regex(r"\\(?![^\W\d]|\.)")


def is_path(text: object) -> TypeGuard[str]:
    """Whether this can be a file name at all."""
    if not isinstance(text, str):
        return False
    return 0 < len(text) <= PATH_MAX and "\n" not in text and "\x00" not in text


class Spellings:
    """One form for every spelling of a path. If case is ignored, the first spelling is the form: it
    is shown to people, who would not recognize `README.md` in `readme.md`."""

    def __init__(self, cwd: str = "", *, ignore_case: bool = False) -> None:
        self.cwd = cwd
        self.ignore_case = ignore_case
        self.seen: dict[str, str] = {}
        self.first_spellings: dict[str, str] = {}  # by form

    def form(self, path: str) -> str:
        form = normal(path, self.cwd, ignore_case=self.ignore_case)
        if self.ignore_case:
            form = self.seen.setdefault(form.casefold(), form)
        self.first_spellings.setdefault(form, path)
        return form

    def redacted(self, form: str, redact: Callable[[str], str]) -> str:
        """The form without secrets, which are looked for in the original spelling: a normal path no
        longer looks like an address."""
        original = self.first_spellings.get(form, form)
        clean = redact(original)
        return form if clean == original else normal(clean, self.cwd, ignore_case=self.ignore_case)


def normal(path: str, cwd: str = "", *, ignore_case: bool = False) -> str:
    """The one form of a path, relative to `cwd` if it is inside it."""
    text = _with_slashes(path.removeprefix("file://"), cwd)
    form = _collapsed(text)
    if cwd:
        root = _collapsed(_with_slashes(cwd)).rstrip("/")
        start, rest = form[: len(root)], form[len(root) :]
        if start == root or (ignore_case and start.casefold() == root.casefold()):
            if not rest:
                form = "."
            elif rest.startswith("/"):
                form = rest[1:]
    is_folder = text.endswith("/") and form not in ("/", ".")
    return form + "/" if is_folder else form


def joined(folder: str, path: str) -> str:
    """A path relative to a folder, joined to it."""
    is_drive = path[1:2] == ":" and path[:1].isalpha()
    if not folder or is_drive or path.startswith(("/", "~", "\\")):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


def _with_slashes(path: str, cwd: str = "") -> str:
    """The path with slashes, if its backslashes separate its parts."""
    if "\\" not in path:
        return path
    has_drive = _DRIVE.match(path) or _DRIVE.match(cwd)
    is_windows = has_drive or ("/" not in path and not _ESCAPE.search(path))
    return path.replace("\\", "/") if is_windows else path


def _collapsed(path: str) -> str:
    """The path without empty parts, `.` and `..`, as far as they can be resolved."""
    is_clean = "//" not in path and "./" not in path and path not in (".", "..")
    if is_clean and not path.endswith(("/", "/.", "/..")):
        return path  # most paths
    is_rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif (part == ".." and not is_rooted) or part not in ("", ".", ".."):
            parts.append(part)
    text = "/".join(parts)
    return f"/{text}" if is_rooted else text or "."
