"""Which later sentence stands for an earlier one: "The spare key is with Omar" for "Gunilla keeps
the spare key", if somebody asks who has it.

Evidence is added up. For it speak what two sentences share, above all words that the question does
not have: those are the old value ("no more coffee"); that their vectors are near, that the later
one tells of a change, and that it is nearer to the question. Against it speak a name of the
question that is gone, and the kind of value. Who asks nothing and only gives words gets what has
them. Nothing is ended by that, because code may be wrong: what succeeds only stands first.
Neighbours: `recall` asks, `followers` weighs words, `claim` ends what is certain to have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import mul

from msgspec import Struct

from refold.memory.claim import LITTLE, plain, split, stem
from refold.memory.entry import Run
from refold.memory.finder import Finder, Fitness, Found
from refold.memory.fold import Entries
from refold.memory.settling import telling_stems, tells_of_a_change
from refold.search.embedders import Vector

SUCCESSORS_MAX = 8


class Evidence(Struct, frozen=True, kw_only=True):
    """What each sign is worth; all together must reach 1."""

    near: float = 0.0  # how near the two are by their vectors
    nearer: float = 0.0  # by how much the later one is nearer to the question
    asked: float  # what they share of the words that the question has
    rest: float = 0.0  # and of all others
    has_rest: float = 0.0
    change: float  # the later one tells of a change
    asked_of_change: float = 0.0
    has_rest_of_change: float = 0.0
    name_gone: float
    word_gone: float = 0.0  # from a later one that tells of no change
    kind_gone: float


NEVER = -9.0
# By words alone, and by vectors of single words, which know little of a sentence: what they share
# decides, and nothing that was asked for may be gone. Flat around these values.
BY_WORDS = Evidence(
    asked=3.0, rest=3.0, change=0.4, name_gone=NEVER, word_gone=NEVER, kind_gone=NEVER
)
BY_WORD_VECTORS = Evidence(
    near=0.87,
    asked=2.17,
    rest=2.17,
    change=0.28,
    name_gone=NEVER,
    word_gone=NEVER,
    kind_gone=NEVER,
)
# Fitted to the questions of two of the lives in `bench/` and tried on the third, in all three ways.
BY_SENTENCES = Evidence(
    near=2.1,
    nearer=1.7,
    asked=0.8,
    has_rest=0.43,
    change=0.37,
    asked_of_change=0.42,
    has_rest_of_change=0.27,
    name_gone=-0.45,
    kind_gone=-0.36,
)
UNFOUND_COSINE = 0.2  # less than the least that means something, for what was not found


class Likeness:
    """How near entries are to each other by their vectors, each read once."""

    def __init__(self, finder: Finder, log: str) -> None:
        self._finder, self._log = finder, log
        self._vectors: dict[int, Vector] = {}

    def read(self, runs: Iterable[Run]) -> None:
        """Reads the vectors of these entries, where they are not known."""
        new = {run.first.seq for run in runs} - self._vectors.keys()
        if new:
            found = self._finder.means(self._log, sorted(new))
            self._vectors.update((seq, found.get(seq, ())) for seq in new)

    def between(self, one: Run, other: Run) -> float | None:
        """1 for two that say the same, 0 for two that hardly have to do with each other; None
        where one has no vector."""
        first, second = self._vectors[one.first.seq], self._vectors[other.first.seq]
        if not first or not second:
            return None
        cosine: float = sum(map(mul, first, second))
        return (cosine - self.least) / (1.0 - self.least)

    @cached_property
    def worth(self) -> Evidence:
        """What signs are worth where there are vectors."""
        return BY_WORD_VECTORS if self._finder.adds_words else BY_SENTENCES

    @cached_property
    def least(self) -> float:
        """The least cosine that means something."""
        return self._finder.least_near()


class Succession:
    """What stands for what among the entries that are true at a time, for who asks a question.
    `found` says how well entries answer it, by their id."""

    def __init__(
        self,
        entries: Entries,
        likeness: Likeness,
        question: str,
        at_ms: int,
        found: Mapping[str, Found],
    ) -> None:
        self._entries, self._likeness, self._at_ms = entries, likeness, at_ms
        self._asked, self._fitness, self._found = _asked(question), Fitness(question), found

    def after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        """What succeeds an entry, and what succeeds that, the newest first: among these, and
        what tells of a change; no more than a few."""
        found = {run.entry: run}
        waiting = [run]
        while waiting and len(found) <= SUCCESSORS_MAX:
            one = waiting.pop()
            for later in self._directly_after(one, among):
                if later.entry not in found:
                    found[later.entry] = later
                    waiting.append(later)
        return sorted(list(found.values())[1:], key=_since, reverse=True)

    def _directly_after(self, run: Run, among: Sequence[Run]) -> list[Run]:
        candidates = {one.entry: one for one in self._entries.changes_after(run, self._at_ms)}
        if self._fitness.is_question:
            candidates.update((one.entry, one) for one in among)
        later = [
            one
            for one in candidates.values()
            if _since(one) > _since(run) and one.entry != run.entry and self._may_answer(run, one)
        ]
        self._likeness.read([run, *later] if later else ())
        return [one for one in later if self._evidence(run, one) >= 1.0]

    def _may_answer(self, run: Run, later: Run) -> bool:
        """Whether a later sentence was found as well, or has at least the names."""
        names = self._asked.names & _stems(run.first.body.content)
        return later.entry in self._found or names <= _stems(later.first.body.content)

    def _evidence(self, run: Run, later: Run) -> float:
        """How much speaks for it that a later sentence stands for an earlier one."""
        near = self._likeness.between(run, later)
        worth = BY_WORDS if near is None else self._likeness.worth
        shared = self._entries.shared(run, later, self._asked.words)
        found = worth.asked * shared.asked + worth.rest * shared.rest
        found += worth.has_rest * shared.has_rest
        if tells_of_a_change(later.first.body.content):
            found += worth.change + worth.asked_of_change * shared.asked
            found += worth.has_rest_of_change * shared.has_rest
        if near is not None:
            found += worth.near * near + worth.nearer * self._nearer(run, later)
        return found + self._gone(run, later, worth)

    def _gone(self, run: Run, later: Run, worth: Evidence) -> float:
        """What speaks against it: what was asked for, and only the earlier sentence has."""
        before, content = run.first.body.content, later.first.body.content
        had, has = _stems(before), _stems(content)
        gone = worth.name_gone * _missing(self._asked.names & had, has)
        if not tells_of_a_change(content):
            gone += worth.word_gone * _missing(self._asked.words & had, has)
        is_kind_gone = self._fitness.is_kind(before) and not self._fitness.is_kind(content)
        return gone + worth.kind_gone * is_kind_gone

    def _nearer(self, run: Run, later: Run) -> float:
        """By how much a later sentence is nearer to the question, from -1 to 1."""
        least = self._likeness.least
        before, after = (
            least - UNFOUND_COSINE if one is None or one.cosine is None else one.cosine
            for one in map(self._found.get, (run.entry, later.entry))
        )
        return (after - before) / (1.0 - least)


class _Asked(Struct, frozen=True):
    """The stems of the telling words of a question, and of the names among them."""

    words: frozenset[str]
    names: frozenset[str]


def _asked(question: str) -> _Asked:
    """A name has a capital and does not begin the question."""
    words = telling_stems(" ".join(map(stem, split(plain(question))))) - _LITTLE
    _, _, rest = question.strip().partition(" ")
    names = " ".join(word for word in rest.split() if word[:1].isupper())
    return _Asked(words, words & _stems(names))


_LITTLE = frozenset(map(stem, LITTLE))


def _missing(words: frozenset[str], there: frozenset[str]) -> float:
    """Which share of some words is not there."""
    return len(words - there) / len(words) if words else 0.0


@lru_cache(maxsize=1_024)
def _stems(content: str) -> frozenset[str]:
    return frozenset(stem(word) for word in split(plain(content)))


def _since(run: Run) -> tuple[int, int]:
    return run.first.from_ms, run.first.seq
