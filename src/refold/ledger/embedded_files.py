"""File text inside other text: `<file_content path="…">` mentions, `<final_file_content …>` after
an edit, and the `[read_file for 'path'] Result:` headers of agents that speak in plain text.

Everything is found literally. A tag that is not closed, or that holds another one, is left alone:
it never takes the text after it along. Neighbours: `actions` reads the headers, `dedup` the tags.

The files that a patch changes, read from its headers: `*** Update File:` bodies and unified
diffs.

Neighbours: `actions` asks for the patch of a call, `scripts` and `shell_changes` for those that a
command applies.

The files that a small script writes, where its text says so: `open('a.py', 'w')`,
`Path('a.py').write_text(…)`.

Agents that have only a shell edit files by scripts they write and run. Only literal names count,
directly or through a variable that is given one; what a script computes is not known. Neighbours:
`shell` and `shell_changes`, which find scripts in commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from refold.ledger.arguments import PATH_MAX, is_path
from refold.ledger.facts import ChangeKind

TAGS = ("final_file_content", "file_content")
TAGS_MAX = 10_000
HEADER_MAX = 5_000

_HEADER_END = "] Result:"


class Excerpt(NamedTuple):
    """The text of one file between its tags: characters `start` to `end` (exclusive) of the
    block's text."""

    path: str
    start: int
    end: int


class Header(NamedTuple):
    """`[tool for 'subject'] Result:` at the beginning of a text, and where it ends."""

    tool: str
    subject: str
    end: int


def excerpts(text: str) -> list[Excerpt]:
    """Every file text between tags, in order."""
    if "file_content path=" not in text:
        return []
    found = [excerpt for tag in TAGS for excerpt in _tagged(text, tag)]
    return _without_nested(sorted(found, key=attrgetter("start")))


def _tagged(text: str, tag: str) -> list[Excerpt]:
    """Tags of one name, paired like brackets; what was never closed pairs with nothing."""
    waiting: list[tuple[str, int]] = []
    found: list[Excerpt] = []
    opening, closing = f"<{tag} path=", f"</{tag}>"
    at, close = text.find(opening), text.find(closing)
    for _ in range(TAGS_MAX):
        if close < 0:
            break
        if 0 <= at < close:
            path, start = _opening_tag(text, at + len(opening))
            if start:
                waiting.append((path, start))
            at = text.find(opening, at + len(opening))
        else:
            if waiting:
                path, start = waiting.pop()
                found.append(Excerpt(path, start, close))
            close = text.find(closing, close + len(closing))
    return found


def _opening_tag(text: str, at: int) -> tuple[str, int]:
    """The path of an opening tag, in quotes of either kind, and where its content starts; 0 if
    this is not a tag."""
    quote = text[at : at + 1]
    if quote not in ("'", '"'):
        return "", 0
    path, mark, _ = text[at + 1 : at + PATH_MAX + 3].partition(f"{quote}>")
    if not mark or not is_path(path):
        return "", 0
    return path, at + 1 + len(path) + len(mark)


def _without_nested(found: list[Excerpt]) -> list[Excerpt]:
    """Without those that hold one another: it is not clear which of them is the file."""
    out: list[Excerpt] = []
    reach, is_nested = -1, False
    for excerpt in found:
        if excerpt.start < reach:
            is_nested = True
        elif is_nested:
            out.pop()
            is_nested = False
        if not is_nested:
            out.append(excerpt)
        reach = max(reach, excerpt.end)
    return out[:-1] if is_nested else out


def header(text: str) -> Header | None:
    """The header of a result given as text, with quotes of either kind."""
    if not text.startswith("["):
        return None
    line = text[:HEADER_MAX].partition("\n")[0]
    tool, mark, rest = line[1:].partition(" for ")
    quote = rest[:1]
    subject, end, _ = rest[1:].partition(quote + _HEADER_END)
    if not tool or " " in tool or not mark or quote not in ("'", '"') or not end:
        return None
    return Header(tool, subject, 1 + len(tool) + len(mark) + 1 + len(subject) + len(end))


def content_start(text: str, found: Header | None) -> int:
    """Where the content of a result starts: on the line after its header."""
    if found is None:
        return 0
    return found.end + 1 if text.startswith("\n", found.end) else found.end


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
    """What happens to one file."""

    kind: ChangeKind
    path: str


def patched(body: str) -> list[FileChange]:
    """What a patch does to every file in it, in order."""
    found: list[FileChange] = []
    starts = islice(_line_starts(body, "*** "), FILES_MAX)
    for start in starts:
        _read_header(_line_at(body, start), found)
    return found or _unified(body)


def _line_starts(body: str, mark: str) -> Iterator[int]:
    """Where the lines begin that start with the mark."""
    if body.startswith(mark):
        yield 0
    at = body.find("\n" + mark) + 1
    while at:
        yield at
        at = body.find("\n" + mark, at) + 1


def _line_at(body: str, start: int) -> str:
    """The line that begins here."""
    end = body.find("\n", start)
    return body[start:] if end < 0 else body[start:end]


def _read_header(line: str, found: list[FileChange]) -> None:
    """Adds what a header line says. A file that is moved was named by the header before."""
    kind = _header_kind(line)
    if kind is None:
        return
    path = line.split(": ", 1)[1].strip()
    if line.startswith(_MOVE) and found and found[-1].kind == "modify":
        found[-1] = FileChange("delete", found[-1].path)
    if path:
        found.append(FileChange(kind, path))


def _header_kind(line: str) -> ChangeKind | None:
    """What a header line says of its file; None if it is not one."""
    for head, kind in _HEADERS.items():
        if line.startswith(head):
            return kind
    return None


def _unified(body: str) -> list[FileChange]:
    found: list[FileChange] = []
    for start in _line_starts(body, "--- "):
        if len(found) >= FILES_MAX:
            break
        lines = body[start : start + PAIR_CHARS].split("\n", 2)
        if len(lines) > 1 and lines[1].startswith("+++ "):
            found.append(_change_between(lines[0], lines[1]))
    return found


def _change_between(old_line: str, new_line: str) -> FileChange:
    old, new = _diff_path(old_line), _diff_path(new_line)
    if old == "/dev/null":
        return FileChange("create", new)
    if new == "/dev/null":
        return FileChange("delete", old)
    return FileChange("modify", new)


def _diff_path(line: str) -> str:
    """The path in a line that begins with `--- ` or `+++ `."""
    path = line[4:].split("\t", 1)[0].strip()
    return path[2:] if path[:2] in ("a/", "b/") else path


CODE_MAX = 200_000
SCRIPTS_FILES_MAX = 50
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
        for path in paths[:SCRIPTS_FILES_MAX]
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
