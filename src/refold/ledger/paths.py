"""When two spellings name the same file: lexically, without asking a disk.

`./a`, `a`, `x/../a` and `a//b` are brought to one form; a path under a known `cwd` is made relative
to it. Case counts, unless the configuration says that it does not. Backslashes are slashes only in
a path that shows it is a Windows one: by a drive or a share, by a `cwd` that has one, or because it
has no slash and each of them stands before what can begin a name. Otherwise they are a part of the
name or an escape (`a\\1b.txt`, `my\\ file`). In doubt two spellings are two files: a copy that is
not found costs room, one that is found wrongly hides what nothing else shows. Neighbours:
`actions`, `shell`.
"""

from __future__ import annotations

import re
from typing import TypeGuard

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
