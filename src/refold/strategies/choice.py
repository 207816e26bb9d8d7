"""Which lines of a span are worth their tokens: those that tell most about names that will be needed, and that
nothing else on the page tells already.

A line is worth the sum, over its names, of how likely each is needed times how much better this line tells it than
what is already kept (coverage). Lines are taken greatest worth per token first, recomputed as coverage grows, until
the room is used or a line is not worth its reading. The line that stood beside a kept one counts a little, so that what
is kept can be understood. Neighbours: `lines` (what a line tells), `names` (what is needed), `gist` (the text).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from msgspec import Struct

from refold.strategies.lines import (
    BARE,
    GAP_CHARS,
    PIECE_CHARS,
    Passage,
    Pieces,
    Shown,
    merged,
    tells,
    windows,
    words_in,
)

LINE_CHARS_MIN = 6  # a shorter line has no room for a name
AGAIN = 0.02  # worth of one more line for a name that has one
BESIDE = 0.04  # worth of having the line next to it as well
TAG_CHARS = 9

Kept = dict[tuple[int, int], Pieces]  # by seq and number of the line in its passage, the most needed first
Rows = list[tuple[str, float, float]]  # for each name of a candidate: the name, its need, how well it is told


class Candidate(Struct, gc=False):
    """A line, or a piece of a long one, that could be kept. Its `rows` are found out when its turn comes: most
    candidates are told by others by then, and never need them."""

    at: int
    start: int
    end: int
    names: Sequence[str]
    rows: Rows | None = None


def chosen(
    span: Sequence[Passage], need: dict[str, float], shown: Shown, *, room: float, floor: float, per_char: float,
    request_chars: int, request_share: float,
) -> Kept:  # fmt: skip
    """The pieces to keep, the most needed first. `room` is in tokens, `floor` the least worth per token, `per_char`
    tokens per character."""
    choice = Choice(span, need, shown, floor, per_char)
    room -= choice.keep_requests(room * request_share, request_chars)
    choice.gather()
    choice.take_best(room)
    homes = ((at, choice.home[at], pieces) for at, pieces in choice.kept.items())
    return {(span[home].seq, at - choice.first[home]): pieces for at, home, pieces in homes}


class Choice:
    """A lazy greedy choice over the lines of a span, numbered through; used once."""

    def __init__(
        self, span: Sequence[Passage], need: dict[str, float], shown: Shown, floor: float, per_char: float
    ) -> None:
        self.span, self.need, self.floor, self.per_char = span, need, floor, per_char
        self.on_page, self.told, self.beside = set(shown.lines), dict(shown.told), set(shown.beside)
        self.lines: list[str] = []
        self.names: list[tuple[str, ...]] = []
        self.home: list[int] = []  # the message that a line belongs to
        self.first: list[int] = []  # the first line of a message
        for index, given in enumerate(span):
            self.first.append(len(self.lines))
            self.lines += given.lines
            self.names += given.names
            self.home += [index] * len(given.lines)
        self.first.append(len(self.lines))
        self.candidates: list[Candidate] = []
        self.of_line: dict[int, list[int]] = {}
        self.kept: dict[int, Pieces] = {}
        self.tagged: set[int] = set()  # messages of which something is kept
        self.repeats: dict[str, int] = {}  # how many further lines a name has got
        self.done: set[int] = set()

    # candidates

    def keep_requests(self, room: float, chars: int) -> float:
        """Keeps the beginning of every user message, newest first while there is room; gives what that took."""
        used = 0.0
        for home in reversed(range(len(self.span))):
            left = chars if self.span[home].role == "user" else 0
            for at in range(self.first[home], self.first[home + 1]):
                if left <= 0 or used >= room:
                    break
                size = len(self.lines[at])
                if self.lines[at] not in self.on_page:
                    end = size if size <= left + 40 else left
                    used += self._keep_now(at, end)
                    left -= end
        return used

    def _keep_now(self, at: int, end: int) -> float:
        index = self.add(at, 0, end, self.names[at])
        price = self.price(self.candidates[index])
        self.done.add(index)
        self.take(index)
        return price

    def gather(self) -> None:
        """Every distinct line not on the page yet, newest copy first, that could be worth its tokens."""
        met, need_of = set(self.on_page), self.need.__getitem__
        least = self.floor / (1 + BESIDE) * self.per_char
        for at in reversed(range(len(self.lines))):
            names, line = self.names[at], self.lines[at]
            if not names or line in met:
                continue
            met.add(line)
            if len(line) > PIECE_CHARS:
                for (start, end), held in windows(line, names).items():
                    self.add(at, start, end, held)
            elif sum(map(need_of, names)) >= least * (len(line) + 1):
                self.add(at, 0, len(line), names)

    def add(self, at: int, start: int, end: int, names: Sequence[str]) -> int:
        self.candidates.append(Candidate(at, start, end, names))
        self.of_line.setdefault(at, []).append(len(self.candidates) - 1)
        return len(self.candidates) - 1

    def rows_of(self, candidate: Candidate) -> Rows:
        if candidate.rows is None:
            text = self.lines[candidate.at][candidate.start : candidate.end]
            words, need = words_in(text), self.need
            candidate.rows = [(name, need[name], 1.0 if tells(text, words, name) else BARE) for name in candidate.names]
        return candidate.rows

    # worth and price

    def bound(self, candidate: Candidate) -> float:
        """What a candidate is worth at most, by its names alone."""
        need, told, worth = self.need, self.told, 0.0
        for name in candidate.names:
            more = 1.0 - told.get(name, 0.0)
            worth += need[name] * ((more if more > AGAIN else AGAIN) + BESIDE)
        return worth

    def worth(self, candidate: Candidate) -> float:
        told, worth = self.told, 0.0
        for name, need, quality in self.rows_of(candidate):
            more = quality - told.get(name, 0.0)
            worth += need * (more if more > AGAIN else AGAIN / (1 + self.repeats.get(name, 0)))
        return worth + BESIDE * self._company(candidate)

    def _company(self, candidate: Candidate) -> float:
        """Worth of completing a pair: this line and the one beside it, or a kept line that has this one beside it."""
        worth, beside = 0.0, self.beside
        if candidate.names and self._is_present(self.neighbour(candidate.at)):
            worth += sum(self.need[name] for name in candidate.names if name not in beside)
        for other in (candidate.at - 1, candidate.at + 1):
            if other in self.kept and self.neighbour(other) == candidate.at:
                worth += sum(self.need[name] for name in self.names[other] if name not in beside)
        return worth

    def neighbour(self, at: int) -> int:
        """The line that stood beside a line: the next of its message, or the one before the last; -1 if none."""
        home = self.home[at]
        if at + 1 < self.first[home + 1]:
            return at + 1
        return at - 1 if at > self.first[home] else -1

    def _is_present(self, at: int) -> bool:
        return at >= 0 and (len(self.lines[at]) <= 2 or self.lines[at] in self.on_page)

    def price(self, candidate: Candidate) -> float:
        size = candidate.end - candidate.start
        pieces = self.kept.get(candidate.at)
        if pieces is None:
            size += 1 if self.home[candidate.at] in self.tagged else 1 + TAG_CHARS
            return size * self.per_char
        overlap = sum(max(0, min(b, candidate.end) - max(a, candidate.start)) for a, b in pieces)
        return max(1, size + GAP_CHARS - overlap) * self.per_char

    # the choice itself

    def take_best(self, room: float) -> None:
        """Takes the densest candidate while there is room. Worth only falls as others are taken, but for the
        neighbours of what was taken: those are pushed anew."""
        heap = [(-density, i) for i in range(len(self.candidates)) if (density := self._density(i)) >= self.floor]
        heapify(heap)
        while heap and room > LINE_CHARS_MIN * self.per_char:
            index = heap[0][1]
            candidate = self.candidates[index]
            density = 0.0 if index in self.done else self._density(index)
            if density < self.floor:
                heappop(heap)
            elif len(heap) > 1 and -density > min(heap[1:3])[0]:
                heapreplace(heap, (-density, index))
            elif candidate.rows is None:
                self.rows_of(candidate)
            else:
                heappop(heap)
                self.done.add(index)
                room -= self._taken(heap, index, room)

    def _taken(self, heap: list[tuple[float, int]], index: int, room: float) -> float:
        """Takes a candidate if there is room for it, and gives its price."""
        price = self.price(self.candidates[index])
        if price > room:
            return 0.0
        self._push(heap, self.take(index))
        return price

    def _density(self, index: int) -> float:
        """Worth per token, or the most it can be as long as the candidate was not looked at."""
        candidate = self.candidates[index]
        worth = self.bound(candidate) if candidate.rows is None else self.worth(candidate)
        return worth / self.price(candidate)

    def _push(self, heap: list[tuple[float, int]], risen: Iterable[int]) -> None:
        for index in risen:
            self.rows_of(self.candidates[index])  # a pair may be worth more than the bound
            if index not in self.done and (density := self._density(index)) >= self.floor:
                heappush(heap, (-density, index))

    def take(self, index: int) -> list[int]:
        """Keeps a candidate; gives those whose worth may have risen by that."""
        candidate = self.candidates[index]
        at = candidate.at
        self.tagged.add(self.home[at])
        self.kept[at] = merged(self.kept.get(at, []), candidate.start, candidate.end)
        if candidate.start == 0:
            self.on_page.add(self.lines[at])
        for name, _, quality in self.rows_of(candidate):
            if quality > self.told.get(name, 0.0):
                self.told[name] = quality
            else:
                self.repeats[name] = self.repeats.get(name, 0) + 1
        self._pair(at)
        return self._risen(at, index)

    def _pair(self, at: int) -> None:
        if self._is_present(self.neighbour(at)):
            self.beside.update(self.names[at])
        for other in (at - 1, at + 1):
            if other in self.kept and self.neighbour(other) == at:
                self.beside.update(self.names[other])

    def _risen(self, at: int, taken: int) -> list[int]:
        risen = [index for index in self.of_line[at] if index != taken]
        beside = self.neighbour(at)
        if beside >= 0 and not self._is_present(beside):
            risen.append(self._head_of(beside))
        for other in (at - 1, at + 1):
            if other in self.of_line and self.home[other] == self.home[at] and self.neighbour(other) == at:
                risen += self.of_line[other]
        return risen

    def _head_of(self, at: int) -> int:
        """The candidate that starts a line; made if the line had no worth of its own."""
        for index in self.of_line.get(at, ()):
            if self.candidates[index].start == 0:
                return index
        line = self.lines[at]
        return self.add(at, 0, min(len(line), PIECE_CHARS), self.names[at] if len(line) <= PIECE_CHARS else ())
