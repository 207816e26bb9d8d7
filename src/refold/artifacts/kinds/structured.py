"""One JSON value: its shape, sample rows, and what in it speaks of trouble.

A value on one line is parted where its items are, so that rows can be shown as they stand; one that
is laid out over many lines is shown by its lines. Keys that are new come first: they are the shape.

A record of JSON on every line: the first, those that speak of trouble, one of each shape, the
last.

Rows and columns: CSV and its relatives, tables of databases, listings such as `ls -l` and `ps`.
The heading, the first rows, rows that are unlike the others, the last.

What a search gave: nearly every line, or every item of a JSON list, names a file (`path`,
`path:12: text`, `path-12-text`) or a page.

Shown are how many results there are, and of the files in which most of them are one each, then the
lines that name none. Contents are data: nothing is opened, names are only counted.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from refold.artifacts.kinds.sample import (
    LINE_LOOKED_AT,
    PIECE_CHARS,
    Sample,
    Telling,
    ends,
    in_turn,
)
from refold.display import plural

PARTED_CHARS, ITEM_CHARS, LINES_MIN = 200_000, 150, 20
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},]')
_KEY = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*:')


def fits(sample: Sample) -> bool:
    start = sample.lines[0].lstrip()[:1] if sample.lines else ""
    last = (sample.uncut or sample.lines or ("",))[-1]
    end = last.rstrip()[-1:]
    if (start, end) not in (("{", "}"), ("[", "]")):
        return False
    text = "\n".join(sample.lines[:LINES_MIN])[:2_000]
    return _KEY.search(text) is not None or '",' in text or re.search(r"\d,", text) is not None


def parted(sample: Sample) -> Sample:
    """The items of a value that stands on one line, each as a line."""
    is_short = sample.unit == "lines" and sample.total == 1
    if sample.unit != "pieces" and not is_short:
        return sample
    text = "".join(sample.uncut or sample.lines)
    items = [text[start:end] for start, end in _items(text[:PARTED_CHARS])]
    total = len(items)
    if not sample.is_whole or len(text) > PARTED_CHARS:
        items.append(text[-ITEM_CHARS:])
        # How many there are is not known; about as many as in the first part for its length.
        total = max(total + 2, total * sample.total // -(-PARTED_CHARS // PIECE_CHARS))
    numbers = [*range(1, len(items)), total]
    return Sample(lines=items, numbers=numbers, total=total, unit="items")


def _items(text: str) -> list[tuple[int, int]]:
    """Where the parts of a value begin and end: a list or object that is short stays whole."""
    items: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []  # where a container begins, and how many items were before
    start = 0
    for mark in _MARK.finditer(text):
        at, sign = mark.start(), text[mark.start()]
        if sign in "[{":
            opened.append((start, len(items)))
            items.append((start, at + 1))
            start = at + 1
        elif sign in "]}" and opened:
            began, before = opened.pop()
            if start < at:
                items.append((start, at))
            if at + 1 - began <= ITEM_CHARS:
                items[before:] = [(began, at + 1)]
            else:
                items.append((at, at + 1))
            start = at + 1
        elif sign == ",":
            if start < at:
                items.append((start, at + 1))
            elif items:
                items[-1] = (items[-1][0], at + 1)
            start = at + 1
    if start < len(text):
        items.append((start, len(text)))
    return items


def value_of(text: str) -> Any:
    """The value that a text is; None where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def about(sample: Sample) -> str:
    """`JSON, a list of 2,000`, where all of it was looked at."""
    value = value_of("".join(sample.uncut or sample.lines)) if sample.is_whole else None
    if not isinstance(value, list | dict):
        return "JSON"
    kind = "a list" if isinstance(value, list) else "an object"
    return f"JSON, {kind} of {len(value):,}"


