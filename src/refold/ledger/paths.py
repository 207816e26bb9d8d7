"""When two spellings name the same file: lexically, without asking a disk.

`./a`, `a`, `x/../a` and `a//b` are brought to one form; a path under a known `cwd` is made relative
to it. Case counts, unless the configuration says that it does not. Backslashes are slashes only in
a path that shows it is a Windows one: by a drive or a share, by a `cwd` that has one, or because it
has no slash and each of them stands before what can begin a name. Otherwise they are a part of the
name or an escape (`a\\1b.txt`, `my\\ file`). In doubt two spellings are two files: a copy that is
not found costs room, one that is found wrongly hides what nothing else shows.
"""

from __future__ import annotations

import re

PATH_MAX = 4_096
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\\w")  # `C:\`, or the `\\server` of a share
_ESCAPE = re.compile(
    r"\\(?![^\W\d]|\.)"
)  # a backslash before anything but a letter, an underscore or a dot


def is_path(text: object) -> bool:
    """Whether this can be the name of a file at all."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= PATH_MAX
        and "\n" not in text
        and "\x00" not in text
    )


class Spellings:
    """One form for every spelling of a path. Where case does not count, the spelling that came
    first is the form: it is shown to people, who would not know `readme.md` for `README.md`."""

    def __init__(self, cwd: str = "", *, ignore_case: bool = False) -> None:
        self.cwd, self.ignore_case = cwd, ignore_case
        self.seen: dict[str, str] = {}

    def form(self, path: str) -> str:
        whole = normal(path, self.cwd, ignore_case=self.ignore_case)
        return self.seen.setdefault(whole.casefold(), whole) if self.ignore_case else whole


def normal(path: str, cwd: str = "", *, ignore_case: bool = False) -> str:
    """The one form of a path; relative to `cwd` if it lies under it."""
    text = _slashed(path.removeprefix("file://"), cwd)
    whole = _collapsed(text)
    if cwd:
        whole = _below(whole, _collapsed(_slashed(cwd)).rstrip("/"), ignore_case)
    return whole + "/" if text.endswith("/") and whole not in ("/", ".") else whole


def _below(path: str, root: str, ignore_case: bool) -> str:
    """The path as seen from the root, if it lies under it."""
    start, rest = path[: len(root)], path[len(root) :]
    if start != root and not (ignore_case and start.casefold() == root.casefold()):
        return path
    return rest[1:] if rest.startswith("/") else path if rest else "."


def joined(folder: str, path: str) -> str:
    """A path as seen from a folder."""
    if not folder or _rooted(path):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def _rooted(path: str) -> bool:
    return path.startswith(("/", "~", "\\")) or (path[1:2] == ":" and path[:1].isalpha())


def _slashed(path: str, cwd: str = "") -> str:
    return path.replace("\\", "/") if "\\" in path and _is_windows(path, cwd) else path


def _is_windows(path: str, cwd: str) -> bool:
    """Whether the backslashes of a path part it."""
    return bool(
        _DRIVE.match(path) or _DRIVE.match(cwd) or ("/" not in path and not _ESCAPE.search(path))
    )


def _collapsed(path: str) -> str:
    if (
        "//" not in path
        and "./" not in path
        and not path.endswith(("/", "/.", "/.."))
        and path not in (".", "..")
    ):
        return path
    rooted = path.startswith("/")
    out: list[str] = []
    for part in path.split("/"):
        if part == ".." and out and out[-1] != "..":
            out.pop()
        elif part not in ("", ".", "..") or (part == ".." and not rooted):
            out.append(part)
    return ("/" if rooted else "") + "/".join(out) or ("/" if rooted else ".")
