"""Whether newer text of a file can replace older text, decided without a list of error messages.

Files do not lose lines on their own. Without a change in between, the later text must have every
line of the earlier one, or be another version of about the same size. After a change, missing lines
must be explained: by new lines, by the text that the change removed, or because the change itself
has the new text. So a failed, empty or cut read never replaces the file. In doubt, both stay.
Change sizes are prefix sums per file, so any stretch of changes is a subtraction; only the last few
are read. Neighbour: `dedup` collects the texts and the changes.
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

VERSION_SHARE = 0.8  # of the earlier text: the minimum size of another version
COMMON_SHARE = 0.5  # of the later text: with more in common, it is a part and not a version
ALIKE_SHARE = 0.3  # of the words of the earlier text: versions of one file have them in common
WORDS_MIN = 8  # distinct words; with fewer, words prove nothing and the size decides
GAINED_WORTH = 1.25  # lines can become this much shorter when they are rewritten
TAKEN_SLACK = 200  # characters around removed text, in the lines that it was part of
READ_MAX = 16  # the latest changes: only their texts are read, because they are still in the file

_NUMBER = re.compile(r"^\s{0,12}\d{1,7}(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)", re.MULTILINE)
_NOTE = re.compile(r"\[\D{0,60}\d+[^\n]{0,120}\]|\(\D{0,60}\d+[^\n]{0,120}\)")
_WORD = re.compile(r"\w{1,24}")


class FileText(Struct, frozen=True):
    """The text of a copy without line numbers, its lines, and whether it is incomplete."""

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


def can_replace(later: FileText, earlier: FileText, changed: Changed, same_lines: bool) -> bool:
    """Whether nothing is lost if only the later text is shown. `changed` has the changes of the
    file between the two; `same_lines` is True if both were asked for the same line range."""
    lost = earlier.lines - later.lines
    if earlier.cut:
        # The mark in an incomplete text, and the lines it broke, do not count as lost.
        kept = {line: n for line, n in lost.items() if not is_cut(line) and line not in later.text}
        lost = Counter(kept)
    if not lost:
        return True
    last = earlier.text.rstrip().rsplit("\n", 1)[-1].strip()
    # A tool's note below a part of a file, in brackets: how much more there is.
    is_note = [*lost.elements()] == [last] and _NOTE.fullmatch(last) is not None
    if is_note and not same_lines:
        return True
    if len(later.text) >= VERSION_SHARE * len(earlier.text):
        if len(set(_words(earlier.text))) < WORDS_MIN:
            return not _has_in_common(later, earlier)
        if not changed.count:  # another version may differ on every line, as generated files do
            is_version = not _has_in_common(later, earlier) and _is_alike(later, earlier)
            return same_lines and is_version
    if same_lines:
        return _is_explained(later, earlier, lost, changed)
    # Of a part of the file, the other lines of the later text explain nothing.
    if changed.takes_freely and 2 * _size(lost) < _size(earlier.lines):
        return True
    return bool(changed.count) and _size(lost) <= changed.given_chars + TAKEN_SLACK


def _has_in_common(later: FileText, earlier: FileText) -> bool:
    """Whether the later text is mostly lines of the earlier one, or begins and ends with it."""
    most = COMMON_SHARE * len(later.text)
    if _size(later.lines & earlier.lines) > most:
        return True
    chars = 0  # in common at the start, and at the end
    for step in (1, -1):
        equal = map(eq, later.text[::step], earlier.text[::step])
        chars += sum(1 for _ in takewhile(bool, equal))
    return chars > most


def _is_alike(later: FileText, earlier: FileText) -> bool:
    """Whether the later text has the words of the earlier one, as versions of one file have."""
    counts, known = Counter(_words(earlier.text)), set(_words(later.text))
    common = sum(count for word, count in counts.items() if word in known)
    return common >= ALIKE_SHARE * counts.total()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _is_explained(later: FileText, earlier: FileText, lost: Counter[str], changed: Changed) -> bool:
    """Whether the changes between the two explain the lines missing from the later text."""
    gained, written = later.lines - earlier.lines, changed.lines_given()
    new = Counter({line: count for line, count in gained.items() if line not in written})
    if changed.takes_freely and 2 * _size(new) < _size(later.lines):
        return True
    explained = GAINED_WORTH * _size(gained) + changed.given_chars + TAKEN_SLACK
    if not changed.count or _size(lost) > explained:
        return False
    return not new or _is_alike(later, earlier)


def _size(lines: Counter[str]) -> int:
    return sum(len(line) * count for line, count in lines.items())


class Changed(Struct, frozen=True):
    """The changes between two texts: their number, the characters of their arguments, whether one
    of them can remove text without naming it, and the latest ones themselves."""

    count: int = 0
    given_chars: int = 0
    takes_freely: bool = False
    latest: Sequence[Action] = ()

    def lines_given(self) -> set[str]:
        """Every line in the arguments of the latest changes."""
        texts = (text for change in self.latest for text in _texts_in(change.arguments))
        return {line.strip() for text in texts for line in text.split("\n")}


class FileChanges:
    """All changes of one file, in log order."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = actions
        self._seqs = [action.seq for action in actions]
        chars = (sum(map(len, _texts_in(action.arguments))) for action in actions)
        self._chars = [0, *accumulate(chars)]
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


def _takes_freely(change: Action) -> bool:
    """Whether a change can remove text without naming it: a command, or a write of the whole
    file."""
    return bool(change.command) or change.kind != "modify"


def _texts_in(value: object) -> Iterator[str]:
    """Every string in the arguments of a call."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)
