"""The files that a patch changes or a small script writes, read from their text.

Patches are `*** Update File:` bodies and unified diffs. Scripts count because agents with only a
shell edit files by scripts they write and run: `open('a.py', 'w')`, `Path('a.py').write_text(…)`.
Only literal names count, directly or through a variable; computed names are ignored. Neighbours:
`actions` has the patches of calls, `shell` the scripts and patches in commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from refold.ledger.arguments import is_path
from refold.ledger.facts import ChangeKind
from refold.patterns import regex

FILES_MAX = 1_000
PAIR_CHARS = 8_192  # for the two header lines of a file in a unified diff

_MOVE = "*** Move to: "
_HEADERS: dict[str, ChangeKind] = {
    "*** Add File: ": "create",
    "*** Update File: ": "modify",
    "*** Delete File: ": "delete",
    _MOVE: "create",
}


class FileChange(NamedTuple):
    """The change of one file."""

    kind: ChangeKind
    path: str


def patched(body: str) -> list[FileChange]:
    """The changes of a patch, in order."""
    changes: list[FileChange] = []
    for start in islice(_line_starts(body, "*** "), FILES_MAX):
        end = body.find("\n", start)
        line = body[start:] if end < 0 else body[start:end]
        kind = next((kind for mark, kind in _HEADERS.items() if line.startswith(mark)), None)
        if kind is None:
            continue
        # A moved file was named by the header before.
        if line.startswith(_MOVE) and changes and changes[-1].kind == "modify":
            changes[-1] = FileChange("delete", changes[-1].path)
        if path := line.split(": ", 1)[1].strip():
            changes.append(FileChange(kind, path))
    return changes or _unified(body)


def _line_starts(body: str, mark: str) -> Iterator[int]:
    """The positions of lines that start with the mark."""
    if body.startswith(mark):
        yield 0
    at = body.find("\n" + mark) + 1
    while at:
        yield at
        at = body.find("\n" + mark, at) + 1


def _unified(body: str) -> list[FileChange]:
    """The changes of a unified diff."""
    changes: list[FileChange] = []
    for start in _line_starts(body, "--- "):
        if len(changes) >= FILES_MAX:
            break
        lines = body[start : start + PAIR_CHARS].split("\n", 2)
        if len(lines) > 1 and lines[1].startswith("+++ "):
            old, new = _diff_path(lines[0]), _diff_path(lines[1])
            if old == "/dev/null":
                changes.append(FileChange("create", new))
            elif new == "/dev/null":
                changes.append(FileChange("delete", old))
            else:
                changes.append(FileChange("modify", new))
    return changes


def _diff_path(line: str) -> str:
    """The path in a `--- ` or `+++ ` line."""
    path = line[4:].split("\t", 1)[0].strip()
    return path[2:] if path[:2] in ("a/", "b/") else path


CODE_MAX = 200_000
WRITTEN_MAX = 50  # files of one script
PATCHES = (".patch", ".diff")
SUFFIXES = (".py", ".js", ".mjs", ".cjs", *PATCHES)

_HINTS = ("open(", ".write_", "writeFile", "appendFile")
_LITERAL = r"""[rRbuU]{0,2}(?:'([^'\n\\{}]{1,300})'|"([^"\n\\{}]{1,300})")"""
_WHERE = rf"(?:{_LITERAL}|([A-Za-z_]\w{{0,60}}))"
_OPENED = regex(
    rf"""\bopen\(\s{{0,9}}{_WHERE}\s{{0,9}},\s{{0,9}}(?:mode\s?=\s?)?['"]([a-z+]{{1,4}})['"]"""
)
_WRITTEN = regex(
    rf"(?:\bPath\(\s{{0,9}}{_WHERE}\s{{0,9}}\)|\b([A-Za-z_]\w{{0,60}}))\.write_(?:text|bytes)\("
)
_WRITTEN_BY_NODE = regex(
    rf"\b(?:writeFile|writeFileSync|appendFileSync)\(\s{{0,9}}{_WHERE}\s{{0,9}},"
)
_NAMED = regex(
    r"(?m)^\s{0,40}(?:const |let |var )?([A-Za-z_]\w{0,60})\s?=\s?(?:(?:pathlib\.)?Path\()?"
    rf"{_LITERAL}\)?;?\s{{0,9}}(?:#.{{0,200}})?$"
)


def changes_of(path: str, text: str) -> list[FileChange]:
    """The changes made by running this script, or by applying this patch."""
    return patched(text) if path.endswith(PATCHES) else files_written(text)


def files_written(code: str) -> list[FileChange]:
    """The files that a script writes: one that it also reads is modified, else created."""
    code = code[:CODE_MAX]
    if not any(hint in code for hint in _HINTS):
        return []
    variables = {match[1]: match[2] or match[3] for match in _NAMED.finditer(code)}
    kinds: dict[str, ChangeKind] = {}
    for match in _OPENED.finditer(code):
        mode = match[4]
        if set(mode) & set("wax+"):
            path = match[1] or match[2] or variables.get(match[3] or "", "")
            kinds[path] = "create" if mode[0] in "wx" else "modify"
    for match in (*_WRITTEN.finditer(code), *_WRITTEN_BY_NODE.finditer(code)):
        first, second, *variable = match.groups()
        name = next(filter(None, variable), "")
        kinds.setdefault(first or second or variables.get(name, ""), "create")
    paths = [path for path in kinds if is_path(path) and not path.startswith("/dev/")]
    return [
        FileChange("modify" if _is_read(code, path, variables) else kinds[path], path)
        for path in paths[:WRITTEN_MAX]
    ]


def _is_read(code: str, path: str, variables: dict[str, str]) -> bool:
    """Whether the script also reads the file, which then existed before."""
    names = [re.escape(name) for name, value in variables.items() if value == path]
    where = "|".join([rf"""['"]{re.escape(path)}['"]""", *names])
    read = (
        rf"""\bopen\(\s?(?:{where})\s?(?:\)|,\s?(?:mode\s?=\s?)?['"]r|,\s?encoding)"""
        rf"""|(?:{where})\)?\.read_|readFileSync\((?:{where})"""
    )
    return re.search(read, code) is not None
