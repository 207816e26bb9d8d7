"""What a search gave, in a few words: how many results, and the files in which most of them are.

A search is recognized by its shape, whatever the tool: nearly every line names a file (`path`,
`path:12: text`, `path-12-text`), or it is a JSON list whose items name one. Contents are data:
nothing is opened, names are only counted. Neighbour: `offload` puts it into stubs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from refold.display import cut, one_line, plural

NAMES_MAX, OTHERS_MAX = 5, 3
SAMPLE_LINES, SAMPLE_CHARS, SHARE_MIN, RESULTS_MIN = 200, 40_000, 0.8, 5
CONTENT_CHARS_MAX, JSON_CHARS_MAX = 16 * 1024 * 1024, 2 * 1024 * 1024
NAME_CHARS, LINE_CHARS = 100, 100  # with these a stub has at most 2,000
# The first word of a line, of bounded length and taken whole or not at all: lines are data and may
# be hostile.
_WORD = re.compile(r"(?:[A-Za-z]:(?=[/\\]))?[^\s:\"'(){}<>|=,;]{1,250}+")
_ENDING, _CONTEXT = re.compile(r"\.[A-Za-z]\w{0,9}$"), re.compile(r"-\d{1,9}-")
_KEYS = ("path", "file", "filename", "file_path", "uri", "url", "name", "title")

FileMatch = tuple[str, str]  # the name of a file, and what a line says of it


class Results(Struct, frozen=True):
    """How many results there are, how many in each file, the files with most first, the first
    line of each, and the last lines that name none."""

    count: int
    files: dict[str, int]
    firsts: dict[str, str]
    others: tuple[str, ...] = ()

    def text(self) -> str:
        """`15 results in 7 files, most in:` and at most five files, then the other lines."""
        rows = map(self._file_text, islice(self.files, NAMES_MAX))
        return "\n".join([self._heading(), *rows, *self.others])

    def _heading(self) -> str:
        number = len(self.files)
        end = ", most in:" if number > NAMES_MAX else ":"
        return f"{self.count:,} results in {number:,} {plural('file', number)}{end}"

    def _file_text(self, name: str) -> str:
        text = _short(name, NAME_CHARS)
        if self.files[name] > 1:
            text += f" ({self.files[name]:,})"
        if self.firsts[name]:
            text += f": {_short(self.firsts[name], LINE_CHARS)}"
        return text


def results_of(content: str | bytes) -> Results | None:
    """The results that a content lists; None if it is something else."""
    if len(content) > CONTENT_CHARS_MAX:
        return None
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    found = _in_json(text) if text[:1] in ("[", "{") else _in_lines(text)
    if found is None or found.count < RESULTS_MIN:
        return None
    return found


def _in_lines(text: str) -> Results | None:
    sample = list(islice(_lines_with_text(text[:SAMPLE_CHARS]), SAMPLE_LINES))
    likely = sum(_file_match(line) is not None for line in sample)
    if likely < SHARE_MIN * max(1, len(sample)):
        return None
    matches, others = _matches_and_others(text)
    if len(others) > (1 - SHARE_MIN) * (len(matches) + len(others)):
        return None
    return _counted(matches, [_short(line, LINE_CHARS) for line in others[-OTHERS_MAX:]])


def _matches_and_others(text: str) -> tuple[list[FileMatch], list[str]]:
    """The lines of a text that name a file, and those that name none."""
    matches, others = [], []
    for line in _lines_with_text(text):
        match = _file_match(line)
        if match is None:
            others.append(line)
        else:
            matches.append(match)
    return matches, others


def _file_match(line: str) -> FileMatch | None:
    """The file that a line begins with, and what it says of it: a path, or a name with an ending.
    After it comes nothing, a colon (after a mere name, the number of a line as well), or `-12-`, as
    grep marks lines around a match."""
    end = _name_end(line)
    name, rest = line[:end], line[end:]
    return (name, rest[1:].strip()) if _is_file(name, rest) else None


def _name_end(line: str) -> int:
    """Where the name at the beginning of a line ends; 0 if what follows does not fit."""
    word = _WORD.match(line)
    if word is None:
        return 0
    if word.end() == len(line) or line[word.end()] == ":":
        return word.end()
    around = _CONTEXT.search(word[0])
    return around.start() if around else 0


def _is_file(name: str, rest: str) -> bool:
    """Whether a name is that of a file: a path, or one with an ending and nothing or the number of
    a line after it."""
    if "/" in name or "\\" in name:
        return any(map(str.isalpha, name))
    is_placed = not rest or rest[1:2].isdigit()
    return is_placed and _ENDING.search(name) is not None


def _lines_with_text(text: str) -> Iterator[str]:
    return (line for line in text.split("\n") if line.strip())


def _in_json(text: str) -> Results | None:
    items = _items(text)
    names = [name for item in items if (name := _file_name(item))]
    if not names or len(names) < SHARE_MIN * len(items):
        return None
    return _counted([(name, "") for name in names], ())


def _items(text: str) -> list[Any]:
    """The items of a JSON list, or of the only list in a JSON object."""
    if len(text) > JSON_CHARS_MAX:
        return []
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return []
    values = value.values() if isinstance(value, dict) else [value]
    lists = [one for one in values if isinstance(one, list)]
    return lists[0] if len(lists) == 1 else []


def _file_name(item: Any) -> str:
    if isinstance(item, str):
        return item if _file_match(item) == (item, "") else ""
    if isinstance(item, dict):
        for key in _KEYS:
            name = item.get(key)
            if isinstance(name, str) and name.strip():
                return name
    return ""


def _counted(matches: Iterable[FileMatch], others: Iterable[str]) -> Results:
    files: dict[str, int] = {}
    firsts: dict[str, str] = {}
    for name, line in matches:
        files[name] = files.get(name, 0) + 1
        firsts.setdefault(name, line)
    most_first = dict(sorted(files.items(), key=lambda item: -item[1]))
    return Results(sum(files.values()), most_first, firsts, tuple(others))


def _short(text: str, length: int) -> str:
    return cut(one_line(text), length)