def telling(sample: Sample) -> Iterator[Telling]:
    count, bad = len(sample.lines), sample.troubled
    yield from in_turn(_new_keys(sample), map(Telling, bad[:8]))
    yield from map(Telling, bad)
    yield from ends(sample, first=8, last=3)
    yield from (Telling(at) for at in range(0, count, max(1, count // 20)))


def _new_keys(sample: Sample) -> Iterator[Telling]:
    """Lines with a key that was not there before."""
    known: set[str] = set()
    for at, line in enumerate(sample.lines):
        keys = {match[1] for match in _KEY.finditer(line)}
        if keys - known or at == 0:
            known |= keys
            yield Telling(at)


ROWS_MIN, LOOKED_AT = 3, 20
_JSON_LINES_KEY = re.compile(r'\s*"([^"\\]{1,60})"\s*:')


def json_lines_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:LOOKED_AT] if line.strip()]
    return len(lines) >= ROWS_MIN and all(map(_is_record, lines))


def _is_record(line: str) -> bool:
    """Whether a line is an object. Lines are cut where they are long: then its end is not seen."""
    if not line.startswith("{") or (
        _JSON_LINES_KEY.match(line, 1) is None and line.rstrip() != "{}"
    ):
        return False
    return len(line) >= LINE_LOOKED_AT or line.rstrip().endswith("}")


def json_lines_telling(sample: Sample) -> Iterator[Telling]:
    count = len(sample.lines)
    yield Telling(0)
    yield from map(Telling, sample.troubled)
    shapes: dict[tuple[str, ...], int] = {}
    for at, line in enumerate(sample.lines):
        shapes.setdefault(tuple(_JSON_LINES_KEY.findall(line[:2_000])), at)
    yield from map(Telling, shapes.values())
    yield Telling(count - 1)
    yield from ends(sample)


TABLE_ROWS_MIN, SHARE_MIN, TABLE_LOOKED_AT = 5, 0.9, 200
DELIMITERS = ("\t", ",", ";", "|")
_RULE = re.compile(r"[-+|= :]{5,}$")
_LISTED = re.compile(r"[-dlbcps][-rwxsStT]{9}[.+@]? +\d+ |total \d+$")
_HEADING = re.compile(r"(?:[A-Z%][A-Z0-9%_/.+-]*(?: [a-z]+)?(?:\s+|$)){3,}$")
_EMPTY = re.compile(r"(?:,,|\t\t|;;|\bNULL\b|\bNaN\b|\bnan\b|\bnull\b)")


def table_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:TABLE_LOOKED_AT] if line.strip()]
    if len(lines) < TABLE_ROWS_MIN:
        return False
    listed = sum(_LISTED.match(line) is not None for line in lines)
    is_listing = listed > SHARE_MIN * len(lines) or _HEADING.match(lines[0]) is not None
    return is_listing or bool(_delimiter(lines))


def _delimiter(lines: list[str]) -> str:
    """What parts the columns: nearly every line has it equally often. Empty if nothing does."""
    for delimiter in DELIMITERS:
        counts = Tally(line.count(delimiter) for line in lines)
        [(number, times)] = counts.most_common(1)
        if number and times >= SHARE_MIN * len(lines) and _is_tabular(delimiter, number, lines):
            return delimiter
    return ""


def _is_tabular(delimiter: str, number: int, lines: list[str]) -> bool:
    """Prose has a comma here and there, with a space after it."""
    if delimiter == ",":
        return number > 1 or sum(", " in line for line in lines) < len(lines) // 2
    return True


def table_telling(sample: Sample) -> Iterator[Telling]:
    count = len(sample.lines)
    rules = [at for at in range(min(5, count)) if _RULE.match(sample.lines[at])]
    firsts = [Telling(0), *(Telling(at) for at in rules), Telling(1), Telling(2)]
    places = range(1, count)
    bad = [Telling(at) for at in sample.troubled if at]
    gaps = [Telling(at) for at in places if _EMPTY.search(sample.lines[at])]
    widths = Tally(sum(map(sample.lines[at].count, DELIMITERS)) for at in places)
    usual = widths.most_common(1)[0][0] if widths else 0
    odd = [
        Telling(at)
        for at in places
        if sample.lines[at].strip() and sum(map(sample.lines[at].count, DELIMITERS)) != usual
    ]
    yield from (one for one in firsts if one.at < count)
    yield Telling(count - 1)
    yield from in_turn(bad[:8], odd[:6], gaps[:4])
    yield from ends(sample, first=5, last=2)
    yield from (Telling(at) for at in range(0, count, max(1, count // 20)))


NAMES_MAX, OTHERS_MAX, SEARCH_RESULTS_SHARE_MIN, RESULTS_MIN, AFTER_MAX = 5, 3, 0.8, 5, 2
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
    value = value_of(text)
    lists = [value, *(value.values() if isinstance(value, dict) else ())]
    return max((one for one in lists if isinstance(one, list)), key=len, default=[])


def files_in(text: str) -> list[str]:
    """The file of each result where a text is a JSON list of results; none where it is not."""
    items = items_in(text)
    files = [file for file in map(_file_of, items) if file]
    is_enough = len(files) >= max(RESULTS_MIN, SEARCH_RESULTS_SHARE_MIN * len(items))
    return files if is_enough else []


def _file_of(item: object) -> str:
    """The file that a result names."""
    if isinstance(item, str):
        return item if _line_file(item[: NAME_CHARS_MAX + 1]) == item else ""
    named = (item.get(field) for field in FIELDS) if isinstance(item, dict) else ()
    return next((one for one in named if isinstance(one, str) and one), "")[:NAME_CHARS_MAX]


def search_results_fits(sample: Sample) -> bool:
    if sample.files:
        return True
    found = results_in(sample)
    others = sum(_FRAME.fullmatch(sample.lines[at]) is None for at in found.others)
    return found.count >= RESULTS_MIN and others <= (1 - SEARCH_RESULTS_SHARE_MIN) * (
        found.count + others
    )


def search_results_telling(sample: Sample) -> Iterator[Telling]:
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


def search_results_about(sample: Sample) -> str:
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
