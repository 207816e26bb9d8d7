"""Kinds of structured text: JSON, JSON lines, tables, and search results.

A JSON value on one line is split into its items, one on many lines is shown by its lines; lines
with new keys come first, because they are the shape. Of JSON lines: the first, the ones with
trouble, one of each shape, the last. Of tables (CSV, database tables, `ls -l`, `ps`): the heading,
the first rows, unusual rows, the last. Search results name a file or a page on nearly every line or
item: shown are their number, one result of each of the top files, then the other lines. Names are
only counted, nothing is opened. Neighbours: `sample` has the lines, `registry` lists the kinds.
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
from refold.patterns import regex

PARTED_CHARS, ITEM_CHARS, LINES_MIN = 200_000, 150, 20
_MARK = regex(r'"(?:[^"\\]|\\.)*+"|[\[\]{},]')
_KEY = regex(r'\s*"((?:[^"\\]|\\.)*)"\s*:')


def json_fits(sample: Sample) -> bool:
    start = sample.lines[0].lstrip()[:1] if sample.lines else ""
    last = (sample.uncut or sample.lines or ("",))[-1]
    end = last.rstrip()[-1:]
    if (start, end) not in (("{", "}"), ("[", "]")):
        return False
    text = "\n".join(sample.lines[:LINES_MIN])[:2_000]
    return _KEY.search(text) is not None or '",' in text or re.search(r"\d,", text) is not None


def parted(sample: Sample) -> Sample:
    """The items of a value on a single line, each as a line."""
    is_short = sample.unit == "lines" and sample.total == 1
    if sample.unit != "pieces" and not is_short:
        return sample
    text = "".join(sample.uncut or sample.lines)
    items = [text[start:end] for start, end in _items(text[:PARTED_CHARS])]
    total = len(items)
    if not sample.is_whole or len(text) > PARTED_CHARS:
        items.append(text[-ITEM_CHARS:])
        # Their number is estimated from the first part.
        total = max(total + 2, total * sample.total // -(-PARTED_CHARS // PIECE_CHARS))
    numbers = [*range(1, len(items)), total]
    return Sample(lines=items, numbers=numbers, total=total, unit="items")


def _items(text: str) -> list[tuple[int, int]]:
    """The ranges of a value's parts; a short list or object stays whole."""
    items: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []  # the start of a container, and the items before it
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
    """The value of a JSON text, or None."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def json_about(sample: Sample) -> str:
    """`JSON, a list of 2,000`, if the sample is complete."""
    value = value_of("".join(sample.uncut or sample.lines)) if sample.is_whole else None
    if not isinstance(value, list | dict):
        return "JSON"
    kind = "a list" if isinstance(value, list) else "an object"
    return f"JSON, {kind} of {len(value):,}"


def json_telling(sample: Sample) -> Iterator[Telling]:
    count, bad = len(sample.lines), sample.troubled
    yield from in_turn(_new_keys(sample), map(Telling, bad[:8]))
    yield from map(Telling, bad)
    yield from ends(sample, first=8, last=3)
    yield from (Telling(at) for at in range(0, count, max(1, count // 20)))


def _new_keys(sample: Sample) -> Iterator[Telling]:
    """The lines with a new key."""
    known: set[str] = set()
    for at, line in enumerate(sample.lines):
        keys = {match[1] for match in _KEY.finditer(line)}
        if keys - known or at == 0:
            known |= keys
            yield Telling(at)


ROWS_MIN, LOOKED_AT = 3, 20
_JSON_LINES_KEY = regex(r'\s*"([^"\\]{1,60})"\s*:')


def json_lines_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:LOOKED_AT] if line.strip()]
    return len(lines) >= ROWS_MIN and all(map(_is_record, lines))


def _is_record(line: str) -> bool:
    """Whether a line is an object. A long line is cut, without its end."""
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
_RULE = regex(r"[-+|= :]{5,}$")
_LISTED = regex(r"[-dlbcps][-rwxsStT]{9}[.+@]? +\d+ |total \d+$")
_HEADING = regex(r"(?:[A-Z%][A-Z0-9%_/.+-]*(?: [a-z]+)?(?:\s+|$)){3,}$")
_EMPTY = regex(r"(?:,,|\t\t|;;|\bNULL\b|\bNaN\b|\bnan\b|\bnull\b)")


def table_fits(sample: Sample) -> bool:
    lines = [line for line in sample.lines[:TABLE_LOOKED_AT] if line.strip()]
    if len(lines) < TABLE_ROWS_MIN:
        return False
    listed = sum(_LISTED.match(line) is not None for line in lines)
    is_listing = listed > SHARE_MIN * len(lines) or _HEADING.match(lines[0]) is not None
    return is_listing or bool(_delimiter(lines))


def _delimiter(lines: list[str]) -> str:
    """The delimiter of the columns, equally often on nearly every line; empty if there is none.
    Prose has a comma here and there, with a space after it."""
    for delimiter in DELIMITERS:
        counts = Tally(line.count(delimiter) for line in lines)
        [(number, times)] = counts.most_common(1)
        may_be_prose = delimiter == "," and number <= 1
        if may_be_prose and sum(", " in line for line in lines) >= len(lines) // 2:
            continue
        if number and times >= SHARE_MIN * len(lines):
            return delimiter
    return ""


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
# The first word of a line, of bounded length and matched whole or not at all: lines may be hostile.
_WORD = regex(r"(?:[A-Za-z]:(?=[/\\]))?[^\s:\"'(){}<>|=,;]{1,250}+")
_ENDING, _CONTEXT = regex(r"\.[A-Za-z]\w{0,9}$"), regex(r"-\d{1,9}-")
FIELDS = ("path", "file", "filename", "file_path", "filePath", "uri", "url", "link", "href")
NAME_CHARS_MAX, LISTED_CHARS_MAX = 250, 2_000_000
_FIELD = regex(rf'"(?:{"|".join(FIELDS)})" ?: ?"([^"]{{1,250}})"')
_FRAME = regex(r'\s*(?:"\w{1,40}" ?: ?)?[\[\]{},\s]*')  # brackets around the items of JSON
_ITEM = regex(r'\s*(?:"\w{1,40}" ?: ?\[)?\s*"([^"]{1,250})",?\s*$')


class Results(Struct, frozen=True):
    """The indices of the results by file, the most frequent first, and of other lines."""

    files: dict[str, list[int]]
    others: list[int]

    @property
    def count(self) -> int:
        return sum(map(len, self.files.values()))


def results_in(sample: Sample) -> Results:
    """The results in a sample."""
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
    """The items of a JSON list, or of the longest list in a JSON object; empty for any other
    text."""
    if len(text) > LISTED_CHARS_MAX:
        return []
    value = value_of(text)
    lists = [value, *(value.values() if isinstance(value, dict) else ())]
    return max((one for one in lists if isinstance(one, list)), key=len, default=[])


def files_in(text: str) -> list[str]:
    """The file of each result in a JSON list of results; empty for any other text."""
    items = items_in(text)
    files = [file for file in map(_file_of, items) if file]
    is_enough = len(files) >= max(RESULTS_MIN, SEARCH_RESULTS_SHARE_MIN * len(items))
    return files if is_enough else []


def _file_of(item: object) -> str:
    """The file of a result."""
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
        # Other content of the items, if it is on lines of its own.
        nameless = set(found.others)
        after = [places[0] + step for step in range(1, AFTER_MAX + 1) for places in chosen]
        yield from (Telling(at) for at in after if at in nameless)
    if sample.unit != "items" and not sample.files:
        yield from map(Telling, found.others[-OTHERS_MAX:])


def search_results_about(sample: Sample) -> str:
    """`15 results in 7 files`; of very many, only their number."""
    found = results_in(sample)
    if not sample.is_whole and not sample.files:
        return f"about {sample.total:,} results"
    files = set(sample.files) or set(found.files)
    number, count = len(files), len(sample.files) or found.count
    noun = "page" if all("://" in file for file in files) else "file"
    return f"{count:,} results in {number:,} {plural(noun, number)}"


def _line_file(line: str) -> str:
    """The file at the beginning of a line: a path, or a name with an ending. It is followed by
    nothing, a colon (after a mere name, also the number of a line), or `-12-`, as in grep's
    context."""
    word = _WORD.match(line)
    if word is None:
        return ""
    end = word.end()
    if end < len(line) and line[end] != ":":
        context = _CONTEXT.search(word[0])
        end = context.start() if context else 0
    name, rest = line[:end], line[end:]
    if "/" in name or "\\" in name:
        return name if any(map(str.isalpha, name)) else ""
    is_placed = not rest or rest[1:2].isdigit()
    return name if is_placed and _ENDING.search(name) else ""


def _item_file(item: str) -> str:
    """The file of a JSON item."""
    named = _FIELD.search(item)
    if named:
        return named[1]
    alone = _ITEM.match(item)
    return alone[1] if alone and _line_file(alone[1]) == alone[1] else ""
