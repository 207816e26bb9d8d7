"""What a search gave: nearly every line, or every item of a JSON list, names a file (`path`,
`path:12: text`, `path-12-text`) or a page.

Shown are how many results there are, and of the files in which most of them are one each, then the
lines that name none. Contents are data: nothing is opened, names are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from refold.artifacts.kinds import tables
from refold.artifacts.kinds.sample import Sample, Telling
from refold.display import plural

NAMES_MAX, OTHERS_MAX, SHARE_MIN, RESULTS_MIN, AFTER_MAX = 5, 3, 0.8, 5, 2
# The first word of a line, of bounded length and taken whole or not at all: lines are data and may
# be hostile.
_WORD = re.compile(r"(?:[A-Za-z]:(?=[/\\]))?[^\s:\"'(){}<>|=,;]{1,250}+")
_ENDING, _CONTEXT = re.compile(r"\.[A-Za-z]\w{0,9}$"), re.compile(r"-\d{1,9}-")
FIELDS = ("path", "file", "filename", "file_path", "filePath", "uri", "url", "link", "href")
NAME_CHARS_MAX, LISTED_CHARS_MAX = 250, 2_000_000
_FIELD = re.compile(rf'"(?:{"|".join(FIELDS)})" ?: ?"([^"]{{1,250}})"')
_FRAME = re.compile(r'\s*(?:"\w{1,40}" ?: ?)?[\[\]{},\s]*')  # what holds the items of JSON
_ITEM = re.compile(r'\s*(?:"\w{1,40}" ?: ?\[)?\s*"([^"]{1,250})",?\s*$')


class Results(Struct, frozen=True):
    """The places of the results by file, those with most first, and the places of other lines."""

    files: dict[str, list[int]]
    others: list[int]

    @property
    def count(self) -> int:
        return sum(map(len, self.files.values()))


def results_in(sample: Sample) -> Results:
    """The results that a sample lists."""
    files: dict[str, list[int]] = {}
    others = []
    for at, line in enumerate(sample.lines):
        is_item = sample.files or sample.unit == "items"
        name = _item_file(line) if is_item else _line_file(line)
        if name:
            files.setdefault(name, []).append(at)
        elif line.strip():
            others.append(at)
    most_first = dict(sorted(files.items(), key=lambda item: -len(item[1])))
    return Results(most_first, others)


def items_in(text: str) -> list[Any]:
    """What a text lists that is a JSON list, or an object that has one; nothing where it is
    neither."""
    if len(text) > LISTED_CHARS_MAX:
        return []
    value = tables.value_of(text)
    lists = [value, *(value.values() if isinstance(value, dict) else ())]
    return max((one for one in lists if isinstance(one, list)), key=len, default=[])


def files_in(text: str) -> list[str]:
    """The file of each result where a text is a JSON list of results; none where it is not."""
    items = items_in(text)
    files = [file for file in map(_file_of, items) if file]
    is_enough = len(files) >= max(RESULTS_MIN, SHARE_MIN * len(items))
    return files if is_enough else []


def _file_of(item: object) -> str:
    """The file that a result names."""
    if isinstance(item, str):
        return item if _line_file(item[: NAME_CHARS_MAX + 1]) == item else ""
    named = (item.get(field) for field in FIELDS) if isinstance(item, dict) else ()
    return next((one for one in named if isinstance(one, str) and one), "")[:NAME_CHARS_MAX]


def fits(sample: Sample) -> bool:
    if sample.files:
        return True
    found = results_in(sample)
    others = sum(_FRAME.fullmatch(sample.lines[at]) is None for at in found.others)
    return found.count >= RESULTS_MIN and others <= (1 - SHARE_MIN) * (found.count + others)


def telling(sample: Sample) -> Iterator[Telling]:
    found = results_in(sample)
    chosen = list(found.files.values())[:NAMES_MAX]
    for places in chosen:
        yield Telling(places[0], len(places) - 1)
    if sample.files:
        # What the items say besides, where that stands in lines of its own.
        nameless = set(found.others)
        after = [places[0] + step for step in range(1, AFTER_MAX + 1) for places in chosen]
        yield from (Telling(at) for at in after if at in nameless)
    if sample.unit != "items" and not sample.files:
        yield from map(Telling, found.others[-OTHERS_MAX:])


def about(sample: Sample) -> str:
    """`15 results in 7 files`; of very many, only how many."""
    found = results_in(sample)
    if not sample.is_whole and not sample.files:
        return f"about {sample.total:,} results"
    files = set(sample.files) or set(found.files)
    number, count = len(files), len(sample.files) or found.count
    noun = "page" if all("://" in file for file in files) else "file"
    return f"{count:,} results in {number:,} {plural(noun, number)}"


def _line_file(line: str) -> str:
    """The file that a line begins with: a path, or a name with an ending. After it comes nothing, a
    colon (after a mere name, the number of a line as well), or `-12-`, as grep marks lines around a
    match."""
    end = _name_end(line)
    name, rest = line[:end], line[end:]
    return name if _is_file(name, rest) else ""


def _item_file(item: str) -> str:
    """The file that an item of JSON names."""
    named = _FIELD.search(item)
    if named:
        return named[1]
    alone = _ITEM.match(item)
    return alone[1] if alone and _line_file(alone[1]) == alone[1] else ""


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
