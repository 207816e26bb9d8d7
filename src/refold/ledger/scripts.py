"""The files that a small script writes, where its text says so: `open('a.py', 'w')`,
`Path('a.py').write_text(…)`.

Agents that have only a shell edit files by scripts they write and run. Only literal names count,
directly or through a variable that is given one; what a script computes is not known. Neighbour:
`shell`, which finds scripts in commands.
"""

from __future__ import annotations

import re

from refold.ledger.patches import patched
from refold.ledger.paths import is_path

CODE_MAX = 200_000
FILES_MAX = 50
PATCHES = (".patch", ".diff")
SUFFIXES = (".py", ".js", ".mjs", ".cjs", *PATCHES)

_LITERAL = r"""[rRbuU]{0,2}(?:'([^'\n\\{}]{1,300})'|"([^"\n\\{}]{1,300})")"""
_WHERE = rf"(?:{_LITERAL}|([A-Za-z_]\w{{0,60}}))"
_OPENED = re.compile(
    rf"""\bopen\(\s{{0,9}}{_WHERE}\s{{0,9}},\s{{0,9}}(?:mode\s?=\s?)?['"]([a-z+]{{1,4}})['"]"""
)
_WRITTEN = re.compile(
    rf"""(?:\bPath\(\s{{0,9}}{_WHERE}\s{{0,9}}\)|\b([A-Za-z_]\w{{0,60}}))\.write_(?:text|bytes)\("""
)
_WRITTEN_BY_NODE = re.compile(
    rf"\b(?:writeFile|writeFileSync|appendFileSync)\(\s{{0,9}}{_WHERE}\s{{0,9}},"
)
_NAMED = re.compile(
    rf"(?m)^\s{{0,40}}(?:const |let |var )?([A-Za-z_]\w{{0,60}})\s?=\s?(?:(?:pathlib\.)?Path\()?{_LITERAL}\)?;?"
    r"\s{0,9}(?:#.{0,200})?$"
)


def changes_of(path: str, text: str) -> list[tuple[str, str]]:
    """Kind and path of every file that is changed when this script is run, or this patch
    applied."""
    return patched(text) if path.endswith(PATCHES) else files_written(text)


def files_written(code: str) -> list[tuple[str, str]]:
    """Kind and path of every file that the script says it writes: one it also reads is modified,
    else created."""
    code = code[:CODE_MAX]
    if (
        "open(" not in code
        and ".write_" not in code
        and "writeFile" not in code
        and "appendFile" not in code
    ):
        return []
    named = {match.group(1): match.group(2) or match.group(3) for match in _NAMED.finditer(code)}
    paths: dict[str, str] = {}
    for match in _OPENED.finditer(code):
        path = _path(match.groups()[:3], named)
        if set(match.group(4)) & set("wax+"):
            paths[path] = "create" if match.group(4)[0] in "wx" else "modify"
    for match in (*_WRITTEN.finditer(code), *_WRITTEN_BY_NODE.finditer(code)):
        first, second, *variables = match.groups()
        paths.setdefault(
            _path((first, second, next(filter(None, variables), None)), named), "create"
        )
    found = [
        (kind, path)
        for path, kind in paths.items()
        if is_path(path) and not path.startswith("/dev/")
    ]
    return [
        ("modify" if _reads(code, path, named) else kind, path) for kind, path in found[:FILES_MAX]
    ]


def _path(groups: tuple[str | None, ...], named: dict[str, str]) -> str:
    first, second, variable = groups
    return first or second or named.get(variable or "", "")


def _reads(code: str, path: str, named: dict[str, str]) -> bool:
    """Whether the script reads the file too, so that it was there before."""
    names = [re.escape(name) for name, value in named.items() if value == path]
    where = "|".join([rf"""['"]{re.escape(path)}['"]""", *names])
    read = (
        rf"""\bopen\(\s?(?:{where})\s?(?:\)|,\s?(?:mode\s?=\s?)?['"]r|,\s?encoding)"""
        rf"""|(?:{where})\)?\.read_|readFileSync\((?:{where})"""
    )
    return re.search(read, code) is not None
