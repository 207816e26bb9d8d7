"""Which lines of a span are worth their tokens: those that tell most about names that will be needed, and that
nothing else on the page tells already.

A line is worth the sum, over its names, of how likely each is needed times how much better this line tells it than
what is already kept (coverage). A line that says fewer than three words besides a name hardly tells it. Lines are taken
greatest worth per token first, recomputed as coverage grows, until the room is used or a line is not worth its
reading. Long lines are candidates in pieces around their names; the line that stood beside a kept one counts a little,
so that what is kept can be understood. Neighbours: `names` says what is needed, `gist` makes a text of the choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from msgspec import Struct

from refold.strategies.names import names_of

PIECE_CHARS = 160
LINE_CHARS_READ = 4_000
BARE = 0.3  # worth of a line that says fewer than three words besides the name
AGAIN = 0.02  # worth of one more line for a name that has one
BESIDE = 0.04  # worth of having the line next to it as well
GAP_CHARS = 3
TAG_CHARS = 6

_WORD = re.compile(r"[A-Za-z]{3,}")

Pieces = list[tuple[int, int]]  # parts of a line that are kept: start and end, in order, not touching
Rows = list[tuple[str, float, float]]  # for each name of a candidate: the name, its need, how well it is told


class Passage(Struct):
    """A message as the gist sees it: its lines without blank ones, and the names on each."""

    seq: int
    role: str
    lines: list[str]
    names: list[tuple[str, ...]]


def passage(seq: int, role: str, text: str) -> Passage:
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return Passage(seq, role, lines, [names_of(line[:LINE_CHARS_READ]) for line in lines])


# --- what a text tells --------------------------------------------------------------------------------------------


def tells(text: str, words: int, name: str) -> bool:
    """Whether a text says at least three words besides the name; `words` is how many it has in all."""
    own = _words_in(name)
    if words - own < 3:
        return False
    times = text.count(name)
    if times == 1 or (times < 3 and words - 2 * own >= 3):
        return True
    return count_words(text.replace(name, " ")) >= 3


def count_words(text: str) -> int:
    return len(_WORD.findall(text))


class _Counts(dict[str, int]):
    """Words per text. The same lines are weighed at every fold, so each is counted once."""

    def __missing__(self, name: str) -> int:
        if len(self) >= 100_000:
            self.clear()
        self[name] = count_words(name)
        return self[name]


_words_in = _Counts().__getitem__


class Shown(Struct):
    """What the rest of the page tells already: lines verbatim, how well each name is told, names with a line beside."""

    lines: set[str] = set()
    told: dict[str, float] = {}
    beside: set[str] = set()

    def add(self, given: Passage) -> None:
        """All of this message is on the page."""
        self.lines.update(given.lines)
        for line, names in zip(given.lines, given.names):
            if names:
                self.beside.update(names)
                words = _words_in(line[:LINE_CHARS_READ])
                for name in names:
                    self._tell(name, 1.0 if tells(line, words, name) else BARE)

    def _tell(self, name: str, worth: float) -> None:
        if worth > self.told.get(name, 0.0):
            self.told[name] = worth


# --- the choice ---------------------------------------------------------------------------------------------------


class Candidate(Struct):
    """A line, or a piece of a long one, that could be kept."""

    at: int
    start: int
    end: int
    rows: Rows


def chosen(
    span: Sequence[Passage], need: dict[str, float], shown: Shown, *, room: float, floor: float, per_char: float,
    request_chars: int, request_share: float,
) -> dict[int, dict[int, Pieces]]:  # fmt: skip
    """The pieces to keep, by seq and index of the line. `room` is in tokens, `floor` the least worth per token,
    `per_char` tokens per character."""
    choice = Choice(span, need, shown, floor, per_char)
    room -= choice.keep_requests(room * request_share, request_chars)
    choice.gather()
    choice.take_best(room)
    kept: dict[int, dict[int, Pieces]] = {}
    for at in sorted(choice.kept):
        home = choice.home[at]
        kept.setdefault(span[home].seq, {})[at - choice.first[home]] = choice.kept[at]
    return kept


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
        price = self.price(index)
        self.done.add(index)
        self.take(index)
        return price

    def gather(self) -> None:
        """Every distinct line not on the page yet, newest copy first, that could be worth its tokens."""
        met = set(self.on_page)
        least = self.floor / (1 + BESIDE) * self.per_char
        for at in reversed(range(len(self.lines))):
            names, line = self.names[at], self.lines[at]
            if not names or line in met:
                continue
            met.add(line)
            if len(line) > PIECE_CHARS:
                for (start, end), held in windows(line, names).items():
                    self.add(at, start, end, held)
            elif sum(self.need[name] for name in names) >= least * (len(line) + 1):
                self.add(at, 0, len(line), names)

    def add(self, at: int, start: int, end: int, names: Iterable[str]) -> int:
        text = self.lines[at][start:end]
        words = _words_in(text)
        rows = [(name, self.need[name], 1.0 if tells(text, words, name) else BARE) for name in names]
        self.candidates.append(Candidate(at, start, end, rows))
        self.of_line.setdefault(at, []).append(len(self.candidates) - 1)
        return len(self.candidates) - 1

    # worth and price

    def worth(self, index: int) -> float:
        candidate = self.candidates[index]
        told, worth = self.told, 0.0
        for name, need, quality in candidate.rows:
            more = quality - told.get(name, 0.0)
            worth += need * (more if more > AGAIN else AGAIN / (1 + self.repeats.get(name, 0)))
        return worth + BESIDE * self._company(candidate)

    def _company(self, candidate: Candidate) -> float:
        """Worth of completing a pair: this line and the one beside it, or a kept line that has this one beside it."""
        worth, beside = 0.0, self.beside
        if candidate.rows and self._is_present(self.neighbour(candidate.at)):
            worth += sum(need for name, need, _ in candidate.rows if name not in beside)
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

    def price(self, index: int) -> float:
        candidate = self.candidates[index]
        size = candidate.end - candidate.start
        pieces = self.kept.get(candidate.at)
        if pieces is None:
            size += 1 if self.home[candidate.at] in self.tagged else 1 + TAG_CHARS
        else:
            overlap = sum(max(0, min(b, candidate.end) - max(a, candidate.start)) for a, b in pieces)
            size += GAP_CHARS - overlap
        return max(size, 1) * self.per_char

    # the choice itself

    def take_best(self, room: float) -> None:
        """Takes the densest candidate while there is room. Worth only falls as others are taken, but for the
        neighbours of what was taken: those are pushed anew."""
        heap = [(-density, i) for i in range(len(self.candidates)) if (density := self._density(i)) >= self.floor]
        heapify(heap)
        while heap:
            index = heap[0][1]
            density = 0.0 if index in self.done else self._density(index)
            if density < self.floor:
                heappop(heap)
            elif len(heap) > 1 and -density > min(heap[1:3])[0]:
                heapreplace(heap, (-density, index))
            else:
                heappop(heap)
                self.done.add(index)
                price = self.price(index)
                if price <= room:
                    room -= price
                    self._push(heap, self.take(index))

    def _density(self, index: int) -> float:
        return self.worth(index) / self.price(index)

    def _push(self, heap: list[tuple[float, int]], risen: Iterable[int]) -> None:
        for index in risen:
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
        for name, _, quality in candidate.rows:
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


def windows(line: str, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """The pieces of a long line: for each name the characters around its first place; names may share one."""
    found: dict[tuple[int, int], list[str]] = {}
    last = len(line) - PIECE_CHARS
    for name in names:
        start = max(0, min(line.find(name) + len(name) // 2 - PIECE_CHARS // 2, last))
        found.setdefault((start, start + PIECE_CHARS), []).append(name)
    return found


def merged(pieces: Pieces, start: int, end: int) -> Pieces:
    """The pieces with one more; those that touch become one."""
    out: Pieces = []
    for a, b in sorted([*pieces, (start, end)]):
        if out and a <= out[-1][1] + GAP_CHARS:
            out[-1] = (out[-1][0], max(b, out[-1][1]))
        else:
            out.append((a, b))
    return out


def cut(line: str, pieces: Pieces) -> str:
    """The kept parts of a line, widened to whole words, with … where something is left out."""
    if pieces[0][0] == 0 and pieces[0][1] >= len(line):
        return line
    parts = []
    for start, end in pieces:
        start = max(line.rfind(" ", max(0, start - 12), start) + 1, start - 12 if start > 12 else 0) if start else 0
        stop = line.find(" ", end, end + 12)
        end = stop if stop >= 0 else min(len(line), end)
        parts.append(("… " if start else "") + line[start:end])
    return " ".join(parts) + (" …" if pieces[-1][1] < len(line) else "")
