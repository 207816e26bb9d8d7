"""Whether a later text of a file can stand for an earlier one; no list of error messages decides.

A file does not lose lines by itself. If nothing changed it in between, the later text must have
every line of the earlier one, or be another version of about the same size. If something did, what
is missing must be made up for: by new lines, by what the change says it took out, or because the
change itself carries the new text. So a failed, empty or cut read never stands for the file. Where
it is unclear, both stay. Neighbours: `dedup` asks, `copies` finds the texts, `changes_between` the
changes.

What was done to a file between two texts of it, told at once however many changes there were.

Sizes are summed up once per file, so that a stretch of them is a subtraction; only the last few
changes of a stretch are read. Neighbours: `copies` collects the changes, `newer_text` asks what
they explain.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from operator import eq

from msgspec import Struct

from refold.ledger.actions import Action
from refold.ledger.calls import is_cut, payload, shown_lines

VERSION_SHARE = 0.8  # of the earlier text: another version is at least as large
COMMON_SHARE = 0.5  # of the later text: with so much in common, it is a part and not a version
ALIKE_SHARE = 0.3  # of the words of the earlier text: versions of one file have them in common
WORDS_MIN = 8  # different words; with fewer, words tell nothing and the size decides
GAINED_WORTH = 1.25  # lines can become this much shorter when they are rewritten
TAKEN_SLACK = 200  # characters around what an edit took out, in the lines that it was part of

_NUMBER = re.compile(r"^\s{0,12}\d{1,7}(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)", re.MULTILINE)
_NOTE = re.compile(r"\[\D{0,60}\d+[^\n]{0,120}\]|\(\D{0,60}\d+[^\n]{0,120}\)")
_WORD = re.compile(r"\w{1,24}")


class FileText(Struct, frozen=True):
    """What a copy shows: its text without line numbers, its lines, and whether it came cut."""

    text: str
    lines: Counter[str]
    cut: bool


def file_text(shown: str, cut: bool) -> FileText:
    """The text of a file as a tool showed it."""
    text = payload(shown)
    if shown_lines(text) is not None:
        text = _NUMBER.sub("", text)
    lines = (line.strip() for line in text.split("\n"))
    return FileText(text, Counter(line for line in lines if line), cut)


def stands_for(later: FileText, earlier: FileText, changed: Changed, same_lines: bool) -> bool:
    """Whether nothing is lost if only the later text is shown. `changed` is what was done to the
    file between the two; `same_lines` says that both were to show the same part of it."""
    lost = _lost(later, earlier)
    if not lost or (not same_lines and _is_note(lost, earlier)):
        return True
    if len(later.text) >= VERSION_SHARE * len(earlier.text):
        if _is_plain(earlier):
            return not _has_in_common(later, earlier)
        if not changed.count:
            return same_lines and _is_version(later, earlier)
    if same_lines:
        return _is_changed_so(later, earlier, lost, changed)
    return _is_part_changed_so(earlier, lost, changed)


def _lost(later: FileText, earlier: FileText) -> Counter[str]:
    """The lines that only the earlier text has. Of a text that came cut, the mark and the lines
    that it broke are not missed."""
    lost = earlier.lines - later.lines
    if not earlier.cut:
        return lost
    return Counter({line: count for line, count in lost.items() if not _is_broken(line, later)})


def _is_broken(line: str, later: FileText) -> bool:
    return is_cut(line) or line in later.text


def _is_note(lost: Counter[str], earlier: FileText) -> bool:
    """Whether all that is missing is what a tool wrote below a part of a file: how much more
    there is, in brackets."""
    last = earlier.text.rstrip().rsplit("\n", 1)[-1].strip()
    return [*lost.elements()] == [last] and _NOTE.fullmatch(last) is not None


# --- without a change ---


def _is_version(later: FileText, earlier: FileText) -> bool:
    """Whether the file has another text throughout, as one that is generated anew."""
    return not _has_in_common(later, earlier) and _is_alike(later, earlier)


def _has_in_common(later: FileText, earlier: FileText) -> bool:
    """Whether the later text is mostly lines of the earlier one, or begins and ends with it."""
    most = COMMON_SHARE * len(later.text)
    if _size(later.lines & earlier.lines) > most:
        return True
    start = _same_start(later.text, earlier.text)
    return start + _same_start(later.text[::-1], earlier.text[::-1]) > most


def _same_start(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _is_alike(later: FileText, earlier: FileText) -> bool:
    """Whether the later text has the words of the earlier one, as versions of one file have."""
    words, known = Counter(_words(earlier.text)), set(_words(later.text))
    found = sum(count for word, count in words.items() if word in known)
    return found >= ALIKE_SHARE * words.total()


def _is_plain(shown: FileText) -> bool:
    """Whether a text has so few different words that they tell nothing; then the size decides."""
    return len(set(_words(shown.text))) < WORDS_MIN


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


# --- after a change ---


def _is_changed_so(
    later: FileText, earlier: FileText, lost: Counter[str], changed: Changed
) -> bool:
    """Whether the changes between the two explain what the later text lacks."""
    gained, written = later.lines - earlier.lines, changed.lines_given()
    new = Counter({line: count for line, count in gained.items() if line not in written})
    if changed.takes_freely and 2 * _size(new) < _size(later.lines):
        return True
    explained = GAINED_WORTH * _size(gained) + changed.given_chars + TAKEN_SLACK
    if not changed.count or _size(lost) > explained:
        return False
    return not new or _is_alike(later, earlier)


def _is_part_changed_so(earlier: FileText, lost: Counter[str], changed: Changed) -> bool:
    """The same for a part of the file; what else the later text shows explains nothing."""
    if changed.takes_freely and 2 * _size(lost) < _size(earlier.lines):
        return True
    return bool(changed.count) and _size(lost) <= changed.given_chars + TAKEN_SLACK


def _size(lines: Counter[str]) -> int:
    return sum(len(line) * count for line, count in lines.items())


READ_MAX = 16  # changes whose text is read, the latest ones: what they wrote is still there


class Changed(Struct, frozen=True):
    """The changes of a stretch: how many, how many characters their arguments have, whether one
    of them can take out text without naming it, and the latest ones themselves."""

    count: int = 0
    given_chars: int = 0
    takes_freely: bool = False
    latest: Sequence[Action] = ()

    def lines_given(self) -> set[str]:
        """Every line in the arguments of the latest changes."""
        texts = (text for change in self.latest for text in _texts_in(change.arguments))
        return {line.strip() for text in texts for line in text.split("\n")}


class FileChanges:
    """All changes of one file, in the order in which they came."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = actions
        self._seqs = [action.seq for action in actions]
        self._chars = [0, *accumulate(map(_given_chars, actions))]
        self._free = [0, *accumulate(map(_takes_freely, actions))]

    def between(self, first: int, last: int) -> Changed:
        """The changes after one seq and up to another."""
        start, stop = bisect_right(self._seqs, first), bisect_right(self._seqs, last)
        if start >= stop:
            return Changed()
        return Changed(
            count=stop - start,
            given_chars=self._chars[stop] - self._chars[start],
            takes_freely=self._free[stop] > self._free[start],
            latest=self._actions[max(start, stop - READ_MAX) : stop],
        )


def _given_chars(change: Action) -> int:
    return sum(map(len, _texts_in(change.arguments)))


def _takes_freely(change: Action) -> bool:
    """Whether a change can take out text without naming it: a command, or the whole file."""
    return bool(change.command) or change.kind != "modify"


def _texts_in(value: object) -> Iterator[str]:
    """Every text inside of arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)
