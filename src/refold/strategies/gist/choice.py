"""Which lines of a span are worth their tokens: those that tell most about names that will be
needed, and that nothing else on the page tells already.

A line is worth the sum, over its names, of how likely each is needed times how much better this
line tells it than what is already kept (coverage). Lines are taken greatest worth per token first,
recomputed as coverage grows, until the room is used or a line is not worth its reading. The line
that stood beside a kept one counts a little, so that what is kept can be understood. Neighbours:
`lines` (what a line tells), `names` (what is needed), `gist` (the text).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from msgspec import Struct

from refold.strategies.gist.lines import (
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
from refold.strategies.gist.queue import Queue

LINE_CHARS_MIN = 6  # a shorter line has no room for a name
AGAIN = 0.02  # worth of one more line for a name that has one
BESIDE = 0.04  # worth of having the line next to it as well
TAG_CHARS = 9
REQUEST_CHARS = 300  # of every request that are kept whatever they tell

Kept = dict[
    tuple[int, int], Pieces
]  # by seq and number of the line in its passage, the most needed first


class Candidate(Struct, gc=False):
    """A line, or a piece of a long one, that could be kept. `bare` are the names that it hardly
    tells, found out when its turn comes: most candidates are told by others by then, and never
    need it."""

    at: int
    start: int
    end: int
    names: Sequence[str]
    bare: Sequence[str] | None = None


def chosen(
    span: Sequence[Passage],
    need: dict[str, float],
    shown: Shown,
    *,
    room: float,
    floor: float,
    per_char: float,
    requests: Set[int] = frozenset(),
    request_share: float = 0.0,
) -> Kept:
    """The pieces to keep, the most needed first. `room` is in tokens, `floor` the least worth
    per token, `per_char` tokens per character. The beginning of each of the `requests`, given by
    seq, has this share of the room."""
    choice = Choice(span, need, shown, floor, per_char)
    room -= choice.keep_requests(requests, room * request_share)
    choice.take_best(choice.gathered(), room)
    homes = ((at, choice.home[at], pieces) for at, pieces in choice.kept.items())
    return {(span[home].seq, at - choice.first[home]): pieces for at, home, pieces in homes}


class Choice:
    """A lazy greedy choice over the lines of a span, numbered through; used once."""

    def __init__(
        self,
        span: Sequence[Passage],
        need: dict[str, float],
        shown: Shown,
        floor: float,
        per_char: float,
    ) -> None:
        self.span, self.need, self.floor, self.per_char = span, need, floor, per_char
        self.on_page, self.told, self.beside = set(shown.lines), shown.told(), set(shown.names)
        self._number_lines()
        self.candidates: list[Candidate] = []
        self.of_line: dict[int, list[int]] = {}
        self.kept: dict[int, Pieces] = {}
        self.tagged: set[int] = set()  # messages of which something is kept
        self.lone: set[int] = set()  # lines that stood beside a kept one
        self.repeats: dict[str, int] = {}  # how many further lines a name has got
        self.done: set[int] = set()
        self.gain = dict(need)  # what a line is worth for a name that it tells well
        self.bound = {
            name: value * (1.0 + BESIDE) for name, value in need.items()
        }  # what it is worth at most
        for name in need.keys() & self.told.keys():
            self._weigh(name)

    def _number_lines(self) -> None:
        self.lines: list[str] = []
        self.names: list[tuple[str, ...]] = []
        self.home: list[int] = []  # the message that a line belongs to
        self.first: list[int] = []  # the first line of a message
        for index, given in enumerate(self.span):
            self.first.append(len(self.lines))
            self.lines += given.lines
            self.names += given.names
            self.home += [index] * len(given.lines)
        self.first.append(len(self.lines))

    # candidates

    def keep_requests(self, requests: Set[int], room: float) -> float:
        """Keeps how requests begin, the first one and then the newest while there is room; gives
        what that took."""
        used = 0.0
        homes = [
            home for home in reversed(range(len(self.span))) if self.span[home].seq in requests
        ]
        for home in homes[-1:] + homes[:-1]:
            left = REQUEST_CHARS
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

    def gathered(self) -> Queue:
        """Every distinct line not on the page yet, newest copy first, that could be worth its
        tokens."""
        met, need, all_lines, all_names = set(self.on_page), self.need, self.lines, self.names
        least = self.floor / (1 + BESIDE) * self.per_char
        for at in reversed(range(len(all_lines))):
            names = all_names[at]
            if not names or (line := all_lines[at]) in met:
                continue
            met.add(line)
            if len(line) > PIECE_CHARS:
                for (start, end), held in windows(line, names).items():
                    self.add(at, start, end, held)
            elif sum([need[name] for name in names]) >= least * (len(line) + 1):
                self.add(at, 0, len(line), names)
        return Queue([self._density(candidate) for candidate in self.candidates], self.floor)

    def add(self, at: int, start: int, end: int, names: Sequence[str]) -> int:
        index = len(self.candidates)
        self.candidates.append(Candidate(at, start, end, names))
        self.of_line.setdefault(at, []).append(index)
        return index

    def bare_of(self, candidate: Candidate) -> Sequence[str]:
        if candidate.bare is None:
            text = self.lines[candidate.at][candidate.start : candidate.end]
            words = words_in(text)
            candidate.bare = [name for name in candidate.names if not tells(text, words, name)]
        return candidate.bare

    # worth and price

    def _weigh(self, name: str) -> None:
        """Notes what lines are worth for a name, as it is told now: adding that up is all that a
        candidate costs."""
        need, more = self.need[name], 1.0 - self.told.get(name, 0.0)
        self.gain[name] = need * (more if more > AGAIN else AGAIN / (1 + self.repeats.get(name, 0)))
        self.bound[name] = need * ((more if more > AGAIN else AGAIN) + BESIDE)

    def _bound(self, candidate: Candidate) -> float:
        """What a candidate is worth at most, by its names alone."""
        worth, bound = 0.0, self.bound
        for name in candidate.names:
            worth += bound[name]
        return worth

    def _worth(self, candidate: Candidate, bare: Sequence[str]) -> float:
        """What a candidate is worth if these are the names that it hardly tells."""
        worth, gain = 0.0, self.gain
        for name in candidate.names:
            worth += self._bare_gain(name) if name in bare else gain[name]
        return worth + BESIDE * self._company(candidate)

    def _bare_gain(self, name: str) -> float:
        more = BARE - self.told.get(name, 0.0)
        return self.need[name] * (more if more > AGAIN else AGAIN / (1 + self.repeats.get(name, 0)))

    def _company(self, candidate: Candidate) -> float:
        """Worth of completing a pair: this line and the one beside it, or a kept line that has
        this one beside it."""
        worth, beside = 0.0, self.beside
        if not beside.issuperset(candidate.names) and self._is_present(
            self.neighbour(candidate.at)
        ):
            worth += sum([self.need[name] for name in candidate.names if name not in beside])
        if candidate.at in self.lone:
            for other in (candidate.at - 1, candidate.at + 1):
                if other in self.kept and self.neighbour(other) == candidate.at:
                    worth += sum(
                        [self.need[name] for name in self.names[other] if name not in beside]
                    )
        return worth

    def neighbour(self, at: int) -> int:
        """The line that stood beside a line: the next of its message, or the one before the
        last; -1 if none."""
        home = self.home[at]
        if at + 1 < self.first[home + 1]:
            return at + 1
        return at - 1 if at > self.first[home] else -1

    def _is_present(self, at: int) -> bool:
        return at >= 0 and (len(self.lines[at]) <= 2 or self.lines[at] in self.on_page)

    def price(self, candidate: Candidate) -> float:
        at, size = candidate.at, candidate.end - candidate.start
        if at not in self.kept:
            return (size + (1 if self.home[at] in self.tagged else 1 + TAG_CHARS)) * self.per_char
        overlap = sum(
            max(0, min(b, candidate.end) - max(a, candidate.start)) for a, b in self.kept[at]
        )
        return max(1, size + GAP_CHARS - overlap) * self.per_char

    # the choice itself

    def take_best(self, queue: Queue, room: float) -> None:
        """Takes the densest candidate while there is room. Worth only falls as others are taken,
        but for the neighbours of what was taken: those are pushed anew."""
        while queue and room > LINE_CHARS_MIN * self.per_char:
            index = queue.pop()
            if self._is_best(index, queue):
                self.done.add(index)
                room -= self._taken(queue, index, room)

    def _is_best(self, index: int, queue: Queue) -> bool:
        """Whether a candidate is worth its tokens and no other is denser; if one may be, it goes
        back to the queue."""
        candidate = self.candidates[index]
        if candidate.bare is None:
            price = self.price(candidate)
            if not self._stays_first(self._bound(candidate) / price, index, queue):
                return False
            # It is not looked at if it would not do even if it told all of its names well.
            if self._worth(candidate, ()) / price < self.floor:
                return False
            self.bare_of(candidate)
        return self._stays_first(
            0.0 if index in self.done else self._density(candidate), index, queue
        )

    def _stays_first(self, density: float, index: int, queue: Queue) -> bool:
        if density < self.floor:
            return False
        if queue.is_ahead_of(density):
            queue.push(density, index)
            return False
        return True

    def _taken(self, queue: Queue, index: int, room: float) -> float:
        """Takes a candidate if there is room for it, and gives its price."""
        price = self.price(self.candidates[index])
        if price > room:
            return 0.0
        self._push(queue, self.take(index))
        return price

    def _density(self, candidate: Candidate) -> float:
        """Worth per token, or the most it can be as long as the candidate was not looked at."""
        bare = candidate.bare
        worth = self._bound(candidate) if bare is None else self._worth(candidate, bare)
        return worth / self.price(candidate)

    def _push(self, queue: Queue, risen: Iterable[int]) -> None:
        for index in risen:
            candidate = self.candidates[index]
            self.bare_of(candidate)  # a pair may be worth more than the bound
            if index not in self.done and (density := self._density(candidate)) >= self.floor:
                queue.push(density, index)

    def take(self, index: int) -> list[int]:
        """Keeps a candidate; gives those whose worth may have risen by that."""
        candidate = self.candidates[index]
        at = candidate.at
        self.tagged.add(self.home[at])
        self.lone.add(self.neighbour(at))
        self.kept[at] = merged(self.kept.get(at, []), candidate.start, candidate.end)
        if candidate.start == 0:
            self.on_page.add(self.lines[at])
        self._tell(candidate)
        self._pair(at)
        return self._risen(at, index)

    def _tell(self, candidate: Candidate) -> None:
        bare = self.bare_of(candidate)
        for name in candidate.names:
            quality = BARE if name in bare else 1.0
            if quality > self.told.get(name, 0.0):
                self.told[name] = quality
            else:
                self.repeats[name] = self.repeats.get(name, 0) + 1
            self._weigh(name)

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
            if (
                other in self.of_line
                and self.home[other] == self.home[at]
                and self.neighbour(other) == at
            ):
                risen += self.of_line[other]
        return risen

    def _head_of(self, at: int) -> int:
        """The candidate that starts a line; made if the line had no worth of its own."""
        for index in self.of_line.get(at, ()):
            if self.candidates[index].start == 0:
                return index
        line = self.lines[at]
        return self.add(
            at, 0, min(len(line), PIECE_CHARS), self.names[at] if len(line) <= PIECE_CHARS else ()
        )
