"""The files that a patch touches, read from its headers: `*** Update File:` bodies and unified
diffs."""

from __future__ import annotations

FILES_MAX = 1_000

_HEADERS = {
    "*** Add File: ": "create",
    "*** Update File: ": "modify",
    "*** Delete File: ": "delete",
    "*** Move to: ": "create",
}


def patched(body: str) -> list[tuple[str, str]]:
    """Kind and path of every file in a patch, in order."""
    found: list[tuple[str, str]] = []
    for line in _header_lines(body):
        kind = next((kind for head, kind in _HEADERS.items() if line.startswith(head)), "")
        if kind:
            path = line.split(": ", 1)[1].strip()
            if line.startswith("*** Move to: ") and found and found[-1][0] == "modify":
                found[-1] = ("delete", found[-1][1])
            if path:
                found.append((kind, path))
    return found or _unified(body)


def _header_lines(body: str) -> list[str]:
    lines: list[str] = []
    at = 0 if body.startswith("*** ") else body.find("\n*** ") + 1
    while (at or body.startswith("*** ")) and len(lines) < FILES_MAX:
        end = body.find("\n", at)
        lines.append(body[at : end if end >= 0 else len(body)])
        at = body.find("\n*** ", at) + 1
        if not at:
            break
    return lines


def _unified(body: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0 if body.startswith("--- ") else body.find("\n--- ") + 1
    while (at or body.startswith("--- ")) and len(found) < FILES_MAX:
        pair = body[at : at + 8_192].split("\n", 2)
        if len(pair) > 1 and pair[1].startswith("+++ "):
            found += _pair(_diff_path(pair[0][4:]), _diff_path(pair[1][4:]))
        at = body.find("\n--- ", at) + 1
        if not at:
            break
    return found


def _pair(old: str, new: str) -> list[tuple[str, str]]:
    if old == "/dev/null":
        return [("create", new)]
    return [("delete", old)] if new == "/dev/null" else [("modify", new)]


def _diff_path(text: str) -> str:
    path = text.split("\t", 1)[0].strip()
    return path[2:] if path[:2] in ("a/", "b/") else path
