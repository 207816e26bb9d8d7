"""What a search gave, in a few words: how many results, and the files in which most of them are
(M-61).

Known by its shape, whatever the tool: nearly every line names a file (`path`, `path:12: text`,
`path-12-text`), or it is a JSON list whose items name one. Contents are data: nothing is opened,
names are only counted. Neighbour: `offload`, whose stubs say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from refold.display import cut, one_line

NAMES_MAX, OTHERS_MAX = 5, 3
SAMPLE_LINES, SAMPLE_CHARS, SHARE_MIN, RESULTS_MIN = 200, 40_000, 0.8, 5
CONTENT_CHARS_MAX, JSON_CHARS_MAX = 16 * 1024 * 1024, 2 * 1024 * 1024
NAME_CHARS, LINE_CHARS = 100, 100  # with these a stub has at most 2,000
# The first word of a line, of bounded length and taken whole or not at all: lines are data and may
# be hostile.
_WORD = re.compile(r"(?:[A-Za-z]:(?=[/\\]))?[^\s:\"'(){}<>|=,;]{1,250}+")
_ENDING, _CONTEXT = re.compile(r"\.[A-Za-z]\w{0,9}$"), re.compile(r"-\d{1,9}-")
_KEYS = ("path", "file", "filename", "file_path", "uri", "url", "name", "title")


class Results(Struct, frozen=True):
    """How many results there are, how many in each file, the files with most first, the first
    line of each, and the last lines that name none."""

    count: int
    files: dict[str, int]
    firsts: dict[str, str]
    others: tuple[str, ...] = ()

    def said(self) -> str:
        """`15 results in 7 files, most in:` and at most five files, then what else was said."""
        heading = f"{self.count:,} results in {len(self.files):,} file{'s' * (len(self.files) > 1)}"
        heading += ", most in:" if len(self.files) > NAMES_MAX else ":"
        rows = [self._row(name) for name in islice(self.files, NAMES_MAX)]
        return "\n".join([heading, *rows, *self.others])

    def _row(self, name: str) -> str:
        times = f" ({self.files[name]:,})" if self.files[name] > 1 else ""
        line = self.firsts[name]
        return f"{_cut(name, NAME_CHARS)}{times}" + (f": {_cut(line, LINE_CHARS)}" if line else "")


def results_of(content: str | bytes) -> Results | None:
    """The results that a content lists; None if it is something else."""
    if len(content) > CONTENT_CHARS_MAX:
        return None
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    found = _in_json(text) if text[:1] in ("[", "{") else _in_lines(text)
    return found if found is not None and found.count >= RESULTS_MIN else None


def _in_lines(text: str) -> Results | None:
    sample = list(islice(_lines(text[:SAMPLE_CHARS]), SAMPLE_LINES))
    if sum(_place(line) is not None for line in sample) < SHARE_MIN * max(1, len(sample)):
        return None
    places, others = list[tuple[str, str]](), list[str]()
    for line in _lines(text):
        place = _place(line)
        if place is None:
            others.append(line)
        else:
            places.append(place)
    if len(others) > (1 - SHARE_MIN) * (len(places) + len(others)):
        return None
    return _counted(places, [_cut(line, LINE_CHARS) for line in others[-OTHERS_MAX:]])


def _place(line: str) -> tuple[str, str] | None:
    """The file that a line begins with, and what it says of it: a path, or a name with an
    ending; behind it stands nothing, a colon (behind a mere name, the number of a line, too), or
    `-12-`, as grep marks lines around a match."""
    word = _WORD.match(line)
    if word is None:
        return None
    name, rest = word[0], line[word.end() :]
    if rest and not rest.startswith(":"):
        around = _CONTEXT.search(name)
        if around is None:
            return None
        name, rest = name[: around.start()], line[around.start() :]
    if "/" in name or "\\" in name:
        return (name, rest[1:].strip()) if any(map(str.isalpha, name)) else None
    is_placed = not rest or rest[1:2].isdigit()
    return (name, rest[1:].strip()) if is_placed and _ENDING.search(name) else None


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.split("\n") if line.strip())


def _in_json(text: str) -> Results | None:
    if len(text) > JSON_CHARS_MAX:
        return None
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    names = [_name(item) for item in value] if isinstance(value, list) else []
    places = [(name, "") for name in names if name]
    return _counted(places, ()) if places and len(places) >= SHARE_MIN * len(names) else None


def _name(item: Any) -> str:
    if isinstance(item, str):
        return item if _place(item) == (item, "") else ""
    given = [item[key] for key in _KEYS if key in item] if isinstance(item, dict) else []
    return next((name for name in given if isinstance(name, str) and name.strip()), "")


def _counted(places: Iterable[tuple[str, str]], others: Iterable[str]) -> Results:
    files: dict[str, int] = {}
    firsts: dict[str, str] = {}
    for name, line in places:
        files[name] = files.get(name, 0) + 1
        firsts.setdefault(name, line)
    most = dict(sorted(files.items(), key=lambda item: -item[1]))
    return Results(sum(files.values()), most, firsts, tuple(others))


def _cut(text: str, most: int) -> str:
    return cut(one_line(text), most)
