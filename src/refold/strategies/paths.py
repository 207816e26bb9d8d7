"""When two spellings name the same file: lexically, without asking a disk.

`./a`, `a`, `x/../a` and `a//b` are brought to one form; a path under a known `cwd` is made relative to it. Case counts.
Backslashes are slashes only in a path that shows it is a Windows one.
"""

from __future__ import annotations

PATH_MAX = 4_096


def is_path(text: object) -> bool:
    """Whether this can be the name of a file at all."""
    return isinstance(text, str) and 0 < len(text) <= PATH_MAX and "\n" not in text and "\x00" not in text


def normal(path: str, cwd: str = "") -> str:
    """The one form of a path; relative to `cwd` if it lies under it."""
    text = _slashed(path.removeprefix("file://"))
    whole = _collapsed(text)
    if cwd:
        root = _collapsed(_slashed(cwd)).rstrip("/")
        whole = whole.removeprefix(root + "/") if whole != root else "."
    return whole + "/" if text.endswith("/") and whole not in ("/", ".") else whole


def joined(folder: str, path: str) -> str:
    """A path as seen from a folder."""
    if not folder or _rooted(path):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def _rooted(path: str) -> bool:
    return path.startswith(("/", "~", "\\")) or (path[1:2] == ":" and path[:1].isalpha())


def _slashed(path: str) -> str:
    return path.replace("\\", "/") if "\\" in path else path


def _collapsed(path: str) -> str:
    if "//" not in path and "./" not in path and not path.endswith(("/", "/.", "/..")) and path not in (".", ".."):
        return path
    rooted = path.startswith("/")
    out: list[str] = []
    for part in path.split("/"):
        if part == ".." and out and out[-1] != "..":
            out.pop()
        elif part not in ("", ".", "..") or (part == ".." and not rooted):
            out.append(part)
    return ("/" if rooted else "") + "/".join(out) or ("/" if rooted else ".")
