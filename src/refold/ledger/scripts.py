"""The files that a small script writes, where its text says so: `open('a.py', 'w')`,
`Path('a.py').write_text(…)`.

Agents that have only a shell edit files by scripts they write and run. Only literal names count,
directly or through a variable that is given one; what a script computes is not known. Neighbours:
`shell` and `shell_changes`, which find scripts in commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.ledger.kinds import ChangeKind
from refold.ledger.patches import FileChange, patched
from refold.ledger.paths import is_path

CODE_MAX = 200_000
FILES_MAX = 50
PATCHES = (".patch", ".diff")
SUFFIXES = (".py", ".js", ".mjs", ".cjs", *PATCHES)

_HINTS = ("open(", ".write_", "writeFile", "appendFile")
_LITERAL = r"""[rRbuU]{0,2}(?:'([^'\n\\{}]{1,300})'|"([^"\n\\{}]{1,300})")"""
_WHERE = rf"(?:{_LITERAL}|([A-Za-z_]\w{{0,60}}))"
_OPENED = re.compile(
    rf"""\bopen\(\s{{0,9}}{_WHERE}\s{{0,9}},\s{{0,9}}(?:mode\s?=\s?)?['"]([a-z+]{{1,4}})['"]"""
)
_WRITTEN = re.compile(
    rf"(?:\bPath\(\s{{0,9}}{_WHERE}\s{{0,9}}\)|\b([A-Za-z_]\w{{0,60}}))\.write_(?:text|bytes)\("
)
_WRITTEN_BY_NODE = re.compile(
    rf"\b(?:writeFile|writeFileSync|appendFileSync)\(\s{{0,9}}{_WHERE}\s{{0,9}},"
)
_NAMED = re.compile(
    r"(?m)^\s{0,40}(?:const |let |var )?([A-Za-z_]\w{0,60})\s?=\s?(?:(?:pathlib\.)?Path\()?"
    rf"{_LITERAL}\)?;?\s{{0,9}}(?:#.{{0,200}})?$"
)


def changes_of(path: str, text: str) -> list[FileChange]:
    """What happens to files when this script is run, or this patch applied."""
    return patched(text) if path.endswith(PATCHES) else files_written(text)


def files_written(code: str) -> list[FileChange]:
    """The files that the script says it writes: one it also reads is modified, else created."""
    code = code[:CODE_MAX]
    if not any(hint in code for hint in _HINTS):
        return []
    variables = {match[1]: match[2] or match[3] for match in _NAMED.finditer(code)}
    kinds = _kinds_by_path(code, variables)
    paths = [path for path in kinds if is_path(path) and not path.startswith("/dev/")]
    return [
        FileChange("modify" if _is_read(code, path, variables) else kinds[path], path)
        for path in paths[:FILES_MAX]
    ]


def _kinds_by_path(code: str, variables: dict[str, str]) -> dict[str, ChangeKind]:
    """What the writing calls in a script do, each taken alone."""
    kinds: dict[str, ChangeKind] = dict(_opened_to_write(code, variables))
    for path in _written_whole(code, variables):
        kinds.setdefault(path, "create")
    return kinds


def _opened_to_write(code: str, variables: dict[str, str]) -> Iterator[tuple[str, ChangeKind]]:
    """The paths of `open(…)` with a mode that writes, and what that does to the file."""
    for match in _OPENED.finditer(code):
        mode = match[4]
        if set(mode) & set("wax+"):
            kind: ChangeKind = "create" if mode[0] in "wx" else "modify"
            yield _literal_path(match[1] or match[2], match[3], variables), kind


def _written_whole(code: str, variables: dict[str, str]) -> Iterator[str]:
    """The paths that a method or a function of Node writes."""
    for match in (*_WRITTEN.finditer(code), *_WRITTEN_BY_NODE.finditer(code)):
        first, second, *names = match.groups()
        name = next(filter(None, names), None)
        yield _literal_path(first or second, name, variables)


def _literal_path(literal: str | None, variable: str | None, variables: dict[str, str]) -> str:
    return literal or variables.get(variable or "", "")


def _is_read(code: str, path: str, variables: dict[str, str]) -> bool:
    """Whether the script also reads the file, so that it was there before."""
    names = [re.escape(name) for name, value in variables.items() if value == path]
    where = "|".join([rf"""['"]{re.escape(path)}['"]""", *names])
    read = (
        rf"""\bopen\(\s?(?:{where})\s?(?:\)|,\s?(?:mode\s?=\s?)?['"]r|,\s?encoding)"""
        rf"""|(?:{where})\)?\.read_|readFileSync\((?:{where})"""
    )
    return re.search(read, code) is not None
