"""The lines of a span that are worth their tokens: those that say the most about names that will
be needed and that nothing else on the page covers.

A line is worth the sum, over its names, of the name's need times the gain in coverage. A name
without coverage is worth its need; once a line covers it well, a further line is worth little, and
less with every repetition. Lines are taken in order of worth per token, which is updated as
coverage grows, until the room is used up or no line is worth its tokens. The neighbour of a kept
line gets a little extra worth, so that kept lines can be understood in context. Neighbours:
`passages` has the lines, `names` the needs, `coverage` what the page has already, `draft` makes
the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import chain
from math import log

from msgspec import Struct

from refold.ledger.sentences import binds
from refold.patterns import regex
from refold.strategies.fit import common_size
from refold.strategies.gist.coverage import BESIDE, Coverage
from refold.strategies.gist.passages import (
    ARGUMENT,
    BARE,
    COMMAND,
    FILE,
    GAP_CHARS,
    PIECE_CHARS,
    REPLACED,
    SAID,
    SCRIPT,
    TYPED,
    WRITTEN,
    NumberedLines,
    Passage,
    Pieces,
    Shown,
    merged,
    tells,
    windows,
    words_in,
)
from refold.strategies.word_stems import CJK

LINE_CHARS_MIN = 6  # a shorter line has no room for a name
TAG_CHARS = 9
REQUEST_CHARS = 600  # of one message: kept even if the common size is smaller
REQUEST_CHARS_OVER = 40  # a line longer by no more than this is kept whole
# The probability that the agent repeats a line word for word, measured on real sessions: by its
# origin, by how often it occurred, and by its age, over a number of messages; a command has twice
# that, so that it comes before output. Lines with fewer words are too short to tell.
AGAIN_WORTH = {
    COMMAND: 0.14, ARGUMENT: 0.095, SCRIPT: 0.16, WRITTEN: 0.062, FILE: 0.026, SAID: 0.03,
}  # fmt: skip
AGAIN_MESSAGES = dict.fromkeys((COMMAND, ARGUMENT, WRITTEN), 150) | dict.fromkeys(
    (SCRIPT, FILE, SAID), 35
)
TIMES_WORTH = (1.0, 4.0, 9.0)
AGE_POWER = 1.5
QUOTED = 2.0  # times the worth of a line that an earlier gist quoted
AGAIN_CHARS_MIN, AGAIN_WORDS_MIN = 20, 3
# The worth of prose per unit of its words' rarity. A word on one of five lines or more says
# nothing. A line up to this length is kept whole, a longer one by its sentences. The worth grows
# with the share of the room for prose, more for newer lines, up to twice as much.
PROSE_WORTH = {SAID: 0.003, TYPED: 0.02}
PROSE_TIGHT = 3.0
COMMON = 1.5  # log(1 + prose lines per line with the word)
ANNOUNCING, ANNOUNCED = (":", "\uff1a"), 0.5  # the end of an announcement of a call, and its worth
SAID_MIN = 60  # lines of prose: among fewer, every word would seem common
PROSE_WORDS_MIN = 4
ANSWERS_SHARE = 0.08  # of the room: the answers that ended a turn, before other lines
SPOKEN_SHARE = 0.9  # of the room: the most that typed text without pasted data may take
# A typed line of this size with a larger share of symbols was pasted.
PASTED_CHARS, PASTED_CHARS_READ, SYMBOLS = 40, 1_000, 0.25
RULES_SHARE = 0.85  # of the room: the most that rules may take
WHOLE_CHARS, SENTENCE_CHARS, RULE_CHARS = 400, 100, 40

_PROSE_WORD = regex(rf"[{CJK}]{{2}}|\w{{3,}}")
_SENTENCE_END = regex(r"[.!?;:]\s+|[\u3002\uff01\uff1f]")
_OWN_LINE = regex(f"[{''.join({**AGAIN_WORTH, **PROSE_WORTH})}]")
_SYMBOL = regex(r"[!-@\[-`{-~]")
_LETTERS = regex(rf"[{CJK}]|[^\W\d_]{{2}}")

# By the seq of the message and the number of the line in it, the most needed first.
Kept = dict[tuple[int, int], Pieces]
KeptLines = dict[int, dict[int, Pieces]]  # the same by seq, then by number


def sentences_of(line: str, size: int = SENTENCE_CHARS) -> Iterator[tuple[int, int]]:
    """The start and end of the sentences of a line, together if they are shorter than the size."""
    start = 0
    for end in [*(found.end() for found in _SENTENCE_END.finditer(line)), len(line)]:
        if end - start >= size or start < end == len(line):
            yield start, end
            start = end


def whole_sentences(line: str, start: int, end: int) -> int:
    """The last end of a sentence in this part of a line; its own end if that would lose more than
    half of it."""
    ends = [stop for _, stop in sentences_of(line, 1) if start < stop <= end]
    return ends[-1] if ends and ends[-1] - start >= (end - start) / 2 else end


def is_pasted(line: str) -> bool:
    """Whether a line looks like data of a program, not like words: digits and punctuation are a
    large part of it."""
    sample = line[:PASTED_CHARS_READ]
    return len(line) >= PASTED_CHARS and len(_SYMBOL.findall(sample)) > SYMBOLS * len(sample)


def by_message(kept: Kept) -> KeptLines:
    """The kept pieces by the seq of their message, and by the number of the line in it."""
    lines: KeptLines = {}
    for (seq, at), pieces in kept.items():
        lines.setdefault(seq, {})[at] = pieces
    return lines


class Candidate(Struct, gc=False):
    """A line, or a piece of a long one, that could be kept. `bare` holds the names that it
    hardly covers. It is computed only when the candidate's turn comes: most candidates never get
    that far, because other lines already cover their names."""

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
    said_share: float = 0.0,
    told: Set[str] = frozenset(),
    quoted: Set[str] = frozenset(),
) -> Kept:
    """The pieces to keep, the most needed first. `room` is in tokens, `floor` is the minimum worth
    per token, and `per_char` the number of tokens per character. If typed text has a share, a
    user's words come before anything else, pasted data up to that share, and the remaining room
    goes to the rest of it and to the answers; other lines are left out if the page has them
    (`told`). Lines that an earlier gist `quoted` are worth more, so that a line chosen once is
    rarely lost."""
    choice = Choice(span, need, shown, floor, per_char, said_share, quoted)
    if typed_share:
        typed = choice.keep_rules(room * RULES_SHARE)
        typed += choice.keep_typed(max(0.0, room * SPOKEN_SHARE - typed))
        typed += choice.keep_typed(max(0.0, room * typed_share - typed), pasted=True)
        room -= typed
    choice.on_page |= told
    choice.gather()
    if typed_share:
        room -= choice.keep_answers(room * ANSWERS_SHARE)
    if said_share:
        used = room * said_share
        used -= choice.take_best(choice.queue(PROSE_WORTH), used)
        room -= used
    left = choice.take_best(choice.queue(), room)
    if typed_share:
        left -= choice.keep_typed(left)
        left -= choice.keep_answers(left)
        choice.keep_typed(left, pasted=True)
    return {choice.text.location(at): pieces for at, pieces in choice.kept.items()}


class Choice:
    """A lazy greedy choice over the lines of a span, numbered consecutively; used only once."""

    def __init__(
        self,
        span: Sequence[Passage],
        need: dict[str, float],
        shown: Shown,
        floor: float,
        per_char: float,
        prose_share: float = 0.0,
        quoted: Set[str] = frozenset(),
    ) -> None:
        self.text = NumberedLines(span)
        self.coverage = Coverage(need, shown)
        self.floor, self.per_char = floor, per_char
        self.on_page = set(shown.lines)
        self.own = self._own_worths(prose_share)
        self.factor = [QUOTED if line in quoted else 1.0 for line in self.text.lines]
        self.candidates: list[Candidate] = []
        self.of_line: dict[int, list[int]] = {}  # the candidates of a line
        self.kept: dict[int, Pieces] = {}
        self.tagged: set[int] = set()  # messages with a kept line
        self.lone: set[int] = set()  # neighbours of kept lines
        self.done: set[int] = set()  # candidates that were taken or had no room

    # typed text and answers, regardless of their worth: these return the tokens used

    def keep_rules(self, room: float) -> float:
        """Keeps the typed sentences that bind, newest first, if not all typed text has room."""
        text = self.text
        typed = [
            text.first[home] + at for home, passage in enumerate(text.span) for at in passage.typed
        ]
        used = 0.0
        if sum(len(text.lines[at]) + 1 for at in typed) * self.per_char <= room:
            return used
        for at in reversed(typed):
            line = text.lines[at]
            if line in self.on_page:
                continue
            for start, end in sentences_of(line, RULE_CHARS):
                if binds(line[start:end]):
                    names = [name for name in text.names[at] if line.find(name, start, end) >= 0]
                    index = self.add(at, start, end, names)
                    self.done.add(index)
                    price = self.price(self.candidates[index])
                    if used + price > room:  # an older one may be void without it
                        return used
                    used += price
                    self.take(index)
        return used

    def keep_typed(self, room: float, *, pasted: bool = False) -> float:
        """Keeps typed text: the first message, then the others, newest first; or the pasted logs
        and data inside it, which say less."""
        lines: dict[int, Sequence[int]] = {}
        for home, passage in enumerate(self.text.span):
            if passage.typed:
                lines[home] = [at for at in passage.typed if is_pasted(passage.lines[at]) == pasted]
        homes = list(lines)
        return self._keep_evenly({home: lines[home] for home in homes[:1] + homes[:0:-1]}, room)

    def keep_answers(self, room: float) -> float:
        """Keeps the agent's last words before each user message, newest first."""
        answers: dict[int, Sequence[int]] = {}
        last = -1
        for home, passage in enumerate(self.text.span):
            if passage.typed and last >= 0:
                answers[last] = self._said(last)
                last = -1
            elif passage.role == "assistant" and self._said(home):
                last = home
        return self._keep_evenly(dict(reversed(answers.items())), room)

    def _said(self, home: int) -> list[int]:
        """The lines of prose in a message of the agent."""
        passage = self.text.span[home]
        origins = passage.origins or SAID * len(passage.lines)  # a quote of an earlier gist
        return [at for at, origin in enumerate(origins) if origin == SAID]

    def _keep_evenly(self, lines: Mapping[int, Sequence[int]], room: float) -> float:
        """Keeps these lines of each message, in this order: all of them if there is room, else
        long messages only up to a common size."""
        # For each message, its incomplete lines and how many characters each is missing.
        wanted: list[dict[int, int]] = []
        for home, numbers in lines.items():
            first = self.text.first[home]
            missing = {first + at: self._missing_chars(first + at) for at in numbers}
            wanted.append({at: chars for at, chars in missing.items() if chars})
        sizes = [sum(missing.values()) for missing in wanted]
        excess = sum(sizes) + TAG_CHARS * len(sizes) - room / self.per_char
        most = common_size(sorted(sizes, reverse=True), max(0, int(excess)))
        used = 0.0
        for missing in wanted:
            left = max(most, REQUEST_CHARS)
            for at, chars in missing.items():
                if left <= 0 or used >= room:
                    break
                if self._missing_chars(at):  # another message may have added it since
                    more = chars if chars <= left + REQUEST_CHARS_OVER else left
                    more = min(more, int((room - used) / self.per_char))
                    start = len(self.text.lines[at]) - chars
                    more = whole_sentences(self.text.lines[at], start, start + more) - start
                    end = start + more
                    index = self.add(at, 0, end, self.text.names[at])
                    self.done.add(index)
                    used += self.price(self.candidates[index])
                    self.take(index)
                    left -= more + 1
        return used

    def _missing_chars(self, at: int) -> int:
        """The number of characters at the end of a line that are not on the page."""
        line, pieces = self.text.lines[at], self.kept.get(at)
        if pieces is None:
            return 0 if line in self.on_page else len(line)
        start, end = pieces[0]
        return len(line) if start else len(line) - end

    # candidates

    def _own_worths(self, prose_share: float) -> list[float]:
        """The worth of each line apart from its names: for the chance that the agent repeats it
        word for word, and for the rare words of prose, which no name covers."""
        text = self.text
        own = [(found.start(), found[0]) for found in _OWN_LINE.finditer(text.origins)]
        times = Counter(text.lines[at] for at, origin in own if origin != FILE)
        now = text.span[-1].seq if text.span else 0
        worths = [0.0] * len(text.lines)
        said: dict[int, set[str]] = {}
        again: dict[str, tuple[float, int]] = {}
        for at, origin in own:
            line = text.lines[at]
            worth = AGAIN_WORTH.get(origin, 0.0)
            if worth and len(line) >= AGAIN_CHARS_MIN and words_in(line) >= AGAIN_WORDS_MIN:
                # The newest copy has the worth of the best one: a read shows what was written.
                best = again[line] = max(again.get(line, (0.0, 1)), (worth, AGAIN_MESSAGES[origin]))
                age = now - text.span[text.home[at]].seq
                more = TIMES_WORTH[min(max(times[line], 1), len(TIMES_WORTH)) - 1]
                worths[at] = best[0] * more / (1 + age / best[1]) ** AGE_POWER
            if origin in PROSE_WORTH and not is_pasted(line):
                said[at] = {word.lower() for word in _PROSE_WORD.findall(line)}
        lines_with = Counter(chain.from_iterable(said.values()))
        rarity = {
            word: max(0.0, log(1 + max(len(said), SAID_MIN) / count) - COMMON)
            for word, count in lines_with.items()
        }
        for at, found in said.items():
            if len(found) >= PROSE_WORDS_MIN:
                worth = PROSE_WORTH[text.origins[at]] * sum(map(rarity.__getitem__, found))
                last = text.origins[text.first[text.home[at] + 1] - 1]
                if last not in PROSE_WORTH and text.lines[at].endswith(ANNOUNCING):
                    worth *= ANNOUNCED  # the call that follows says it
                worths[at] += worth * (1 + prose_share * PROSE_TIGHT * (1 + at / len(text.lines)))
        return worths

    def gather(self) -> None:
        """Finds every distinct line, newest copy first, that is not on the page yet and could be
        worth its tokens."""
        all_lines, all_names = self.text.lines, self.text.names
        need, met = self.coverage.need, set(self.on_page)
        least = self.floor / (1 + BESIDE) / QUOTED * self.per_char
        for at in reversed(range(len(all_lines))):
            names, own = all_names[at], self.own[at]
            if not (names or own) or (line := all_lines[at]) in met:
                continue
            met.add(line)
            origin = self.text.origins[at]
            if origin == REPLACED:  # the page has the text that replaced it
                continue
            if len(line) <= (WHOLE_CHARS if own else PIECE_CHARS):
                if own + sum(map(need.__getitem__, names)) >= least * (len(line) + 1):
                    self.add(at, 0, len(line), names)
            elif own and origin in PROSE_WORTH:
                for start, end in sentences_of(line):
                    inside = [name for name in names if line.find(name, start, end) >= 0]
                    self.add(at, start, end, inside)
            else:
                for (start, end), piece_names in windows(line, names).items():
                    self.add(at, start, end, piece_names)

    def queue(self, origins: Iterable[str] = ()) -> Queue:
        """The candidates in order, or only those of these origins."""
        return Queue(
            [
                self._value_per_token(candidate)
                if index not in self.done
                and (not origins or self.text.origins[candidate.at] in origins)
                else 0.0
                for index, candidate in enumerate(self.candidates)
            ],
            self.floor,
        )

    def add(self, at: int, start: int, end: int, names: Sequence[str]) -> int:
        """Adds a candidate; returns its number."""
        index = len(self.candidates)
        self.candidates.append(Candidate(at, start, end, names))
        self.of_line.setdefault(at, []).append(index)
        return index

    def bare_of(self, candidate: Candidate) -> Sequence[str]:
        """The names that a candidate hardly covers."""
        if candidate.bare is None:
            text = self.text.lines[candidate.at][candidate.start : candidate.end]
            words = words_in(text)
            candidate.bare = [name for name in candidate.names if not tells(text, words, name)]
        return candidate.bare

    # worth and price

    def _value_per_token(self, candidate: Candidate) -> float:
        """Worth per token, or an upper bound on it until the candidate has been read."""
        if candidate.bare is None:
            worth = self.coverage.worth_at_most(candidate.names)
        else:
            worth = self.coverage.worth(candidate.names, candidate.bare)
            worth += self._pair_worth(candidate)
        worth += self._own_worth(candidate)
        return worth * self.factor[candidate.at] / self.price(candidate)

    def _own_worth(self, candidate: Candidate) -> float:
        """The candidate's part of its line's own worth."""
        own = self.own[candidate.at]
        return own and own * (candidate.end - candidate.start) / len(self.text.lines[candidate.at])

    def _pair_worth(self, candidate: Candidate) -> float:
        """Worth of the pairs that a line completes or begins: with its neighbour, and with kept
        lines whose neighbour it is. If the neighbour is present, the pair is complete. If it could
        still be taken, the line only gets its share of the pair's length, so that of two equal
        lines, the one that takes fewer tokens to understand wins."""
        worth, at, coverage, text = 0.0, candidate.at, self.coverage, self.text
        neighbour = text.neighbour[at]
        if neighbour >= 0 and not coverage.paired.issuperset(candidate.names):
            share = 1.0
            if not self._is_present(neighbour):
                size = len(text.lines[at])
                share = size / (size + min(PIECE_CHARS, len(text.lines[neighbour])))
            worth += share * coverage.unpaired_need(candidate.names)
        if at in self.lone:
            for other in text.beside(at):
                if other in self.kept:
                    worth += coverage.unpaired_need(text.names[other])
        return BESIDE * worth

    def _is_present(self, at: int) -> bool:
        """Whether a line is on the page, or nothing would be missed: it has only numbers and
        punctuation, or was replaced."""
        line, origin = self.text.lines[at], self.text.origins[at]
        return line in self.on_page or origin == REPLACED or not _LETTERS.search(line)

    def price(self, candidate: Candidate) -> float:
        """The tokens of a candidate, including the tag of its message if that is new."""
        at, size = candidate.at, candidate.end - candidate.start
        if at in self.kept:
            overlap = sum(
                max(0, min(end, candidate.end) - max(start, candidate.start))
                for start, end in self.kept[at]
            )
            size = max(1, size + GAP_CHARS - overlap)
        else:
            size += 1 if self.text.home[at] in self.tagged else 1 + TAG_CHARS
        return size * self.per_char

    # the choice itself

    def take_best(self, queue: Queue, room: float) -> float:
        """Takes the densest candidate while there is room; returns the room that is left. A
        candidate's worth only falls as others are taken, except next to a taken line; those
        candidates are pushed again."""
        while queue and room > LINE_CHARS_MIN * self.per_char:
            index = queue.pop()
            if not self._check_best(index, queue):
                continue
            self.done.add(index)
            if (price := self.price(self.candidates[index])) > room:
                continue
            room -= price
            for risen in self.take(index):
                candidate = self.candidates[risen]
                self.bare_of(candidate)  # a pair may be worth more than the bound
                if risen not in self.done:
                    density = self._value_per_token(candidate)
                    if density >= self.floor:
                        queue.push(density, risen)
        return room

    def _check_best(self, index: int, queue: Queue) -> bool:
        """Whether a candidate is worth its tokens and no other is denser. If another may be
        denser, this one goes back into the queue."""
        candidate = self.candidates[index]
        if candidate.bare is not None:
            is_present = candidate.start == 0 and self.text.lines[candidate.at] in self.on_page
            density = self._value_per_token(candidate)
            if index in self.done or is_present:
                density = 0.0
            return self._check_first(density, index, queue)
        # Not read yet: check its upper bound first, then its worth if it covered all names well.
        price = self.price(candidate) / self.factor[candidate.at]
        own = self._own_worth(candidate)
        at_most = own + self.coverage.worth_at_most(candidate.names)
        if not self._check_first(at_most / price, index, queue):
            return False
        density = own + self.coverage.worth(candidate.names, ()) + self._pair_worth(candidate)
        density /= price
        if density < self.floor:
            return False
        if self.bare_of(candidate):
            density = self._value_per_token(candidate)
        return self._check_first(density, index, queue)

    def _check_first(self, density: float, index: int, queue: Queue) -> bool:
        """Whether a candidate of this density comes first. If not, it goes back into the queue,
        or is dropped if it is not worth its tokens."""
        if density < self.floor:
            return False
        if queue.is_ahead_of(density):
            queue.push(density, index)
            return False
        return True

    def take(self, index: int) -> list[int]:
        """Keeps a candidate; returns the candidates that may be worth more now."""
        candidate = self.candidates[index]
        at, text = candidate.at, self.text
        is_first = at not in self.kept
        neighbour = text.neighbour[at]
        self.tagged.add(text.home[at])
        self.lone.add(neighbour)
        self.kept[at] = merged(self.kept.get(at, []), candidate.start, candidate.end)
        if candidate.start == 0:
            self.on_page.add(text.lines[at])
        bare = self.bare_of(candidate)
        for name in candidate.names:
            self.coverage.tell(name, BARE if name in bare else 1.0)
        if neighbour >= 0 and self._is_present(neighbour):
            self.coverage.paired.update(text.names[at])
        for other in text.beside(at):
            if other in self.kept:
                self.coverage.paired.update(text.names[other])
        return [*self._cheaper_pieces(index, is_first), *self._raised(at)]

    def _cheaper_pieces(self, taken: int, is_first: bool) -> list[int]:
        """The other pieces of the line that cost less now: all of them after the first piece is
        taken, after that only those within reach."""
        pieces, piece = self.candidates, self.candidates[taken]
        others = [index for index in self.of_line[piece.at] if index != taken]
        if is_first:
            return others
        start, end = piece.start - GAP_CHARS, piece.end + GAP_CHARS
        return [at for at in others if pieces[at].start <= end and start <= pieces[at].end]

    def _raised(self, at: int) -> list[int]:
        """The candidates that may be worth more because this line was taken: its neighbour, which
        becomes a candidate if it was not worth it alone, and the lines whose neighbour it is."""
        risen: list[int] = []
        neighbour = self.text.neighbour[at]
        if neighbour >= 0 and not self._is_present(neighbour):
            indices = self.of_line.get(neighbour, ())
            start = next((index for index in indices if self.candidates[index].start == 0), None)
            if start is None:
                size = len(self.text.lines[neighbour])
                names = self.text.names[neighbour] if size <= PIECE_CHARS else ()
                start = self.add(neighbour, 0, min(size, PIECE_CHARS), names)
            risen.append(start)
        for other in self.text.beside(at):
            risen += self.of_line.get(other, ())
        return risen


class Queue:
    """Numbered candidates, densest first; ties go to the lower number. Most leave in their
    original order, so they are sorted once; only those that were put back are in a heap."""

    def __init__(self, densities: Sequence[float], floor: float) -> None:
        dense = [(-density, index) for index, density in enumerate(densities) if density >= floor]
        self.waiting = sorted(dense, reverse=True)  # the next to leave is at the end
        self.moved: list[tuple[float, int]] = []

    def __bool__(self) -> bool:
        return bool(self.waiting or self.moved)

    def pop(self) -> int:
        """Removes and returns the first candidate."""
        waiting, moved = self.waiting, self.moved
        if not moved or (waiting and waiting[-1] < moved[0]):
            return waiting.pop()[1]
        return heappop(moved)[1]

    def push(self, density: float, index: int) -> None:
        """Puts a candidate back, with a new density."""
        heappush(self.moved, (-density, index))

    def is_ahead_of(self, density: float) -> bool:
        """Whether the first candidate is denser than this."""
        if self.waiting and -self.waiting[-1][0] > density:
            return True
        return bool(self.moved) and -self.moved[0][0] > density
