"""What was done to a file between two texts of it, told at once however many changes there were.

Sizes are summed up once per file, so that a stretch of them is a subtraction; only the last few
changes of a stretch are read. Neighbours: `copies` collects the changes, `newer_text` asks what
they explain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from refold.ledger.actions import Action

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
