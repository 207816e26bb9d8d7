"""Which lines of a span are worth their tokens: those that tell most about names that will be
needed, and that nothing else on the page tells already.

A line is worth the sum, over its names, of how likely each is needed times how much better this
line tells it than what is already kept (coverage). Lines are taken greatest worth per token first,
weighed again as coverage grows, until the room is used or a line is not worth its reading. The line
that stood beside a kept one counts a little, so that what is kept can be understood. Neighbours:
`coverage` has the worth of names, `lines` what a line tells, `names` what is needed, `draft` makes
the text.

What the page tells of each name so far, and what one more line would be worth for it.

A name that nothing on the page tells is worth its need. Once a line tells it well, a further line
is worth little, and less with every repetition. Only names that are told change, so what a line is
worth is one sum over its names. Neighbours: `choice` tells what it takes, `lines` says how well a
line tells a name.

A queue of numbered candidates, the densest first, for a choice in which most densities only
fall.

Neighbour: `choice` asks for the first, weighs it again, and takes it or puts it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush

from msgspec import Struct

from refold.strategies.fit import common_size
from refold.strategies.gist.passages import (
    BARE,
    GAP_CHARS,
    PIECE_CHARS,
    NumberedLines,
    Passage,
    Pieces,
    Shown,
    merged,
    tells,
    windows,
    words_in,
)

LINE_CHARS_MIN = 6  # a shorter line has no room for a name
TAG_CHARS = 9
REQUEST_CHARS = 300  # of what was said in one message: kept before others get more
REQUEST_CHARS_OVER = 40  # a line that is longer by no more than this is kept whole

# By seq and number of the line in its passage, the most needed first.
Kept = dict[tuple[int, int], Pieces]
KeptLines = dict[int, dict[int, Pieces]]  # the same by seq, then by number


def by_message(kept: Kept) -> KeptLines:
    """The kept pieces by the seq of their message, and by the number of the line in it."""
    lines: KeptLines = {}
    for (seq, at), pieces in kept.items():
        lines.setdefault(seq, {})[at] = pieces
    return lines


class Candidate(Struct, gc=False):
    """A line, or a piece of a long one, that could be kept. `bare` are the names that it hardly
    tells, found out when its turn comes: most candidates are told by others by then, and never
    need it."""

    at: int
    start: int
    end: int
    names: Sequence[str]
    bare: Sequence[str] | None = None


def choose_lines(
    span: Sequence[Passage],
    need: dict[str, float],
    shown: Shown,
    *,
    room: float,
    floor: float,
    per_char: float,
    typed_share: float = 0.0,
    told: Set[str] = frozenset(),
) -> Kept:
    """The pieces to keep, the most needed first. `room` is in tokens, `floor` the least worth
    per token, `per_char` tokens per character. What users typed has this share of the room,
    before anything else; of other lines, those that are `told` elsewhere are left out. What is
    not needed by then is for what the agent answered."""
    choice = Choice(span, need, shown, floor, per_char)
    room -= choice.keep_typed(room * typed_share)
    choice.on_page |= told
    left = choice.take_best(choice.gather(), room)
    if typed_share:
        left -= choice.keep_typed(left)
        choice.keep_answers(left)
    return {choice.text.place(at): pieces for at, pieces in choice.kept.items()}


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
        self.text = NumberedLines(span)
        self.coverage = Coverage(need, shown)
        self.floor, self.per_char = floor, per_char
        self.on_page = set(shown.lines)
        self.candidates: list[Candidate] = []
        self.of_line: dict[int, list[int]] = {}  # the candidates of a line
        self.kept: dict[int, Pieces] = {}
        self.tagged: set[int] = set()  # messages of which something is kept
        self.lone: set[int] = set()  # lines that stood beside a kept one
        self.done: set[int] = set()  # candidates that were taken or had no room

    # what was said, whatever it is worth

    def keep_typed(self, room: float) -> float:
        """Keeps what users typed: the first message, then the newest. Gives what that took."""
        lines = {home: one.typed for home, one in enumerate(self.text.span) if one.typed}
        homes = list(lines)
        return self._keep_evenly({home: lines[home] for home in homes[:1] + homes[:0:-1]}, room)

    def keep_answers(self, room: float) -> float:
        """Keeps what the agent said last before a user spoke again, the newest first. Gives what
        that took."""
        span = self.text.span
        asked = {one.seq for one in span if one.typed}
        homes = [
            home
            for home in reversed(range(len(span)))
            if span[home].role == "assistant" and span[home].seq + 1 in asked
        ]
        return self._keep_evenly({home: range(len(span[home].lines)) for home in homes}, room)

    def _keep_evenly(self, lines: Mapping[int, Sequence[int]], room: float) -> float:
        """Keeps these lines of messages, all of them if there is room, else those of long messages
        up to a common size, in this order. Gives what that took."""
        wanted = {home: self._missing_lines(home, numbers) for home, numbers in lines.items()}
        sizes = [sum(missing.values()) for missing in wanted.values()]
        excess = sum(sizes) + TAG_CHARS * len(sizes) - room / self.per_char
        most = common_size(sorted(sizes, reverse=True), max(0, int(excess)))
        used = 0.0
        for missing in wanted.values():
            used = self._keep_beginning(missing, max(most, REQUEST_CHARS), used, room)
        return used

    def _missing_lines(self, home: int, numbers: Iterable[int]) -> dict[int, int]:
        """Those of the lines of a message that are not whole on the page, and how many characters
        each lacks."""
        first = self.text.first[home]
        missing = {first + at: self._missing_chars(first + at) for at in numbers}
        return {at: chars for at, chars in missing.items() if chars}

    def _missing_chars(self, at: int) -> int:
        """How many characters at the end of a line are not on the page."""
        line, pieces = self.text.lines[at], self.kept.get(at)
        if pieces is None:
            return 0 if line in self.on_page else len(line)
        start, end = pieces[0]
        return len(line) if start else len(line) - end

    def _keep_beginning(
        self, missing: Mapping[int, int], most: int, used: float, room: float
    ) -> float:
        """Keeps the first of these lines while there is room; gives what is used then."""
        left = most
        for at, chars in missing.items():
            if left <= 0 or used >= room:
                break
            if self._missing_chars(at):  # not told by another message since
                more = chars if chars <= left + REQUEST_CHARS_OVER else left
                more = min(more, int((room - used) / self.per_char))
                used += self._keep_line(at, len(self.text.lines[at]) - chars + more)
                left -= more + 1
        return used

    def _keep_line(self, at: int, end: int) -> float:
        """Keeps the beginning of a line, whatever it is worth; gives its price."""
        index = self.add(at, 0, end, self.text.names[at])
        self.done.add(index)
        price = self.price(self.candidates[index])
        self.take(index)
        return price

    # candidates

    def gather(self) -> Queue:
        """Every distinct line not on the page yet, newest copy first, that could be worth its
        tokens."""
        all_lines, all_names = self.text.lines, self.text.names
        need, met = self.coverage.need, set(self.on_page)
        least = self.floor / (1 + BESIDE) * self.per_char
        for at in reversed(range(len(all_lines))):
            names = all_names[at]
            if not names or (line := all_lines[at]) in met:
                continue
            met.add(line)
            if len(line) > PIECE_CHARS:
                for (start, end), held in windows(line, names).items():
                    self.add(at, start, end, held)
            elif sum(map(need.__getitem__, names)) >= least * (len(line) + 1):
                self.add(at, 0, len(line), names)
        return Queue([self._density(candidate) for candidate in self.candidates], self.floor)

    def add(self, at: int, start: int, end: int, names: Sequence[str]) -> int:
        """One more candidate; gives its number."""
        index = len(self.candidates)
        self.candidates.append(Candidate(at, start, end, names))
        self.of_line.setdefault(at, []).append(index)
        return index

    def _candidate_at_start(self, at: int) -> int:
        """The candidate that starts a line; added if the line had no worth of its own."""
        for index in self.of_line.get(at, ()):
            if self.candidates[index].start == 0:
                return index
        return self._add_start(at)

    def _add_start(self, at: int) -> int:
        """Adds the start of a line as a candidate, without names where it is not the whole line."""
        size = len(self.text.lines[at])
        if size <= PIECE_CHARS:
            return self.add(at, 0, size, self.text.names[at])
        return self.add(at, 0, PIECE_CHARS, ())

    def bare_of(self, candidate: Candidate) -> Sequence[str]:
        """The names that a candidate hardly tells."""
        if candidate.bare is None:
            text = self.text.lines[candidate.at][candidate.start : candidate.end]
            words = words_in(text)
            candidate.bare = [name for name in candidate.names if not tells(text, words, name)]
        return candidate.bare

    # worth and price

    def _density(self, candidate: Candidate) -> float:
        """Worth per token, or the most it can be as long as the candidate was not looked at."""
        bare = candidate.bare
        if bare is None:
            worth = self.coverage.worth_at_most(candidate.names)
        else:
            worth = self.coverage.worth(candidate.names, bare) + self._pair_worth(candidate)
        return worth / self.price(candidate)

    def _pair_worth(self, candidate: Candidate) -> float:
        """Worth of the pairs that a line completes or begins: with the line beside it, and with
        kept lines that have this one beside them."""
        need, at, coverage = 0.0, candidate.at, self.coverage
        if not coverage.paired.issuperset(candidate.names):
            need += self._part_of_pair(at) * coverage.unpaired_need(candidate.names)
        if at in self.lone:
            for other in self.text.beside(at):
                if other in self.kept:
                    need += coverage.unpaired_need(self.text.names[other])
        return BESIDE * need

    def _part_of_pair(self, at: int) -> float:
        """Which part of a pair a line makes: all of it where the line beside it is on the page,
        its part of both where that one could still be taken, nothing where it stood alone. Of
        lines that tell the same, the one is taken that can be understood for the fewest tokens."""
        beside = self.text.neighbour[at]
        if beside < 0:
            return 0.0
        if self._is_present(beside):
            return 1.0
        size = len(self.text.lines[at])
        return size / (size + min(PIECE_CHARS, len(self.text.lines[beside])))

    def _is_present(self, at: int) -> bool:
        """Whether a line is on the page, or too short to be missed."""
        line = self.text.lines[at]
        return len(line) <= 2 or line in self.on_page

    def price(self, candidate: Candidate) -> float:
        """What a candidate takes, in tokens, with the tag of its message where that is new."""
        at, size = candidate.at, candidate.end - candidate.start
        if at in self.kept:
            size = max(1, size + GAP_CHARS - self._overlap(candidate))
        else:
            size += 1 if self.text.home[at] in self.tagged else 1 + TAG_CHARS
        return size * self.per_char

    def _overlap(self, candidate: Candidate) -> int:
        """How many characters of a candidate are kept already."""
        overlap = 0
        for start, end in self.kept[candidate.at]:
            overlap += max(0, min(end, candidate.end) - max(start, candidate.start))
        return overlap

    # the choice itself

    def take_best(self, queue: Queue, room: float) -> float:
        """Takes the densest candidate while there is room; gives the room that is left. Worth only
        falls as others are taken, but for the neighbours of what was taken: those are pushed
        again."""
        while queue and room > LINE_CHARS_MIN * self.per_char:
            index = queue.pop()
            if self._check_best(index, queue):
                self.done.add(index)
                room -= self._take_if_room(queue, index, room)
        return room

    def _check_best(self, index: int, queue: Queue) -> bool:
        """Whether a candidate is worth its tokens and no other is denser; if one may be, it goes
        back to the queue."""
        candidate = self.candidates[index]
        if candidate.bare is not None:
            density = 0.0 if index in self.done else self._density(candidate)
            return self._check_first(density, index, queue)
        density = self._unread_density(candidate, index, queue)
        if density < self.floor:
            return False
        if self.bare_of(candidate):
            density = self._density(candidate)
        return self._check_first(density, index, queue)

    def _unread_density(self, candidate: Candidate, index: int, queue: Queue) -> float:
        """The density of a candidate that was not looked at, if it told all of its names well;
        less than nothing where another may be denser even so, or it is not worth its tokens."""
        price = self.price(candidate)
        at_most = self.coverage.worth_at_most(candidate.names)
        if not self._check_first(at_most / price, index, queue):
            return -1.0
        worth = self.coverage.worth(candidate.names, ()) + self._pair_worth(candidate)
        return worth / price

    def _check_first(self, density: float, index: int, queue: Queue) -> bool:
        """Whether a candidate of this density comes first; if not, it goes back to the queue,
        unless it is not worth its tokens."""
        if density < self.floor:
            return False
        if queue.is_ahead_of(density):
            queue.push(density, index)
            return False
        return True

    def _take_if_room(self, queue: Queue, index: int, room: float) -> float:
        """Takes a candidate if there is room for it, and gives its price."""
        price = self.price(self.candidates[index])
        if price > room:
            return 0.0
        self._push(queue, self.take(index))
        return price

    def _push(self, queue: Queue, risen: Iterable[int]) -> None:
        """Puts candidates in the queue whose worth may have risen."""
        for index in risen:
            candidate = self.candidates[index]
            self.bare_of(candidate)  # a pair may be worth more than the bound
            if index not in self.done:
                density = self._density(candidate)
                if density >= self.floor:
                    queue.push(density, index)

    def take(self, index: int) -> list[int]:
        """Keeps a candidate; gives those whose worth may have risen by that."""
        candidate = self.candidates[index]
        at = candidate.at
        is_first = at not in self.kept
        self.tagged.add(self.text.home[at])
        self.lone.add(self.text.neighbour[at])
        self.kept[at] = merged(self.kept.get(at, []), candidate.start, candidate.end)
        if candidate.start == 0:
            self.on_page.add(self.text.lines[at])
        self._tell(candidate)
        self._pair(at)
        return [*self._cheaper(index, is_first), *self._risen(at)]

    def _tell(self, candidate: Candidate) -> None:
        """Counts what a kept candidate tells of its names."""
        bare = self.bare_of(candidate)
        for name in candidate.names:
            self.coverage.tell(name, BARE if name in bare else 1.0)

    def _pair(self, at: int) -> None:
        """Counts the pairs that a kept line completes."""
        paired, text = self.coverage.paired, self.text
        beside = text.neighbour[at]
        if beside >= 0 and self._is_present(beside):
            paired.update(text.names[at])
        for other in text.beside(at):
            if other in self.kept:
                paired.update(text.names[other])

    def _cheaper(self, taken: int, is_first: bool) -> list[int]:
        """The pieces of its line that cost less now: all after the first, else those it touches."""
        pieces, one = self.candidates, self.candidates[taken]
        others = [index for index in self.of_line[one.at] if index != taken]
        if is_first:
            return others
        start, end = one.start - GAP_CHARS, one.end + GAP_CHARS
        return [at for at in others if pieces[at].start <= end and start <= pieces[at].end]

    def _risen(self, at: int) -> list[int]:
        """The candidates whose worth may have risen because this line was taken: the line beside
        it, and those that it stood beside."""
        risen: list[int] = []
        neighbour = self.text.neighbour[at]
        if neighbour >= 0 and not self._is_present(neighbour):
            risen.append(self._candidate_at_start(neighbour))
        for other in self.text.beside(at):
            risen += self.of_line.get(other, ())
        return risen


AGAIN = 0.02  # worth of one more line for a name that has one
BESIDE = 0.04  # worth of also having the line next to it


class Coverage:
    """Per name: how well it is told, and what a line is worth for it."""

    def __init__(self, need: Mapping[str, float], shown: Shown) -> None:
        self.need = need
        self.told = shown.told()  # how well each name is told, from 0 to 1
        self.paired = set(shown.names)  # names with a line whose neighbour is also on the page
        self.repeats: dict[str, int] = {}  # how many further lines a name has got
        self.gain = dict(need)  # what a line is worth that tells the name well
        self.most = {name: value * (1.0 + BESIDE) for name, value in need.items()}  # at most
        for name in need.keys() & self.told.keys():
            self._weigh(name)

    def tell(self, name: str, quality: float) -> None:
        """One more line on the page tells this name, so well."""
        if quality > self.told.get(name, 0.0):
            self.told[name] = quality
        else:
            self.repeats[name] = self.repeats.get(name, 0) + 1
        self._weigh(name)

    def _weigh(self, name: str) -> None:
        """Notes what lines are worth for a name, as it is told now."""
        more = 1.0 - self.told.get(name, 0.0)
        need = self.need[name]
        if more > AGAIN:
            self.gain[name] = need * more
            self.most[name] = need * (more + BESIDE)
        else:
            self.gain[name] = self._repeat_gain(name)
            self.most[name] = need * (AGAIN + BESIDE)

    def _repeat_gain(self, name: str) -> float:
        """What one more line is worth for a name that is told as well already."""
        return self.need[name] * (AGAIN / (1 + self.repeats.get(name, 0)))

    def bare_gain(self, name: str) -> float:
        """What a line is worth that hardly tells the name."""
        more = BARE - self.told.get(name, 0.0)
        if more > AGAIN:
            return self.need[name] * more
        return self._repeat_gain(name)

    def worth_at_most(self, names: Iterable[str]) -> float:
        """What a line with these names is worth if it tells all of them well."""
        worth, most = 0.0, self.most
        for name in names:
            worth += most[name]
        return worth

    def worth(self, names: Iterable[str], bare: Sequence[str]) -> float:
        """What a line with these names is worth alone; `bare` are those that it hardly tells."""
        worth, gain = 0.0, self.gain
        for name in names:
            worth += self.bare_gain(name) if name in bare else gain[name]
        return worth

    def unpaired_need(self, names: Iterable[str]) -> float:
        """The need of those of the names that have no line with its neighbour yet."""
        return sum([self.need[name] for name in names if name not in self.paired])


class Queue:
    """Candidates by density, the densest first, among equals the one with the lower number. Most
    leave in the order in which they came, so they are sorted once; only those that were put back
    are in a heap."""

    def __init__(self, densities: Sequence[float], floor: float) -> None:
        dense = [(-density, index) for index, density in enumerate(densities) if density >= floor]
        self.waiting = sorted(dense, reverse=True)  # the first one last
        self.moved: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self.waiting or self.moved)

    def pop(self) -> int:
        """The first candidate, taken out of the queue."""
        waiting, moved = self.waiting, self.moved
        if not moved or (waiting and waiting[-1] < moved[0]):
            return waiting.pop()[1]
        return heappop(moved)[1]

    def push(self, density: float, index: int) -> None:
        """Puts a candidate back, with a density of its own."""
        heappush(self.moved, (-density, index))

    def is_ahead_of(self, density: float) -> bool:
        """Whether the first candidate is denser than this."""
        if self.waiting and -self.waiting[-1][0] > density:
            return True
        return bool(self.moved) and -self.moved[0][0] > density
